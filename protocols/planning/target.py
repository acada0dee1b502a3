"""How many users, or which epsilon, an error needs: predictions turned around, from public numbers alone."""

import math
from collections.abc import Callable

from parley.emulator.errors import BadInput

MOST_USERS = 10**10
LEAST_EPSILON, MOST_EPSILON = 1e-3, 16.0
# A prediction is not more exact than this, and two digits of users or epsilon say as much.
CLOSE = 1.01
STEPS = 30


def check_target(target: float) -> None:
    if not (math.isfinite(target) and target > 0):
        raise BadInput(f"--target {target:g} cannot be reached; give a positive error (RMSE), such as 0.02")


def needed_users(rmse: Callable[[int], float], target: float, start: int = 10_000) -> int | None:
    """The least number of users, in two digits, whose predicted error is at most the target; None where none is.

    The error falls like 1/sqrt(n) almost everywhere, so that each step goes nearly all the way.
    """
    check_target(target)
    users = max(2, start)
    for _ in range(STEPS):
        wanted = max(2, math.ceil(users * (rmse(users) / target) ** 2))
        if wanted > MOST_USERS:
            return None
        if max(wanted, users) <= CLOSE * min(wanted, users):
            break
        users = wanted
    users = rounded_up(max(users, wanted))
    while rmse(users) > target:
        users = rounded_up(users * 1.02)
        if users > MOST_USERS:
            return None
    return users


def needed_epsilon(rmse: Callable[[float], float], target: float) -> float | None:
    """The least epsilon, in two digits, whose predicted error is at most the target; None where none is."""
    check_target(target)
    low, high = LEAST_EPSILON, MOST_EPSILON
    if rmse(high) > target:
        return None
    while high > CLOSE * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if rmse(middle) > target else (low, middle)
    unit = 10.0 ** (math.floor(math.log10(high)) - 1)
    steps = math.ceil(high / unit)
    # The search stopped close above the least one, which may be a number of two digits itself.
    return round(unit * (steps - 1 if rmse(round(unit * (steps - 1), 6)) <= target else steps), 6)


def rounded_up(count: float) -> int:
    """Two digits are as exact as such a number is."""
    unit = int(10 ** max(0, math.floor(math.log10(max(1.0, count))) - 1))
    return math.ceil(count / unit) * unit
