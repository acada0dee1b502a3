"""Second moments of forms made of randomised vectors (proof of Lemma basic-one-round-lem), exact instead of bounded.

The noise of VRand(x) has the covariance a I + b xx'. With y^L, y^R the mean vectors of n users, Z^L, Z^R their noise,
<y^L, y^R> - <Lh, Rh> = <Z^L, Rh> + <Lh, Z^R> + <Z^L, Z^R>, of which the first two terms have a variance of
`linear`/n together and the last one of `quadratic`/n^2.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from parley.emulator.randomizer import Floats
from parley.protocols.baselines.oracle_moments import OracleMoments
from parley.protocols.factorization.model import Factorization
from parley.protocols.projection.simplex_projection import curvature
from parley.protocols.randomizers.vectors.directional import Directional
from parley.protocols.tuned.encoding import ByCategory, ByVector, Encoding

Draw = Callable[[np.random.Generator], Floats]
Way = TypeVar("Way", bound=Encoding)


@dataclass(frozen=True, kw_only=True)
class VectorNoise:
    """Cov(VRand(x)) = isotropic * I + radial * xx' in R^dimension, for inputs of norm at most `radius`."""

    isotropic: float
    radial: float
    dimension: int
    radius: float

    @property
    def trace(self) -> float:
        """E|Y - x|^2 for an input of the largest norm."""
        return self.isotropic * self.dimension + self.radial * self.radius**2

    def squared_length(self, mean: Floats, replies: int) -> float:
        """An estimate of |x|^2 from the mean of so many noisy vectors, between 0 and the largest there is."""
        square = float(mean @ mean) - self.trace / replies
        return float(np.clip(square, 0.0, self.radius**2))

    def along(self, direction: Floats, products: Floats, histogram: Floats) -> float:
        """The variance of <Y, v> for a user drawn from the histogram; products are <A e_x, v> for all x."""
        return self.isotropic * float(direction @ direction) + self.radial * float(histogram @ products**2)


def noise_of(randomizer: Directional) -> VectorNoise:
    """The noise of a randomizer that replies with a direction."""
    moments = randomizer.moments
    return VectorNoise(
        isotropic=moments.scale**2 * moments.across,
        radial=(moments.along - moments.across) / moments.shrink**2 - 1,
        dimension=moments.dimension,
        radius=moments.radius,
    )


@dataclass(frozen=True, kw_only=True)
class FormNoise:
    """The two parts of the error of <y^L, y^R> for W = L'R with |W|_inf <= norm."""

    factors: Factorization
    noise: VectorNoise
    norm: float

    def linear(self, histogram: Floats | None = None) -> float:
        """n Var(<Z^L, Rh> + <Lh, Z^R>), for a histogram or for the worst one."""
        noise, radius = self.noise, self.factors.radius
        if histogram is None:
            return 2 * (noise.isotropic * radius**2 + max(noise.radial, 0.0) * self.norm**2)
        left, right = self.factors.left.apply(histogram), self.factors.right.apply(histogram)
        one = noise.along(right, self.factors.left.transpose_apply(right), histogram)
        return one + noise.along(left, self.factors.right.transpose_apply(left), histogram)

    def linear_seen(self, energy: float) -> float:
        """The same when only |Lh|^2 + |Rh|^2 is known."""
        return self.noise.isotropic * energy + 2 * max(self.noise.radial, 0.0) * self.norm**2

    @property
    def quadratic(self) -> float:
        """n^2 Var<Z^L, Z^R>: tr(Cov Cov) for columns of the largest norm; |W| bounds what the radial part adds."""
        noise, radius = self.noise, self.factors.radius
        mixed = 2 * noise.isotropic * noise.radial * radius**2
        return noise.isotropic**2 * noise.dimension + mixed + (noise.radial * self.norm) ** 2

    def energy(self, mean: Floats, replies: int) -> float:
        """An estimate of |Lh|^2 from the mean of noisy vectors, between 0 and C^2."""
        return min(self.noise.squared_length(mean, replies), self.factors.radius**2)


@dataclass(frozen=True)
class EncodingNoise(ABC, Generic[Way]):
    """The noise of what the first users send."""

    # How many times as many runs a prediction makes of it: those are cheap whose projection has a closed form.
    patience: ClassVar[int] = 1
    encoding: Way

    @property
    @abstractmethod
    def variance(self) -> float:
        """The largest variance of one reply's image in a direction of A's space."""

    @abstractmethod
    def simulator(self, histogram: Floats, size: float, sampled: float) -> Draw:
        """Draws the mean of `size` replies; `sampled` is the share of the users' own variation that it has too."""

    @abstractmethod
    def _along(self, direction: Floats, products: Floats, histogram: Floats) -> float: ...

    def along(self, direction: Floats, histogram: Floats, sampled: float) -> float:
        """The variance of <image of one reply, direction> for a user drawn from the histogram."""
        products = self.encoding.ratio_form.operator.T @ direction
        varied = float(histogram @ products**2) - float(histogram @ products) ** 2
        return self._along(direction, products, histogram) + sampled * varied


class VectorEncodingNoise(EncodingNoise[ByVector]):
    @property
    def variance(self) -> float:
        return self.encoding.randomizer.variance

    def _along(self, direction: Floats, products: Floats, histogram: Floats) -> float:
        return noise_of(self.encoding.randomizer).along(direction, products, histogram)

    def simulator(self, histogram: Floats, size: float, sampled: float) -> Draw:
        operator, noise = self.encoding.ratio_form.operator, noise_of(self.encoding.randomizer)
        centre, scale = operator @ histogram, 1 / math.sqrt(max(size, 1.0))
        weights = np.sqrt(max(0.0, noise.radial + sampled) * histogram)

        def draw(generator: np.random.Generator) -> Floats:
            isotropic = math.sqrt(noise.isotropic) * generator.standard_normal(operator.rows)
            radial = operator @ (weights * generator.standard_normal(len(histogram)))
            return np.asarray(centre + scale * (isotropic + radial))

        return draw


class CategoryEncodingNoise(EncodingNoise[ByCategory]):
    patience: ClassVar[int] = 8

    @property
    def variance(self) -> float:
        return self.encoding.randomizer.variance * curvature(self.encoding.ratio_form.operator)

    def _along(self, direction: Floats, products: Floats, histogram: Floats) -> float:
        return OracleMoments(self.encoding.randomizer).along(products, histogram)

    def simulator(self, histogram: Floats, size: float, sampled: float) -> Draw:
        diagonal, mixing = OracleMoments(self.encoding.randomizer).covariance(histogram)
        basis = np.stack([np.ones(len(histogram)), histogram], axis=1)
        mixing = mixing - sampled * np.diag([0.0, 1.0])
        # r, Q, s with diag(d) + B K B' = diag(r) (I + Q diag(s) Q')^2 diag(r): a square root without a k x k matrix.
        root = np.sqrt(np.maximum(diagonal + sampled * histogram, np.finfo(float).tiny))
        frame, shape = np.linalg.qr(basis / root[:, None])
        values, vectors = np.linalg.eigh(shape @ mixing @ shape.T)
        turn, stretch = frame @ vectors, np.sqrt(np.maximum(1 + values, 0.0)) - 1
        scale = 1 / math.sqrt(max(size, 1.0))

        def draw(generator: np.random.Generator) -> Floats:
            flat = generator.standard_normal(len(histogram))
            return np.asarray(histogram + scale * root * (flat + turn @ (stretch * (turn.T @ flat))))

        return draw


def encoding_noise(encoding: Encoding) -> EncodingNoise[Any]:
    kind: type[EncodingNoise[Any]] = VectorEncodingNoise if isinstance(encoding, ByVector) else CategoryEncodingNoise
    return kind(encoding)
