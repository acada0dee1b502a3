"""Factor matrices as linear operators: the L, R and A of W = L'R = A'DA, with one column for each input.

A protocol needs three things of a factor: the columns its users encode, its product with a histogram, and the
inner products of a vector with all k columns. None of them needs the matrix itself, so structured factors never
form it. `columns` uses gathers and elementwise arithmetic only: row i of its result depends on index i alone, to
the last bit, so it does not matter how users are spread over processes.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Floats, Integers

# Numbers in the table of all columns that a factor may keep: 16 MiB.
LARGEST_TABLE = 1 << 21
# A node of a few users is better off without that table.
MANY = 64
# A dense decomposition holds the matrix, its two factors, their products and the work space at once.
WORKING_COPIES = 8


class Factor(ABC):
    """An l x k matrix that is known by what it does."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(l, k): rows, columns."""

    @abstractmethod
    def _columns(self, indices: NDArray[np.int64]) -> Floats: ...

    @abstractmethod
    def _apply(self, matrix: Floats) -> Floats: ...

    @abstractmethod
    def _transpose_apply(self, matrix: Floats) -> Floats: ...

    @abstractmethod
    def norms(self) -> Floats:
        """The Euclidean norms of the k columns."""

    @property
    def rows(self) -> int:
        """l: the length of the vector a user encodes."""
        return self.shape[0]

    @property
    def inputs(self) -> int:
        """k: the number of columns, one for each possible input."""
        return self.shape[1]

    @cached_property
    def radius(self) -> float:
        """|A|_{1->2}, the largest column norm."""
        return float(np.max(self.norms()))

    def columns(self, indices: NDArray[np.integer] | list[int] | range) -> Floats:
        """The columns A e_x for an array of inputs x, one row each: (n, l)."""
        inputs = np.asarray(indices)
        if inputs.ndim != 1 or (inputs.size and inputs.dtype.kind not in "iu"):
            raise BadInput(f"inputs should be a vector of whole numbers, got {inputs.dtype} {inputs.shape}")
        if inputs.size and (int(inputs.min()) < 0 or int(inputs.max()) >= self.inputs):
            raise BadInput(f"inputs should lie in 0..{self.inputs - 1}, got {inputs.min()}..{inputs.max()}")
        # A big cohort holds every input many times over: each column is then worked out once and copied.
        if len(inputs) >= MANY and self.rows * self.inputs <= LARGEST_TABLE:
            return self._table[inputs.astype(np.int64)]
        return self._columns(inputs.astype(np.int64))

    @cached_property
    def _table(self) -> Floats:
        return self._columns(np.arange(self.inputs))

    def apply(self, histogram: Floats) -> Floats:
        """A h for a vector (k,), or A H for a matrix (k, m)."""
        return _on_matrix(self._apply, histogram, self.inputs)

    def transpose_apply(self, point: Floats) -> Floats:
        """A'y, the inner products of y with all k columns; (l,) or (l, m)."""
        return _on_matrix(self._transpose_apply, point, self.rows)

    def __matmul__(self, histogram: Floats) -> Floats:
        """A @ h."""
        return self.apply(histogram)

    @property
    def T(self) -> "Transposed":
        """A', for A.T @ y."""
        return Transposed(self)

    def dense(self) -> Floats:
        """The matrix itself, for tests and for small k."""
        check_size(*self.shape, copies=2)
        return np.ascontiguousarray(self._columns(np.arange(self.inputs)).T)


@dataclass(frozen=True, eq=False)
class Transposed:
    """A' of a factor A."""

    factor: Factor

    def __matmul__(self, point: Floats) -> Floats:
        """A'y."""
        return self.factor.transpose_apply(point)


def _on_matrix(action: Callable[[Floats], Floats], argument: Floats, length: int) -> Floats:
    values = np.asarray(argument, dtype=np.float64)
    if values.ndim not in (1, 2) or len(values) != length:
        raise BadInput(f"expected a vector or matrix of {length} rows, got shape {values.shape}")
    if values.ndim == 2:
        return action(values)
    return action(values[:, None])[:, 0]


@dataclass(frozen=True, eq=False)
class Dense(Factor):
    """A matrix given entry by entry."""

    matrix: Floats

    @property
    def shape(self) -> tuple[int, int]:
        return (self.matrix.shape[0], self.matrix.shape[1])

    @cached_property
    def _by_column(self) -> Floats:
        return np.ascontiguousarray(self.matrix.T)

    def _columns(self, indices: NDArray[np.int64]) -> Floats:
        return self._by_column[indices]

    def _apply(self, matrix: Floats) -> Floats:
        return self.matrix @ matrix

    def _transpose_apply(self, matrix: Floats) -> Floats:
        return self.matrix.T @ matrix

    def norms(self) -> Floats:
        return np.asarray(np.sqrt(np.einsum("ij,ij->j", self.matrix, self.matrix)))


@dataclass(frozen=True, eq=False)
class Identity(Factor):
    """I, the factor of Gini's diversity index."""

    size: int

    @property
    def shape(self) -> tuple[int, int]:
        return (self.size, self.size)

    def _columns(self, indices: NDArray[np.int64]) -> Floats:
        result = np.zeros((len(indices), self.size))
        result[np.arange(len(indices)), indices] = 1.0
        return result

    def _apply(self, matrix: Floats) -> Floats:
        return matrix

    def _transpose_apply(self, matrix: Floats) -> Floats:
        return matrix

    def norms(self) -> Floats:
        return np.ones(self.size)


@dataclass(frozen=True, eq=False)
class Reflected(Factor):
    """D A with D = diag(+-1): the right factor of a symmetric W = A'(DA)."""

    base: Factor
    signs: Floats

    @property
    def shape(self) -> tuple[int, int]:
        return self.base.shape

    def _columns(self, indices: NDArray[np.int64]) -> Floats:
        return self.base.columns(indices) * self.signs

    def _apply(self, matrix: Floats) -> Floats:
        return self.base.apply(matrix) * self.signs[:, None]

    def _transpose_apply(self, matrix: Floats) -> Floats:
        return self.base.transpose_apply(matrix * self.signs[:, None])

    def norms(self) -> Floats:
        return self.base.norms()


@dataclass(frozen=True, eq=False)
class HalfSums(Factor):
    """[(L + R)/2 ; (L - R)/2], the single factor made of two."""

    left: Factor
    right: Factor

    @property
    def shape(self) -> tuple[int, int]:
        return (2 * self.left.rows, self.left.inputs)

    def _columns(self, indices: NDArray[np.int64]) -> Floats:
        left, right = self.left.columns(indices), self.right.columns(indices)
        return np.concatenate([(left + right) / 2, (left - right) / 2], axis=1)

    def _apply(self, matrix: Floats) -> Floats:
        left, right = self.left.apply(matrix), self.right.apply(matrix)
        return np.concatenate([(left + right) / 2, (left - right) / 2])

    def _transpose_apply(self, matrix: Floats) -> Floats:
        upper, lower = matrix[: self.left.rows], matrix[self.left.rows :]
        return self.left.transpose_apply((upper + lower) / 2) + self.right.transpose_apply((upper - lower) / 2)

    def norms(self) -> Floats:
        return np.asarray(np.sqrt((self.left.norms() ** 2 + self.right.norms() ** 2) / 2))


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


@dataclass(frozen=True, eq=False)
class Selected(Factor):
    """Some rows of a factor."""

    base: Factor
    kept: Integers

    @property
    def shape(self) -> tuple[int, int]:
        return (len(self.kept), self.base.inputs)

    def _columns(self, indices: NDArray[np.int64]) -> Floats:
        return np.ascontiguousarray(self.base.columns(indices)[:, self.kept])

    def _apply(self, matrix: Floats) -> Floats:
        return self.base.apply(matrix)[self.kept]

    def _transpose_apply(self, matrix: Floats) -> Floats:
        whole = np.zeros((self.base.rows, matrix.shape[1]))
        whole[self.kept] = matrix
        return self.base.transpose_apply(whole)

    def norms(self) -> Floats:
        return np.asarray(np.sqrt((self.dense() ** 2).sum(axis=0)))
