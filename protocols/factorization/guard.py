"""What a workload must be before any work starts: finite numbers, the right shape, and small enough for memory."""

import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Floats

# A dense decomposition holds the matrix, its two factors, their products and the work space at once.
WORKING_COPIES = 8


def memory() -> int:
    """Bytes of physical memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_size(rows: int, columns: int, copies: int = WORKING_COPIES) -> None:
    """Refuse a dense rows x columns computation that would not fit in memory."""
    needed = 8 * rows * columns * copies
    if needed > memory():
        raise BadInput(
            f"a dense {rows} x {columns} matrix needs about {needed / 2**30:.0f} GiB to factorize and this machine"
            f" has {memory() / 2**30:.0f} GiB; use fewer levels or a statistic with a closed form"
        )


def check_matrix(matrix: ArrayLike | Any, name: str = "W") -> Floats:
    """A finite two-dimensional matrix that fits in memory, as float64."""
    try:
        array = np.asarray(matrix)
    except ValueError as problem:
        raise BadInput(f"{name} is not a matrix: {problem}") from problem
    if array.ndim != 2 or array.size == 0:
        raise BadInput(f"{name} should be a matrix with at least one entry, got shape {array.shape}")
    if array.dtype.kind not in "fiub":
        raise BadInput(f"{name} should hold real numbers, got {array.dtype}")
    check_size(*array.shape)
    workload = np.ascontiguousarray(array, dtype=np.float64)
    bad = np.argwhere(~np.isfinite(workload))
    if len(bad):
        row, column = bad[0]
        raise BadInput(f"{name}[{row}, {column}] is {workload[row, column]}; every entry must be finite")
    return workload


def check_square(matrix: ArrayLike | Any, name: str = "W") -> Floats:
    """A finite k x k matrix: what a quadratic form needs."""
    workload = check_matrix(matrix, name)
    if workload.shape[0] != workload.shape[1]:
        raise BadInput(f"{name} should be square, got {workload.shape[0]} x {workload.shape[1]}")
    return workload


def is_symmetric(workload: Floats) -> bool:
    """Symmetric up to rounding."""
    if workload.shape[0] != workload.shape[1]:
        return False
    return bool(np.max(np.abs(workload - workload.T)) <= 1e-12 * np.max(np.abs(workload)))


def check_levels(levels: int, name: str = "levels", least: int = 2) -> int:
    """A whole number of levels."""
    if isinstance(levels, bool) or not isinstance(levels, int | np.integer):
        raise BadInput(f"{name} should be a whole number, got {levels!r}")
    if levels < least:
        raise BadInput(f"{name} should be at least {least}, got {levels}")
    return int(levels)
