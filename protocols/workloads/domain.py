"""How columns of private values become inputs 0 .. k-1 (the paper's X = [k]).

A domain is declared: its range, levels or categories come from whoever asks, never from the private data, since
a range read off the data would tell something about them. Values outside a declared range are moved to its
nearer end and counted; missing values and unknown categories are refused. Rows are counted from 1.
"""

import difflib
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Inputs
from parley.emulator.randomizer import Floats
from parley.emulator.roles.consent import Column
from parley.protocols.workloads.workload import LARGEST_SIZE, check_level

SHOWN_ROWS = 5


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """Inputs, one for each row, and how many values of each column had to be clipped."""

    indices: Inputs
    clipped: Mapping[str, int]


class Domain(ABC):
    """A finite set of inputs and the way columns are mapped to it."""

    @property
    @abstractmethod
    def declared(self) -> tuple[Column, ...]:
        """What users are told, and agree to, about each column."""

    @property
    def size(self) -> int:
        """k."""
        return math.prod(column.levels for column in self.declared)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.declared)

    @abstractmethod
    def encode(self, columns: Mapping[str, NDArray[Any]]) -> Encoded:
        """One input for each row."""


@dataclass(frozen=True)
class Interval(Domain):
    """Numbers from `low` to `high`, cut into `levels` bins of equal width; a bin stands for its midpoint.

    Bin j holds edges[j] <= value < edges[j+1], and the last one holds `high` too.
    """

    name: str
    low: float
    high: float
    levels: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", check_level(f"the levels of {self.name}", self.levels))
        if not all(isinstance(end, int | float | np.integer) for end in (self.low, self.high)):
            raise BadInput(f"the range of {self.name} must be two numbers, got {self.low!r}:{self.high!r}")
        object.__setattr__(self, "low", float(self.low))
        object.__setattr__(self, "high", float(self.high))
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise BadInput(f"the range of {self.name} must have low < high, got {self.low}:{self.high}")
        width = self.high / self.levels - self.low / self.levels
        # Below a few units in the last place the bins would have no room for different values.
        if not width > 4 * max(math.ulp(self.low), math.ulp(self.high)):
            raise BadInput(f"the range {self.low}:{self.high} of {self.name} is too narrow for {self.levels} levels")
        if not math.isfinite(self.high - self.low):
            raise BadInput(f"the range {self.low}:{self.high} of {self.name} is too wide for floating point")

    @property
    def declared(self) -> tuple[Column, ...]:
        return (Column(name=self.name, levels=self.levels, low=self.low, high=self.high),)

    @cached_property
    def edges(self) -> Floats:
        return np.linspace(self.low, self.high, self.levels + 1)

    def encode(self, columns: Mapping[str, NDArray[Any]]) -> Encoded:
        values = numbers(self.name, pick(columns, self.name))
        clipped = int(np.count_nonzero((values < self.low) | (values > self.high)))
        indices = np.searchsorted(self.edges, values, side="right") - 1
        return Encoded(indices=np.clip(indices, 0, self.levels - 1).astype(np.int64), clipped={self.name: clipped})


@dataclass(frozen=True)
class Categories(Domain):
    """Named values, input j being the j-th one declared. Compared as text, whole numbers without a point."""

    name: str
    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        if not 2 <= len(self.values) <= LARGEST_SIZE:
            raise BadInput(f"{self.name} needs at least 2 categories, got {len(self.values)}")
        texts = [as_text(value) for value in self.values]
        if None in texts:
            raise BadInput(f"a missing value cannot be a category of {self.name}")
        twice = next((text for text, times in Counter(texts).items() if times > 1), None)
        if twice is not None:
            raise BadInput(f"the category {twice!r} of {self.name} is declared twice")

    @property
    def declared(self) -> tuple[Column, ...]:
        labels = tuple(str(as_text(value)) for value in self.values)
        return (Column(name=self.name, levels=len(labels), categories=labels),)

    def encode(self, columns: Mapping[str, NDArray[Any]]) -> Encoded:
        texts = [as_text(value) for value in pick(columns, self.name).tolist()]
        refuse_missing(self.name, [row for row, text in enumerate(texts, 1) if text is None])
        number = {str(as_text(value)): index for index, value in enumerate(self.values)}
        for row, text in enumerate(texts, 1):
            if text not in number:
                near = nearest(str(text), list(number))
                raise BadInput(f"row {row} of {self.name} holds {text!r}, which is not a declared category{near}")
        indices = np.array([number[str(text)] for text in texts], dtype=np.int64)
        return Encoded(indices=indices, clipped={self.name: 0})


@dataclass(frozen=True)
class Pair(Domain):
    """Two domains side by side: k = a * b, and the input is first * b + second."""

    first: Domain
    second: Domain

    def __post_init__(self) -> None:
        common = set(self.first.columns) & set(self.second.columns)
        if common:
            raise BadInput(f"the column {min(common)} cannot be both columns of a pair")
        check_level("the number of inputs of a pair of columns", self.first.size * self.second.size)

    @property
    def declared(self) -> tuple[Column, ...]:
        return self.first.declared + self.second.declared

    def encode(self, columns: Mapping[str, NDArray[Any]]) -> Encoded:
        first, second = self.first.encode(columns), self.second.encode(columns)
        if len(first.indices) != len(second.indices):
            raise BadInput(
                f"{' and '.join(self.columns)} must have equally many rows, "
                f"got {len(first.indices)} and {len(second.indices)}"
            )
        indices = first.indices * self.second.size + second.indices
        return Encoded(indices=indices, clipped={**first.clipped, **second.clipped})


def nearest(text: str, names: list[str]) -> str:
    """A hint to put after an error about an unknown name: the nearest one, or all of them if they are few."""
    close = difflib.get_close_matches(text, names, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; choose one of {', '.join(names)}" if len(names) <= 12 else ""


def pick(columns: Mapping[str, NDArray[Any]], name: str) -> NDArray[Any]:
    """The column of that name, a vector."""
    if name not in columns:
        raise BadInput(f"there is no column {name!r}{nearest(name, list(columns))}")
    column = np.asarray(columns[name])
    if column.ndim != 1:
        raise BadInput(f"the column {name!r} must be a vector, got shape {column.shape}")
    return column


def numbers(name: str, column: NDArray[Any]) -> Floats:
    """A column as finite or infinite numbers; missing ones are refused with their rows."""
    if column.dtype.kind in "biuf":
        values = column.astype(np.float64)
    else:
        values = np.array([_number(name, row, value) for row, value in enumerate(column.tolist(), 1)], dtype=np.float64)
    refuse_missing(name, (np.flatnonzero(np.isnan(values)) + 1).tolist())
    return values


def as_text(value: Any) -> str | None:
    """How categories are compared: 1, 1.0 and "1" are the same; None, NaN and "" are missing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip() or None


def refuse_missing(name: str, rows: list[int]) -> None:
    if rows:
        shown = ", ".join(str(row) for row in rows[:SHOWN_ROWS])
        more = f" and {len(rows) - SHOWN_ROWS} more" if len(rows) > SHOWN_ROWS else ""
        raise BadInput(
            f"{name} has no value in row{'s' if len(rows) > 1 else ''} {shown}{more}; remove or fill missing values"
        )


def _number(name: str, row: int, value: Any) -> float:
    if as_text(value) is None:
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise BadInput(f"row {row} of {name} holds {value!r}, which is not a number") from None
