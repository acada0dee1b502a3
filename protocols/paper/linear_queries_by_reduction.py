"""Theorem lb-red: linear queries of a symmetric W from any one-round protocol for its quadratic form, the oracle.

Each user runs the oracle A_{eps/2, n} and, in the same round, the randomizer of A_{eps/2, 2n}. For each j the analyst
simulates n more users of the second oracle, all with the input j, lets z'_j be its estimate from the 2n responses,
and answers 2 z'_j - z/2 - W[j, j]/2, z being the first oracle's estimate.

The theorem shows that quadratic forms are as hard as linear queries; it is here to be run, not as the best way.
The simulated users' coins are a keystream whose key is a hash of the recorded tallies, so everybody who reads the
transcript computes the same answers; no user's reply depends on them.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from parley.emulator.coins import addressed
from parley.emulator.errors import BadInput
from parley.emulator.protocol import Broadcast, Claim, Estimate, Inputs, Protocol
from parley.emulator.randomizer import MOST_OUTCOMES, Coins, Columns, Floats, Shape
from parley.emulator.tally import Tally
from parley.protocols.baselines.frequency import FrequencyGrr
from parley.protocols.legacy_rounds import LegacyRound as Round
from parley.protocols.non_interactive import NonInteractive, estimate
from parley.protocols.paper.one_round import OneRound
from parley.protocols.parameters import MOST_USERS, check_users, count, mapping, only
from parley.protocols.tuned.one_round_tuned import OneRoundTuned
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.kendall import Kendall
from parley.protocols.workloads.workload import Workload

ORACLES: Mapping[str, type[NonInteractive]] = {
    oracle.name: oracle for oracle in (OneRound, OneRoundTuned, FrequencyGrr)
}
# Simulated users are drawn for each of k inputs; this many take about a minute.
MOST_SIMULATED = 10**7
BATCH = 4096
SIDES = ("first", "second")


@dataclass(frozen=True, kw_only=True)
class Reduction(Protocol):
    """Two oracles side by side, and k crowds of simulated users.

    Formal guarantee: eps-LDP. A user runs two oracles that are eps/2-LDP each; the simulation sees nothing but what
    they made public.
    """

    name: ClassVar[str] = "linear-queries-by-reduction"
    summary: ClassVar[str] = "Theorem lb-red: answers W h through a one-round protocol for h'Wh and simulated users"

    users: int
    first: NonInteractive = field(repr=False)
    second: NonInteractive = field(repr=False)

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
    def design(cls, workload: Workload, *, epsilon: float, users: int, oracle: str = OneRound.name) -> Self:
        """A_{eps/2, n} and A_{eps/2, 2n} of the named oracle."""
        if oracle not in ORACLES:
            raise BadInput(f"the oracle {oracle!r:.80} is none of {', '.join(ORACLES)}")
        matrix = _plain(workload)
        first, second = (ORACLES[oracle].design(matrix, epsilon=epsilon / 2, users=n) for n in (users, 2 * users))
        return cls(users=users, first=first, second=second)

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        only(parameters, "users", "oracle", *SIDES)
        oracle = _oracle(parameters)
        first, second = (oracle.from_parameters(mapping(parameters, side)) for side in SIDES)
        return cls(users=count(parameters, "users", 2, MOST_USERS), first=first, second=second)

    @classmethod
    def inputs_of(cls, parameters: Mapping[str, Any]) -> int:
        """k of a Setup's parameters: that of the first oracle's."""
        return _oracle(parameters).inputs_of(mapping(parameters, SIDES[0]))

    def parameters(self) -> Mapping[str, Any]:
        sides = {"first": self.first.parameters(), "second": self.second.parameters()}
        return {"users": self.users, "oracle": self.first.name, **sides}

    @property
    def epsilon(self) -> float:
        """Basic composition of the two oracles."""
        return self.first.epsilon + self.second.epsilon

    @property
    def claim(self) -> Claim:
        return Claim(epsilon=self.epsilon, rounds=1, interaction="non-interactive")

    @property
    def inputs(self) -> int:
        return self.first.inputs

    @cached_property
    def step(self) -> "SideBySide":
        return SideBySide(self.first.step, self.second.step)

    @property
    def rounds(self) -> tuple[Round, ...]:
        return (self.step,)

    @property
    def planned_replies(self) -> tuple[int, ...]:
        return (self.users,)

    def opening(self) -> Broadcast:
        return {}

    def conclude(self, heard: tuple[tuple[Broadcast, Tally], ...]) -> Estimate:
        first, second = (part_of(heard[0][1], side) for side in SIDES)
        form = self.first.quadratic_form(first)
        crowds = [self._simulate(each, second) for each in range(self.inputs)]
        joint = np.array([self.second.quadratic_form(second + crowd) for crowd in crowds])
        answers = 2 * joint - form / 2 - self.first.workload.diagonal() / 2
        rmse = math.sqrt(self.mean_squared_error(max(2, second.replies)))
        details = {"answers": tuple(answers.tolist()), "query": self.hardest, "mmse": rmse**2}
        return estimate(float(answers[self.hardest]), rmse, details)

    def _simulate(self, each: int, heard: Tally) -> Tally:
        """The tally of as many users as replied, all with the input `each`."""
        key, step = key_of(heard), self.second.step
        total: Tally | None = None
        for start in range(0, heard.replies, BATCH):
            size = min(BATCH, heard.replies - start)
            replies = step.respond({}, np.full(size, each), addressed(key, each, start, size, step.coins))
            tally = step.tally({}, replies)
            total = tally if total is None else total + tally
        assert total is not None
        return total

    @cached_property
    def hardest(self) -> int:
        """The query with the largest error when all inputs are equally common."""
        guess = np.full(self.inputs, 1 / self.inputs)
        return int(np.argmax([self.answer_variance(each, self.users, guess) for each in range(self.inputs)]))

    def truth(self, inputs: Inputs) -> float:
        """What the Result's one number estimates: the hardest answer, without noise."""
        histogram = np.bincount(inputs, minlength=self.inputs) / len(inputs)
        return float(self.first.workload.apply(histogram)[self.hardest])

    def answer_variance(self, each: int, replies: int, histogram: Floats) -> float:
        """4 alpha(eps/2, 2n) on the doubled histogram and alpha(eps/2, n)/4: the two oracles err independently."""
        joint = (histogram + np.eye(self.inputs)[each]) / 2
        return (
            4 * self.second.form_variance((2 * replies,), joint) + self.first.form_variance((replies,), histogram) / 4
        )

    def mean_squared_error(self, replies: int) -> float:
        """mMSE, at most: both oracles on their worst histograms."""
        return 4 * self.second.form_variance((2 * replies,)) + self.first.form_variance((replies,)) / 4

    def predicted_rmse(self, histogram: Floats | None = None) -> float:
        """The RMSE of the one number a Result carries; without a histogram, for the worst one."""
        if histogram is None:
            return math.sqrt(self.mean_squared_error(self.users))
        return math.sqrt(self.answer_variance(self.hardest, self.users, histogram))


class SideBySide(Round):
    """Two rounds as one: a reply is both replies."""

    name = "both oracles"

    def __init__(self, first: Round, second: Round) -> None:
        self.steps = dict(zip(SIDES, (first, second), strict=True))

    @property
    def broadcast(self) -> Shape:
        return {}

    @cached_property
    def reply(self) -> Shape:
        return {f"{side}.{name}": shape for side, step in self.steps.items() for name, shape in step.reply.items()}

    @property
    def coins(self) -> int:
        return sum(step.coins for step in self.steps.values())

    def respond(self, public: Broadcast, inputs: Inputs, coins: Coins) -> Columns:
        border = self.steps["first"].coins
        flips = {"first": coins[:, :border], "second": coins[:, border:]}
        return {
            f"{side}.{name}": column
            for side, step in self.steps.items()
            for name, column in step.respond({}, inputs, flips[side]).items()
        }

    def check(self, public: Broadcast, replies: Columns) -> NDArray[np.bool_]:
        both = [step.check({}, _own(side, replies)) for side, step in self.steps.items()]
        return np.asarray(both[0] & both[1], dtype=np.bool_)

    def log_likelihood(self, public: Broadcast, replies: Columns) -> Floats:
        both = [step.log_likelihood({}, _own(side, replies)) for side, step in self.steps.items()]
        return np.asarray(both[0] + both[1])

    @property
    def epsilon(self) -> float | None:
        both = [step.epsilon for step in self.steps.values()]
        return None if None in both else sum(each for each in both if each is not None)

    def outcomes(self, public: Broadcast) -> Columns | None:
        first, second = (step.outcomes({}) for step in self.steps.values())
        if first is None or second is None:
            return None
        many = [len(next(iter(each.values()))) for each in (first, second)]
        if many[0] * many[1] > MOST_OUTCOMES:
            return None
        return {
            **{f"first.{name}": np.repeat(column, many[1], axis=0) for name, column in first.items()},
            **{f"second.{name}": np.concatenate([column] * many[0]) for name, column in second.items()},
        }

    def tally(self, public: Broadcast, replies: Columns) -> Tally:
        sums = {
            f"{side}.{name}": total
            for side, step in self.steps.items()
            for name, total in step.tally({}, _own(side, replies)).sums.items()
        }
        return Tally(len(next(iter(replies.values()))), sums)


def part_of(tally: Tally, side: str) -> Tally:
    """One oracle's tally."""
    prefix = f"{side}."
    sums = {name.removeprefix(prefix): total for name, total in tally.sums.items() if name.startswith(prefix)}
    return Tally(tally.replies, sums)


def key_of(tally: Tally) -> bytes:
    """The key of the simulated users' coins: a hash of what is on record."""
    digest = hashlib.sha256(b"parley simulated users" + tally.replies.to_bytes(8, "little"))
    for name in sorted(tally.sums):
        digest.update(name.encode() + np.ascontiguousarray(tally.sums[name]).astype("<i8").tobytes())
    return digest.digest()


def _own(side: str, replies: Columns) -> Columns:
    prefix = f"{side}."
    return {name.removeprefix(prefix): column for name, column in replies.items() if name.startswith(prefix)}


def _oracle(parameters: Mapping[str, Any]) -> type[NonInteractive]:
    """The class of both oracles that a Setup names."""
    name = parameters["oracle"]
    if type(name) is not str or name not in ORACLES:
        raise BadInput(f"the oracle {name!r:.80} is none of {', '.join(ORACLES)}")
    return ORACLES[name]


def _plain(workload: Workload) -> Workload:
    """The AUC's W is that of Kendall with two levels, which needs no n+."""
    return Kendall(levels=(workload.levels, 2)) if isinstance(workload, AreaUnderCurve) else workload
