"""Quadratic form computation (the paper's first definition): a workload is a matrix W and what h'Wh means.

A pairwise statistic averages a symmetric kernel f over pairs of users. With W[x, y] = f(x, y) and h the
normalised histogram, it follows from the form h'Wh and the mean of the diagonal f(x, x). Workloads know their
own structure, so that none of them needs the k x k matrix in order to multiply by it.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parley.emulator.errors import BadInput
from parley.emulator.parameters import to_plain
from parley.emulator.protocol import Inputs
from parley.emulator.randomizer import Floats, Integers
from parley.emulator.round import BLOCK_USERS

# Both limits are fixed numbers, not read off the machine: analyst and users must agree on what is too large.
LARGEST_SIZE = 2**24
LARGEST_DENSE_BYTES = 2**31
# Variances hold fourth powers of factors, which are square roots of these: they must not overflow.
LARGEST_ENTRY = 1e100
# name -> (module of this folder, class, the parameters it must be given, those it may be given)
REGISTRY: Mapping[str, tuple[str, str, tuple[str, ...], tuple[str, ...]]] = {
    "kendall": ("kendall", "Kendall", ("levels",), ()),
    "kendall-b": ("kendall", "KendallTauB", ("levels",), ()),
    "untied": ("kendall", "Untied", ("levels", "axis"), ()),
    "auc": ("auc", "AreaUnderCurve", ("levels",), ()),
    "gini-mean-difference": ("gini", "GiniMeanDifference", ("levels",), ()),
    "gini-diversity": ("gini", "GiniDiversity", ("levels",), ()),
    "kernel": ("kernel", "Kernel", ("matrix", "shift"), ()),
    "lipschitz": ("lipschitz", "Lipschitz", ("function", "levels", "constant"), ("width",)),
}
# Their last column is a label, 0 or 1, and they are ratios: h'Wh over h'Dh with D = 2 [labels differ].
LABELLED = ("auc",)

# What the factorization library dispatches on: the matrix M = W - shift * J.
# kendall    S_a (x) S_b for the shape (a, b), where S_m[i, j] = sgn(j - i)
# threshold  abs(i - j) / (k - 1) - 1/2
# identity   minus the identity
# margin     minus [x and y agree in one coordinate]
# kernel     any symmetric matrix
# lipschitz  a symmetric matrix whose neighbouring rows are alike
Kind = Literal["kendall", "threshold", "identity", "margin", "kernel", "lipschitz"]


@dataclass(frozen=True)
class Levels:
    """Inputs and no statistic of pairs: what protocols are asked about that estimate something else."""

    name: ClassVar[str] = "inputs"
    labelled: ClassVar[bool] = False
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        for levels in (*self.shape, self.size):
            check_level("levels", levels)

    @property
    def size(self) -> int:
        """k, the product of the levels of each column."""
        return math.prod(self.shape)


class Workload(ABC):
    """A pairwise statistic on inputs 0 .. k-1, given by the symmetric matrix W of its kernel."""

    name: ClassVar[str]
    kind: ClassVar[Kind]

    @property
    @abstractmethod
    def size(self) -> int:
        """k: how many inputs there are."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The levels of each column that makes up an input; their product is k."""
        return (self.size,)

    @property
    def labelled(self) -> bool:
        return self.name in LABELLED

    @property
    def labels(self) -> Floats:
        """The level of every input in its last column."""
        return np.asarray(np.arange(self.size) % self.shape[-1], dtype=np.float64)

    @property
    def numerator(self) -> "Workload":
        """A statistic with the same W that needs nothing but its form."""
        return self

    def guesses(self) -> dict[str, Floats]:
        """Public guesses of the histogram, in words, besides those for every statistic: where this one is harder."""
        return {}

    @property
    def shift(self) -> float:
        """c: since h'Jh = 1, the form of W is that of W - cJ plus c, and W - cJ is the one to factorise."""
        return 0.0

    @property
    @abstractmethod
    def infinity_norm(self) -> float:
        """The largest absolute value of an entry of W."""

    @property
    @abstractmethod
    def bounds(self) -> tuple[float, float]:
        """No data give a value outside of these."""

    @abstractmethod
    def matrix(self) -> Floats:
        """W as a dense k x k matrix; refused where it would be absurdly large."""

    @abstractmethod
    def apply(self, histogram: Floats) -> Floats:
        """W h for a vector of k entries, or for each column of a k x m matrix."""

    @abstractmethod
    def diagonal(self) -> Floats:
        """f(x, x) for every x."""

    def parameters(self) -> dict[str, Any]:
        """Everything `from_parameters` needs to build this workload again: what Setup carries."""
        return {"statistic": self.name, **to_plain(self)}

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> "Workload":
        """The workload that a Setup describes, of whichever kind: nothing missing, nothing unknown."""
        name = parameters.get("statistic")
        if not isinstance(name, str) or name not in REGISTRY:
            raise BadInput(f"unknown statistic {name!r:.80}; known are {', '.join(REGISTRY)}")
        module, kind, required, optional = REGISTRY[name]
        given = {key: value for key, value in parameters.items() if key != "statistic"}
        if not set(required) <= set(given) <= {*required, *optional}:
            expected, got = ", ".join((*required, *optional)), ", ".join(map(str, given)) or "none"
            raise BadInput(f"{name} takes the parameters {expected}, got {got}")
        workload: Workload = getattr(import_module(f"parley.protocols.workloads.{module}"), kind)(**given)
        return workload

    @abstractmethod
    def exact(self, inputs: Inputs) -> float:
        """The statistic itself, without noise; what an estimate is compared with."""

    def form(self, histogram: Floats) -> float:
        return float(histogram @ self.apply(histogram))

    def linear_queries(self) -> dict[str, Floats]:
        """What `value` needs to know besides the form: named functions on [k] whose mean over users enters it."""
        diagonal = self.diagonal()
        return {} if np.ptp(diagonal) == 0 else {"diagonal": diagonal}

    def value(self, form: float, means: Mapping[str, float], users: int) -> float:
        """U = n/(n-1) * (h'Wh - (1/n) mean f(x_i, x_i)): the form counts pairs i = i, a U-statistic does not."""
        at_least_two(users)
        diagonal_mean = means["diagonal"] if self.linear_queries() else float(self.diagonal()[0])
        return users / (users - 1) * (form - diagonal_mean / users)

    def gradient(self, form: float, means: Mapping[str, float], users: int) -> dict[str, float]:
        """Derivatives of `value` by "form" and by each mean: an error there moves the value by so much."""
        at_least_two(users)
        slopes = {"form": users / (users - 1)}
        if self.linear_queries():
            slopes["diagonal"] = -1 / (users - 1)
        return slopes

    def histogram(self, inputs: Inputs) -> Floats:
        return self.counts(inputs) / len(inputs)

    def counts(self, inputs: Inputs) -> Integers:
        """How many users have each input; every input must lie in [k] and there must be at least two users."""
        check_inputs(inputs, self.size)
        return count_inputs(inputs, self.size)


@dataclass(frozen=True, kw_only=True)
class OnLevels(Workload):
    """A statistic that its levels describe: entries of W lie in [-1, 1] and are 0 on the diagonal."""

    columns: ClassVar[int] = 1
    infinity_norm = 1.0
    bounds = (0.0, 1.0)
    levels: int | tuple[int, int]

    def __post_init__(self) -> None:
        what, levels = f"the levels of {self.name}", self.levels
        if self.columns == 1:
            object.__setattr__(self, "levels", check_level(what, levels))
            return
        if not isinstance(levels, tuple | list) or len(levels) != 2:
            raise BadInput(f"{what} must be two whole numbers such as (16, 16), got {levels!r}")
        first, second = (check_level(what, level) for level in levels)
        # Their product must still be a size we work with.
        check_level(f"the product of {what}", first * second)
        object.__setattr__(self, "levels", (first, second))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.levels if isinstance(self.levels, tuple) else (self.levels,)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def diagonal(self) -> Floats:
        return np.zeros(self.size)

    def exact(self, inputs: Inputs) -> float:
        """Over pairs of different users, in whole numbers where `apply` keeps them."""
        counts: Any = self.counts(inputs)
        return int(counts @ self.apply(counts)) / (len(inputs) * (len(inputs) - 1))


@dataclass(frozen=True, eq=False)
class ByValue:
    """Instances are equal where their fields are, arrays entry by entry."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return all(np.array_equal(getattr(self, each.name), getattr(other, each.name)) for each in fields(self))

    def __hash__(self) -> int:
        values = (getattr(self, each.name) for each in fields(self))
        return hash(tuple(each.tobytes() if isinstance(each, np.ndarray) else each for each in values))


class Entries(ByValue):
    """W given entry by entry, with a column for each input."""

    values: Floats

    @property
    def size(self) -> int:
        return len(self.values[0])

    @property
    def infinity_norm(self) -> float:
        return float(np.abs(self.values).max())

    def matrix(self) -> Floats:
        return self.values

    def apply(self, histogram: Floats) -> Floats:
        check_rows(histogram, self.size)
        return self.values @ histogram


def check_inputs(inputs: Inputs, size: int, least: int = 2) -> None:
    """A vector of at least so many integers in 0 .. size-1."""
    array = np.asarray(inputs)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise BadInput(f"inputs must be a vector of integers, got {array.dtype} of shape {array.shape}")
    if len(array) < least:
        raise BadInput(f"at least {least} users are needed, got {len(array)}")
    if array.min() < 0 or array.max() >= size:
        user = int(np.argmax((array < 0) | (array >= size)))
        raise BadInput(f"user {user} has input {array[user]}, but inputs must lie in 0 .. {size - 1}")


def count_inputs(inputs: Inputs, size: int) -> Integers:
    """How many users have each input; counted in blocks, because counting takes eight bytes per user."""
    counts = np.zeros(size, dtype=np.int64)
    for start in range(0, len(inputs), BLOCK_USERS):
        counts += np.bincount(inputs[start : start + BLOCK_USERS].astype(np.int64), minlength=size)
    return counts


def at_least_two(users: int) -> None:
    if users < 2:
        raise BadInput(f"a pairwise statistic needs at least 2 users, got {users}")


def check_level(what: str, value: object, least: int = 2) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise BadInput(f"{what} must be a whole number, got {value!r}")
    if not least <= value <= LARGEST_SIZE:
        raise BadInput(f"{what} must lie between {least} and {LARGEST_SIZE}, got {value}")
    return int(value)


def check_dense(size: int) -> None:
    """Refuse a dense k x k matrix that no one meant to build."""
    needed = 8 * size * size
    if needed > LARGEST_DENSE_BYTES:
        raise BadInput(
            f"a dense {size} x {size} matrix needs {needed / 2**30:.1f} GiB, more than the limit of "
            f"{LARGEST_DENSE_BYTES / 2**30:.0f} GiB; use fewer levels"
        )


def check_rows(histogram: NDArray[Any], size: int) -> None:
    """`apply` reshapes, so a wrong length could pass unseen."""
    if histogram.ndim not in (1, 2) or histogram.shape[0] != size:
        raise ValueError(f"expected {size} rows, got an array of shape {histogram.shape}")


def finite_matrix(what: str, values: ArrayLike) -> Floats:
    """A read-only copy as float64; anything but a finite real matrix is refused."""
    try:
        array = np.asarray(values)
    except ValueError as problem:
        raise BadInput(f"{what} must be a matrix of real numbers: {problem}") from problem
    if array.dtype.kind not in "biuf" or array.ndim != 2:
        raise BadInput(f"{what} must be a matrix of real numbers, got {array.dtype} of shape {array.shape}")
    matrix = np.array(array, dtype=np.float64)
    bad = np.argwhere(~np.isfinite(matrix))
    if len(bad):
        row, column = (int(index) for index in bad[0])
        raise BadInput(f"{what} must be finite, got {matrix[row, column]} at row {row + 1}, column {column + 1}")
    matrix.setflags(write=False)
    return matrix


def check_entries(name: str, largest: float) -> None:
    """Entries that a protocol can estimate with: the largest one's powers must be numbers."""
    if not largest <= LARGEST_ENTRY:
        raise BadInput(f"entries of {name} reach {largest:g}, beyond {LARGEST_ENTRY:g}; rescale the statistic")


def symmetric_matrix(what: str, values: ArrayLike) -> Floats:
    """(W + W')/2 of a finite square matrix with k >= 2: the form depends on nothing else."""
    matrix = finite_matrix(what, values)
    rows, columns = matrix.shape
    if rows != columns:
        raise BadInput(f"{what} must be square, got {rows} x {columns}")
    if rows < 2:
        raise BadInput(f"{what} must have at least 2 rows, got {rows}")
    check_dense(rows)
    symmetric = matrix / 2 + matrix.T / 2
    symmetric.setflags(write=False)
    return symmetric
