"""Privacy amplification by shuffling, as a number: (eps, delta) of n anonymous replies of an eps_0-LDP randomizer.

Two data sets that differ in one user's input (x or x'). Let every randomizer reply with at least the "blanket", a
measure b on the replies that does not depend on the input: with b(y) <= R(z)(y) for all z, each of the other users
replies from the blanket or from something of its own, which we hand to the adversary. What is left is a bag of blanket
replies with the one reply of R(x) or R(x') among them, and its likelihood ratio is a ratio of sums. Hence
(Balle, Bell, Gascon, Nissim 2019, Lemma 5.3, written without normalisation)

    delta(eps) <= E[(X_1 + ... + X_n)_+] / n,     X_i = (R(x)(Y) - e^eps R(x')(Y)) / b(Y)

where Y is drawn from the blanket, and X_i = 0 with the probability that the blanket leaves over. For the randomizers
here X has three values besides 0, which are the parameters of the variation-ratio analysis (Wang et al. 2023): with
p = e^eps_0 the largest likelihood ratio and alpha (p - 1) the total variation of R(x) and R(x'),

    R(x)/b = p, R(x')/b = 1  with probability alpha (replies that speak for x),
    R(x)/b = 1, R(x')/b = p  with probability alpha (replies that speak for x'),
    R(x)/b = R(x')/b = 1     with the rest of the blanket.

The worst pair of inputs is the one with the largest alpha: a larger one moves probability from the middle values of X
to the outer ones and keeps the mean, so X grows in convex order, and with it E[(...)_+].

Every number is rounded so that delta is never too small: sums are cut into blocks that are bounded from above, tails
are added, and `ROUNDING` is more than what double precision can lose.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Floats, Integers
from parley.emulator.roles.mixing import Mixing
from parley.protocols.randomizers.exact import LEAST_EPSILON, WHOLE, TwoLevel

# Tails beyond so many deviations have a probability below 2^-56; they are added, not dropped.
DEVIATIONS = 9.0
BLOCKS = 24
# betainc is good to about 1e-13, and differences of it here lose up to five digits.
ROUNDING = 1e-6
LARGEST_LOCAL = 16.0
# The work grows with n and every user does it, so more replies than this count for no more. That is safe: the mean of n
# exchangeable X is a reverse martingale and (.)_+ is convex, so delta never rises with n.
MOST_COUNTED = 10**7
LARGEST_DELTA = 1e-2
PROTECTS = "the analyst and everyone who sees the transcript, if the shuffler keeps to itself who sent what"


@dataclass(frozen=True, kw_only=True)
class Blanket:
    """The law of X: `edge` = alpha for each of the two outer values, `flat` for the middle one.

    `weight` multiplies the outer values (1, unless the blanket is thinner than the replies) and `level` the middle one.
    """

    ratio: float
    edge: float
    flat: float
    weight: float = 1.0
    level: float = 1.0

    def __post_init__(self) -> None:
        if not (self.ratio >= 1 and self.edge > 0 and self.flat >= 0 and 2 * self.edge + self.flat <= 1 + 1e-12):
            raise BadInput(f"no blanket has a ratio {self.ratio}, an edge {self.edge} and a flat part {self.flat}")


def of_choice(choice: TwoLevel) -> Blanket:
    """The exact blanket of a choice among M outcomes (codebooks, the hemisphere): integers over 2^64.

    Every outcome has at least `low`. At worst the favoured outcomes of x and x' are disjoint: t speak for each.
    """
    if 2 * choice.top > choice.outcomes:
        raise BadInput(f"{choice.top} favoured of {choice.outcomes} outcomes: at most half of them may be")
    low = choice.low / WHOLE
    return Blanket(ratio=choice.high / choice.low, edge=choice.top * low, flat=(choice.outcomes - 2 * choice.top) * low)


@lru_cache(maxsize=4096)
def delta_bound(blanket: Blanket, users: int, epsilon: float) -> float:
    """A delta for which `users` shuffled replies are (epsilon, delta)-DP; never smaller than the lemma's."""
    if users < 1 or not epsilon >= 0:
        raise BadInput(f"nothing can be said about {users} users and epsilon {epsilon}")
    users = min(users, MOST_COUNTED)
    growth = math.exp(epsilon)
    up, down = blanket.weight * (blanket.ratio - growth), blanket.weight * (blanket.ratio * growth - 1)
    if up <= 0:
        return 0.0
    fall = blanket.level * (growth - 1)
    total = 0.0
    for chance, flats in _flat_blocks(users, blanket.flat):
        rest = users - flats
        share = min(1.0, 2 * blanket.edge / max(1 - blanket.flat, 2 * blanket.edge))
        total += chance * _expectation(rest, share, up, down, fall * flats)
    return min(1.0, total / users * (1 + ROUNDING) + 1e-300)


def _flat_blocks(users: int, flat: float) -> list[tuple[float, int]]:
    """How many replies have the middle value, in blocks: (probability, the least number in the block).

    Given their number the others are random with a mean no lower than the middle value, so more of them only lower
    the expectation of the positive part: the least number bounds its block.
    """
    if flat == 0:
        return [(1.0, 0)]
    edges = np.unique(np.linspace(*_range(users, flat), BLOCKS + 1).astype(np.int64))
    below = np.concatenate([[0.0], scipy.special.bdtr(np.maximum(edges - 1, 0), users, flat) * (edges > 0), [1.0]])
    starts = np.concatenate([[0], edges])
    chances = np.maximum(np.diff(below), 0.0)
    return [(float(chance), int(start)) for chance, start in zip(chances, starts, strict=True) if chance > 0]


def _range(users: int, share: float) -> tuple[int, int]:
    """The numbers of successes that matter."""
    mean, spread = users * share, math.sqrt(users * share * (1 - share)) + 1
    # Far below the mean a Poisson tail is wider than a normal one.
    reach = DEVIATIONS * spread + DEVIATIONS**2 / 2
    return max(0, math.floor(mean - reach)), min(users, math.ceil(mean + reach))


def _expectation(users: int, share: float, up: float, down: float, offset: float) -> float:
    """E[(up a - down b - offset)_+], a + b of `users` being of the outer kinds, a and b alike."""
    from scipy.stats import binom

    low, high = _range(users, share)
    numbers = np.arange(low, high + 1)
    # E[((up + down) a - down m - offset)_+] for a binomial with m tosses of a fair coin.
    threshold = down * numbers + offset
    least = np.floor(threshold / (up + down)).astype(np.int64) + 1
    weighted = numbers / 2 * _at_least(least - 1, numbers - 1)
    positive_part = np.maximum((up + down) * weighted - threshold * _at_least(least, numbers), 0.0)
    inside = float(np.asarray(binom.pmf(numbers, users, share), dtype=np.float64) @ positive_part)
    # Outside of the range the positive part is at most up times the number of tosses.
    below = float(scipy.special.bdtr(low - 1, users, share)) * low if low > 0 else 0.0
    above = float(scipy.special.betainc(high + 1.0, users - high, share)) * users if high < users else 0.0
    return inside + up * (below + above)


def _at_least(least: Integers, numbers: Integers) -> Floats:
    """P[a >= least] for a binomial with so many tosses of a fair coin."""
    inside = (least >= 1) & (least <= numbers)
    tail = np.where(least < 1, 1.0, 0.0)
    tail[inside] = scipy.special.betainc(least[inside].astype(float), (numbers - least + 1)[inside].astype(float), 0.5)
    return tail


def largest_local_epsilon(candidates: int, top: int, users: int, epsilon: float, delta: float) -> float:
    """The largest eps_0, rounded down, for which a shuffled choice of `top` among `candidates` is (epsilon, delta)-DP.

    epsilon itself always will do: what is private alone stays private in a crowd.
    """
    check_delta(delta)

    def good(local: float) -> bool:
        choice = TwoLevel(outcomes=candidates, top=top, epsilon=local)
        return local <= epsilon or delta_bound(of_choice(choice), users, epsilon) <= delta

    low, high = max(epsilon, LEAST_EPSILON), LARGEST_LOCAL
    if low >= high or good(high):
        return min(low, high) if low >= high else high
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if good(middle) else (low, middle)
    return low


def check_delta(delta: float) -> float:
    """A delta one can promise: so small that it is no licence to publish a user."""
    if not (math.isfinite(delta) and 0 < delta <= LARGEST_DELTA):
        raise BadInput(f"delta is {delta}; give a number above 0 and at most {LARGEST_DELTA:g}, e.g. --delta 1e-6")
    return delta


def check_mixing(mixing: Mixing, users: int, axes: Mapping[str, int]) -> None:
    """Replies are mixed along these axes, in a crowd that users can form: guarantees are computed for that many."""
    if dict(mixing.axes) != dict(axes):
        raise BadInput(f"this protocol's replies are to be mixed along {dict(axes)}, not {mixing.axes!r:.80}")
    if not 2 <= mixing.crowd <= users:
        raise BadInput(
            f"a crowd of {mixing.crowd} cannot be demanded of {users} users; give a number from 2 to {users}"
        )
