"""Lipschitz losses (paper, "Upper Bounds for Specific Metrics"): any G-Lipschitz kernel on [0, 1], on k levels.

Input j stands for the midpoint (2j + 1) / 2k of the j-th of k equal bins of [0, 1], which is where an Interval
puts it. Replacing both arguments by midpoints moves f by at most 2 * G/(2k) = G/k, so k of the order of
eps * sqrt(n) levels is enough. The paper's discrete Lipschitz constant, for one level, is `step` = G/k.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Inputs
from parley.emulator.randomizer import Floats
from parley.protocols.workloads.distances import DISTANCES, apply_toeplitz, named_distance
from parley.protocols.workloads.workload import (
    Kind,
    Structure,
    Workload,
    check_dense,
    check_level,
    check_rows,
    dense_exact,
    symmetric_matrix,
)

KernelFunction = Callable[[float, float], float]
# Values of f carry rounding errors; differences of two of them carry twice that.
ROUNDING = 64 * np.finfo(np.float64).eps


@dataclass(frozen=True, eq=False, init=False)
class Lipschitz(Workload):
    """A G-Lipschitz kernel: the name of a distance, any function f(x, y), or a table of its values on the grid.

    A function is evaluated at once, at all pairs of midpoints, and only the table is kept: a table can travel in
    Setup and a function cannot. A name travels as a name and is applied in O(k log k) by the FFT.
    """

    name: ClassVar[str] = "lipschitz"
    function: str | Floats
    levels: int
    constant: float
    width: float | None

    def __init__(
        self,
        function: str | KernelFunction | NDArray[Any],
        *,
        levels: int,
        constant: float | None = None,
        width: float | None = None,
    ) -> None:
        object.__setattr__(self, "levels", check_level("the levels of lipschitz", levels))
        if isinstance(function, str):
            distance = named_distance(function, width)
            object.__setattr__(self, "function", function)
            object.__setattr__(self, "width", distance.width)
            object.__setattr__(self, "constant", _known_constant(function, constant, distance.constant))
            return
        if width is not None:
            raise BadInput(f"a width belongs to a named distance ({', '.join(DISTANCES)}), got {width!r}")
        check_dense(self.levels)
        table = symmetric_matrix("a Lipschitz kernel", _table(function, self.levels))
        object.__setattr__(self, "function", table)
        object.__setattr__(self, "width", None)
        object.__setattr__(self, "constant", _checked_constant(table, self.levels, constant))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Lipschitz):
            return NotImplemented
        same = (self.levels, self.constant, self.width) == (other.levels, other.constant, other.width)
        return same and np.array_equal(self.function, other.function)

    def __hash__(self) -> int:
        key = self.function if isinstance(self.function, str) else self.function.tobytes()
        return hash((key, self.levels, self.constant, self.width))

    @property
    def size(self) -> int:
        return self.levels

    @property
    def step(self) -> float:
        """The Lipschitz constant from one level to the next, G/k; binning moves the statistic by no more."""
        return self.constant / self.levels

    @property
    def shift(self) -> float:
        """The middle of the range, after which no entry exceeds Gk in the paper's lemma."""
        low, high = self.bounds
        return (low + high) / 2

    @property
    def kind(self) -> Kind:
        return "lipschitz"

    @property
    def structure(self) -> Structure:
        return Structure(kind=self.kind, levels=(self.levels,), step=self.step, matrix=self.matrix() - self.shift)

    @property
    def bounds(self) -> tuple[float, float]:
        values = self._values()
        return float(values.min()), float(values.max())

    @property
    def infinity_norm(self) -> float:
        return float(np.abs(self._values()).max())

    def grid(self) -> Floats:
        """The points of [0, 1] the inputs stand for."""
        return _midpoints(self.levels)

    def matrix(self) -> Floats:
        if isinstance(self.function, str):
            check_dense(self.levels)
            return np.asarray(scipy.linalg.toeplitz(self._values()), dtype=np.float64)
        return self.function

    def apply(self, histogram: Floats) -> Floats:
        check_rows(histogram, self.size)
        if isinstance(self.function, str):
            return apply_toeplitz(self._values(), histogram)
        return self.function @ histogram

    def diagonal(self) -> Floats:
        if isinstance(self.function, str):
            return np.full(self.levels, self._values()[0])
        return self.function.diagonal().copy()

    def exact(self, inputs: Inputs) -> float:
        counts = self.counts(inputs)
        if not isinstance(self.function, str):
            return dense_exact(self.function, counts)
        users = len(inputs)
        weights = counts.astype(np.float64)
        pairs = weights @ self.apply(weights) - users * self._values()[0]
        return float(pairs / (users * (users - 1.0)))

    def _values(self) -> Floats:
        """Every value W has: of a distance, its first row."""
        if isinstance(self.function, str):
            return named_distance(self.function, self.width).profile(np.arange(self.levels) / self.levels)
        return self.function


def _midpoints(levels: int) -> Floats:
    return (2 * np.arange(levels) + 1) / (2.0 * levels)


def _table(function: KernelFunction | NDArray[Any], levels: int) -> NDArray[Any]:
    """f at all pairs of midpoints, called with two plain floats at a time."""
    if isinstance(function, np.ndarray):
        if function.shape != (levels, levels):
            raise BadInput(f"a table for {levels} levels must be {levels} x {levels}, got shape {function.shape}")
        return function
    if not callable(function):
        raise BadInput(f"a Lipschitz kernel must be a name, a function or a table, got {function!r}")
    points = _midpoints(levels).tolist()
    try:
        return np.array([[float(function(x, y)) for y in points] for x in points])
    except TypeError as problem:
        raise BadInput(f"a kernel function must take two numbers and return one: {problem}") from problem


def _positive_constant(constant: object) -> float:
    if isinstance(constant, bool) or not isinstance(constant, int | float) or not 0 < constant < np.inf:
        raise BadInput(f"the Lipschitz constant must be a positive number, got {constant!r}")
    return float(constant)


def _known_constant(function: str, given: float | None, known: float) -> float:
    """A distance knows its constant (to the last digits, where machines differ); a smaller one is false."""
    if given is None:
        return known
    if _positive_constant(given) < known * (1 - ROUNDING):
        raise BadInput(f"{function} has the Lipschitz constant {known}, so {given} is too small")
    return float(given)


def _checked_constant(table: Floats, levels: int, given: float | None) -> float:
    """G as declared, refused where two neighbouring midpoints show that it is false."""
    if given is None:
        raise BadInput("say the Lipschitz constant of a function or table, such as constant=1.0")
    constant = _positive_constant(given)
    seen = float(np.abs(np.diff(table, axis=0)).max()) * levels
    slack = ROUNDING * levels * float(np.abs(table).max())
    if seen > constant * (1 + ROUNDING) + slack:
        raise BadInput(f"the kernel is not {given}-Lipschitz: neighbouring levels show a slope of {seen:.6g}")
    return constant
