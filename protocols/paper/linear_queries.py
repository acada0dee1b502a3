"""The matrix mechanism for linear queries (Theorem enu-convenient, upper bound; overview, "White-Box Algorithms").

Factorise W = L'R. Each user sends VRand_eps(R 1_x) with the whole budget; the analyst outputs L' (mean of the
vectors), an unbiased estimate of W h, and pulls each answer towards the middle of its query's range by what its noise
is worth, so that few users do not cost more than answering without them.

A Result carries one number. It is the hardest answer, the one whose error is the mMSE: which one that is follows
from W and the randomizer alone. All answers are in its details under "answers", in order.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Analyst, Ask, Heard, Inputs, Send, Sends, sends
from parley.emulator.randomizer import Floats
from parley.protocols.factorization.factors import Approximation, given_factor, plain, two_factors
from parley.protocols.limits import check_many, check_users, mapping
from parley.protocols.paper.two_factors import CANDIDATES
from parley.protocols.planned import Planned
from parley.protocols.randomizers.exact import check_epsilon
from parley.protocols.randomizers.vectors.codebook import Codebook
from parley.protocols.workloads.linear import LinearQueries
from parley.protocols.workloads.workload import Workload, check_entries


@dataclass(frozen=True, kw_only=True)
class MatrixMechanism(Planned):
    """Answers to all queries of W from one vector per user. W is that of the queries, or of a pairwise statistic.

    Formal guarantee: eps-LDP. The only reply is one codebook randomizer of one vector whose norm every user bounds
    itself. What the analyst does with the replies is post-processing.

    `shrunk` is missing where the answers stay unbiased: in older records, and for the two-round reduction.
    """

    name: ClassVar[str] = "linear-queries"
    summary: ClassVar[str] = "The matrix mechanism: VRand(R 1_x) with all of eps; answers W h"

    workload: LinearQueries | Workload
    epsilon: float
    users: int
    top: int
    shrunk: bool | None = None
    left: Floats | None = field(default=None, repr=False, compare=False)
    right: Floats | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_users(self.users)
        check_many(self.workload.size)
        check_entries(self.workload.name, self.workload.infinity_norm)
        if not 1 <= self.top <= CANDIDATES // 2:
            raise BadInput(f"top is {self.top}; give a number of candidates from 1 to {CANDIDATES // 2}")

    @classmethod
    def inputs_of(cls, parameters: Mapping[str, Any]) -> int:
        """k of a Setup's parameters, from the workload's alone."""
        return LinearQueries.from_parameters(mapping(parameters, "workload")).size

    @property
    def inputs(self) -> int:
        return self.workload.size

    @cached_property
    def approximation(self) -> Approximation:
        """W - cJ = L'R: L has a column for each query, R one for each input; (Jh)_j = 1 for every histogram h."""
        if isinstance(self.workload, Workload):
            return two_factors(self.workload, self.left, self.right)
        left = given_factor(self.left, "left", len(self.workload.values))
        right = given_factor(self.right, "right", self.workload.size)
        return Approximation(factors=plain(left, right), target=self.workload.values)

    @cached_property
    def vrand(self) -> Codebook:
        rows, radius = self.approximation.factors.rows, self.approximation.factors.right.radius
        return Codebook(dimension=rows, radius=radius, epsilon=self.epsilon, candidates=CANDIDATES, top=self.top)

    @sends
    def ask(self) -> Sends:
        """Each user sends y = VRand(R 1_x)."""
        return {"y": Send(self.vrand, self.approximation.factors.right)}

    script = (ask,)

    def answers(self, question: Ask) -> Generator[Ask, Heard, tuple[Floats, Heard]]:
        """L' (mean y) + c, an estimate of W h, for whoever asks this question among others."""
        one = yield question
        return self.approximation.factors.left.T @ one.mean("y") + self.workload.shift, one

    def analyst(self) -> Analyst:
        """All answers; the Result's one number is the hardest."""
        answers, one = yield from self.answers(Ask(self.ask))
        return self.planning.estimate(answers, one)  # type: ignore[no-any-return]

    def truth(self, inputs: Inputs) -> float:
        """What the Result's one number estimates: the hardest answer, without noise."""
        histogram = np.bincount(inputs, minlength=self.inputs) / len(inputs)
        return float(self.workload.apply(histogram)[self.planning.hardest])
