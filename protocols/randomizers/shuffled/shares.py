"""Split-and-mix: a whole number as m additive shares mod Q, so that mixed shares of many users show their sum alone.

Ishai, Kushilevitz, Ostrovsky, Sahai 2006; with few shares Balle, Bell, Gascon, Nissim 2020 and Ghazi, Manurangsi, Pagh,
Velingker 2020. A user draws m - 1 uniform numbers below Q and chooses the last so that all add up to its own number.
The shuffler mixes the n m shares of a coordinate. For any two inputs of the n users with the same sum, what is seen
then differs by at most 2^-sigma in total variation, if n >= 19 and

    m >= (2 sigma + log2 Q) / (log2 n - log2 e) + 2.

Q is a power of two, so sums mod 2^64 are sums mod Q and no order of addition matters.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Array, Coins, Columns, Floats, Integers, Randomizer, Shape
from parley.protocols.randomizers.exact import WORD_BYTES, check_count, words
from parley.protocols.randomizers.shuffled.skellam import Skellam

FEWEST_USERS = 19
MOST_BITS = 62
MOST_SHARES = 256


def _crowd_bits(users: int) -> float:
    if users < FEWEST_USERS:
        raise BadInput(f"n >= {FEWEST_USERS} fails: {users} users cannot hide each other's shares; take more users")
    return math.log2(users) - math.log2(math.e)


def shares_needed(security: float, bits: int, users: int) -> int:
    """m for sigma = security, Q = 2^bits and n honest users, rounded up."""
    return math.ceil((2 * security + bits) / _crowd_bits(users)) + 2


def security_of(shares: int, bits: int, users: int) -> float:
    """sigma: mixed shares differ by at most 2^-sigma; negative where they hide nothing."""
    return ((shares - 2) * _crowd_bits(users) - bits) / 2


@dataclass(frozen=True, kw_only=True)
class Shares(Randomizer):
    """Vectors of whole numbers with noise of their own, in shares: (n, d) numbers become (n, d, m) shares.

    Formal guarantee: none for one user alone beyond its own little noise, so epsilon is infinite. Mixed with the shares
    of n users the sum is all that shows, up to 2^-sigma for each coordinate, and its Skellam noise has n times the
    variance of `noise`.
    """

    dimension: int
    shares: int
    bits: int
    noise: Skellam
    epsilon: float = field(default=math.inf, init=False)
    unit = 1.0

    def __post_init__(self) -> None:
        check_count("dimension", self.dimension, 1, 1 << 16)
        check_count("shares", self.shares, 2, MOST_SHARES)
        check_count("bits", self.bits, 1, MOST_BITS)

    @property
    def variance(self) -> float:
        return self.noise.variance

    @property
    def dtype(self) -> "np.dtype[np.generic]":
        """The smallest type that holds numbers below Q."""
        return np.dtype(np.uint32 if self.bits <= 32 else np.uint64)

    @property
    def coins(self) -> int:
        """For each coordinate a word for each share but the last, and two for the noise."""
        return self.dimension * (self.shares + 1) * WORD_BYTES

    @property
    def reply(self) -> Shape:
        """One column, which has no name of its own."""
        return {"": (self.dtype, (self.dimension, self.shares))}

    def sample(self, inputs: Array, coins: Coins) -> Columns:
        """Shares of each number with its noise."""
        drawn = words(coins, self.dimension * (self.shares + 1)).reshape(len(inputs), self.dimension, self.shares + 1)
        noisy = inputs.astype(np.int64) + self.noise.draw(drawn[:, :, 0], drawn[:, :, 1])
        free = drawn[:, :, 2:]
        # Unsigned arithmetic is mod 2^64, of which Q is a divisor.
        last = noisy.astype(np.uint64) - free.sum(axis=2, dtype=np.uint64)
        whole = np.concatenate([free, last[:, :, None]], axis=2) & np.uint64(self._mask)
        return {"": whole.astype(self.dtype)}

    def check(self, reply: Columns) -> NDArray[np.bool_]:
        """Which rows hold nothing but numbers below Q."""
        inside = reply[""].astype(np.uint64) <= np.uint64(self._mask)
        return np.asarray(inside.all(axis=(1, 2)), dtype=np.bool_)

    def decode(self, reply: Columns) -> Floats:
        return self.centred(self._sums(reply)).astype(np.float64)

    def total(self, reply: Columns) -> Integers:
        """The sum of all shares of each coordinate mod 2^64; `centred` makes it the sum of the numbers."""
        return np.asarray(self._sums(reply).sum(axis=0))

    def centred(self, total: Integers) -> Integers:
        """The number in [-Q/2, Q/2) that a total stands for."""
        half = np.uint64(1 << (self.bits - 1))
        residue = (np.asarray(total, dtype=np.int64).view(np.uint64) + half) & np.uint64(self._mask)
        return residue.astype(np.int64) - np.int64(1 << (self.bits - 1))

    def log_likelihood(self, reply: Columns, inputs: Array) -> Floats:
        """log p(shares | numbers j), an n x k matrix: m - 1 shares are uniform, the sum is the number and its noise.

        This is for shares as one user sends them; once mixed, a row no longer belongs to anybody.
        """
        sums = self._sums(reply)
        logs = np.empty((len(sums), len(inputs)))
        for column, number in enumerate(inputs.astype(np.int64)):
            logs[:, column] = self.noise.log_probability(self.centred(sums - number)).sum(axis=1)
        logs -= self.dimension * (self.shares - 1) * self.bits * math.log(2)
        return logs

    def _sums(self, reply: Columns) -> Integers:
        return np.asarray(reply[""].astype(np.uint64).sum(axis=2, dtype=np.uint64)).view(np.int64)

    @property
    def _mask(self) -> int:
        return (1 << self.bits) - 1
