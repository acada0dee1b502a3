"""What protocols that send one vector per user share: W - cJ = A'DA with D = diag(signs), and A 1_x for the input x."""

from dataclasses import dataclass, field
from functools import cached_property

from parley.emulator.randomizer import Floats, Integers
from parley.protocols.factorization.factors import Approximation, one_factor
from parley.protocols.factorization.model import SignedFactorization, signed
from parley.protocols.pairwise import Pairwise


@dataclass(frozen=True, kw_only=True)
class OneFactor(Pairwise):
    """Where there is a closed form, A and D follow from the statistic's name, or from that and the `rows` kept.

    Otherwise they travel.
    """

    factor: Floats | None = field(default=None, repr=False, compare=False)
    signs: Floats | None = field(default=None, repr=False, compare=False)
    rows: Integers | None = field(default=None, repr=False, compare=False)

    @cached_property
    def approximation(self) -> Approximation:
        """W~ = A'DA, and how far it is from W - cJ."""
        return one_factor(self.workload, self.factor, self.signs, self.rows)

    @cached_property
    def factors(self) -> SignedFactorization:
        """A and D."""
        return signed(self.approximation.factors)
