"""Mean and covariance of randomizers that reply with a random direction which leans towards the input.

All of them send a unit vector U whose law depends on the input's direction u only through <U, u>. So
E[U] = shrink * u and E[UU'] = along * uu' + across * (I - uu'). The decoded vector is Y = C * U / shrink, with
the appended coordinate, if there is one, dropped.
"""

from dataclasses import dataclass

import numpy as np

from parley.emulator.randomizer import Floats


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

    def second_moment(self, x: Floats) -> Floats:
        """E[YY'] for the input x."""
        fraction = np.outer(x, x) / self.radius**2
        isotropic = self.across * np.eye(self.dimension)
        moment: Floats = self.scale**2 * (isotropic + (self.along - self.across) * fraction)
        return moment

    def covariance(self, x: Floats) -> Floats:
        """E[(Y-x)(Y-x)'] for the input x."""
        covariance: Floats = self.second_moment(x) - np.outer(x, x)
        return covariance

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
