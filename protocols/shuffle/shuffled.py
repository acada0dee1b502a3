"""One round through a shuffler: the codebook replies of `one-round-tuned`, anonymous, with a larger local epsilon.

The paper's remark on the shuffle model in its simplest form: one message per user, permuted with all others. Since
nobody knows whose reply is whose, replies that are eps_0-LDP are together (eps, delta)-DP with an eps far below eps_0
(`amplification.py`). Here eps and delta are given, and eps_0 is the largest for which that can be shown.

A reply is a seed and an index: nobody knows whose it is, so the seed cannot follow from a number and is sent along.
"""

import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

from parley.emulator.errors import BadInput
from parley.emulator.parameters import STAYS_HERE
from parley.emulator.protocol import Claim
from parley.emulator.roles.mixing import Mixing
from parley.emulator.round import Round
from parley.emulator.wire.sealing import gives_secret
from parley.protocols.randomizers.exact import TwoLevel, check_count, check_epsilon
from parley.protocols.shuffle.amplification import PROTECTS, check_delta, check_mixing, delta_bound, of_choice
from parley.protocols.shuffle.sealed import SealedRound
from parley.protocols.tuned.one_round_tuned import OneRoundTuned


@dataclass(frozen=True, kw_only=True)
class Shuffled(OneRoundTuned):
    """One seed and one index per user through the shuffler.

    Formal guarantee: every reply is eps_0-LDP exactly. If the shuffler permutes the replies of at least `crowd` honest
    users and keeps the permutation to itself, the transcript is (eps, delta)-DP: `delta_bound` of the codebook's own
    probabilities is at most delta, checked by every party that builds the protocol. With a shuffler that does not keep
    it, or where there is none, eps_0-LDP remains.
    """

    name: ClassVar[str] = "shuffled"
    summary: ClassVar[str] = "One index per user through a shuffler, its local epsilon as large as (eps, delta) allows"
    needs_shuffler: ClassVar[bool] = True

    # Nobody has shown what a shuffler makes of a table.
    power: float
    seeds: int
    candidates: int
    top: int
    strategy: None = None
    delta: float
    local_epsilon: float
    shuffle: Mixing
    seal: str | None = None
    opener: bytes = field(default=b"", repr=False, compare=False, metadata=STAYS_HERE)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_epsilon(self.local_epsilon)
        check_delta(self.delta)
        check_mixing(self.shuffle, self.users, {})
        check_count("top", self.top, 1, self.candidates // 2)
        if self.seal is not None and not re.fullmatch(r"[0-9a-f]{64}", self.seal):
            raise BadInput("protocol parameter seal should be a key of 64 hexadecimal digits")
        if self.seal is not None and not gives_secret(bytes.fromhex(self.seal)):
            raise BadInput("protocol parameter seal is a point of small order: boxes for it would be open to everybody")
        shown = self.delta_shown(self.shuffle.crowd)
        if shown > self.delta:
            raise BadInput(
                f"delta(eps; eps_0, n) <= delta fails: {shown:.3g} > {self.delta:g} for eps {self.epsilon:g}, "
                f"eps_0 {self.local_epsilon:g} and n = {self.shuffle.crowd}; take more users or a smaller local epsilon"
            )

    @property
    def claim(self) -> Claim:
        alone = f"from the shuffler alone by {'sealed boxes' if self.seal else 'its local epsilon'}"
        protects = f"{PROTECTS}; {alone}; from both together by epsilon {self.local_epsilon:.4g}"
        local = max(self.local_epsilon, self.epsilon)
        return replace(super().claim, delta=self.delta, protects_from=protects, trusts="shuffler", local_epsilon=local)

    @property
    def reply_epsilon(self) -> float:
        return self.local_epsilon

    @property
    def sends_place(self) -> bool:
        return True

    def delta_shown(self, replies: int) -> float:
        if self.local_epsilon <= self.epsilon:
            return 0.0
        choice = TwoLevel(outcomes=self.candidates, top=self.top, epsilon=self.local_epsilon)
        return delta_bound(of_choice(choice), replies, self.epsilon)

    @cached_property
    def rounds(self) -> tuple[Round, ...]:
        """The one round; where replies are sealed, in boxes for the analyst."""
        if self.seal is None:
            return (Round(self, 1, self.one_index),)
        return (SealedRound(self, 1, self.one_index, key=bytes.fromhex(self.seal), secret=self.opener),)
