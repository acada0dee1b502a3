"""What protocols of the shuffle model share: what users trust, how replies are mixed, how few of them may be posted."""

from collections.abc import Mapping
from typing import Any

from parley.emulator.errors import BadInput
from parley.protocols.parameters import MOST_USERS, count, mapping, only

DEFAULT_DELTA = 1e-6
PROTECTS = "the analyst and everyone who sees the transcript, if the shuffler keeps to itself who sent what"


def read_crowd(parameters: Mapping[str, Any], users: int, axes: Mapping[str, int]) -> int:
    """The crowd of a setup that mixes exactly as this protocol must be mixed."""
    rule = mapping(parameters, "shuffle")
    only(rule, "crowd", "axes")
    if dict(mapping(rule, "axes")) != dict(axes):
        raise BadInput(f"this protocol's replies are to be mixed along {dict(axes)}, not {rule['axes']!r:.80}")
    return count(rule, "crowd", 2, min(users, MOST_USERS))


def check_crowd(crowd: int, users: int) -> int:
    """A number of users that can be demanded of a batch: amplification and noise are computed for so many."""
    if not 2 <= crowd <= users:
        raise BadInput(f"a crowd of {crowd} cannot be demanded of {users} users; give a number from 2 to {users}")
    return crowd
