"""What all randomizers that reply with a direction have in common: moments, decoding, sums in fixed point.

Their inputs, vectors of norm at most C, become whole-numbered points of norm 2^24, in one more dimension if need be.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Array, Columns, Floats, Integers, Randomizer
from parley.protocols.randomizers.vectors.moments import SphereMoments

FIXED_POINT = 36
STEP = 2.0**FIXED_POINT
# Numbers a block of users may expand to: temporary arrays stay at about 2 MiB, within a core's cache.
BLOCK_NUMBERS = 1 << 18


def blocks(rows: int, numbers: int) -> Iterator[slice]:
    """Slices of users whose expansions, `numbers` for each user, fit a block."""
    step = max(1, BLOCK_NUMBERS // numbers)
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


class Directional(Randomizer):
    """A randomizer whose reply stands for a unit vector U; it decodes to C * U / shrink."""

    dimension: int
    radius: float

    @property
    @abstractmethod
    def moments(self) -> SphereMoments:
        """Mean and covariance of the decoded vector."""

    @abstractmethod
    def _units(self, reply: Columns) -> Iterator[tuple[slice, Floats]]:
        """The first d coordinates of the unit vectors of the replies, block by block."""

    @abstractmethod
    def _shares(self, reply: Columns, weights: Floats) -> Iterator[Floats]:
        """Weighted sums of the squares of those coordinates, block by block."""

    @property
    def variance(self) -> float:
        """E|Y-x|^2/d of the decoded vector, the largest over all inputs."""
        return self.moments.variance

    def variance_at(self, norm: float) -> float:
        """E|Y-x|^2/d of the decoded vector for an input of this norm."""
        return self.moments.variance_at(norm)

    def covariance(self, x: Floats) -> Floats:
        """The exact covariance of the decoded vector for the input x."""
        return self.moments.covariance(x)

    def decode(self, reply: Columns) -> Floats:
        """C / shrink times the direction, in whole units."""
        rows = len(next(iter(reply.values())))
        vectors = np.empty((rows, self.dimension))
        for block, units in self._units(reply):
            vectors[block] = np.rint(units * STEP) * self.unit
        return vectors

    def total(self, reply: Columns) -> Integers:
        """Sum of the decoded vectors in units; sums of fewer than 2^26 replies cannot overflow."""
        total = np.zeros(self.dimension, dtype=np.int64)
        for _, units in self._units(reply):
            # 2^16 rows of at most 2^36 add up to a whole number below 2^53, so the sum in float64 is exact.
            for start in range(0, len(units), 1 << 16):
                total += np.rint(units[start : start + (1 << 16)] * STEP).sum(axis=0).astype(np.int64)
        return total

    @property
    def unit(self) -> float:
        """C / shrink / 2^36."""
        return self.moments.scale / STEP

    @property
    def offset(self) -> float:
        """Nothing is added to the units."""
        return 0.0

    def quadratic_total(self, reply: Columns, signs: Array) -> int:
        """Sum over replies of y'Dy, D = diag(signs) of -1, 0 and 1, in units of `quadratic_unit`."""
        weights = np.asarray(signs, dtype=np.float64)
        if weights.shape != (self.dimension,) or not np.isin(weights, (-1.0, 0.0, 1.0)).all():
            raise BadInput(f"signs should be {self.dimension} numbers out of -1, 0 and 1")
        return sum(int(np.rint(share * STEP).astype(np.int64).sum()) for share in self._shares(reply, weights))

    @property
    def quadratic_unit(self) -> float:
        """(C / shrink)^2 / 2^36."""
        return self.moments.scale**2 / STEP


GRID = float(1 << 24)
# Rounding in a caller's factorization may lift a norm over C by this much; more is a mistake.
SLACK = 1e-6


def check_radius(radius: float) -> None:
    """A usable radius C."""
    if radius == 0:
        raise BadInput("radius is 0: all inputs have the same vector, so the statistic is constant; do not ask for it")
    if not math.isfinite(radius) or not 1e-100 <= radius <= 1e100:
        raise BadInput(f"radius is {radius}; give a positive number from 1e-100 to 1e100")


def grid_points(inputs: Floats, dimension: int, radius: float, first_row: int = 0) -> Floats:
    """inputs * 2^24 / C rounded to whole numbers; refused if not finite or longer than C."""
    if inputs.ndim != 2 or inputs.shape[1] != dimension:
        raise BadInput(f"inputs have shape {inputs.shape}; give one row of {dimension} numbers a user")
    points: Floats = np.rint(inputs * (GRID / radius))
    squares = np.einsum("nd,nd->n", points, points)
    # Every comparison with a NaN is false, so this refuses what is not finite, too.
    wrong = ~(squares <= (GRID * (1.0 + SLACK)) ** 2 + GRID * math.sqrt(dimension))
    if wrong.any():
        row = first_row + int(np.argmax(wrong))
        raise BadInput(f"input row {row} is not finite or longer than the radius {radius}; scale the vectors")
    return points


def lift(inputs: Floats, dimension: int, radius: float, first_row: int = 0) -> Floats:
    """Append sqrt(C^2 - |x|^2), so that every point has norm C (mathematics.md, "Norm below C").

    The sum of squares is a whole number below 2^53 and the square root is correctly rounded, so the result
    is the same on every machine.
    """
    points = grid_points(inputs, dimension, radius, first_row)
    squares = np.einsum("nd,nd->n", points, points)
    height = np.rint(np.sqrt(np.maximum(GRID**2 - squares, 0.0)))
    return np.concatenate([points, height[:, None]], axis=1)
