"""Gini mean difference and Gini diversity index (paper, "Upper Bounds for Specific Metrics"): |x - y| and [x != y]."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from parley.emulator.protocol import Inputs
from parley.emulator.randomizer import Floats
from parley.protocols.workloads.workload import Kind, OnLevels, check_dense, check_rows


@dataclass(frozen=True, kw_only=True)
class GiniMeanDifference(OnLevels):
    """The mean of |x - y| over pairs, for inputs j standing for the points j/(k-1) of [0, 1].

    The midpoints of an Interval's bins are as evenly spaced, only closer together: times the distance from the first
    midpoint to the last, this is the mean difference of binned data, within one bin width of that of the data.
    """

    name: ClassVar[str] = "gini-mean-difference"
    kind: ClassVar[Kind] = "threshold"
    # |x - y| = 1/2 - 2 <c_x, c_y> with threshold vectors c: after the shift gamma_2 is 1/2 instead of 1.
    shift = 0.5
    levels: int

    def matrix(self) -> Floats:
        check_dense(self.size)
        points = np.arange(self.levels)
        return np.asarray(np.abs(points[:, None] - points[None, :]) / (self.levels - 1), dtype=np.float64)

    def apply(self, histogram: Floats) -> Floats:
        """|x - y| counts the thresholds between x and y: two prefix sums."""
        check_rows(histogram, self.size)
        below = np.cumsum(histogram, axis=0)
        slopes = 2 * below[:-1] - below[-1]
        first = (np.arange(self.levels) @ histogram)[None]
        return np.concatenate([first, first + np.cumsum(slopes, axis=0)]) / (self.levels - 1)

    def exact(self, inputs: Inputs) -> float:
        """Each threshold separates (users below) * (users above) pairs; the sum may need more than 64 bits."""
        users = len(inputs)
        below = np.cumsum(self.counts(inputs))[:-1]
        pairs = below * (users - below)
        separated = (int((pairs >> 32).sum()) << 32) + int((pairs & (2**32 - 1)).sum())
        return 2 * separated / (users * (users - 1) * (self.levels - 1))


@dataclass(frozen=True, kw_only=True)
class GiniDiversity(OnLevels):
    """The share of pairs that differ, on k unordered inputs: W = J - I."""

    name: ClassVar[str] = "gini-diversity"
    kind: ClassVar[Kind] = "identity"
    levels: int

    @property
    def shift(self) -> float:
        """W - cJ is minus the projection that takes the mean away: gamma_2 is 1 - 1/k, the least of all shifts."""
        return 1.0 - 1.0 / self.levels

    def guesses(self) -> dict[str, Floats]:
        """It has hardly a slope where shares are gentle: its error may be ten times as large where they are not."""
        shares = 0.5 ** np.arange(1.0, self.levels + 1)
        return {"half of the users alike, half of the others alike, and so on": np.asarray(shares / shares.sum())}

    def matrix(self) -> Floats:
        check_dense(self.size)
        return 1.0 - np.eye(self.size)

    def apply(self, histogram: Floats) -> Floats:
        check_rows(histogram, self.size)
        return np.asarray(histogram.sum(axis=0) - histogram)
