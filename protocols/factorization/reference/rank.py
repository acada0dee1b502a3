"""Fewer rows: the smallest l that keeps |W~ - W|_inf <= alpha (Lemma "rank-striction").

The lemma projects the columns of L and R by a Johnson-Lindenstrauss map. Truncation along principal directions is
the other way, and usually the better. Either way alpha is measured on the factors returned, entry by entry; the
search walks l upward and adds one row at a time, so the l found is the smallest of its family.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Floats
from parley.protocols.factorization.model import Factorization, balanced
from parley.protocols.factorization.operator import check_size

Method = Literal["johnson-lindenstrauss", "singular values", "principal rows", "unchanged"]
# How much gamma_2 may grow: Lemma "rank-striction" allows a constant.
STRETCH = 1.5


@dataclass(frozen=True, kw_only=True, eq=False)
class Reduction:
    """A factorization of some W~ with few rows, and the largest entry of |W~ - W|, measured."""

    factorization: Factorization
    error: float
    method: Method

    @property
    def rows(self) -> int:
        return self.factorization.rows


def reduce_rank(factorization: Factorization, alpha: float, seed: int, stretch: float = STRETCH) -> Reduction:
    """The fewest rows among the methods with measured |W~ - W|_inf <= alpha and gamma_2 at most `stretch` larger."""
    if not 0 <= alpha < np.inf or not 1 <= stretch < np.inf:
        raise BadInput(f"rank reduction needs alpha >= 0 and stretch >= 1, got {alpha} and {stretch}")
    check_size(factorization.left.inputs, factorization.right.inputs)
    left, right = factorization.left.dense(), factorization.right.dense()
    workload = left.T @ right
    limit = stretch * factorization.upper
    found = [
        reduction
        for method, rows in _families(left, right, workload, seed)
        if (reduction := _smallest(rows, workload, alpha, limit, method)) is not None
    ]
    best = min(found, key=lambda each: (each.rows, each.factorization.upper), default=None)
    if best is None or best.rows >= factorization.rows:
        return Reduction(factorization=factorization, error=0.0, method="unchanged")
    return best


Rows = Iterator[tuple[Floats, Floats, float]]


def _families(left: Floats, right: Floats, workload: Floats, seed: int) -> Iterator[tuple[Method, Rows]]:
    yield "singular values", _singular(workload)
    yield "principal rows", _principal(left, right)
    yield "johnson-lindenstrauss", _random(left, right, seed)


def _singular(workload: Floats) -> Rows:
    """Rows of the SVD of W in order of size: W~ is the best approximation of rank l in Frobenius norm."""
    left, values, right = scipy.linalg.svd(workload, full_matrices=False)
    for column, value, row in zip(left.T, values, right, strict=True):
        yield np.sqrt(value) * column, np.sqrt(value) * row, 1.0


def _principal(left: Floats, right: Floats) -> Rows:
    """The factors in the principal directions of their own columns; dropping rows never lengthens a column."""
    _, vectors = scipy.linalg.eigh(left @ left.T + right @ right.T)
    for direction in vectors.T[::-1]:
        yield direction @ left, direction @ right, 1.0


def _random(left: Floats, right: Floats, seed: int) -> Rows:
    """A random orthogonal map, one row at a time; l rows of it are scaled by sqrt(d / l)."""
    size = left.shape[0]
    generator = np.random.Generator(np.random.PCG64(seed))
    directions, _ = scipy.linalg.qr(generator.standard_normal((size, size)))
    for count, direction in enumerate(directions.T, start=1):
        yield direction @ left, direction @ right, size / count


def _smallest(rows: Rows, workload: Floats, alpha: float, limit: float, method: Method) -> Reduction | None:
    """Take rows until W~ is within alpha of W and the columns are short enough."""
    lefts, rights, product = [], [], np.zeros_like(workload)
    rounding = 1e-12 * float(np.max(np.abs(workload)))
    for left, right, scale in rows:
        lefts.append(left)
        rights.append(right)
        product += np.multiply.outer(left, right)
        if float(np.max(np.abs(scale * product - workload))) > alpha + rounding:
            continue
        weight = np.sqrt(scale)
        reduced = balanced(weight * np.array(lefts), weight * np.array(rights), 0.0)
        error = float(np.max(np.abs(reduced.dense() - workload)))
        if reduced.upper <= limit and error <= alpha + rounding:
            lower = float(np.max(np.abs(reduced.dense())))
            reduced = Factorization(
                left=reduced.left, right=reduced.right, lower=min(lower, reduced.upper), upper=reduced.upper
            )
            return Reduction(factorization=reduced, error=error, method=method)
    return None
