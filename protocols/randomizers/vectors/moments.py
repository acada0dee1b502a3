"""Mean and covariance of randomizers that reply with a random direction which leans towards the input.

All of them send a unit vector U whose law depends on the input's direction u only through <U, u>. So
E[U] = shrink * u and E[UU'] = along * uu' + across * (I - uu'). The decoded vector is Y = C * U / shrink, with
the appended coordinate, if there is one, dropped.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy


@dataclass(frozen=True, kw_only=True)
class SphereMoments:
    """Three numbers, E<U,u>, E<U,u>^2 and E<U,w>^2 for w orthogonal to u, from which the moments of Y follow."""

    dimension: int
    radius: float
    shrink: float
    along: float
    across: float

    @property
    def scale(self) -> float:
        """What a unit of direction is worth: C / shrink."""
        return self.radius / self.shrink

    def variance_at(self, norm: float) -> float:
        """E|Y-x|^2 / d for an input of this norm."""
        fraction = (norm / self.radius) ** 2
        square = self.scale**2 * (self.dimension * self.across + (self.along - self.across) * fraction)
        return (square - norm**2) / self.dimension

    @property
    def variance(self) -> float:
        """E|Y-x|^2 / d, the largest over all inputs: it is linear in |x|^2, so an end point has it."""
        return max(self.variance_at(0.0), self.variance_at(self.radius))


def lifted_moments(*, dimension: int, radius: float, shrink: float, along: float) -> SphereMoments:
    """The moments of U in R^(d+1): as |U| = 1, the d directions orthogonal to u share 1 - along."""
    across = (1.0 - along) / dimension
    return SphereMoments(dimension=dimension, radius=radius, shrink=shrink, along=along, across=across)


NODES = 512
# In units of 1/sqrt(D) no angle beyond this has a probability a double can notice.
REACH = 14.0


_nodes = lru_cache(maxsize=1)(np.polynomial.legendre.leggauss)


@lru_cache(maxsize=4096)
def top_moment(dimension: int, candidates: int, top: int, power: int) -> float:
    """E[sum of <u, v>^power over the best t of M = 2B candidates, B uniform directions in R^D and their negatives].

    With Z = |<u, v>| for a uniform direction v, Z^2 has the law Beta(1/2, (D-1)/2). While t <= B, the best t candidates
    are those with the t largest of B independent copies of Z, each with the better of its two signs. So the sum of Z^p
    over them, p being 1 or 2, is B * int z^p P[fewer than t of the other B-1 are larger] dF(z), integrated by
    Gauss-Legendre in the angle z = sin(a), where the density is a power of cos(a).
    """
    half = candidates // 2
    if top > half:
        # All first powers add up to 0 and all second powers to M/D in the mean, so look at the other candidates.
        rest = top_moment(dimension, candidates, candidates - top, power)
        return rest if power == 1 else candidates / dimension - rest
    points, weights = _nodes(NODES)
    reach = min(np.pi / 2.0, REACH / np.sqrt(dimension))
    angle = 0.5 * reach * (points + 1.0)
    z = np.sin(angle)
    gammaln, betainc = scipy.special.gammaln, scipy.special.betainc
    log_constant = gammaln(dimension / 2.0) - gammaln((dimension - 1) / 2.0) - 0.5 * np.log(np.pi)
    density = 2.0 * np.exp(log_constant + (dimension - 2) * np.log(np.cos(angle)))
    below = betainc(0.5, (dimension - 1) / 2.0, z**2)
    chance = betainc(half - top, top, below) if top < half else np.ones_like(z)
    return float(half * 0.5 * reach * np.sum(weights * density * z**power * chance))
