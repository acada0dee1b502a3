"""Second moments of forms made of randomised vectors (proof of Lemma basic-one-round-lem), exact instead of bounded.

The noise of VRand(x) has the covariance a I + b xx'. With y^L, y^R the mean vectors of n users, Z^L, Z^R their noise,
<y^L, y^R> - <Lh, Rh> = <Z^L, Rh> + <Lh, Z^R> + <Z^L, Z^R>, of which the first two terms have a variance of
`linear`/n together and the last one of `quadratic`/n^2.
"""

import math
from dataclasses import dataclass

from parley.emulator.randomizer import Floats
from parley.protocols.factorization.model import Factorization
from parley.protocols.randomizers.vectors.directional import Directional


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

    def squared_length(self, mean: Floats, replies: int, caution: float = 0.0) -> float:
        """An estimate of |x|^2 from the mean of so many noisy vectors, between 0 and the largest there is.

        With so many standard errors added: where |x|^2 is hardly known, an error taken for too small costs more.
        """
        square, isotropic = float(mean @ mean) - self.trace / replies, self.isotropic / replies
        known = min(max(square, 0.0), self.radius**2)
        deviation = math.sqrt(2 * self.dimension * isotropic**2 + 4 * isotropic * known)
        return min(max(square + caution * deviation, 0.0), self.radius**2)

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
