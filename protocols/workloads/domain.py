"""How columns of private values become inputs 0 .. k-1 (the paper's X = [k]).

A domain is declared: its range, levels or categories come from whoever asks, never from the private data, since
a range read off the data would tell something about them. Values outside a declared range are moved to its
nearer end and counted; unknown categories are refused. Rows are counted from 1.
"""

import difflib
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Inputs
from parley.emulator.randomizer import Floats, Integers
from parley.emulator.roles.consent import Column
from parley.protocols.workloads.values import as_text, is_absent, numbers, truth_value
from parley.protocols.workloads.workload import LARGEST_SIZE, check_level

# The category of those who have no value, where missing values are a category.
MISSING = "missing"


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """Inputs, one for each row; how many values of each column were clipped; the rows in which it has no value."""

    indices: Inputs
    clipped: Mapping[str, int]
    missing: Mapping[str, Integers] = field(default_factory=dict)
    # The values before they were put into bins, NaN where there is none.
    values: Mapping[str, Floats] = field(default_factory=dict)


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
    def read(self, columns: Mapping[str, NDArray[Any]], row: int = 1) -> Encoded:
        """One input for each row, some input where a value is missing. `row` is the number of the first."""


@dataclass(frozen=True)
class Interval(Domain):
    """Numbers from `low` to `high`, cut into `levels` bins of equal width; a bin stands for its midpoint.

    Bin j holds edges[j] <= value < edges[j+1], and the last one holds `high` too. Dates are seconds since 1970.
    """

    name: str
    low: float
    high: float
    levels: int
    dates: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", check_level(f"the levels of {self.name}", self.levels))
        if not all(isinstance(end, int | float | np.integer) for end in (self.low, self.high)):
            raise BadInput(f"the range of {self.name} must be two numbers, got {self.low!r}:{self.high!r}")
        object.__setattr__(self, "low", float(self.low))
        object.__setattr__(self, "high", float(self.high))
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            given = f"{self.low}:{self.high}"
            raise BadInput(f"the range of {self.name} must be finite and have low < high, got {given}")
        width = self.high / self.levels - self.low / self.levels
        # Below a few units in the last place the bins would have no room for different values.
        if not width > 4 * max(math.ulp(self.low), math.ulp(self.high)):
            raise BadInput(f"the range {self.low}:{self.high} of {self.name} is too narrow for {self.levels} levels")
        if not math.isfinite(self.high - self.low):
            raise BadInput(f"the range {self.low}:{self.high} of {self.name} is too wide for floating point")

    @property
    def declared(self) -> tuple[Column, ...]:
        return (Column(name=self.name, levels=self.levels, low=self.low, high=self.high, dates=self.dates),)

    @cached_property
    def edges(self) -> Floats:
        return np.linspace(self.low, self.high, self.levels + 1)

    def read(self, columns: Mapping[str, NDArray[Any]], row: int = 1) -> Encoded:
        values = numbers(self.name, pick(columns, self.name), row, dates=self.dates)
        clipped = int(np.count_nonzero((values < self.low) | (values > self.high)))
        indices = np.clip(np.searchsorted(self.edges, values, side="right") - 1, 0, self.levels - 1)
        missing = np.flatnonzero(np.isnan(values)) + row
        return Encoded(
            indices=indices.astype(np.int64),
            clipped={self.name: clipped},
            missing={self.name: missing},
            values={self.name: values},
        )


@dataclass(frozen=True)
class Uneven(Interval):
    """Numbers in bins whose edges were declared one by one."""

    declared_edges: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        steps = np.diff(self.declared_edges)
        if not (np.isfinite(self.declared_edges).all() and (steps > 0).all()):
            raise BadInput(f"the edges of {self.name} should be finite numbers that rise, got {self.declared_edges}")
        super().__post_init__()

    @property
    def declared(self) -> tuple[Column, ...]:
        (column,) = super().declared
        return (replace(column, edges=self.declared_edges),)

    @cached_property
    def edges(self) -> Floats:
        return np.array(self.declared_edges)


@dataclass(frozen=True)
class Categories(Domain):
    """Named values, input j being the j-th one declared. Compared as text, whole numbers without a point.

    Where one category says yes and the other no, every spelling of yes and no counts. A category `missing` is for
    those who have no value, if `absent` says so.
    """

    name: str
    values: tuple[Any, ...]
    absent: bool = False

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
        if self.absent and MISSING not in texts:
            raise BadInput(f"{self.name} needs a category {MISSING!r} for those who have no value")

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(str(as_text(value)) for value in self.values)

    @property
    def declared(self) -> tuple[Column, ...]:
        return (Column(name=self.name, levels=len(self.labels), categories=self.labels),)

    def read(self, columns: Mapping[str, NDArray[Any]], row: int = 1) -> Encoded:
        number = _Numbers(self)
        values = pick(columns, self.name).tolist()
        for place, value in enumerate(values):
            found = number[value]
            if found is None:
                near = nearest(str(as_text(value)), list(self.labels))
                if self.labels == ("0", "1"):
                    near = f"; 0 and 1, yes and no are; declare other words with --categories {self.name}=A,B"
                what = f"row {row + place} of {self.name} holds {as_text(value)!r:.80}"
                raise BadInput(f"{what}, which is not a declared category{near}")
            values[place] = found
        indices = np.array(values, dtype=np.int64)
        missing = np.flatnonzero(indices < 0) + row
        return Encoded(
            indices=np.maximum(indices, 0),
            clipped={self.name: 0},
            missing={self.name: missing},
            values={self.name: indices.astype(np.float64)},
        )


class _Numbers(dict[Any, "int | None"]):
    """Cell -> number of its category, each spelling looked up once; -1 for no value, None for an unknown word."""

    def __init__(self, domain: Categories) -> None:
        labels = domain.labels
        self._by_text = {label: place for place, label in enumerate(labels)}
        meanings = [truth_value(label) for label in labels]
        # Only where it is clear which category is yes and which is no.
        self._by_meaning = {meanings[0]: 0, meanings[1]: 1} if {*meanings} == {True, False} and len(labels) == 2 else {}
        self._absent = self._by_text[MISSING] if domain.absent else -1

    def __missing__(self, value: Any) -> int | None:
        text = as_text(value)
        found = self._by_text.get(text) if text is not None else None
        if found is None and text is not None:
            found = self._by_meaning.get(truth_value(text))
        if found is None and is_absent(value):
            found = self._absent
        self[value] = found
        return found


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

    def read(self, columns: Mapping[str, NDArray[Any]], row: int = 1) -> Encoded:
        first, second = self.first.read(columns, row), self.second.read(columns, row)
        if len(first.indices) != len(second.indices):
            raise BadInput(
                f"{' and '.join(self.columns)} must have equally many rows, "
                f"got {len(first.indices)} and {len(second.indices)}"
            )
        indices = first.indices * self.second.size + second.indices
        return Encoded(
            indices=indices,
            clipped={**first.clipped, **second.clipped},
            missing={**first.missing, **second.missing},
            values={**first.values, **second.values},
        )


def domain_from(columns: Sequence[Mapping[str, Any]], *, absent: bool = False) -> Domain:
    """The domain that columns were declared as, from the plain data of a consent; `absent`: missing is a category."""
    made: list[Domain] = []
    for column in columns:
        if column["type"] == "categories":
            made.append(Categories(column["name"], column["categories"], absent))
        else:
            dates = column["type"] == "date"
            made.append(Interval(column["name"], column["low"], column["high"], column["levels"], dates))
    return reduce(Pair, made)


def nearest(text: str, names: list[str]) -> str:
    """A hint to put after an error about an unknown name: the nearest one, or all of them if they are few."""
    close = difflib.get_close_matches(text, names, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    listed = ", ".join(names)
    return f"; choose one of {listed}" if len(names) <= 12 and len(listed) <= 200 else ""


def pick(columns: Mapping[str, NDArray[Any]], name: str) -> NDArray[Any]:
    """The column of that name, a vector."""
    if name not in columns:
        raise BadInput(f"there is no column {name!r}{nearest(name, list(columns))}")
    column = np.asarray(columns[name])
    if column.ndim != 1:
        raise BadInput(f"the column {name!r} must be a vector, got shape {column.shape}")
    return column
