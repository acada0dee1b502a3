"""What the paper's protocols for W - cJ = L'R share: the factors, VRand for their columns, and Laplace noise."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import require
from parley.emulator.randomizer import Floats
from parley.protocols.factorization.factors import Approximation, infinity_norm, two_factors
from parley.protocols.factorization.operator import Factor
from parley.protocols.pairwise import Pairwise
from parley.protocols.randomizers.scalars.grid_laplace import GridLaplace
from parley.protocols.randomizers.vectors.codebook import Codebook

CANDIDATES = 16


@dataclass(frozen=True, kw_only=True)
class TwoFactors(Pairwise):
    """The factors are derived from the statistic's name where there is a closed form; otherwise they travel."""

    # In how many parts the paper splits the budget.
    parts: ClassVar[int]

    top: int
    left: Floats | None = field(default=None, repr=False, compare=False)
    right: Floats | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.top < CANDIDATES:
            raise BadInput(f"top is {self.top}; give a number of candidates from 1 to {CANDIDATES - 1}")

    @cached_property
    def approximation(self) -> Approximation:
        """W~ = L'R, and how far it is from W - cJ."""
        return two_factors(self.workload, self.left, self.right)

    @property
    def L(self) -> Factor:
        return self.approximation.factors.left

    @property
    def R(self) -> Factor:
        return self.approximation.factors.right

    @property
    def d(self) -> int:
        """The length of the vectors users encode."""
        return self.approximation.factors.rows

    @cached_property
    def norm(self) -> float:
        """|W - cJ|_inf."""
        return infinity_norm(self.workload)

    @property
    def part(self) -> float:
        """The paper's bar-epsilon: an equal part of what the form may spend."""
        return self.form_epsilon / self.parts

    @property
    def radius(self) -> float:
        """C: no column is longer."""
        return self.approximation.factors.radius

    @cached_property
    def vrand(self) -> Codebook:
        """VRand with bar-epsilon, for vectors of norm at most C."""
        return Codebook(dimension=self.d, radius=self.radius, epsilon=self.part, candidates=CANDIDATES, top=self.top)

    def laplace(self, bound: float) -> GridLaplace:
        return GridLaplace(low=-bound, high=bound, epsilon=self.part)


def clip(values: Floats, bound: float) -> Floats:
    """clip_bound of the paper, for numbers that are numbers."""
    require(bool(np.isfinite(values).all()), "the broadcast is too long for its products to be numbers")
    return np.clip(values, -bound, bound)
