"""One round, tuned ("One vector instead of two"): W - cJ = A'DA and a single vector with the whole budget.

Each user sends y_i = VRand_eps(A 1_{x_i}). The mean of y_i'Dy_j over pairs of different users estimates the mean of
W - cJ over such pairs, which is the statistic itself: with s = sum y_i it is (s'Ds - sum y_i'Dy_i)/(n(n-1)). Pairs
i = i carry the noise's bias and are left out, so no diagonal has to be measured.

For the AUC the vector has one more coordinate, the label: numerator and denominator come from one message.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Analyst, Ask, Heard, Send, Sends, sends
from parley.emulator.randomizer import Columns, Floats, Integers
from parley.protocols.factorization.operator import Factor
from parley.protocols.pairwise import with_diagonal
from parley.protocols.randomizers.exact import check_count
from parley.protocols.randomizers.vectors.codebook import Codebook
from parley.protocols.randomizers.vectors.directional import Directional
from parley.protocols.tuned.labelled import Labelled
from parley.protocols.tuned.one_factor import OneFactor
from parley.protocols.workloads.auc import AreaUnderCurve

LARGEST_WEIGHT = 1e6


@dataclass(frozen=True)
class Squares:
    """A tally: the sum of y'Dy over replies y, in units of the randomizer's `quadratic_unit`."""

    randomizer: Directional
    signs: Floats

    def __call__(self, reply: Columns) -> Integers:
        return np.array(self.randomizer.quadratic_total(reply, self.signs), dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class OneRoundTuned(OneFactor):
    """One vector per user, all of eps.

    Formal guarantee: eps-LDP. The only reply is one codebook randomizer of one vector whose norm every user bounds
    itself; whatever factor, weight or number of candidates the analyst names, the claim holds.
    """

    name: ClassVar[str] = "one-round-tuned"
    summary: ClassVar[str] = "One vector A 1_x of W - cJ = A'DA with all of eps; pairs i = i left out"
    most_candidates: ClassVar[int] = 64

    candidates: int
    top: int
    weight: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("candidates", self.candidates, 2, self.most_candidates)
        if not 0 <= self.weight <= LARGEST_WEIGHT:
            raise BadInput(f"weight is {self.weight}; give a number from 0 to {LARGEST_WEIGHT:g}")
        if self.weight and not isinstance(self.workload, AreaUnderCurve):
            raise BadInput(f"a label of weight {self.weight} makes sense for the AUC alone")

    @cached_property
    def A(self) -> Factor:
        """What a user encodes: A, and for the AUC the label below it."""
        if not self.weight:
            return self.factors.factor
        label = 2 * self.workload.linear_queries()["positive"] - 1
        return Labelled(self.factors.factor, label, self.weight)

    @cached_property
    def D(self) -> Floats:
        """The diagonal of D, with 0 for the label, which is no part of the form."""
        return np.concatenate([self.factors.signs, np.zeros(self.A.rows - self.factors.rows)])

    @property
    def vector_epsilon(self) -> float:
        """What the vector may spend."""
        return self.epsilon

    @cached_property
    def vrand(self) -> Codebook:
        """VRand for vectors of norm at most C."""
        return Codebook(
            dimension=self.A.rows,
            radius=self.A.radius,
            epsilon=self.vector_epsilon,
            candidates=self.candidates,
            top=self.top,
        )

    @sends
    def one_vector(self) -> Sends:
        """Each user sends y = VRand(A 1_x)."""
        return {"vector": Send(self.vrand, self.A, tallies={"squares": Squares(self.vrand, self.D)})}

    script = (one_vector,)

    def form(self, one: Heard) -> float:
        """(s'Ds - sum y_i'Dy_i)/(n(n-1)); for the AUC over all pairs, since its diagonal is 0."""
        s = one.sum("vector") * self.vrand.unit
        own = float(one.sum("vector.squares")) * self.vrand.quadratic_unit
        n = max(2, one.replies)
        return (float((s * self.D) @ s) - own) / (n * (n if self.weight else n - 1))

    def quadratic_form(self, one: Heard) -> float:
        """h'Wh has the pairs i = i too; what they add is known where the diagonal is constant."""
        pairs = self.form(one) + self.workload.shift
        return pairs if self.weight else with_diagonal(self.workload, pairs, one.replies)

    def analyst(self) -> Analyst:
        """One question, one sum over pairs."""
        one = yield Ask(self.one_vector)
        return self.finish(self.form(one), one)
