"""Who speaks in which round when users are split (mathematics.md, "Split users, not budget").

The group of a user is a public pseudorandom function of its number and a public salt, so that data handed out in
any order, sorted for instance, still give every group a random sample of the users.
"""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Integers
from parley.emulator.wire.messages import Users

WORD = 1 << 64
LARGEST_SALT = (1 << 63) - 1
_GOLDEN = 0x9E3779B97F4A7C15
# As shares of a budget they may add up to more than one by less than randomizers stop short of their epsilon.
ROUNDING = Fraction(1, 1 << 51)


def scramble(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014), a bijection of 64-bit words."""
    mixed = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def words(users: Users, salt: int) -> NDArray[np.uint64]:
    """A word for each user: two scrambles with the salt between them."""
    key = scramble(np.array([(salt + 1) * _GOLDEN % WORD], dtype=np.uint64))
    return scramble(scramble(users.astype(np.uint64) * np.uint64(_GOLDEN)) ^ key)


def groups_of(users: Users, salt: int, shares: tuple[float, ...]) -> Integers:
    """The group of each user: groups are disjoint intervals of words, as wide as their shares."""
    ends = [int(sum(shares[:index]) * WORD) for index in range(1, len(shares))]
    return np.searchsorted(np.array(ends, dtype=np.uint64), words(users, salt), side="right").astype(np.int64)


def check_shares(shares: tuple[float, ...], groups: int) -> tuple[float, ...]:
    """Positive shares of one whole."""
    usable = len(shares) == groups and all(1e-6 <= share <= 1 for share in shares)
    if not usable or abs(sum(map(Fraction, shares), start=Fraction(-1))) > ROUNDING:
        raise BadInput(f"shares are {shares!s:.80}; give {groups} positive numbers that add up to 1")
    return shares
