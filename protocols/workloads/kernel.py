"""Any kernel on [k], given as its matrix W^f (paper, "Upper Bounds for Specific Metrics")."""

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Inputs
from parley.emulator.randomizer import Floats
from parley.protocols.workloads.workload import LARGEST_ENTRY, Entries, Kind, Workload, check_dense, symmetric_matrix

Made = TypeVar("Made")


@dataclass(frozen=True, eq=False, init=False)
class Kernel(Entries, Workload):
    """A pairwise statistic whose kernel is a k x k matrix; only its symmetric part matters and is kept."""

    name: ClassVar[str] = "kernel"
    kind: ClassVar[Kind] = "kernel"
    values: Floats
    shift: float = 0.0  # a class attribute too, so that it hides the property

    def __init__(self, matrix: ArrayLike, *, shift: float = 0.0) -> None:
        if isinstance(shift, bool) or not isinstance(shift, int | float) or not abs(shift) <= LARGEST_ENTRY:
            raise BadInput(f"the shift of a kernel must be a number of at most {LARGEST_ENTRY:g}, got {shift!r:.80}")
        object.__setattr__(self, "values", symmetric_matrix("a kernel", matrix))
        object.__setattr__(self, "shift", float(shift))

    @property
    def bounds(self) -> tuple[float, float]:
        return float(self.values.min()), float(self.values.max())

    def diagonal(self) -> Floats:
        return self.values.diagonal().copy()

    def exact(self, inputs: Inputs) -> float:
        """Over pairs of different users, and inputs that occur: few users on many levels must not pay for k x k."""
        counts, users = self.counts(inputs), len(inputs)
        present = np.flatnonzero(counts)
        weights = counts[present].astype(np.float64)
        pairs = weights @ self.values[np.ix_(present, present)] @ weights - weights @ self.values[present, present]
        return float(pairs / (users * (users - 1.0)))

    def parameters(self) -> dict[str, Any]:
        return {"statistic": self.name, "matrix": self.values, "shift": self.shift}


def load_kernel(path: str | Path) -> Kernel:
    return load_numbers(path, Kernel)


def load_numbers(path: str | Path, make: Callable[[Floats], Made]) -> Made:
    """What is made of the numbers of a .npy or .csv file; a problem is told with the name of the file."""
    path = Path(path)
    reader = {".npy": _read_npy, ".csv": _read_csv}.get(path.suffix.lower())
    try:
        if reader is None:
            raise BadInput("must be a .npy or a .csv file")
        return make(reader(path))
    except OSError as problem:
        raise BadInput(f"{path}: cannot be read: {problem.strerror or problem}") from problem
    except BadInput as problem:
        raise BadInput(f"{path}: {problem}") from problem


def _read_npy(path: Path) -> Floats:
    """Mapped, not loaded, so that the header's size is checked before memory is taken for it."""
    try:
        values = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as problem:
        raise BadInput(f"is not a whole .npy file of numbers: {problem}") from problem
    if values.ndim == 2:
        check_dense(max(values.shape))
    return np.asarray(values)


def _read_csv(path: Path) -> Floats:
    """Rows of numbers with commas between, no header; the first already tells whether the whole would be too large."""
    rows: list[list[float]] = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            for number, cells in enumerate(csv.reader(file), 1):
                check_dense(len(cells))
                if cells:
                    rows.append([_number(cell, number, column) for column, cell in enumerate(cells, 1)])
    except (csv.Error, UnicodeDecodeError) as problem:
        raise BadInput(f"is not a .csv file of numbers: {problem}") from problem
    if not rows:
        raise BadInput("holds no numbers")
    for number, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            raise BadInput(f"row {number} has {len(row)} numbers, but row 1 has {len(rows[0])}")
    return np.array(rows, dtype=np.float64)


def _number(cell: str, line: int, column: int) -> float:
    try:
        return float(cell)
    except ValueError:
        raise BadInput(f"{cell!r} in line {line}, column {column}, is not a number") from None
