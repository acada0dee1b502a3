"""Second moments of forms made of randomised vectors (proof of Lemma basic-one-round-lem), exact instead of bounded.

The noise of VRand(x) has the covariance a I + b xx'.
"""

import math
from dataclasses import dataclass

from parley.emulator.randomizer import Floats
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
