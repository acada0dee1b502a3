"""The overview's two-round protocol, tuned: the best two rounds can do once users are split.

Both the vectors behind mu and those behind Y are sent without knowing anything, so when nobody speaks twice they fit
into one round: the third round of the paper is needed only because there every user speaks in each.
"""

from dataclasses import dataclass
from typing import ClassVar

from parley.protocols.tuned.split_users import Tuned


@dataclass(frozen=True, kw_only=True)
class TwoRoundTuned(Tuned):
    """Some users send vectors at once, the others one scalar each afterwards.

    Formal guarantee: eps-LDP against any analyst: a user speaks once (or its two epsilons add up to eps), through a
    codebook or with a scalar whose exact range over all inputs it computes itself.
    """

    name: ClassVar[str] = "two-round-tuned"
    summary: ClassVar[str] = "Vectors from some users, then one scalar over its exact range from each of the others"
    vector_rounds: ClassVar[int] = 1
