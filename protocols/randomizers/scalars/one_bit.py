"""The one-bit randomizer of a bounded scalar (Duchi, Jordan, Wainwright 2018; mathematics.md, "Scalars")."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from parley.emulator.randomizer import Alphabet, Coins, Columns, Floats, Integers, Randomizer, Shape
from parley.protocols.randomizers.exact import (
    WHOLE,
    WORD_BYTES,
    Words,
    check_epsilon,
    check_interval,
    exponential_lower,
    fractions,
    guarded,
    words,
)

HALF_WORD = np.uint64(32)


@dataclass(frozen=True, kw_only=True)
class OneBit(Randomizer):
    """Send 1 with a probability that rises linearly from 1/(e^eps+1) at `low` to e^eps/(e^eps+1) at `high`.

    Formal guarantee: a coin u gives 1 when u < T(x), an integer with least <= T(x) <= 2^64 - least and
    (2^64 - least) <= e^eps * least exactly, so either bit's probabilities under two inputs differ by at most
    e^eps. Values outside the range are clipped to it first, so the guarantee holds for any input but NaN,
    which is refused.

    Attacks. The reply is one bit, with no low-order digits for Mironov's or another precision-based attack to
    read; a float decides only which integer T(x) is, never how far two of them are apart. Every input takes
    the same arithmetic, with no loop or branch on it; timing below that level is not defended against.
    """

    low: float
    high: float
    epsilon: float

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_interval(self.low, self.high)

    @cached_property
    def least(self) -> int:
        """The smallest threshold: ceil(2^64 / (1 + e^eps)), with e^eps rounded down."""
        return -int(-WHOLE // (1 + exponential_lower(guarded(self.epsilon))))

    @property
    def span(self) -> int:
        """How far thresholds reach: 2^64 - 2 least."""
        return WHOLE - 2 * self.least

    def thresholds(self, inputs: Floats) -> Words:
        """T(x) = least + floor(q * span / 2^32), q the input's place in the range in whole 2^-32."""
        place = fractions(inputs, self.low, self.high)
        high, low = np.uint64(self.span >> 32), np.uint64(self.span & 0xFFFFFFFF)
        return np.uint64(self.least) + place * high + ((place * low) >> HALF_WORD)

    @property
    def coins(self) -> int:
        """One word."""
        return WORD_BYTES

    @property
    def reply(self) -> Shape:
        """0 or 1."""
        return {"bit": (np.dtype(np.uint8), ())}

    def sample(self, inputs: Floats, coins: Coins) -> Columns:
        """1 when the coin is below the input's threshold."""
        return {"bit": (words(coins, 1)[:, 0] < self.thresholds(inputs)).astype(np.uint8)}

    def check(self, reply: Columns) -> NDArray[np.bool_]:
        """0 or 1."""
        accepted: NDArray[np.bool_] = reply["bit"].astype(np.int64) <= 1
        return accepted

    def log_likelihood(self, reply: Columns, inputs: Floats) -> Floats:
        """log of T(x)/2^64 or of its complement."""
        ones = self.thresholds(inputs)
        zeros = np.uint64(0) - ones
        table: Floats = np.log(np.stack([zeros, ones]).astype(np.float64) * 2.0**-64)
        return table[reply["bit"].astype(np.int64)]

    @property
    def alphabet(self) -> Alphabet:
        """The bit."""
        return Alphabet(column="bit", first=0, last=1)

    def every_reply(self) -> Columns:
        """Both bits."""
        return {"bit": np.arange(2, dtype=np.uint8)}

    @property
    def offset(self) -> float:
        """The middle of the range: decode = offset + unit * (2 bit - 1)."""
        return self.low + 0.5 * (self.high - self.low)

    @property
    def unit(self) -> float:
        """Half the width times 2^64/span, which is (e^eps+1)/(e^eps-1)."""
        return 0.5 * (self.high - self.low) * (WHOLE / self.span)

    def decode(self, reply: Columns) -> Floats:
        """offset + unit or offset - unit."""
        return self.offset + self.unit * (2.0 * reply["bit"].astype(np.float64) - 1.0)

    def total(self, reply: Columns) -> Integers:
        """Ones minus zeros; `offset` is to be added once a reply."""
        ones = int(np.count_nonzero(reply["bit"]))
        return np.array(2 * ones - len(reply["bit"]), dtype=np.int64)

    def variance_at(self, x: float) -> float:
        """Var of the decoded value for the input x: unit^2 - (x - offset)^2."""
        return self.unit**2 - (min(max(x, self.low), self.high) - self.offset) ** 2

    @property
    def variance(self) -> float:
        """The largest variance over all inputs: that of the middle of the range."""
        return self.unit**2
