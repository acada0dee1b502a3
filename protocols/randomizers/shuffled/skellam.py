"""Skellam noise: the difference of two Poisson variables, drawn from a table of exact integer weights.

Sums of independent Skellam variables are Skellam, so n users with variance v each make the noise of one curator with
variance n v, exactly and whatever v is: the property that makes noise distributable. (The discrete Laplace law is a sum
of Polya differences as well, but its deviation grows with the l1 norm of a vector, sqrt(d) times the l2 norm.)

P[k] = e^-v I_k(v). The table holds 2^128 P[k], rounded down, computed with integers only; the rest goes to 0.
"""

import math
from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate

import numpy as np

from parley.emulator.errors import BadInput, LocalProtocolError
from parley.emulator.randomizer import Floats, Integers
from parley.protocols.randomizers.exact import Words

BITS = 128
WHOLE = 1 << BITS
PRECISION = 384
LEAST_VARIANCE = 2.0**-40
# A table of 14 deviations on either side takes half a second to build.
MOST_VARIANCE = 2.0**30
MOST_ORDER = 512


@dataclass(frozen=True)
class Skellam:
    """Noise of this variance, one 128-bit coin a draw.

    Formal guarantee: the law drawn from differs from Skellam's by at most `slack` in total variation.
    """

    variance: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.variance) and LEAST_VARIANCE <= self.variance <= MOST_VARIANCE):
            raise BadInput(
                f"a noise variance of {self.variance} per user cannot be drawn; "
                f"it must lie in [{LEAST_VARIANCE:.3g}, {MOST_VARIANCE:.3g}]"
            )

    @cached_property
    def _half(self) -> list[int]:
        """Weights of 0, 1, 2, ...: 2^128 P[k] rounded down, as far as they are not 0."""
        values = _bessel(Fraction(self.variance))
        total = values[0] + 2 * sum(values[1:])
        weights = [(value << BITS) // total for value in values]
        while weights[-1] == 0:
            weights.pop()
        if len(weights) > self.most_reach:
            raise LocalProtocolError(f"Skellam noise of variance {self.variance} reaches {len(weights)} steps")
        weights[0] += WHOLE - weights[0] - 2 * sum(weights[1:])
        return weights

    @property
    def reach(self) -> int:
        return len(self._half) - 1

    @property
    def most_reach(self) -> int:
        """A bound on `reach` that needs no table: 14 deviations, and what the Poisson tail of a small variance adds."""
        return int(14 * math.sqrt(self.variance)) + 200

    @property
    def slack(self) -> float:
        """Total variation to the exact law: rounding down loses less than 1 a number, and what is cut off even less."""
        # Beyond the reach all weights are below 1 and fall faster than geometrically, e-fold in a deviation or a step.
        cut = 2 * (math.sqrt(self.variance) + 2)
        return (2 * self.most_reach + 1 + cut) * 2.0**-BITS

    @cached_property
    def _bounds(self) -> list[int]:
        """Where the coins of -reach, ..., reach end."""
        return list(accumulate([*reversed(self._half[1:]), *self._half]))

    @cached_property
    def _high_words(self) -> Words:
        return np.array([min(bound, WHOLE - 1) >> 64 for bound in self._bounds], dtype=np.uint64)

    def draw(self, high: Words, low: Words) -> Integers:
        """The number each coin high * 2^64 + low picks."""
        place = np.searchsorted(self._high_words, high, side="right")
        # Where a coin's high word is that of a bound, the low word decides; that is rarer than any other trouble.
        close = np.flatnonzero(np.isin(high, self._high_words).reshape(-1))
        flat, tops, lows = place.reshape(-1), high.reshape(-1), low.reshape(-1)
        for each in close:
            flat[each] = bisect_right(self._bounds, (int(tops[each]) << 64) | int(lows[each]))
        return np.asarray(flat.reshape(high.shape).astype(np.int64) - self.reach)

    @cached_property
    def _logs(self) -> Floats:
        return np.array([*(math.log(weight) - BITS * math.log(2) for weight in self._half), -math.inf])

    def log_probability(self, numbers: Integers) -> Floats:
        """log P of each number; minus infinity beyond the reach."""
        return self._logs[np.minimum(np.abs(numbers), self.reach + 1)]


def _bessel(x: Fraction) -> list[int]:
    """I_k(x) for k = 0, 1, ..., up to one common factor: Miller's recurrence downwards, in fixed point.

    It starts so far out that its error has died away, by e^-200 and more, where the table begins.
    """
    values = [0, 1 << PRECISION]
    for order in range(int(20 * math.sqrt(float(x)) + 160), 0, -1):
        values.append(values[-2] + 2 * order * x.denominator * values[-1] // x.numerator)
    return values[:0:-1]


def renyi_bound(order: int, variance: float, square: float, absolute: float) -> float:
    """Renyi divergence of Skellam noise against itself moved by a vector of whole numbers.

    Agarwal, Kairouz, Liu 2021, Theorem 3.5, summed over coordinates: for a whole order a > 1, noise of this variance in
    each coordinate, `square` = |shift|_2^2 and `absolute` = |shift|_1,
    a square / (2 v) + min(((2a - 1) square + 6 absolute) / (4 v^2), 3 absolute / (2 v)).
    """
    extra = min(((2 * order - 1) * square + 6 * absolute) / (4 * variance**2), 3 * absolute / (2 * variance))
    return order * square / (2 * variance) + extra


def delta_of_noise(epsilon: float, variance: float, square: float, absolute: float) -> float:
    """delta for which sums with this noise are (epsilon, delta)-DP (Canonne, Kamath, Steinke 2020, Proposition 12)."""
    # Whole orders near the one that is best for a normal law.
    middle = min(max(int(epsilon * variance / max(square, 1e-300)) + 1, 2), MOST_ORDER)
    least = math.inf
    for order in range(max(2, middle // 2), min(2 * middle + 3, MOST_ORDER + 1)):
        gap = (order - 1) * (renyi_bound(order, variance, square, absolute) - epsilon)
        least = min(least, gap + order * math.log1p(-1 / order) - math.log(order - 1))
    return math.exp(min(0.0, least)) * (1 + 1e-9)


def least_variance(epsilon: float, delta: float, square: float, absolute: float) -> float:
    """The least variance of the sum's noise, rounded up, with which it is (epsilon, delta)-DP."""
    low, high = 0.0, max(square, 1.0) / epsilon**2
    while delta_of_noise(epsilon, high, square, absolute) > delta:
        low, high = high, 2 * high
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        good = delta_of_noise(epsilon, middle, square, absolute) <= delta
        low, high = (low, middle) if good else (middle, high)
    return high
