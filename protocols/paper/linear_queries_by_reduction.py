"""Theorem lb-red: linear queries of a symmetric W from any one-round protocol for its quadratic form, the oracle.

Each user runs the oracle A_{eps/2, n} and, in the same round, the randomizer of A_{eps/2, 2n}. For each j the analyst
simulates n more users of the second oracle, all with the input j, lets z'_j be its estimate from the 2n responses,
and answers 2 z'_j - z/2 - W[j, j]/2, z being the first oracle's estimate.

The theorem shows that quadratic forms are as hard as linear queries; it is here to be run, not as the best way.
The simulated users' coins are a keystream whose key is a hash of the recorded tallies, so everybody who reads the
transcript computes the same answers; no user's reply depends on them.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from parley.emulator.coins import addressed
from parley.emulator.errors import BadInput
from parley.emulator.parameters import NAMED
from parley.emulator.protocol import Analyst, Ask, Heard, Inputs, Sends, beside, sends
from parley.emulator.round import Tally
from parley.protocols.baselines.frequency import FrequencyGrr
from parley.protocols.limits import check_users, mapping
from parley.protocols.paper.one_round import OneRound
from parley.protocols.planned import Planned
from parley.protocols.tuned.one_round_tuned import OneRoundTuned

Oracle = OneRound | OneRoundTuned | FrequencyGrr
ORACLES: Mapping[str, type[Oracle]] = {oracle.name: oracle for oracle in (OneRound, OneRoundTuned, FrequencyGrr)}
# Simulated users are drawn for each of k inputs; this many take about a minute.
MOST_SIMULATED = 10**7
BATCH = 4096


@dataclass(frozen=True, kw_only=True)
class Reduction(Planned):
    """Two oracles side by side, and k crowds of simulated users.

    Formal guarantee: eps-LDP. A user runs two oracles that are eps/2-LDP each; the simulation sees nothing but what
    they made public.
    """

    name: ClassVar[str] = "linear-queries-by-reduction"
    summary: ClassVar[str] = "Theorem lb-red: answers W h through a one-round protocol for h'Wh and simulated users"

    users: int
    first: Oracle = field(repr=False, metadata={NAMED: ORACLES})
    second: Oracle = field(repr=False, metadata={NAMED: ORACLES})

    def __post_init__(self) -> None:
        check_users(self.users)
        if self.inputs * self.users > MOST_SIMULATED:
            raise BadInput(
                f"the reduction simulates {self.users} users for each of {self.inputs} inputs, more than the limit of "
                f"{MOST_SIMULATED}; use linear-queries, which answers the same queries"
            )
        if self.first.epsilon != self.second.epsilon or self.first.workload != self.second.workload:
            raise BadInput("both oracles of the reduction must have the same workload and epsilon")
        if np.ptp(self.first.workload.diagonal()) != 0 and not isinstance(self.first, OneRound):
            raise BadInput(f"{self.first.name} gives no quadratic form of a W whose diagonal varies; use one-round")

    @classmethod
    def inputs_of(cls, parameters: Mapping[str, Any]) -> int:
        """k of a Setup's parameters: that of the first oracle's."""
        first = mapping(parameters, "first")
        name = first.get("protocol")
        if type(name) is not str or name not in ORACLES:
            raise BadInput(f"the oracle {name!r:.80} is none of {', '.join(ORACLES)}")
        return ORACLES[name].inputs_of(mapping(first, "parameters"))

    @property
    def epsilon(self) -> float:
        """Basic composition of the two oracles."""
        return self.first.epsilon + self.second.epsilon

    @property
    def inputs(self) -> int:
        return self.first.inputs

    @sends
    def both_oracles(self) -> Sends:
        """Each user runs both oracles."""
        return beside(first=self.first.rounds[0].sends({}), second=self.second.rounds[0].sends({}))

    script = (both_oracles,)

    def analyst(self) -> Analyst:
        """z, then z'_j for every j, then the answers."""
        heard = yield Ask(self.both_oracles)
        first, second = heard.part("first"), heard.part("second")
        form = self.first.quadratic_form(first)
        crowds = [self.simulate(j, second) for j in range(self.inputs)]
        joint = [self.second.quadratic_form(replace(second, tally=second.tally + crowd)) for crowd in crowds]
        answers = 2 * np.array(joint) - form / 2 - self.first.workload.diagonal() / 2
        return self.planning.estimate(answers, second)  # type: ignore[no-any-return]

    def simulate(self, j: int, second: Heard) -> Tally:
        """The tally of as many users as replied, all with the input j: the analyst runs the randomizer itself."""
        key, step, replies = key_of(second.tally), self.second.rounds[0], second.tally.replies
        total = second.tally.empty()
        for start in range(0, replies, BATCH):
            size = min(BATCH, replies - start)
            users = np.arange(start, start + size)
            said = step.respond({}, np.full(size, j), addressed(key, j, start, size, step.coins), users)
            total = total + step.tally({}, step.complete({}, users, said))
        return total

    def truth(self, inputs: Inputs) -> float:
        """What the Result's one number estimates: the hardest answer, without noise."""
        histogram = np.bincount(inputs, minlength=self.inputs) / len(inputs)
        return float(self.first.workload.apply(histogram)[self.planning.hardest])


def key_of(tally: Tally) -> bytes:
    """The key of the simulated users' coins: a hash of what is on record."""
    digest = hashlib.sha256(b"parley simulated users" + tally.replies.to_bytes(8, "little"))
    for name in sorted(tally.sums):
        digest.update(name.encode() + np.ascontiguousarray(tally.sums[name]).astype("<i8").tobytes())
    return digest.digest()
