"""PrivUnit (Bhowmick et al. 2018) with the parameters Asi, Feldman and Talwar (2022) show to be optimal.

The reply is a direction V in R^(d+1): uniform on the cap {<V,u> >= gamma} with probability p, uniform on the rest
of the sphere otherwise, where q = P[<V,u> >= gamma] under the uniform law and p(1-q)/(q(1-p)) = e^eps.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Coins, Columns, Floats, Integers, Shape
from parley.protocols.randomizers.exact import WORD_BYTES, Words, check_count, check_epsilon, words
from parley.protocols.randomizers.vectors.directional import STEP, Directional, blocks, check_radius, lift
from parley.protocols.randomizers.vectors.moments import SphereMoments, lifted_moments

NORM_SLACK = 1e-6
LOSSLESS_SHIFT = np.uint64(11)


def cap_moments(dimension: int, gamma: float) -> tuple[float, float, float]:
    """P[Z >= gamma], E[Z; Z >= gamma] and E[Z^2; Z >= gamma] for Z = <V,u>, V uniform in R^dimension, gamma >= 0."""
    shape = (dimension - 1) / 2.0
    log_constant = scipy.special.gammaln(dimension / 2.0) - scipy.special.gammaln(shape) - 0.5 * math.log(math.pi)
    first = math.exp(log_constant + shape * math.log1p(-(gamma**2))) / (dimension - 1)
    tail, second = (0.5 * scipy.special.betaincc(half, shape, gamma**2) for half in (0.5, 1.5))
    return float(tail), first, float(second) / dimension


def cap_law(dimension: int, radius: float, epsilon: float, gamma: float) -> SphereMoments:
    """The moments of the decoded vector for a given cap."""
    tail, first, second = cap_moments(dimension + 1, gamma)
    outside = 1.0 / (1.0 + tail * math.expm1(epsilon))
    excess = outside * math.expm1(epsilon)
    return lifted_moments(
        dimension=dimension,
        radius=radius,
        shrink=excess * first,
        along=outside / (dimension + 1) + excess * second,
    )


@lru_cache(maxsize=256)
def best_gamma(dimension: int, epsilon: float) -> float:
    """The cap of least variance: the best of a grid, refined between its neighbours."""
    reach = min(0.999, (2.0 + 1.5 * math.sqrt(epsilon)) / math.sqrt(dimension + 1))
    grid = [reach * number / 128 for number in range(129)]

    def variance(gamma: float) -> float:
        return cap_law(dimension, 1.0, epsilon, gamma).variance

    place = min(range(len(grid)), key=lambda number: variance(grid[number]))
    bounds = grid[max(place - 1, 0)], grid[min(place + 1, len(grid) - 1)]
    found = scipy.optimize.minimize_scalar(
        lambda gamma: variance(float(gamma)), bounds=bounds, method="bounded", options={"xatol": 1e-12}
    )
    return min(grid[place], float(found.x), key=variance)


@dataclass(frozen=True, kw_only=True)
class PrivUnit(Directional):
    """Uniform on a cap around the input or on its complement (mathematics.md, "privunit").

    Formal guarantee: the density of the reply with respect to the uniform law is e^eps/(1 + q(e^eps - 1)) on the
    cap and 1/(1 + q(e^eps - 1)) elsewhere, so densities under two inputs differ by at most e^eps. This holds for
    real numbers only.

    Attacks. The reply is a vector of floats computed from the input, so the guarantee does not cover Mironov's
    and other precision-based attacks: the set of floats that rounding can reach depends on the input, and p and
    q are themselves rounded. The inverse beta function takes a time that depends on its argument. It is
    therefore no default: it is here as the yardstick of variance that other randomizers are compared with.

    `gamma=None` takes the cap with the smallest variance.
    """

    dimension: int
    radius: float
    epsilon: float
    gamma: float | None = None

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_radius(self.radius)
        check_count("dimension", self.dimension, 1, 1 << 16)
        if self.gamma is None:
            object.__setattr__(self, "gamma", best_gamma(self.dimension, self.epsilon))
        if not 0.0 <= self.height < 1.0:
            raise BadInput(f"gamma is {self.gamma}; give a number from 0 to below 1")

    @property
    def height(self) -> float:
        """gamma, where the cap begins."""
        assert self.gamma is not None
        return self.gamma

    @cached_property
    def cap(self) -> float:
        """q, the cap's share of the sphere."""
        return cap_moments(self.dimension + 1, self.height)[0]

    @property
    def inside(self) -> float:
        """p, the probability that the reply lies in the cap."""
        return self.cap * math.exp(self.epsilon) / (1.0 + self.cap * math.expm1(self.epsilon))

    @cached_property
    def moments(self) -> SphereMoments:
        """Mean and covariance of the decoded vector."""
        return cap_law(self.dimension, self.radius, self.epsilon, self.height)

    @property
    def coins(self) -> int:
        """One word for the choice, one for the inner product, d + 1 for the direction orthogonal to the input."""
        return (self.dimension + 3) * WORD_BYTES

    @property
    def reply(self) -> Shape:
        """The unit vector itself."""
        return {"direction": (np.dtype(np.float64), (self.dimension + 1,))}

    def _heights(self, choice: Words, place: Words) -> Floats:
        """<V,u> by inversion of its law on the cap or on the rest."""
        share = _open_unit(place)
        tail = np.where(_open_unit(choice) < self.inside, share * self.cap, self.cap + share * (1.0 - self.cap))
        size = np.sqrt(scipy.special.betainccinv(0.5, self.dimension / 2.0, 2.0 * np.minimum(tail, 1.0 - tail)))
        return np.where(tail < 0.5, size, -size)

    def sample(self, inputs: Floats, coins: Coins) -> Columns:
        """Draw the inner product, then a uniform direction orthogonal to the input."""
        coin = words(coins, self.dimension + 3)
        directions = np.empty((len(coin), self.dimension + 1))
        for block in blocks(len(coin), self.dimension + 1):
            unit = _normalised(lift(inputs[block], self.dimension, self.radius, first_row=block.start))
            height = self._heights(coin[block, 0], coin[block, 1])[:, None]
            around = scipy.special.ndtri(_open_unit(coin[block, 2:]))
            around -= np.einsum("nd,nd->n", around, unit)[:, None] * unit
            directions[block] = height * unit + np.sqrt(1.0 - height**2) * _normalised(around)
        return {"direction": directions}

    def check(self, reply: Columns) -> NDArray[np.bool_]:
        """Unit vectors, up to rounding."""
        norms = np.linalg.norm(reply["direction"].astype(np.float64), axis=1)
        accepted: NDArray[np.bool_] = np.abs(norms - 1.0) <= NORM_SLACK
        return accepted

    def log_likelihood(self, reply: Columns, inputs: Floats) -> Floats:
        """Log density with respect to the uniform law on the sphere."""
        units = _normalised(lift(inputs, self.dimension, self.radius))
        outside = -math.log1p(self.cap * math.expm1(self.epsilon))
        inside = reply["direction"].astype(np.float64) @ units.T >= self.height
        return np.where(inside, self.epsilon + outside, outside)

    def _units(self, reply: Columns) -> Iterator[tuple[slice, Floats]]:
        directions = reply["direction"].astype(np.float64)
        for block in blocks(len(directions), self.dimension + 1):
            yield block, directions[block, : self.dimension]

    def total(self, reply: Columns) -> Integers:
        """Sum of the decoded vectors in units; sums of fewer than 2^26 replies cannot overflow."""
        total = np.zeros(self.dimension, dtype=np.int64)
        for _, units in self._units(reply):
            # 2^16 rows of at most 2^36 add up to a whole number below 2^53, so the sum in float64 is exact.
            for start in range(0, len(units), 1 << 16):
                total += np.rint(units[start : start + (1 << 16)] * STEP).sum(axis=0).astype(np.int64)
        return total


def _open_unit(coin: Words) -> Floats:
    """Words as numbers strictly between 0 and 1."""
    return ((coin >> LOSSLESS_SHIFT).astype(np.float64) + 0.5) * 2.0**-53


def _normalised(vectors: Floats) -> Floats:
    unit: Floats = vectors / np.sqrt(np.einsum("nd,nd->n", vectors, vectors))[:, None]
    return unit
