"""Public coins: a user's round, fold and seed are a public function of its number and of a public salt.

Nothing of it depends on an input. Data handed out in any order, sorted for instance, give every group a random sample
of the users. Whoever runs a protocol draws the salt; users have their numbers before they hear it, so nobody can search
for a number whose seed serves a lie.
"""

from dataclasses import replace

import numpy as np

from parley.emulator.coins import public_words
from parley.emulator.protocol import Protocol
from parley.emulator.randomizer import Integers
from parley.emulator.wire.messages import Users

LARGEST_SALT = (1 << 63) - 1
HALF = np.uint64(32)
LOW = np.uint64((1 << 32) - 1)


def groups_of(users: Users, salt: int, share: float) -> Integers:
    """0 for this share of the users, 1 for the others: the upper half of a user's word decides."""
    border = np.uint64(round(share * 2**32))
    return np.asarray((public_words(_bytes(salt), users) >> HALF) >= border, dtype=np.int64)


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
