"""The overview's two-round protocol, tuned: the best two rounds can do once users are split.

Both the vectors behind mu and those behind Y are sent without knowing anything, so when nobody speaks twice they fit
into one round: the third round of the paper is needed only because there every user speaks in each.
"""

from dataclasses import dataclass
from typing import ClassVar

from parley.emulator.protocol import Analyst, Ask, Sends, sends
from parley.protocols.tuned.split_users import SplitUsers


@dataclass(frozen=True, kw_only=True)
class TwoRoundTuned(SplitUsers):
    """Some users send vectors at once, the others one scalar each afterwards.

    Formal guarantee: eps-LDP against any analyst: a user speaks once (or its two epsilons add up to eps), through a
    codebook or with a scalar whose exact range over all inputs it computes itself.
    """

    name: ClassVar[str] = "two-round-tuned"
    summary: ClassVar[str] = "Vectors from some users, then one scalar over its exact range from each of the others"

    @sends
    def vectors(self) -> Sends:
        """Each user of the first group sends VRand(A 1_x), or x by subset selection."""
        return {"vector": self.vector(0)}

    script = (vectors, SplitUsers.scalars)

    def analyst(self) -> Analyst:
        """mu and Y from the folds of one group, then the mean of the scalars."""
        one = yield Ask(self.vectors)
        two = yield Ask(self.scalars, **self.question(self.fit(one)))
        return self.finish(self.form(two), one, two)
