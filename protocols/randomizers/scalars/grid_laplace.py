"""Laplace noise on a grid (the kappa_j of the two- and three-round protocols), drawn from an integer table.

A value is clipped to [low, high], rounded at random to a neighbour on a grid of a power of two, and moved by
discrete Laplace noise; what leaves the finite range of outcomes is set to its ends. One 64-bit coin picks the
noise from `LaplaceTable`, whose weights are integers, so the pmf of every outcome is known exactly.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import ClassVar

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Alphabet, Coins, Columns, Floats, Integers, Shape
from parley.protocols.randomizers import exact

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

    @cached_property
    def beyond(self) -> tuple[int, ...]:
        """Coin values of noise at distance j or more to one side, for j = 0 .. J."""
        return tuple(accumulate([self.end, *reversed(self.weights)]))[::-1]

    @property
    def leftover(self) -> int:
        """Coin values that no noise uses."""
        return exact.WHOLE - 2 * self.beyond[0] + self.weights[0]

    @cached_property
    def cumulative(self) -> exact.Words:
        """Coin values up to and including noise -J, -J+1, ..., J; all below 2^64."""
        right = [*self.weights[1:], self.end]
        return np.cumsum([*reversed(right), self.weights[0], *right], dtype=np.uint64)

    @cached_property
    def pmf(self) -> tuple[Floats, Floats]:
        """weights / 2^64, and beyond / 2^64."""
        inside, outside = (np.array(each, dtype=np.uint64) for each in ([*self.weights, self.end], self.beyond))
        return inside.astype(np.float64) / exact.WHOLE, outside.astype(np.float64) / exact.WHOLE


def _build(outermost: int, numerator: int, reach: int) -> LaplaceTable:
    """Every weight as large as the one outside it allows, for the ratio numerator / 2^RATIO_BITS."""
    end = -(-(outermost << RATIO_BITS) // (numerator - (1 << RATIO_BITS)))
    weights = [outermost]
    for _ in range(reach - 1):
        weights.append(weights[-1] * numerator >> RATIO_BITS)
    return LaplaceTable(weights=tuple(reversed(weights)), end=end)


@lru_cache(maxsize=16)
def laplace_table(epsilon: float, distance: int, reach: int) -> LaplaceTable:
    """The table with ratio e^(eps/distance) whose weights use all but a few of the 2^64 coin values."""
    step = exact.guarded(epsilon) / distance
    ratio = exact.exponential_lower(step)
    numerator = (ratio.numerator << RATIO_BITS) // ratio.denominator
    # Unrounded, the sum of all weights is end * r^reach * (1 + 1/r), and the outermost weight is end * (r - 1).
    whole = exact.exponential_upper(step * reach) * (1 + exact.exponential_upper(-step))
    outermost = int((exact.WHOLE - 1) * (ratio - 1) / whole) - 1
    if outermost < 1:
        raise BadInput(f"epsilon {epsilon} over {distance} steps leaves no coin value for the ends; use fewer steps")
    # Rounding down loses some of the sum, which grows with the outermost weight. We look for a table that fits 2^64 - 1
    # coin values and one that does not, their outermost weights next to equal.
    small = _build(outermost, numerator, reach)
    stride = outermost * small.leftover // (exact.WHOLE - small.leftover) + 1
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
    # Outside from the large table, inside from the small one, as far in as the coin values last. A weight of the small
    # table is within the ratio of the small weight outside it, hence of a larger one, too.
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


STEPS = 256
# Setting outcomes to the ends shifts a mean by e^-16/2 of a noise scale, less than the noise of 10^12 users.
TAIL_SCALES = 16.0
# Weights shrink by e^-(eps + tail) from the peak to the ends; below e^-30 of 2^64 too few coin values are left.
DECAY = 30.0
MOST_ENTRIES = 1 << 19
LARGEST_EPSILON = 16.0
LEAST_EPSILON = 2.0**-10
# What a step is sent as.
STEP_TYPE = np.dtype(np.int32)


@dataclass(frozen=True, kw_only=True)
class GridLaplace(exact.Choice):
    """Discrete Laplace on a power-of-two grid (Mironov 2012's remedy; mathematics.md, "Scalars").

    Formal guarantee: for every two inputs and every outcome the probabilities differ by a factor of at most
    e^eps exactly. Two neighbouring grid points differ by at most e^(eps/D) at every outcome, because the
    table's integer weights do (see `LaplaceTable`), all grid points lie within D steps, setting outcomes to
    the ends is post-processing, and a mixture of two grid points is no further apart than they are.

    `sensitivity` (at least high - low) asks for more noise than the range needs, as the verbatim protocols do.

    Attacks. Every outcome can be reached from every input. A draw is one binary search in a fixed table, on a coin
    that does not depend on the input.
    """

    low: float
    high: float
    epsilon: float
    sensitivity: float | None = None
    # One word for the rounding, one for the noise; an outcome is a number of grid steps from the origin.
    coins = 2 * exact.WORD_BYTES
    reply: ClassVar[Shape] = {"step": (STEP_TYPE, ())}

    def __post_init__(self) -> None:
        exact.check_epsilon(self.epsilon, LARGEST_EPSILON, LEAST_EPSILON, where=" of a Laplace reply")
        exact.check_interval(self.low, self.high)
        width = self.high - self.low
        if self.sensitivity is not None and not width <= self.sensitivity <= 2.0**16 * width:
            raise BadInput(
                f"sensitivity is {self.sensitivity}; give at least the width {width} of the range "
                "and at most 65536 times it"
            )

    @property
    def tail(self) -> float:
        """How many noise scales outcomes reach beyond the range on either side."""
        return min(TAIL_SCALES, DECAY - self.epsilon)

    @cached_property
    def unit(self) -> float:
        """The grid's step, a power of two: about 256 steps across, fewer if the table would grow too long."""
        most = MOST_ENTRIES / (2.0 * (self.tail / self.epsilon + 1.0)) - 4.0
        width = self.high - self.low if self.sensitivity is None else self.sensitivity
        return math.ldexp(1.0, math.ceil(math.log2(width / min(2.0 * STEPS, most))))

    @cached_property
    def _around(self) -> tuple[int, int]:
        """The grid points around the range, in steps from 0: as many as 2^40 where the range is narrow and far away."""
        unit = Fraction(self.unit)
        return math.floor(Fraction(self.low) / unit), math.ceil(Fraction(self.high) / unit)

    @cached_property
    def origin(self) -> int:
        """The grid point from which steps are counted: 0, or the middle of the range if it is too far from 0.

        Outcomes are at most 2^20 steps, so counted from their middle they always fit their column.
        """
        first, last = self._around
        limits = np.iinfo(STEP_TYPE)
        if limits.min <= first - self.margin and last + self.margin <= limits.max:
            return 0
        return (first + last) // 2

    @property
    def offset(self) -> float:
        """The value of step 0. It is exact: the origin is below 2^53 and the unit a power of two."""
        return self.origin * self.unit

    @cached_property
    def ends(self) -> tuple[int, int]:
        """The grid points around the range, in steps from the origin."""
        return self._around[0] - self.origin, self._around[1] - self.origin

    @cached_property
    def distance(self) -> int:
        """D, the steps that cost epsilon: those between the ends, or more if a larger sensitivity is given."""
        first, last = self._around
        given = Fraction(self.high - self.low if self.sensitivity is None else self.sensitivity)
        return max(last - first, math.ceil(given / Fraction(self.unit)))

    @cached_property
    def margin(self) -> int:
        """Steps that outcomes may lie outside the ends."""
        return math.ceil(self.tail * self.distance / self.epsilon)

    @property
    def outcomes(self) -> tuple[int, int]:
        """The smallest and the largest step that can be sent."""
        return self.ends[0] - self.margin, self.ends[1] + self.margin

    @property
    def centre(self) -> int:
        """The outcome that gets the coin values no weight uses."""
        return (self.ends[0] + self.ends[1]) // 2

    @cached_property
    def table(self) -> LaplaceTable:
        """The noise: every point between the ends reaches every outcome, so its reach is margin + width."""
        return laplace_table(self.epsilon, self.distance, self.margin + self.ends[1] - self.ends[0])

    def _round_down(self, inputs: Floats) -> tuple[Integers, exact.Words]:
        """The grid point below each input and the chance of the one above, in whole 2^-32."""
        # Both are whole multiples of one power of two and their difference is small: nothing is rounded.
        scaled = exact.clip(inputs, self.low, self.high) / self.unit - float(self.origin)
        below = np.minimum(np.floor(scaled), self.ends[1] - 1)
        chance = np.rint((scaled - below) * float(exact.PLACES))
        return below.astype(np.int64), chance.astype(np.uint64)

    def sample(self, inputs: Floats, coins: Coins) -> Columns:
        """Round at random, add noise, set to the ends what lies beyond them."""
        coin = exact.words(coins, 2)
        below, chance = self._round_down(inputs)
        point = below + ((coin[:, 0] >> np.uint64(32)) < chance)
        place = np.searchsorted(self.table.cumulative, coin[:, 1], side="right").astype(np.int64)
        outcome = np.clip(point + place - len(self.table.weights), *self.outcomes)
        # Coin values that no noise uses mean one outcome for every input.
        outcome = np.where(place < len(self.table.cumulative), outcome, self.centre)
        # `origin` makes every outcome fit.
        return {"step": outcome.astype(STEP_TYPE)}

    def probabilities(self, steps: Integers, points: Integers) -> Floats:
        """P(step | grid point), each correctly rounded, for arrays that broadcast against each other."""
        distance = np.abs(steps - points)
        inside, beyond = self.table.pmf
        pmf = np.asarray(inside[distance])
        ends = np.broadcast_to(np.isin(steps, self.outcomes), pmf.shape)
        pmf[ends] = beyond[distance[ends]]
        return np.asarray(pmf + np.where(steps == self.centre, self.table.leftover / 2.0**64, 0.0))

    def _mixture(self, steps: Integers, below: Integers, chance: exact.Words) -> Floats:
        """P(step | input) for the two grid points an input may be rounded to."""
        up = chance.astype(np.float64) / exact.PLACES
        return np.asarray((1.0 - up) * self.probabilities(steps, below) + up * self.probabilities(steps, below + 1))

    def log_likelihood(self, reply: Columns, inputs: Floats) -> Floats:
        return np.log(self._mixture(reply["step"].astype(np.int64)[:, None], *self._round_down(inputs)))

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet("step", *self.outcomes)

    def decode(self, reply: Columns) -> Floats:
        return self.offset + reply["step"].astype(np.float64) * self.unit

    @property
    def reach(self) -> tuple[int, int]:
        return self.outcomes

    def total(self, reply: Columns) -> Integers:
        """Sum of the steps; `offset` is to be added once a reply."""
        return np.array(reply["step"].astype(np.int64).sum(), dtype=np.int64)

    def variance_at(self, x: float) -> float:
        """Exact variance of the decoded value for the input x."""
        below, chance = self._round_down(np.array([x]))
        steps = np.arange(self.outcomes[0], self.outcomes[1] + 1)
        pmf = self._mixture(steps, below, chance)
        shift = (steps - below[0]).astype(np.float64)
        return float(pmf @ (shift - float(pmf @ shift)) ** 2) * self.unit**2

    @cached_property
    def variance(self) -> float:
        """The largest variance: of an input halfway between the two grid points in the middle of the range."""
        return self.variance_at(self.offset + (self.centre + 0.5) * self.unit)
