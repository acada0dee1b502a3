"""Lipschitz losses (paper, "Upper Bounds for Specific Metrics"): any G-Lipschitz kernel on [0, 1], on k levels.

Input j stands for the midpoint (2j + 1) / 2k of the j-th of k equal bins of [0, 1], which is where an Interval
puts it. Replacing both arguments by midpoints moves f by at most 2 * G/(2k) = G/k, so k of the order of
eps * sqrt(n) levels is enough. The paper's discrete Lipschitz constant, for one level, is G/k.

Some kernels f(x, y) = g(|x - y|) have a name. On an even grid such a kernel is a symmetric Toeplitz matrix: its first
row says everything, and it multiplies a vector in O(k log k).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Inputs
from parley.emulator.randomizer import Floats
from parley.protocols.workloads.domain import nearest
from parley.protocols.workloads.kernel import Kernel
from parley.protocols.workloads.workload import (
    ByValue,
    Kind,
    Workload,
    check_dense,
    check_level,
    check_rows,
    symmetric_matrix,
)

KernelFunction = Callable[[float, float], float]
# Values of f carry rounding errors; differences of two of them carry twice that.
ROUNDING = 64 * np.finfo(np.float64).eps


@dataclass(frozen=True, kw_only=True)
class Distance:
    """g on [0, 1] and its Lipschitz constant there, both at a width; `scaled` where the width plays a part."""

    profile: Callable[[Floats, Any], Floats]
    constant: Callable[[Any], float]
    scaled: bool = True


DISTANCES: Mapping[str, Distance] = {
    # |d|: the Gini mean difference in the interval's own units.
    "absolute-difference": Distance(profile=lambda d, _: d, constant=lambda _: 1.0, scaled=False),
    # d^2: its mean over pairs is twice the variance.
    "squared-difference": Distance(profile=lambda d, _: np.square(d), constant=lambda _: 2.0, scaled=False),
    # d^2/2 up to the width, from there the tangent.
    "huber": Distance(
        profile=lambda d, width: np.where(d <= width, d**2 / 2, width * (d - width / 2)),
        constant=lambda width: min(width, 1.0),
    ),
    "truncated-difference": Distance(profile=np.minimum, constant=lambda _: 1.0),
    # exp(-d^2 / 2 width^2), steepest at d = width or the end of the range; its diagonal is 1, not 0.
    "gaussian": Distance(
        profile=lambda d, width: np.exp(-((d / width) ** 2) / 2),
        constant=lambda width: float(min(width, 1.0) / width**2 * np.exp(-((min(width, 1.0) / width) ** 2) / 2)),
    ),
}


def named_distance(name: str, width: float | None = None) -> tuple[Distance, float | None]:
    """The distance of that name and its width: if it has one and none is given, a quarter of the range."""
    if name not in DISTANCES:
        raise BadInput(f"unknown Lipschitz function {name!r}{nearest(name, list(DISTANCES))}")
    distance = DISTANCES[name]
    if width is None:
        return distance, 0.25 if distance.scaled else None
    if not distance.scaled:
        raise BadInput(f"{name} takes no width, got {width!r}")
    # Narrower than this, squares underflow; no grid we allow could tell such widths apart.
    if isinstance(width, bool) or not isinstance(width, int | float) or not 1e-9 <= width <= 1e9:
        raise BadInput(f"the width of {name} must lie between 1e-9 and 1e9, got {width!r}")
    return distance, float(width)


@dataclass(frozen=True, eq=False, init=False)
class Lipschitz(ByValue, Workload):
    """A G-Lipschitz kernel: the name of a distance, any function f(x, y), or a table of its values on the grid.

    A function is evaluated at once, at all pairs of midpoints, and only the table is kept: a table can travel in
    Setup and a function cannot. A name travels as a name and is applied in O(k log k) by the FFT.
    """

    name: ClassVar[str] = "lipschitz"
    kind: ClassVar[Kind] = "lipschitz"
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
        if constant is not None and (
            isinstance(constant, bool) or not isinstance(constant, int | float) or not 0 < constant < np.inf
        ):
            raise BadInput(f"the Lipschitz constant must be a positive number, got {constant!r}")
        if isinstance(function, str):
            distance, width = named_distance(function, width)
            known = distance.constant(width)
            # A distance knows its constant (to the last digits, where machines differ); a smaller one is false.
            if constant is not None and constant < known * (1 - ROUNDING):
                raise BadInput(f"{function} has the Lipschitz constant {known}, so {constant} is too small")
            constant = known if constant is None else constant
        else:
            if width is not None:
                raise BadInput(f"a width belongs to a named distance ({', '.join(DISTANCES)}), got {width!r}")
            check_dense(self.levels)
            function = symmetric_matrix("a Lipschitz kernel", _table(function, self.levels))
            if constant is None:
                raise BadInput("say the Lipschitz constant of a function or table, such as constant=1.0")
            # Refused where two neighbouring midpoints show that it is false.
            seen = float(np.abs(np.diff(function, axis=0)).max()) * self.levels
            slack = ROUNDING * self.levels * float(np.abs(function).max())
            if seen > constant * (1 + ROUNDING) + slack:
                raise BadInput(f"the kernel is not {constant}-Lipschitz: neighbours show a slope of {seen:.6g}")
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "width", width)
        object.__setattr__(self, "constant", float(constant))

    @property
    def size(self) -> int:
        return self.levels

    @property
    def shift(self) -> float:
        """The middle of the range, after which no entry exceeds Gk in the paper's lemma."""
        low, high = self.bounds
        return (low + high) / 2

    @property
    def bounds(self) -> tuple[float, float]:
        values = self._values()
        return float(values.min()), float(values.max())

    @property
    def infinity_norm(self) -> float:
        return float(np.abs(self._values()).max())

    def matrix(self) -> Floats:
        if isinstance(self.function, str):
            check_dense(self.levels)
            return np.asarray(scipy.linalg.toeplitz(self._values()), dtype=np.float64)
        return self.function

    def apply(self, histogram: Floats) -> Floats:
        check_rows(histogram, self.size)
        if isinstance(self.function, str):
            # By circulant embedding: 2k points, so that nothing wraps around.
            row, size = self._values(), self.size
            circle = np.concatenate([row, [0.0], row[:0:-1]])
            spectrum = np.fft.rfft(circle)[:, None] * np.fft.rfft(histogram.reshape(size, -1), n=2 * size, axis=0)
            return np.asarray(np.fft.irfft(spectrum, n=2 * size, axis=0)[:size].reshape(histogram.shape))
        return self.function @ histogram

    def diagonal(self) -> Floats:
        if isinstance(self.function, str):
            return np.full(self.levels, self._values()[0])
        return self.function.diagonal().copy()

    def exact(self, inputs: Inputs) -> float:
        if not isinstance(self.function, str):
            return Kernel(self.function).exact(inputs)
        weights, users = self.counts(inputs).astype(np.float64), len(inputs)
        pairs = weights @ self.apply(weights) - users * self._values()[0]
        return float(pairs / (users * (users - 1.0)))

    def _values(self) -> Floats:
        """Every value W has: of a distance, its first row."""
        if isinstance(self.function, str):
            return DISTANCES[self.function].profile(np.arange(self.levels) / self.levels, self.width)
        return self.function


def _table(function: KernelFunction | NDArray[Any], levels: int) -> NDArray[Any]:
    """f at all pairs of midpoints, called with two plain floats at a time."""
    if isinstance(function, np.ndarray):
        if function.shape != (levels, levels):
            raise BadInput(f"a table for {levels} levels must be {levels} x {levels}, got shape {function.shape}")
        return function
    if not callable(function):
        raise BadInput(f"a Lipschitz kernel must be a name, a function or a table, got {function!r}")
    points = ((2 * np.arange(levels) + 1) / (2.0 * levels)).tolist()
    try:
        return np.array([[float(function(x, y)) for y in points] for x in points])
    except TypeError as problem:
        raise BadInput(f"a kernel function must take two numbers and return one: {problem}") from problem
