"""What all randomizers that reply with a direction have in common: moments, decoding, sums in fixed point."""

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
