"""The balanced-tree factorization of Lipschitz kernels (paper, Section "Upper Bounds for Specific Metrics").

[k] is arranged as a balanced binary search tree of 2^q - 1 nodes. Row t of R marks the inputs whose path to the root
meets t, with weight (5/6)^depth; row t of L holds the increment of the kernel along the edge above t, with weight
(6/5)^depth. Summed over the path of y the increments telescope to f(x, y), and for a G-Lipschitz kernel on [k] both
weighted sums of squares are bounded: gamma_2 = O(Gk).
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Floats
from parley.protocols.factorization.model import Factorization, balanced
from parley.protocols.factorization.operator import check_matrix

WEIGHT = 5 / 6


def lipschitz_tree(matrix: ArrayLike) -> tuple[float, Factorization]:
    """Shift c and the paper's factorization of W - cJ, for W[x, y] = f(x, y) on equally spaced levels.

    The shift to the middle of the range makes |W|_inf <= Gk, as the proof asks. Nodes beyond k, which exist when
    k + 1 is no power of two, continue the kernel by its last column: that keeps it Lipschitz.
    """
    workload = check_matrix(matrix)
    size = len(workload)
    if workload.shape != (size, size):
        raise BadInput(f"W should be square, got {workload.shape[0]} x {workload.shape[1]}")
    shift = float(workload.max() + workload.min()) / 2
    nodes = 2 ** int(size).bit_length() - 1
    kernel = (workload - shift)[:, np.minimum(np.arange(nodes), size - 1)]
    depths, parents = _tree(nodes)
    increments = kernel - np.where(parents < 0, 0.0, kernel[:, parents])
    left = (increments / WEIGHT**depths).T
    right = (WEIGHT**depths)[:, None] * _on_path(nodes, size, parents)
    used = right.any(axis=1)
    return shift, balanced(left[used], right[used], float(np.max(np.abs(workload - shift))))


def _tree(nodes: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Depth and parent of each node; the parent of the root is -1. Node t of the paper is t - 1 here."""
    numbers = np.arange(1, nodes + 1)
    step = numbers & -numbers
    depths = (nodes + 1).bit_length() - 2 - np.log2(step).astype(np.int64)
    # The two candidates t - step and t + step differ in their own lowest bit: the parent's is exactly 2 step.
    below = numbers - step
    parents = np.where(below & (2 * step), below, numbers + step) - 1
    return depths, np.where(numbers == (nodes + 1) // 2, -1, parents)


def _on_path(nodes: int, size: int, parents: NDArray[np.int64]) -> Floats:
    """1[t on the path from y to the root] for nodes t and inputs y."""
    marks = np.zeros((nodes, size))
    inputs = np.arange(size)
    current = inputs.copy()
    while (current >= 0).any():
        alive = current >= 0
        marks[current[alive], inputs[alive]] = 1.0
        current = np.where(alive, parents[current], -1)
    return marks
