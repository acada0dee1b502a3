"""The first two moments of what a frequency oracle's reply supports, and of the histogram estimated from it.

For the input x a category v is supported with probability `own` if v = x and `other` if not; two categories with
probability `mixed` if one of them is x, and `others` if neither is. y = offset + unit b has mean 1_x.
"""

from dataclasses import dataclass

import numpy as np

from parley.emulator.randomizer import Floats, Integers
from parley.protocols.randomizers.categories.oracle import FrequencyOracle


@dataclass(frozen=True, kw_only=True)
class Support:
    """Joint probabilities of an oracle that treats all categories alike."""

    oracle: FrequencyOracle
    mixed: float
    others: float

    def quadratic(self, row_sums: Floats, diagonal: Floats) -> Floats:
        """E[y'My | x] for every x, from M1 and the diagonal of M."""
        own, other, unit, offset = self.oracle.own, self.oracle.other, self.oracle.unit, self.oracle.offset
        whole, trace = float(row_sums.sum()), float(diagonal.sum())
        besides = row_sums - diagonal
        supported = other * whole + (own - other) * row_sums
        pairs = other * trace + (own - other) * diagonal
        pairs = pairs + self.others * (whole - trace - 2 * besides) + 2 * self.mixed * besides
        return np.asarray(offset**2 * whole + 2 * offset * unit * supported + unit**2 * pairs)

    def conditional(self, direction: Floats) -> Floats:
        """Var(<y, g> | x) for every x."""
        # y'gg'y is a quadratic form with row sums g sum(g) and diagonal g^2, and E<y, g> = g_x.
        return self.quadratic(direction * direction.sum(), direction**2) - direction**2

    def along(self, direction: Floats, histogram: Floats) -> float:
        """The variance of <y, g> for a user drawn from the histogram."""
        return float(histogram @ self.conditional(direction))

    def covariance(self, histogram: Floats) -> tuple[Floats, Floats]:
        """Cov(y) of such a user, as d and K of diag(d) + B K B' with B = [1, h]."""
        own, other, square = self.oracle.own, self.oracle.other, self.oracle.unit**2
        apart, near = self.others - other**2, self.mixed - own * other
        alone = other * (1 - other) + (own * (1 - own) - other * (1 - other)) * histogram
        diagonal = alone - apart - 2 * (near - apart) * histogram
        mixing = np.array([[apart, near - apart], [near - apart, 0.0]])
        return square * diagonal, square * mixing

    @property
    def greatest(self) -> float:
        """The largest variance of one entry of y."""
        return max(self.oracle.variance_at(0.0), self.oracle.variance_at(1.0))


def coarsened(histogram: Floats, groups: Integers, size: int) -> Floats:
    """The histogram of groups of inputs."""
    return np.asarray(np.bincount(groups, histogram, minlength=size), dtype=np.float64)
