"""Expected inner products of the best t among M = 2B candidates, B uniform directions and their negatives.

With Z = |<u, v>| for a uniform direction v in R^D, Z^2 has the law Beta(1/2, (D-1)/2). While t <= B, the best t
candidates are those with the t largest of B independent copies of Z, each with the better of its two signs.
So E[sum of Z^p over them] = B * int z^p P[fewer than t of the other B-1 are larger] dF(z), integrated by
Gauss-Legendre in the angle z = sin(a), where the density is a power of cos(a).
"""

from functools import lru_cache

import numpy as np
import scipy

from parley.emulator.randomizer import Floats

NODES = 512
# In units of 1/sqrt(D) no angle beyond this has a probability a double can notice.
REACH = 14.0


@lru_cache(maxsize=1)
def _nodes() -> tuple[Floats, Floats]:
    points, weights = np.polynomial.legendre.leggauss(NODES)
    return points, weights


@lru_cache(maxsize=4096)
def top_moment(dimension: int, candidates: int, top: int, power: int) -> float:
    """E[sum of <u, v>^power over the best candidates]; power is 1 or 2 and the directions are in R^dimension."""
    half = candidates // 2
    if top > half:
        # All first powers add up to 0 and all second powers to M/D in the mean, so look at the other candidates.
        rest = top_moment(dimension, candidates, candidates - top, power)
        return rest if power == 1 else candidates / dimension - rest
    points, weights = _nodes()
    reach = min(np.pi / 2.0, REACH / np.sqrt(dimension))
    angle = 0.5 * reach * (points + 1.0)
    z = np.sin(angle)
    gammaln, betainc = scipy.special.gammaln, scipy.special.betainc
    log_constant = gammaln(dimension / 2.0) - gammaln((dimension - 1) / 2.0) - 0.5 * np.log(np.pi)
    density = 2.0 * np.exp(log_constant + (dimension - 2) * np.log(np.cos(angle)))
    below = betainc(0.5, (dimension - 1) / 2.0, z**2)
    chance = betainc(half - top, top, below) if top < half else np.ones_like(z)
    return float(half * 0.5 * reach * np.sum(weights * density * z**power * chance))
