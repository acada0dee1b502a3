"""The two-round protocol of the overview ("Additional Interactive Algorithms"), the white-box form.

Round one: o^L = VRand(L 1_x) with eps/2; the analyst broadcasts the mean O^L. Round two: <O^L, R 1_x> + kappa with
eps/2; their mean is the estimate. Its error is kappa and <Z^L, Rh>, which is large because Rh is.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from parley.emulator.protocol import Analyst, Ask, Send, Sends, sends
from parley.emulator.randomizer import Floats
from parley.protocols.factorization.operator import Factor
from parley.protocols.paper.two_factors import TwoFactors
from parley.protocols.projection.simplex_projection import densified
from parley.protocols.randomizers.exact import exact_range
from parley.protocols.randomizers.scalars.grid_laplace import GridLaplace


@dataclass(frozen=True, kw_only=True)
class TwoRound(TwoFactors):
    """A vector, then an inner product with everybody's mean vector.

    Formal guarantee: eps-LDP against any analyst. Both replies are eps/2: a vector from a codebook, and a scalar with
    Laplace noise for its exact range over all inputs, which every user computes from the broadcast itself.
    """

    name: ClassVar[str] = "two-round"
    summary: ClassVar[str] = "The overview's white-box protocol: VRand(L 1_x), then <O^L, R 1_x> + kappa; eps/2 each"
    parts: ClassVar[int] = 2

    # Whether the interval knows how little few users show of the histogram; older records do not say so.
    cautious: bool | None = None

    @property
    def radius(self) -> float:
        return self.L.radius

    @cached_property
    def products(self) -> Factor:
        """R for inner products with all its columns at once."""
        return densified(self.R)

    @sends
    def vectors(self) -> Sends:
        """Each user sends o^L = VRand(L 1_x)."""
        return {"o_L": Send(self.vrand, self.L), **self.side_queries}

    @sends(O_L="d")
    def inner_products(self, O_L: Floats) -> Sends:
        """Each user sends <O^L, R 1_x> + kappa, with noise for the exact range over all inputs."""
        inner = self.products.T @ O_L
        low, high = exact_range(inner)
        return {"inner": Send(GridLaplace(low=low, high=high, epsilon=self.part), inner)}

    script = (vectors, inner_products)

    def analyst(self) -> Analyst:
        """The mean of the vectors, then the mean of the inner products."""
        one = yield Ask(self.vectors)
        two = yield Ask(self.inner_products, O_L=one.mean("o_L"))
        return self.finish(two.mean("inner"), one, two)
