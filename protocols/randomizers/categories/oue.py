"""Optimised unary encoding (Wang, Blocki, Li, Jha 2017): one noisy bit a category."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import MOST_OUTCOMES, Coins, Columns, Floats, Integers, Shape
from parley.protocols.randomizers.categories.oracle import FrequencyOracle, check_categories
from parley.protocols.randomizers.exact import check_count, check_epsilon, exponential_lower, guarded

COIN_BYTES = 4
COIN = 1 << 32
LARGEST_EPSILON = 16.0
MOST_CATEGORIES = 1 << 16


@dataclass(frozen=True, kw_only=True)
class OptimisedUnaryEncoding(FrequencyOracle):
    """The bit of the input is a fair coin; every other bit is 1 with probability 1/(e^eps + 1).

    Formal guarantee: replies under inputs v and w differ in the law of bits v and w only, and the fair coin
    contributes 1, so the ratio is at most (1-q)/q = (2^32 - T)/T <= e^eps exactly, T = 2^32 q an integer.
    """

    categories: int
    epsilon: float
    own = 0.5

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon, LARGEST_EPSILON, where=" of unary encoding")
        check_count("categories", self.categories, 2, MOST_CATEGORIES)

    @cached_property
    def threshold(self) -> int:
        """T: ceil(2^32 / (1 + e^eps)), with e^eps rounded down."""
        return -int(-COIN // (1 + exponential_lower(guarded(self.epsilon))))

    @property
    def other(self) -> float:
        return self.threshold / COIN

    @property
    def own_and_other(self) -> float:
        """Bits are independent."""
        return self.own * self.other

    @property
    def two_others(self) -> float:
        return self.other**2

    @property
    def coins(self) -> int:
        return COIN_BYTES * self.categories

    @property
    def reply(self) -> Shape:
        """The bits, eight to a byte, the first category in the lowest bit."""
        return {"bits": (np.dtype(np.uint8), (-(-self.categories // 8),))}

    def sample(self, inputs: Floats, coins: Coins) -> Columns:
        """Compare every category's coin with T, and the input's own with one half."""
        truth = check_categories(inputs, self.categories)
        if coins.dtype != np.uint8 or coins.shape != (len(truth), self.coins):
            raise BadInput(f"coins are {coins.dtype} {coins.shape}; give uint8 with {self.coins} bytes per user")
        coin = np.ascontiguousarray(coins).view("<u4").astype(np.uint32, copy=False)
        bits = np.less(coin, np.uint32(self.threshold))
        rows = np.arange(len(truth))
        bits[rows, truth] = coin[rows, truth] < np.uint32(COIN // 2)
        return {"bits": np.packbits(bits, axis=1, bitorder="little")}

    def check(self, reply: Columns) -> NDArray[np.bool_]:
        """Bits past the last category are 0."""
        bits = np.unpackbits(reply["bits"].astype(np.uint8), axis=1, bitorder="little")
        return np.logical_not(bits[:, self.categories :].any(axis=1))

    def log_likelihood(self, reply: Columns, inputs: Floats) -> Floats:
        """The input's own bit against the law of other bits; left out is every bit's under that law."""
        table = np.array([math.log(0.5 / (1.0 - self.other)), math.log(0.5 / self.other)])
        return np.asarray(table[self.support(reply)[:, check_categories(inputs, self.categories)]])

    def every_reply(self) -> Columns | None:
        """Every pattern of bits, where categories are few."""
        if 1 << self.categories > MOST_OUTCOMES:
            return None
        patterns = np.arange(1 << self.categories, dtype="<u2")
        return {"bits": patterns.view(np.uint8).reshape(-1, 2)[:, : -(-self.categories // 8)].copy()}

    def support(self, reply: Columns) -> Integers:
        bits = np.unpackbits(reply["bits"].astype(np.uint8), axis=1, bitorder="little", count=self.categories)
        return bits.astype(np.int64)
