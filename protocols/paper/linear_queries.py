"""The matrix mechanism for linear queries (Theorem enu-convenient, upper bound; overview, "White-Box Algorithms").

Factorise W = L'R. Each user sends VRand_eps(R 1_x) with the whole budget; the analyst outputs L' (mean of the
vectors), an unbiased estimate of W h.

A Result carries one number. It is the hardest answer, the one whose error is the mMSE: which one that is follows
from W and the randomizer alone. All answers are in its details under "answers", in order.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from parley.emulator.protocol import Broadcast, Claim, Estimate, Inputs, Protocol
from parley.emulator.randomizer import Floats
from parley.emulator.tally import Tally
from parley.protocols.factorization.approximation import (
    Approximation,
    approximation_parameters,
    double,
    exact,
    given_factor,
    plain,
    read_approximation,
)
from parley.protocols.factorization.fixed_point import fixed_point
from parley.protocols.legacy_rounds import LegacyRound as Round
from parley.protocols.legacy_rounds import Part
from parley.protocols.limits import check_many
from parley.protocols.non_interactive import OnlyRound, estimate
from parley.protocols.parameters import (
    LARGEST_EPSILON,
    MOST_USERS,
    check_epsilon,
    check_users,
    count,
    mapping,
    number,
    only,
)
from parley.protocols.planning.noise import VectorNoise, noise_of
from parley.protocols.randomizers.vectors.codebook import Codebook
from parley.protocols.workloads.linear import LinearQueries, queries_from
from parley.protocols.workloads.statistics import workload_from
from parley.protocols.workloads.workload import Workload, check_entries

CANDIDATES = 16
Queries = Workload | LinearQueries


@dataclass(frozen=True, kw_only=True)
class MatrixMechanism(Protocol):
    """Answers to all queries of W from one vector a user.

    Formal guarantee: eps-LDP. The only reply is one codebook randomizer of one vector whose norm every user bounds
    itself.
    """

    name: ClassVar[str] = "linear-queries"
    summary: ClassVar[str] = "The matrix mechanism: VRand(R 1_x) with all of eps; answers W h"

    workload: Queries
    epsilon: float
    users: int
    approximation: Approximation = field(repr=False)
    best: int

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_users(self.users)

    @classmethod
    def design(cls, workload: Queries, *, epsilon: float, users: int) -> Self:
        """W is that of the queries, or that of a pairwise statistic."""
        approximation = double(_factorized(workload))
        draft = cls(workload=workload, epsilon=epsilon, users=users, approximation=approximation, best=1)
        return replace(draft, best=replace(draft.vector, best=None).favoured)

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        only(parameters, "workload", "epsilon", "users", "best", optional=("left", "right"))
        workload = read_queries(mapping(parameters, "workload"))
        check_many(workload.size)
        check_entries(workload.name, workload.infinity_norm)
        return cls(
            workload=workload,
            epsilon=number(parameters, "epsilon", 0.0, LARGEST_EPSILON),
            users=count(parameters, "users", 2, MOST_USERS),
            approximation=_given(workload, parameters),
            best=count(parameters, "best", 1, CANDIDATES // 2),
        )

    @classmethod
    def inputs_of(cls, parameters: Mapping[str, Any]) -> int:
        """k of a Setup's parameters, from the workload's alone."""
        return read_queries(mapping(parameters, "workload")).size

    def parameters(self) -> Mapping[str, Any]:
        shared = {"workload": self.workload.parameters(), "epsilon": self.epsilon, "users": self.users}
        return {**shared, "best": self.best, **approximation_parameters(self.approximation)}

    @property
    def claim(self) -> Claim:
        return Claim(epsilon=self.epsilon, rounds=1, interaction="non-interactive")

    @property
    def inputs(self) -> int:
        return self.workload.size

    @property
    def rounds(self) -> tuple[Round, ...]:
        return (self.step,)

    @property
    def planned_replies(self) -> tuple[int, ...]:
        return (self.users,)

    def opening(self) -> Broadcast:
        return {}

    @cached_property
    def vector(self) -> Codebook:
        """VRand_{eps, |R|}."""
        factors = self.approximation.factors
        return Codebook(
            dimension=factors.rows,
            radius=factors.right.radius,
            epsilon=self.epsilon,
            candidates=CANDIDATES,
            best=self.best,
        )

    @cached_property
    def step(self) -> "Ask":
        return Ask(self)

    @cached_property
    def noise(self) -> VectorNoise:
        return noise_of(self.vector)

    def answers(self, tally: Tally) -> Floats:
        """L' (mean y) + c: an estimate of W h."""
        return self.approximation.factors.left.transpose_apply(self.step.mean(tally, "vector")) + shift(self.workload)

    def truth(self, inputs: Inputs) -> float:
        """What the Result's one number estimates: the hardest answer, without noise."""
        histogram = np.bincount(inputs, minlength=self.inputs) / len(inputs)
        return float(self.workload.apply(histogram)[self.hardest])

    @cached_property
    def hardest(self) -> int:
        """The query whose MSE is the mMSE."""
        return int(np.argmax(self.answer_variances(1)))

    def answer_variances(self, replies: int, histogram: Floats | None = None) -> Floats:
        """The MSE of every answer: (a |L_j|^2 + b sum_x h_x W[j, x]^2)/n; the worst histogram makes the sum extreme."""
        isotropic = self.noise.isotropic * self.approximation.factors.left.norms() ** 2
        squares = (self.workload.matrix() - shift(self.workload)) ** 2
        if histogram is not None:
            leaning: Floats = squares @ histogram
        else:
            leaning = squares.max(axis=1) if self.noise.lean > 0 else squares.min(axis=1)
        return np.asarray(isotropic + self.noise.lean * leaning) / replies

    def mean_squared_error(self, replies: int, histogram: Floats | None = None) -> float:
        """mMSE: the largest of them."""
        return float(self.answer_variances(replies, histogram).max())

    def predicted_rmse(self, histogram: Floats | None = None) -> float:
        """The RMSE of the one number a Result carries; without a histogram, for the worst one."""
        return math.sqrt(float(self.answer_variances(self.users, histogram)[self.hardest]))

    def conclude(self, heard: tuple[tuple[Broadcast, Tally], ...]) -> Estimate:
        tally = heard[0][1]
        answers = self.answers(tally)
        variances = self.answer_variances(tally.replies)
        details = {
            "answers": tuple(answers.tolist()),
            "query": self.hardest,
            "mmse": float(variances.max()),
        }
        return estimate(float(answers[self.hardest]), math.sqrt(float(variances[self.hardest])), details)


class Ask(OnlyRound):
    """Each user sends VRand(R 1_x)."""

    name = "ask"

    def __init__(self, protocol: MatrixMechanism) -> None:
        self.protocol = protocol

    @property
    def inputs(self) -> int:
        return self.protocol.inputs

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return (Part(name="vector", randomizer=self.protocol.vector),)

    def functions(self, public: Broadcast, inputs: Inputs) -> dict[str, Floats]:
        return {"vector": self.protocol.approximation.factors.right.columns(inputs)}


def shift(workload: Queries) -> float:
    """c: (Jh)_j = 1 for every histogram, so W - cJ is factorised where W has a shift."""
    return workload.shift if isinstance(workload, Workload) else 0.0


def read_queries(parameters: Mapping[str, Any]) -> Queries:
    """Linear queries by their matrix, or the W of a statistic."""
    return queries_from(parameters) if "queries" in parameters else workload_from(parameters)


def _factorized(workload: Queries) -> Approximation:
    if isinstance(workload, Workload):
        return exact(workload)
    return Approximation(factors=fixed_point(workload.values), target=workload.values)


def _given(workload: Queries, parameters: Mapping[str, Any]) -> Approximation:
    """The factors a Setup describes; L has a column for each query, R one for each input."""
    if isinstance(workload, Workload):
        return read_approximation(workload, parameters)
    left = given_factor(parameters.get("left"), "left", workload.queries)
    right = given_factor(parameters.get("right"), "right", workload.size)
    return Approximation(factors=plain(left, right), target=workload.values)
