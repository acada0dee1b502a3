"""Discrete Laplace weights as integers, built from the tail inward so that no rounding can break the ratio."""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Floats, Integers
from parley.protocols.randomizers.exact import (
    WHOLE,
    Words,
    exponential_lower,
    exponential_upper,
    guarded,
)

# Enough for any weight below 2^64, and cut off it rounds a ratio down.
RATIO_BITS = 128
# Outermost weights this close are next to equal: their tables differ by less than the ratio of one step.
CLOSE_BITS = 16


@dataclass(frozen=True, kw_only=True)
class LaplaceTable:
    """Noise j has `weights[|j|]` coin values for |j| < J and `end` for |j| = J, which stands for all beyond.

    Formal guarantee: with r <= e^(eps/D) rational, weights[j] <= r * weights[j+1] and
    weights[J-1] <= (r - 1) * end, all on integers. Hence for the tail sums beyond[j] = end + weights[J-1] + ...
    + weights[j], too, beyond[j] <= r * beyond[j+1]: by induction weights[j] <= r * weights[j+1]
    <= r (r-1) beyond[j+2] and beyond[j] = weights[j] + beyond[j+1] <= r * beyond[j+1].
    """

    weights: tuple[int, ...]
    end: int

    @property
    def reach(self) -> int:
        """J."""
        return len(self.weights)

    @cached_property
    def beyond(self) -> tuple[int, ...]:
        """Coin values of noise at distance j or more to one side, for j = 0 .. J."""
        sums = [self.end]
        for weight in reversed(self.weights):
            sums.append(sums[-1] + weight)
        return tuple(reversed(sums))

    @property
    def leftover(self) -> int:
        """Coin values that no noise uses."""
        return WHOLE - 2 * self.beyond[0] + self.weights[0]

    @cached_property
    def cumulative(self) -> Words:
        """Coin values up to and including noise -J, -J+1, ..., J; all below 2^64."""
        right = [*self.weights[1:], self.end]
        row = np.array([*reversed(right), self.weights[0], *right], dtype=np.uint64)
        return np.cumsum(row, dtype=np.uint64)

    def draw(self, coin: Words) -> tuple[Integers, NDArray[np.bool_]]:
        """Noise of each coin, and whether the coin is one that noise uses."""
        place = np.searchsorted(self.cumulative, coin, side="right").astype(np.int64)
        return place - self.reach, place < len(self.cumulative)

    @cached_property
    def pmf(self) -> Floats:
        """weights / 2^64."""
        return np.array([*self.weights, self.end], dtype=np.uint64).astype(np.float64) / WHOLE

    @cached_property
    def beyond_pmf(self) -> Floats:
        """beyond / 2^64."""
        return np.array(self.beyond, dtype=np.uint64).astype(np.float64) / WHOLE


def _build(outermost: int, numerator: int, reach: int) -> LaplaceTable:
    """Every weight as large as the one outside it allows, for the ratio numerator / 2^RATIO_BITS."""
    end = -(-(outermost << RATIO_BITS) // (numerator - (1 << RATIO_BITS)))
    weight, weights = outermost, [outermost]
    for _ in range(reach - 1):
        weight = weight * numerator >> RATIO_BITS
        weights.append(weight)
    return LaplaceTable(weights=tuple(reversed(weights)), end=end)


def _bracket(outermost: int, numerator: int, reach: int) -> tuple[LaplaceTable, LaplaceTable]:
    """A table that fits 2^64 - 1 coin values and one that does not, their outermost weights next to equal."""
    small = _build(outermost, numerator, reach)
    stride = outermost * small.leftover // (WHOLE - small.leftover) + 1
    while (large := _build(outermost + stride, numerator, reach)).leftover >= 1:
        outermost, small = outermost + stride, large
    while stride > max(1, outermost >> CLOSE_BITS):
        stride //= 2
        middle = _build(outermost + stride, numerator, reach)
        if middle.leftover >= 1:
            outermost, small = outermost + stride, middle
            stride = large.weights[-1] - outermost
        else:
            large = middle
    return small, large


def _blend(small: LaplaceTable, large: LaplaceTable) -> LaplaceTable:
    """Outside from the large table, inside from the small one, as far in as the coin values last.

    A weight of the small table is within the ratio of the small weight outside it, hence of a larger one, too.
    """
    spare = small.leftover - 1
    raised = min(large.end - small.end, spare // 2)
    end, spare = small.end + raised, spare - 2 * raised
    weights = list(small.weights)
    for place in range(len(weights) - 1, 0, -1):
        raised = min(large.weights[place] - weights[place], spare // 2)
        if raised <= 0 and spare < 2:
            break
        weights[place] += raised
        spare -= 2 * raised
    return LaplaceTable(weights=tuple(weights), end=end)


@lru_cache(maxsize=16)
def laplace_table(epsilon: float, distance: int, reach: int) -> LaplaceTable:
    """The table with ratio e^(eps/distance) whose weights use all but a few of the 2^64 coin values."""
    step = guarded(epsilon) / distance
    ratio = exponential_lower(step)
    numerator = (ratio.numerator << RATIO_BITS) // ratio.denominator
    # Unrounded, the sum of all weights is end * r^reach * (1 + 1/r), and the outermost weight is end * (r - 1).
    whole = exponential_upper(step * reach) * (1 + exponential_upper(-step))
    outermost = int((WHOLE - 1) * (ratio - 1) / whole) - 1
    if outermost < 1:
        raise BadInput(f"epsilon {epsilon} over {distance} steps leaves no coin value for the ends; use fewer steps")
    # Rounding down loses some of the sum, which grows with the outermost weight; what is still left is blended in.
    return _blend(*_bracket(outermost, numerator, reach))
