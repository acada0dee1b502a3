"""What all randomizers that reply with a direction have in common: points on a sphere, decoding, sums in fixed point.

Inputs are vectors of norm at most C; `lift` makes them whole-numbered points of norm 2^24 in one more dimension.
The reply of a `Seeded` one is (seed, index): candidate b is a direction of the seed, B + b its negative.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Alphabet, Columns, Floats, Integers, Randomizer, Shape
from parley.protocols.randomizers.exact import Choice, Words
from parley.protocols.randomizers.vectors.expansion import all_directions, one_direction

if TYPE_CHECKING:
    from parley.protocols.randomizers.vectors.moments import SphereMoments

GRID = float(1 << 24)
# Rounding in a caller's factorization may lift a norm over C by this much; more is a mistake.
SLACK = 1e-6
FIXED_POINT = 36
STEP = 2.0**FIXED_POINT
# Numbers a block of users may expand to: temporary arrays stay at about 2 MiB, within a core's cache.
BLOCK_NUMBERS = 1 << 18


def check_radius(radius: float) -> None:
    if radius == 0:
        raise BadInput("radius is 0: all inputs have the same vector, so the statistic is constant; do not ask for it")
    if not math.isfinite(radius) or not 1e-100 <= radius <= 1e100:
        raise BadInput(f"radius is {radius}; give a positive number from 1e-100 to 1e100")


def grid_points(inputs: Floats, dimension: int, radius: float, first_row: int = 0) -> Floats:
    """inputs * 2^24 / C rounded to whole numbers; refused if not finite or longer than C."""
    if inputs.ndim != 2 or inputs.shape[1] != dimension:
        raise BadInput(f"inputs have shape {inputs.shape}; give one row of {dimension} numbers per user")
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
    def moments(self) -> "SphereMoments":
        """Mean and covariance of the decoded vector."""

    @abstractmethod
    def _units(self, reply: Columns) -> Iterator[tuple[slice, Floats]]:
        """The first d coordinates of the unit vectors of the replies, block by block."""

    @property
    def variance(self) -> float:
        """E|Y-x|^2/d of the decoded vector, the largest over all inputs."""
        return self.moments.variance

    def decode(self, reply: Columns) -> Floats:
        """C / shrink times the direction, in whole units."""
        rows = len(next(iter(reply.values())))
        vectors = np.empty((rows, self.dimension))
        for block, units in self._units(reply):
            vectors[block] = np.rint(units * STEP) * self.unit
        return vectors

    @property
    def unit(self) -> float:
        return self.moments.scale / STEP

    @property
    def reach(self) -> tuple[int, int]:
        return -int(STEP), int(STEP)


def score(directions: Floats, points: Floats) -> Floats:
    """<g_b, x> / |g_b|: sums of whole numbers below 2^53, so neither BLAS nor the order of sums matters.

    `points` has a column per point, for all rows of directions alike or one matrix per row.
    """
    norms = np.sqrt(np.vecdot(directions, directions))
    if points.ndim == 2:
        # One product of two matrices instead of one for each seed.
        flat = directions.reshape(-1, directions.shape[2]) @ points
        products = flat.reshape(*directions.shape[:2], -1)
    else:
        products = np.matmul(directions, points)
    return np.asarray(products / norms[:, :, None])


class Seeded(Choice, Directional):
    """The seed is public and independent of the input; only the index is chosen."""

    candidates: int

    @property
    @abstractmethod
    def ambient(self) -> int:
        """The dimension of the candidates: d, or d + 1 with the appended coordinate."""

    @property
    def half(self) -> int:
        return self.candidates // 2

    @property
    def work(self) -> int:
        return self.half * self.ambient

    @property
    def reply(self) -> Shape:
        index: np.dtype[np.generic] = np.dtype(np.uint8 if self.candidates <= 256 else np.uint16)
        return {"seed": (np.dtype(np.uint64), ()), "index": (index, ())}

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet(column="index", first=0, last=self.candidates - 1)

    def _scores(self, seeds: Words, points: Floats) -> Floats:
        return score(all_directions(seeds, self.half, self.ambient), points)

    def _units(self, reply: Columns) -> Iterator[tuple[slice, Floats]]:
        seeds, index = read(reply)
        for block in blocks(len(seeds), self.ambient):
            directions = one_direction(seeds[block], index[block] % self.half, self.ambient)
            norms = np.where(index[block] < self.half, 1.0, -1.0) * np.sqrt(np.vecdot(directions, directions))
            yield block, directions[:, : self.dimension] / norms[:, None]

    def total(self, reply: Columns) -> Integers:
        """Sum of the decoded vectors in units; sums of fewer than 2^27 replies cannot overflow.

        Dividing by 2^36 and changing a sign round nothing.
        """
        seeds, index = read(reply)
        total = np.zeros(self.dimension, dtype=np.int64)
        for block in blocks(len(seeds), self.ambient):
            directions = one_direction(seeds[block], index[block] % self.half, self.ambient)
            norms = np.sqrt(np.vecdot(directions, directions)) / STEP
            units = directions[:, : self.dimension]
            np.divide(units, norms[:, None], out=units)
            np.rint(units, out=units)
            # 2^16 rows of at most 2^36 add up to a whole number below 2^53, in any order.
            sign = np.where(index[block] < self.half, 1.0, -1.0)
            for start in range(0, len(units), 1 << 16):
                total += (sign[start : start + (1 << 16)] @ units[start : start + (1 << 16)]).astype(np.int64)
        return total


def read(reply: Columns) -> tuple[Words, Integers]:
    """Seeds and indices in the types of arithmetic."""
    return reply["seed"].astype(np.uint64), reply["index"].astype(np.int64)
