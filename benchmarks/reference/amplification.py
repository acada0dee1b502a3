"""Amplification of randomizers that Parley does not speak, and older bounds, for comparison with `amplification.py`."""

import math

from parley.emulator.errors import BadInput
from parley.protocols.shuffle.amplification import Blanket, check_delta, delta_bound

STEPS = 40


def of_cap(epsilon: float, share: float) -> Blanket:
    """A density with two levels, the higher one on this share of the sphere (PrivUnit)."""
    if not 0 < share <= 0.5:
        raise BadInput(f"a cap with a share of {share} of the sphere cannot be used; give a number in (0, 1/2]")
    low = 1 / (share * math.exp(epsilon) + 1 - share)
    return Blanket(ratio=math.exp(epsilon), edge=share * low, flat=(1 - 2 * share) * low)


def of_ratio(epsilon: float, variation: float) -> Blanket:
    """Any eps_0-LDP randomizer whose replies to two inputs have at most this total variation."""
    most = math.tanh(epsilon / 2)
    if not 0 < variation <= most * (1 + 1e-12):
        raise BadInput(f"a total variation of {variation} is not in (0, {most}], as epsilon {epsilon} demands")
    ratio = math.exp(epsilon)
    edge = variation / (ratio - 1)
    return Blanket(ratio=ratio, edge=edge, flat=max(0.0, 1 - (ratio + 1) * edge) / ratio, level=ratio)


def of_clones(epsilon: float) -> Blanket:
    """Any eps_0-LDP randomizer, by clones (Feldman, McMillan, Talwar 2021, Theorem 3.2): for comparison."""
    ratio = math.exp(epsilon)
    return Blanket(ratio=ratio, edge=0.5 / ratio, flat=0.0, weight=2 * ratio / (ratio + 1))


def clones_closed_form(epsilon: float, users: int, delta: float) -> float:
    """The central epsilon of Feldman, McMillan, Talwar 2021, Theorem 3.1, refused where it does not apply."""
    limit = math.log(users / (16 * math.log(2 / delta))) if users > 16 * math.log(2 / delta) else -math.inf
    if epsilon > limit:
        raise BadInput(
            f"eps_0 <= log(n / (16 log(2/delta))) fails: {epsilon:g} > {limit:.4g} for n = {users}, delta = {delta:g}; "
            "take more users or a smaller local epsilon"
        )
    growth = math.exp(epsilon)
    spread = 8 * math.sqrt(growth * math.log(4 / delta) / users) + 8 * growth / users
    return math.log1p(math.tanh(epsilon / 2) * spread)


def epsilon_bound(blanket: Blanket, users: int, delta: float) -> float:
    """The least epsilon, rounded up, for which shuffled replies are (epsilon, delta)-DP."""
    check_delta(delta)
    low, high = 0.0, math.log(blanket.ratio)
    for _ in range(STEPS):
        middle = (low + high) / 2
        if delta_bound(blanket, users, middle) <= delta:
            high = middle
        else:
            low = middle
        if high - low <= 1e-4 * high:
            break
    return high
