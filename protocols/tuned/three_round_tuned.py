"""Theorem alg-interactive-app, tuned (mathematics.md, "Three rounds, tuned"): split users, one scalar at the end.

The first group's vectors give mu, the second group's Y, and the other way round; the third group's scalars finish.
"""

from dataclasses import dataclass
from typing import ClassVar

from parley.protocols.tuned.split_users import Tuned


@dataclass(frozen=True, kw_only=True)
class ThreeRoundTuned(Tuned):
    """Two groups send vectors one after the other, the third sends one scalar each.

    Formal guarantee: eps-LDP against any analyst: a user speaks once (or its three epsilons add up to eps), through a
    codebook or with a scalar whose exact range over all inputs it computes itself.
    """

    name: ClassVar[str] = "three-round-tuned"
    summary: ClassVar[str] = "The paper's three rounds with split users, exact ranges and one scalar in the last round"
    vector_rounds: ClassVar[int] = 2
