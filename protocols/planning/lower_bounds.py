"""What no protocol can promise to beat, with every constant, and the scale of the paper's bound for one round.

**A bound that is proven (Le Cam's two points).** Let h0 = (1 - d) e_a + d e_b and h1 = (1 - d) e_a + d e_c; draw all
inputs independently from one of them. The statistic has the means t0, t1, and its own sampling has the standard
deviations s0, s1.

1. *One user.* Let Q be eps-LDP, m(y) the least Q(y|x) over x, and D = Q(.|c) - Q(.|b). Then Q h1 - Q h0 = d D,
   |D| <= (e^eps - 1) m, and sum |D| <= 2 (e^eps - 1)/(e^eps + 1). Both Q h0 and Q h1 are at least m, so the sum of the
   squares of sqrt(Q h1) - sqrt(Q h0) is at most d^2 sum D^2/(4 m) <= d^2 (e^eps - 1)/4 sum |D| <= 2 c d^2 with
   c = (e^eps - 1)^2 / (4 (e^eps + 1)). So the affinity, sum sqrt(Q h0 Q h1), is at least 1 - c d^2.
2. *All users.* Step 1 holds for whichever channel the past chooses for a user, and the affinity of transcripts is the
   sum over pasts of sqrt(p q) times the next user's affinity. By induction it is at least B = (1 - c d^2)^n. This
   covers every protocol in which each user speaks once, in however many rounds.
3. *Two points.* For densities p, q and any estimate T, E0 (T - t0)^2 + E1 (T - t1)^2 >= (t1 - t0)^2 sum pq/(p + q), and
   by Cauchy and Schwarz sum pq/(p + q) >= (sum sqrt(pq))^2/2 >= B^2/2.
4. *The statistic of the users themselves.* If T errs by at most M (RMSE) on every data set, it is within M + s0 of t0
   and M + s1 of t1, so (M + s0)^2 + (M + s1)^2 >= (t1 - t0)^2 B^2/2, which is solved for M.

Every d gives a bound; the best on a grid is taken. Where users speak several times, the squared Hellinger distances of
single users add up to at least 0.288 of that of all (Jayram 2009), so B = 1 - n c d^2/0.288; the bound is about half.

**A scale.** Theorems "linear-lb-full" and "lb-red" say that no one-round protocol errs by less than
zeta(W, n)/(eps sqrt n) up to a constant and a logarithm. The proof's constants are tiny: it is a scale, not a bound.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Floats
from parley.protocols.factorization.model import Factorization
from parley.protocols.workloads.workload import Workload

# Inputs a that are tried; rows of W are ranked by their range, and any row gives a bound.
CANDIDATES = 64
DISTANCES = np.geomspace(1e-7, 1.0, 281)
# Jayram 2009: the product of 1 - 2^-j over all j, rounded down.
HELLINGER_SHARE = 0.288


@dataclass(frozen=True, kw_only=True)
class HardPair:
    """Two histograms that no transcript tells apart, and the RMSE that every protocol has on data from one of them."""

    low: Floats
    high: Floats
    bound: float


def contraction(epsilon: float) -> float:
    """c: one eps-LDP reply keeps an affinity of 1 - c d^2 between inputs at total variation distance d."""
    return math.expm1(epsilon) ** 2 / (4 * (math.exp(epsilon) + 1))


def two_point_bound(workload: Workload, users: int, epsilon: float, *, repeated: bool = False) -> float:
    """The RMSE that every eps-LDP protocol has on some data; `repeated` where users may speak several times."""
    return max((pair.bound for pair in hard_pairs(workload, users, epsilon, repeated=repeated)), default=0.0)


def hard_pairs(workload: Workload, users: int, epsilon: float, *, repeated: bool = False) -> Iterator[HardPair]:
    """For each a the best b, c and d: b and c are where row a of W is least and greatest."""
    _check(users, epsilon)
    affinity = _affinity(users, epsilon, repeated)
    if workload.labelled:
        yield _labelled_pair(workload, users, epsilon, repeated)
        return
    for base in np.unique(np.linspace(0, workload.size - 1, min(workload.size, CANDIDATES)).astype(np.int64)):
        row = _row(workload, int(base))
        low, high = int(np.argmin(row)), int(np.argmax(row))
        if row[low] == row[high]:
            continue
        # W among a, b and c.
        places = [int(base), low, high]
        small = np.stack([_row(workload, place)[places] for place in places])
        shares = [_mixtures(1), _mixtures(2)]
        means = [np.einsum("di,ij,dj->d", each, small, each) for each in shares]
        spreads = [_sampling(each, small, users) for each in shares]
        found = _least(means[1] - means[0], spreads[0], spreads[1], affinity)
        best = int(np.argmax(found))
        whole = [np.zeros(workload.size), np.zeros(workload.size)]
        for histogram, each in zip(whole, shares, strict=True):
            np.add.at(histogram, places, each[best])
        yield HardPair(low=whole[0], high=whole[1], bound=max(0.0, float(found[best])))


def scale(factorization: Factorization, users: int, epsilon: float) -> float:
    """zeta(W, n)/(eps sqrt n), from the lower bound on gamma_2(W) and from k alone.

    The dual matrix G of gamma_2 has |G|_1 <= sqrt(k), so zeta >= gamma_2 min(1, eps sqrt(n/k)); for n >= k / eps^2
    approximation does not help at all.
    """
    return zeta_bound(factorization, users, epsilon) / (epsilon * math.sqrt(users))


def zeta_bound(factorization: Factorization, users: int, epsilon: float) -> float:
    """A lower bound on zeta(W, n)."""
    _check(users, epsilon)
    smaller = min(factorization.left.inputs, factorization.right.inputs)
    return factorization.lower * min(1.0, epsilon * math.sqrt(users / smaller))


def users_for_separation(gamma: float, largest: float, inputs: int, epsilon: float) -> float:
    """The condition on n of Theorem alg-interactive-app, its constant Q taken as 1.

    n >= gamma_2^4 log k / (|W|^4 eps^2) log(10 gamma_2 log k / (|W| eps)): from there on <Z, Rh - mu> and clipping cost
    three rounds no more than their scalars do, so their error no longer depends on gamma_2.
    """
    _check(1, epsilon)
    ratio, logarithm = gamma / largest, math.log(inputs)
    return ratio**4 * logarithm / epsilon**2 * max(1.0, math.log(10 * ratio * logarithm / epsilon))


def _row(workload: Workload, place: int) -> Floats:
    return workload.apply(np.bincount([place], minlength=workload.size).astype(np.float64))


def _mixtures(other: int) -> Floats:
    """(1 - d) of the first of three inputs and d of another, for every d."""
    found = np.zeros((len(DISTANCES), 3))
    found[:, 0] = 1 - DISTANCES
    found[:, other] = DISTANCES
    return found


def _affinity(users: int, epsilon: float, repeated: bool) -> Floats:
    """B for every d; 0 where nothing is proven."""
    apart = contraction(epsilon) * DISTANCES**2
    if repeated:
        return np.maximum(1 - users * apart / HELLINGER_SHARE, 0.0)
    return np.asarray(np.maximum(1 - apart, 0.0) ** users)


def _sampling(shares: Floats, small: Floats, users: int) -> Floats:
    """The standard deviation of a mean over pairs of users who are drawn from these shares (Hoeffding 1948)."""
    rows = shares @ small
    form = np.einsum("di,di->d", rows, shares)
    first = np.einsum("di,di->d", rows**2, shares) - form**2
    pairs = np.einsum("di,ij,dj->d", shares, small**2, shares) - form**2
    variance = (4 * (users - 2) * first + 2 * pairs) / (users * max(users - 1, 1))
    return np.asarray(np.sqrt(np.maximum(variance, 0.0)))


def _least(apart: Floats, first: Floats, second: Floats, affinity: Floats) -> Floats:
    """M with (M + s0)^2 + (M + s1)^2 = (t1 - t0)^2 B^2/2; negative where nothing is shown."""
    inside = (apart * affinity) ** 2 - (first - second) ** 2
    return np.where(inside > 0, (np.sqrt(np.maximum(inside, 0.0)) - first - second) / 2, 0.0)


def _labelled_pair(workload: Workload, users: int, epsilon: float, repeated: bool) -> HardPair:
    """Half of the users are negatives with a middle score, which is known; positives score lowest or, a few, highest.

    The statistic is then a mean over the positives, so steps 1 to 4 hold for them.
    """
    positives = users - users // 2
    scores, _ = workload.shape
    middle = scores // 2
    reach = 1.0 if 0 < middle < scores - 1 else 0.5
    spread = reach * np.sqrt(DISTANCES * (1 - DISTANCES) / positives)
    affinity = _affinity(positives, epsilon, repeated)
    found = _least(reach * DISTANCES, np.zeros_like(spread), spread, affinity)
    best = int(np.argmax(found))
    shares = positives / users
    low, high = np.zeros(workload.size), np.zeros(workload.size)
    for each in (low, high):
        each[2 * middle] = 1 - shares
    low[1] = shares
    high[1], high[workload.size - 1] = shares * (1 - DISTANCES[best]), shares * DISTANCES[best]
    return HardPair(low=low, high=high, bound=max(0.0, float(found[best])))


def _check(users: int, epsilon: float) -> None:
    if users < 1 or not 0 < epsilon < np.inf:
        raise BadInput(f"a lower bound needs at least one user and epsilon > 0, got {users} and {epsilon}")
