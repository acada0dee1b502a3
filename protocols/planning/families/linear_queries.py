"""The error of protocols for linear queries: of every answer, and of the hardest one, which a Result carries."""

import math
from functools import cached_property
from typing import Any

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Estimate, Heard
from parley.emulator.randomizer import Floats
from parley.protocols.factorization.factors import Approximation, exact
from parley.protocols.factorization.fixed_point import fixed_point
from parley.protocols.paper.linear_queries import MatrixMechanism
from parley.protocols.paper.linear_queries_by_reduction import ORACLES, Reduction
from parley.protocols.paper.one_round import OneRound
from parley.protocols.planning.families.paper import with_factors
from parley.protocols.planning.families.tuned import OneRoundTunedPlanning
from parley.protocols.planning.noise import VectorNoise, noise_of
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.kendall import Kendall
from parley.protocols.workloads.linear import LinearQueries
from parley.protocols.workloads.workload import Workload


class AnswersPlanning:
    """All users reply once, and a Result carries the hardest answer."""

    def __init__(self, protocol: Any) -> None:
        self.protocol, self.planned_replies = protocol, (protocol.users,)


class MatrixMechanismPlanning(AnswersPlanning):
    """The MSE of every answer is that of L' times the noise of a mean vector."""

    @classmethod
    def design(
        cls, kind: type[MatrixMechanism], workload: LinearQueries | Workload, *, epsilon: float, users: int
    ) -> MatrixMechanism:
        if isinstance(workload, Workload):
            found = exact(workload)
        else:
            found = Approximation(factors=fixed_point(workload.values), target=workload.values)
        return with_factors(kind, workload, epsilon, users, found)

    @cached_property
    def noise(self) -> VectorNoise:
        return noise_of(self.protocol.vrand)

    @cached_property
    def hardest(self) -> int:
        """The query whose MSE is the mMSE."""
        return int(np.argmax(self.answer_variances(1)))

    def answer_variances(self, replies: int, histogram: Floats | None = None) -> Floats:
        """The MSE of every answer: (a |L_j|^2 + b sum_x h_x W[j, x]^2)/n; the worst histogram makes the sum extreme."""
        isotropic = self.noise.isotropic * self.protocol.approximation.factors.left.norms() ** 2
        squares = (self.protocol.workload.matrix() - self.protocol.workload.shift) ** 2
        if histogram is not None:
            radial: Floats = squares @ histogram
        else:
            radial = squares.max(axis=1) if self.noise.radial > 0 else squares.min(axis=1)
        return np.asarray(isotropic + self.noise.radial * radial) / replies

    def mean_squared_error(self, replies: int, histogram: Floats | None = None) -> float:
        return float(self.answer_variances(replies, histogram).max())

    def predicted_rmse(self, histogram: Floats | None = None) -> float:
        """The RMSE of the one number a Result carries; without a histogram, for the worst one."""
        return math.sqrt(float(self.answer_variances(self.protocol.users, histogram)[self.hardest]))

    def estimate(self, answers: Floats, heard: Heard) -> Estimate:
        """The hardest answer with its interval, and all answers."""
        variances = self.answer_variances(heard.tally.replies)
        details = {"answers": tuple(answers.tolist()), "query": self.hardest, "mmse": float(variances.max())}
        return Estimate.normal(float(answers[self.hardest]), math.sqrt(float(variances[self.hardest])), details)


def oracle_error(planning: Any, replies: int, histogram: Floats | None = None) -> float:
    """The MSE of an oracle's quadratic form, for a histogram or for the worst one."""
    if isinstance(planning, OneRoundTunedPlanning):
        return planning.pairs_variance(replies, histogram)
    return float(planning.form_variance((replies,), histogram))


class ReductionPlanning(AnswersPlanning):
    """Two oracles err independently: 4 alpha(eps/2, 2n) on the doubled histogram and alpha(eps/2, n)/4."""

    @classmethod
    def design(
        cls, kind: type[Reduction], workload: Workload, *, epsilon: float, users: int, oracle: str = OneRound.name
    ) -> Reduction:
        """A_{eps/2, n} and A_{eps/2, 2n} of the named oracle."""
        if oracle not in ORACLES:
            raise BadInput(f"the oracle {oracle!r:.80} is none of {', '.join(ORACLES)}")
        # The AUC's W is that of Kendall with two levels, which needs no n+.
        plain = Kendall(levels=(workload.levels, 2)) if isinstance(workload, AreaUnderCurve) else workload
        made: list[Any] = [ORACLES[oracle].design(plain, epsilon=epsilon / 2, users=n) for n in (users, 2 * users)]
        return kind(users=users, first=made[0], second=made[1])

    @cached_property
    def hardest(self) -> int:
        """The query with the largest error when all inputs are equally common."""
        guess = np.full(self.protocol.inputs, 1 / self.protocol.inputs)
        errors = [self.answer_variance(each, self.protocol.users, guess) for each in range(self.protocol.inputs)]
        return int(np.argmax(errors))

    def answer_variance(self, each: int, replies: int, histogram: Floats | None = None) -> float:
        """The MSE of one answer; without a histogram the mMSE, at most: both oracles on their worst ones."""
        joint = None if histogram is None else (histogram + np.eye(self.protocol.inputs)[each]) / 2
        first, second = self.protocol.first.planning, self.protocol.second.planning
        return float(4 * oracle_error(second, 2 * replies, joint) + oracle_error(first, replies, histogram) / 4)

    def predicted_rmse(self, histogram: Floats | None = None) -> float:
        """The RMSE of the one number a Result carries; without a histogram, for the worst one."""
        return math.sqrt(self.answer_variance(self.hardest, self.protocol.users, histogram))

    def estimate(self, answers: Floats, heard: Heard) -> Estimate:
        """The hardest answer with its interval, and all answers."""
        error = self.answer_variance(self.hardest, max(2, heard.tally.replies))
        details = {"answers": tuple(answers.tolist()), "query": self.hardest, "mmse": math.sqrt(error) ** 2}
        return Estimate.normal(float(answers[self.hardest]), math.sqrt(error), details)
