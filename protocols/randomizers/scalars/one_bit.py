"""The one-bit randomizer of a bounded scalar (Duchi, Jordan, Wainwright 2018; mathematics.md, "Scalars")."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from parley.emulator.randomizer import Alphabet, Coins, Columns, Floats, Integers, Shape
from parley.protocols.randomizers import exact

HALF_WORD = np.uint64(32)


@dataclass(frozen=True, kw_only=True)
class OneBit(exact.Choice):
    """Send 1 with a probability that rises linearly from 1/(e^eps+1) at `low` to e^eps/(e^eps+1) at `high`.

    Formal guarantee: a coin u gives 1 when u < T(x), an integer with least <= T(x) <= 2^64 - least and
    (2^64 - least) <= e^eps * least exactly, so either bit's probabilities under two inputs differ by at most
    e^eps. Values outside the range are clipped to it first, so the guarantee holds for any input but NaN,
    which is refused.

    Attacks. A float decides only which integer T(x) is, never how far two of them are apart.
    """

    low: float
    high: float
    epsilon: float
    coins = exact.WORD_BYTES
    reply: ClassVar[Shape] = {"bit": (np.dtype(np.uint8), ())}
    alphabet = Alphabet(column="bit", first=0, last=1)
    reach = (-1, 1)

    def __post_init__(self) -> None:
        exact.check_epsilon(self.epsilon)
        exact.check_interval(self.low, self.high)

    @cached_property
    def least(self) -> int:
        """The smallest threshold: ceil(2^64 / (1 + e^eps)), with e^eps rounded down."""
        return -int(-exact.WHOLE // (1 + exact.exponential_lower(exact.guarded(self.epsilon))))

    @property
    def span(self) -> int:
        """How far thresholds reach: 2^64 - 2 least."""
        return exact.WHOLE - 2 * self.least

    def thresholds(self, inputs: Floats) -> exact.Words:
        """T(x) = least + floor(q * span / 2^32), q the input's place in the range in whole 2^-32, from 0 to 2^32."""
        share = (exact.clip(inputs, self.low, self.high) - self.low) / (self.high - self.low)
        place = np.rint(np.clip(share, 0.0, 1.0) * float(exact.PLACES)).astype(np.uint64)
        high, low = np.uint64(self.span >> 32), np.uint64(self.span & 0xFFFFFFFF)
        return np.uint64(self.least) + place * high + ((place * low) >> HALF_WORD)

    def sample(self, inputs: Floats, coins: Coins) -> Columns:
        return {"bit": (exact.words(coins, 1)[:, 0] < self.thresholds(inputs)).astype(np.uint8)}

    def log_likelihood(self, reply: Columns, inputs: Floats) -> Floats:
        """log of T(x)/2^64 or of its complement."""
        ones = self.thresholds(inputs)
        table = np.log(np.stack([np.uint64(0) - ones, ones]).astype(np.float64) * 2.0**-64)
        return np.asarray(table[reply["bit"].astype(np.int64)])

    @property
    def offset(self) -> float:
        """The middle of the range: decode = offset + unit * (2 bit - 1)."""
        return self.low + 0.5 * (self.high - self.low)

    @property
    def unit(self) -> float:
        """Half the width times 2^64/span, which is (e^eps+1)/(e^eps-1)."""
        return 0.5 * (self.high - self.low) * (exact.WHOLE / self.span)

    def decode(self, reply: Columns) -> Floats:
        return self.offset + self.unit * (2.0 * reply["bit"].astype(np.float64) - 1.0)

    def total(self, reply: Columns) -> Integers:
        """Ones minus zeros; `offset` is to be added once a reply."""
        return np.array(2 * int(np.count_nonzero(reply["bit"])) - len(reply["bit"]), dtype=np.int64)

    @property
    def variance(self) -> float:
        """For the input x it is unit^2 - (x - offset)^2, largest in the middle of the range."""
        return self.unit**2
