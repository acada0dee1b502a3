"""The first two moments of y = offset + unit b, the histogram that a frequency oracle's reply stands for.

For the input x a reply supports a category v with the oracle's probability `own` if v = x and `other` if not; two
categories with `own_and_other` if one of them is x, and with `two_others` if neither is. The mean of y is 1_x.
"""

from dataclasses import dataclass

import numpy as np

from parley.emulator.randomizer import Floats
from parley.protocols.randomizers.categories.oracle import FrequencyOracle


@dataclass(frozen=True)
class OracleMoments:
    """Moments of an oracle that treats all categories alike."""

    oracle: FrequencyOracle

    def quadratic(self, row_sums: Floats, diagonal: Floats) -> Floats:
        """E[y'My | x] for every x, from M1 and the diagonal of M."""
        own, other, unit, offset = self.oracle.own, self.oracle.other, self.oracle.unit, self.oracle.offset
        whole, trace = float(row_sums.sum()), float(diagonal.sum())
        besides = row_sums - diagonal
        supported = other * whole + (own - other) * row_sums
        pairs = other * trace + (own - other) * diagonal
        pairs = pairs + self.oracle.two_others * (whole - trace - 2 * besides)
        pairs = pairs + 2 * self.oracle.own_and_other * besides
        return np.asarray(offset**2 * whole + 2 * offset * unit * supported + unit**2 * pairs)

    def conditional(self, direction: Floats) -> Floats:
        """Var(<y, g> | x) for every x."""
        # y'gg'y is a quadratic form with row sums g sum(g) and diagonal g^2, and E<y, g> = g_x.
        return self.quadratic(direction * direction.sum(), direction**2) - direction**2

    def along(self, direction: Floats, histogram: Floats) -> float:
        """The mean of these variances over the users of a histogram."""
        return float(histogram @ self.conditional(direction))

    def covariance(self, histogram: Floats) -> tuple[Floats, Floats]:
        """The mean of Cov(y | x) over the users of a histogram, as d and K of diag(d) + B K B' with B = [1, h]."""
        own, other, square = self.oracle.own, self.oracle.other, self.oracle.unit**2
        apart, near = self.oracle.two_others - other**2, self.oracle.own_and_other - own * other
        alone = other * (1 - other) + (own * (1 - own) - other * (1 - other)) * histogram
        diagonal = alone - apart - 2 * (near - apart) * histogram
        mixing = np.array([[apart, near - apart], [near - apart, 0.0]])
        return square * diagonal, square * mixing
