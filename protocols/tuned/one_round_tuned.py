"""One round, tuned: one index of a public codebook or table per user, decoded by its likelihood (mathematics.md)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from parley.emulator.protocol import Analyst, Ask, Heard, Sends, sends
from parley.protocols.pairwise import with_diagonal
from parley.protocols.tuned.codebook_round import CodebookRound


@dataclass(frozen=True, kw_only=True)
class OneRoundTuned(CodebookRound):
    """All users send one index each, and the estimate is t1.

    Formal guarantee: eps-LDP. The only reply is one index of a codebook, e^eps likelier to be one of t that an input
    favours than one of the others; whatever power, seeds or number of candidates the analyst names, the claim holds. Or
    it is one output of a table whose ratios every user checks in whole numbers.
    """

    name: ClassVar[str] = "one-round-tuned"
    version: ClassVar[int] = 2
    summary: ClassVar[str] = "One index of a public codebook per user, decoded by its likelihood"

    @sends
    def one_index(self) -> Sends:
        """Each user sends one of the candidates of its seed, likelier one of the t that its input favours."""
        return {"candidate": self.index}

    script = (one_index,)

    def analyst(self) -> Analyst:
        """Histograms from the counts, then theta from pairs of folds."""
        one = yield Ask(self.one_index)
        found = self.planning.one_round(self.read(one.sum("candidate")))
        return found  # type: ignore[no-any-return]

    def pairs(self, one: Heard) -> float:
        """The mean of W over pairs of different users, unbiased: sum over i != j of phi_i'W phi_j / (n (n - 1))."""
        counts = one.sum("candidate").reshape(self.folds, -1).sum(axis=0).astype(np.float64)
        n = max(2.0, float(counts.sum()))
        mean = self.decoder.unbiased(self.decoder.scores(counts[:, None]))[:, 0]
        whole = float(mean @ self.workload.apply(mean))
        own = float(counts @ self.decoder.squares(self.workload.apply)) / n
        return (n * whole - own) / (n - 1)

    def quadratic_form(self, one: Heard) -> float:
        """h'Wh has the pairs i = i too; what they add is known where the diagonal is constant."""
        return with_diagonal(self.workload, self.pairs(one), one.replies)
