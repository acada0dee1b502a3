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

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Floats, Integers
from parley.protocols.workloads.workload import finite_matrix

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

    def norms(self) -> Floats:
        return np.asarray(np.sqrt((self.dense() ** 2).sum(axis=0)))

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

    __matmul__ = apply

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
    factor: Factor

    def __matmul__(self, point: Floats) -> Floats:
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

    def _columns(self, indices: NDArray[np.int64]) -> Floats:
        return np.ascontiguousarray(self.matrix.T[indices])

    def _apply(self, matrix: Floats) -> Floats:
        return self.matrix @ matrix

    def _transpose_apply(self, matrix: Floats) -> Floats:
        return self.matrix.T @ matrix

    def norms(self) -> Floats:
        return np.asarray(np.sqrt(np.einsum("ij,ij->j", self.matrix, self.matrix)))


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
class Selected(Factor):
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


def check_size(rows: int, columns: int, copies: int = WORKING_COPIES) -> None:
    """Refuse a dense rows x columns computation that would not fit in this machine's memory."""
    needed, memory = 8 * rows * columns * copies, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > memory:
        raise BadInput(
            f"a dense {rows} x {columns} matrix needs about {needed / 2**30:.0f} GiB to factorize and this machine"
            f" has {memory / 2**30:.0f} GiB; use fewer levels or a statistic with a closed form"
        )


def check_matrix(matrix: ArrayLike) -> Floats:
    """A finite two-dimensional matrix W that fits in memory, as float64."""
    if isinstance(matrix, np.ndarray) and matrix.ndim == 2:
        check_size(*matrix.shape)
    workload = finite_matrix("W", matrix)
    if workload.size == 0:
        raise BadInput(f"W should be a matrix with at least one entry, got shape {workload.shape}")
    return np.ascontiguousarray(workload)
