"""Public coins: a user's round, fold and seed are a public function of its number and of a public salt.

Nothing of it depends on an input. Data handed out in any order, sorted for instance, give every group a random sample
of the users. Whoever runs a protocol draws the salt; users have their numbers before they hear it, so nobody can search
for a number whose seed serves a lie.
"""

from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from parley.emulator.coins import public_words
from parley.emulator.protocol import Protocol
from parley.emulator.randomizer import Integers
from parley.emulator.wire.messages import Users

LARGEST_SALT = (1 << 63) - 1
HALF = np.uint64(32)
LOW = np.uint64((1 << 32) - 1)
# Numbers of users whose groups are kept together, in 8 KiB; how many such pages are kept; and where they are worth it.
PAGE = 1 << 16
MOST_PAGES = 1 << 14
NEAR_PAGES = 1 << 3
WORTH_PAGES = 1 << 12


def groups_of(users: Users, salt: int, share: float) -> Integers:
    """0 for this share of the users, 1 for the others: the upper half of a user's word decides."""
    border = round(share * 2**32)
    if len(users) >= WORTH_PAGES:
        low, high = int(users.min()) // PAGE, int(users.max()) // PAGE
        if high - low < NEAR_PAGES:
            pages = np.concatenate([_page_of_groups(number, salt, border) for number in range(low, high + 1)])
            return np.unpackbits(pages).take(users - low * PAGE).astype(np.int64)
    return _drawn(users, salt, border).astype(np.int64)


def _drawn(users: Users, salt: int, border: int) -> NDArray[np.bool_]:
    return np.asarray(public_words(_bytes(salt), users) >= np.uint64(border) << HALF)


@lru_cache(maxsize=MOST_PAGES)
def _page_of_groups(number: int, salt: int, border: int) -> NDArray[np.uint8]:
    """The groups of a page of users, a bit each: a run and its report ask for them again and again."""
    return np.packbits(_drawn(np.arange(number * PAGE, (number + 1) * PAGE), salt, border))


def places_of(users: Users, salt: int, places: int) -> Integers:
    """One of so many places for each user, all alike: the lower half of its word, scaled down."""
    return (((public_words(_bytes(salt), users) & LOW) * np.uint64(places)) >> HALF).astype(np.int64)


def salted(protocol: Protocol, salt: int) -> Protocol:
    """The same protocol with other public coins, if it has any: whoever runs it draws a public salt."""
    if hasattr(protocol, "salted"):
        salted_protocol: Protocol = protocol.salted(salt)
        return salted_protocol
    if not hasattr(protocol, "salt") or getattr(protocol, "sends_place", False):
        return protocol
    return replace(protocol, salt=salt)  # type: ignore[type-var]


def _bytes(salt: int) -> bytes:
    return salt.to_bytes(8, "little")
