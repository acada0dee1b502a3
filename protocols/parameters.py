"""Reading what a Setup says of a protocol, strictly: a user's node believes none of it."""

import math
from collections.abc import Mapping
from typing import Any

from parley.emulator.errors import BadInput

LARGEST_EPSILON = 64.0
MOST_USERS = 10**10


def mapping(parameters: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A parameter that is itself a map."""
    value = parameters.get(name)
    if value is None:
        raise BadInput(f"protocol parameters: {name} is missing")
    if not isinstance(value, Mapping):
        raise BadInput(f"protocol parameter {name} is not a map")
    return value


def check_epsilon(epsilon: float) -> float:
    """An epsilon one can promise."""
    if not math.isfinite(epsilon) or not 0 < epsilon <= LARGEST_EPSILON:
        raise BadInput(f"epsilon is {epsilon}; give a number above 0 and at most {LARGEST_EPSILON:g}, e.g. --epsilon 1")
    return epsilon


def check_users(users: int) -> int:
    """A number of users that a pairwise statistic can have."""
    if not 2 <= users <= MOST_USERS:
        raise BadInput(f"{users} users are too few for pairs or too many; give a number from 2 to {MOST_USERS}")
    return users
