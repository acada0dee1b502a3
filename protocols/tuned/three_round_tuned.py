"""Theorem alg-interactive-app, tuned (mathematics.md, "Three rounds, tuned"): split users, one scalar at the end.

The first group's vectors give mu, the second group's Y, and the other way round; the third group's scalars finish.
"""

from dataclasses import dataclass
from typing import ClassVar

from parley.emulator.protocol import Analyst, Ask, Sends, sends
from parley.protocols.tuned.split_users import SplitUsers


@dataclass(frozen=True, kw_only=True)
class ThreeRoundTuned(SplitUsers):
    """Two groups send vectors one after the other, the third sends one scalar each.

    Formal guarantee: eps-LDP against any analyst: a user speaks once (or its three epsilons add up to eps), through a
    codebook or with a scalar whose exact range over all inputs it computes itself.
    """

    name: ClassVar[str] = "three-round-tuned"
    summary: ClassVar[str] = "The paper's three rounds with split users, exact ranges and one scalar in the last round"

    @sends
    def first_vectors(self) -> Sends:
        """Each user of the first group sends VRand(A 1_x), or x by subset selection."""
        return {"vector": self.vector(0)}

    @sends
    def second_vectors(self) -> Sends:
        """Each user of the second group sends VRand(A 1_x), or x by subset selection."""
        return {"vector": self.vector(1)}

    script = (first_vectors, second_vectors, SplitUsers.scalars)

    def analyst(self) -> Analyst:
        """mu and Y from the folds of both groups, then the mean of the scalars."""
        one = yield Ask(self.first_vectors)
        two = yield Ask(self.second_vectors)
        three = yield Ask(self.scalars, **self.question(self.fit(one, two)))
        return self.finish(self.form(three), one, two, three)
