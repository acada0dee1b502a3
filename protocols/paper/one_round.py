"""Lemma basic-one-round-lem, verbatim, with Theorem alg-main's choice of factors: two vectors at eps/2 each.

Each user i sends y^L_i = VRand_{eps/2}(L 1_{x_i}) and y^R_i = VRand_{eps/2}(R 1_{x_i}); the analyst outputs
<mean y^L, mean y^R>. The pairs i = i are left in: both vectors have their own noise, so they add no bias.
"""

from dataclasses import dataclass
from typing import ClassVar

from parley.emulator.protocol import Analyst, Ask, Heard, Send, Sends, sends
from parley.protocols.paper.two_factors import TwoFactors


@dataclass(frozen=True, kw_only=True)
class OneRound(TwoFactors):
    """The paper's non-interactive algorithm.

    Formal guarantee: eps-LDP. What the form may spend is halved between two vectors from a codebook; what the
    statistic needs besides (n+ of the AUC, a diagonal that is not constant) is one bit with its own share.
    """

    name: ClassVar[str] = "one-round"
    summary: ClassVar[str] = "Lemma basic-one-round-lem: VRand(L 1_x) and VRand(R 1_x), eps/2 each"
    parts: ClassVar[int] = 2

    @sends
    def both(self) -> Sends:
        """Each user sends y^L = VRand(L 1_x) and y^R = VRand(R 1_x)."""
        return {"y_L": Send(self.vrand, self.L), "y_R": Send(self.vrand, self.R), **self.side_queries}

    script = (both,)

    def form(self, one: Heard) -> float:
        """<mean y^L, mean y^R>, an estimate of h'(W - cJ)h."""
        return float(one.mean("y_L") @ one.mean("y_R"))

    def quadratic_form(self, one: Heard) -> float:
        return self.form(one) + self.workload.shift

    def analyst(self) -> Analyst:
        """One question, one inner product."""
        one = yield Ask(self.both)
        return self.finish(self.form(one), one)
