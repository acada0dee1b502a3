"""The error of protocols for linear queries: of every answer, and of the hardest one, which a Result carries."""

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Estimate, Heard
from parley.emulator.randomizer import Floats
from parley.protocols.factorization.factors import Approximation, approximations, exact
from parley.protocols.factorization.fixed_point import fixed_point
from parley.protocols.paper.linear_queries import MatrixMechanism
from parley.protocols.paper.linear_queries_by_reduction import ORACLES, Oracle, Reduction
from parley.protocols.paper.one_round import OneRound
from parley.protocols.planning.families.paper import with_factors
from parley.protocols.planning.families.tuned import OneRoundTunedPlanning
from parley.protocols.planning.noise import VectorNoise, noise_of
from parley.protocols.workloads.linear import LinearQueries
from parley.protocols.workloads.workload import Workload


class AnswersPlanning(ABC):
    """All users reply once, and a Result carries the hardest answer."""

    def __init__(self, protocol: Any) -> None:
        self.protocol, self.planned_replies = protocol, (protocol.users,)

    @abstractmethod
    def hardest_error(self, replies: int, histogram: Floats | None = None) -> float:
        """The MSE of the hardest answer, for this histogram or for the worst one."""

    def predicted_rmse(self, histogram: Floats | None = None) -> float:
        """The RMSE of the one number a Result carries; without a histogram, for the worst one."""
        return math.sqrt(self.hardest_error(self.protocol.users, histogram))


class MatrixMechanismPlanning(AnswersPlanning):
    """The MSE of every answer: of L' times the noise of a mean vector, and of what the answer is pulled by.

    Query j has answers within r_j of the middle m_j of its row. With W~ within b_j of W and noise of variance v_j, the
    answer m_j + s (raw - m_j) errs by at most ((1 - s) r_j + s b_j)^2 + s^2 v_j, which is least at
    s = r_j (r_j - b_j) / ((r_j - b_j)^2 + v_j): below r_j^2, the error of answering m_j, and below b_j^2 + v_j.
    """

    @classmethod
    def design(
        cls, kind: type[MatrixMechanism], workload: LinearQueries | Workload, *, epsilon: float, users: int
    ) -> MatrixMechanism:
        """W's own factors, or those of a W~ that costs less noise than it errs by (Lemma fac-vs-apx-fac)."""
        if isinstance(workload, Workload):
            found, target = exact(workload), workload.matrix() - workload.shift
        else:
            found, target = Approximation(factors=fixed_point(workload.values), target=workload.values), workload.values
        whole = with_factors(kind, workload, epsilon, users, found)
        # An answer's noise is gamma_2 over this; the paper has eps sqrt(n) up to a constant.
        slope = math.sqrt(users * found.factors.upper / noise_of(whole.vrand).isotropic)
        nearby = [with_factors(kind, workload, epsilon, users, each) for each in approximations(target, slope)]
        drafts = [replace(draft, shrunk=True) for draft in (whole, *nearby)]
        return min(drafts, key=lambda draft: cls(draft).mean_squared_error(users))

    @cached_property
    def noise(self) -> VectorNoise:
        return noise_of(self.protocol.vrand)

    @cached_property
    def hardest(self) -> int:
        """The query whose MSE is the mMSE."""
        return int(np.argmax(self.answer_errors(self.protocol.users if self.protocol.shrunk else 1)))

    @cached_property
    def _ranges(self) -> tuple[Floats, Floats]:
        """The middle and half the range of every query's answers."""
        matrix = self.protocol.workload.matrix()
        low, high = matrix.min(axis=1), matrix.max(axis=1)
        return (low + high) / 2, (high - low) / 2

    def _biases(self, histogram: Floats | None = None) -> Floats:
        """((W~ - W)h)_j; without a histogram the most it can be."""
        error = self.protocol.approximation.error
        if error is None:
            return np.zeros(len(self._ranges[0]))
        return np.asarray(np.abs(error).max(axis=1) if histogram is None else error @ histogram)

    def weights(self, replies: int) -> Floats:
        """s of every query."""
        if not self.protocol.shrunk:
            return np.ones(len(self._ranges[0]))
        reach = self._ranges[1]
        left = np.maximum(reach - self._biases(), 0.0)
        return np.asarray(np.minimum(reach * left / (left**2 + self.answer_variances(replies)), 1.0))

    def answer_errors(self, replies: int, histogram: Floats | None = None) -> Floats:
        """The MSE of every answer, for this histogram or for the worst one."""
        weights, (middle, reach) = self.weights(replies), self._ranges
        if histogram is None:
            biases = (1 - weights) * reach + weights * self._biases()
        else:
            truth = self.protocol.workload.matrix() @ histogram
            biases = (1 - weights) * (middle - truth) + weights * self._biases(histogram)
        return np.asarray(biases**2 + weights**2 * self.answer_variances(replies, histogram))

    def answer_variances(self, replies: int, histogram: Floats | None = None) -> Floats:
        """The noise of raw answers: (a |L_j|^2 + b sum_x h_x W~[j, x]^2)/n; the worst histogram has an extreme sum."""
        approximation = self.protocol.approximation
        isotropic = self.noise.isotropic * approximation.factors.left.norms() ** 2
        if approximation.target is None:
            squares = (self.protocol.workload.matrix() - self.protocol.workload.shift) ** 2
        else:
            squares = approximation.factors.dense() ** 2
        if histogram is not None:
            radial: Floats = squares @ histogram
        else:
            radial = squares.max(axis=1) if self.noise.radial > 0 else squares.min(axis=1)
        return np.asarray(isotropic + self.noise.radial * radial) / replies

    def mean_squared_error(self, replies: int) -> float:
        return float(self.answer_errors(replies).max())

    def hardest_error(self, replies: int, histogram: Floats | None = None) -> float:
        return float(self.answer_errors(replies, histogram)[self.hardest])

    def estimate(self, answers: Floats, heard: Heard) -> Estimate:
        """The hardest answer with its interval, and all answers."""
        replies, hardest = heard.tally.replies, self.hardest
        errors = self.answer_errors(replies)
        if self.protocol.shrunk:
            middle, reach = self._ranges
            moved = self.weights(replies) * (answers - middle)
            answers = middle + np.clip(moved, -reach, reach)
        details = {"answers": tuple(answers.tolist()), "query": hardest, "mmse": float(errors.max())}
        return Estimate.normal(float(answers[hardest]), math.sqrt(float(errors[hardest])), details)


def oracle_error(planning: Any, replies: int, histogram: Floats | None = None) -> float:
    """The MSE of an oracle's quadratic form, for a histogram or for the worst one."""
    if isinstance(planning, OneRoundTunedPlanning):
        return planning.pairs_variance(replies, histogram)
    return float(planning.form_variance((replies,), histogram))


class ReductionPlanning(AnswersPlanning):
    """4 alpha(eps/2, 2n) on the doubled histogram, alpha(eps/2, n)/4, and what the two oracles' biases b', b add.

    An answer errs by 2 e' - e/2. The oracles' noise is independent: E(2 e' - e/2)^2 = 4 E e'^2 + E e^2 / 4 - 2 b' b.
    """

    @classmethod
    def design(
        cls, kind: type[Reduction], workload: Workload, *, epsilon: float, users: int, oracle: str = OneRound.name
    ) -> Reduction:
        """A_{eps/2, n} and A_{eps/2, 2n} of the named oracle."""
        if oracle not in ORACLES:
            raise BadInput(f"the oracle {oracle!r:.80} is none of {', '.join(ORACLES)}")
        plain = workload.numerator
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
        # The most a bias can be has no sign: then both may add up.
        sign = 1 if histogram is None else -1
        cross = sign * 2 * bias_of(self.protocol.second, joint) * bias_of(self.protocol.first, histogram)
        alone = 4 * oracle_error(second, 2 * replies, joint) + oracle_error(first, replies, histogram) / 4
        return float(alone + cross)

    def hardest_error(self, replies: int, histogram: Floats | None = None) -> float:
        return self.answer_variance(self.hardest, replies, histogram)

    def estimate(self, answers: Floats, heard: Heard) -> Estimate:
        """The hardest answer with its interval, and all answers."""
        error = self.hardest_error(max(2, heard.tally.replies))
        details = {"answers": tuple(answers.tolist()), "query": self.hardest, "mmse": math.sqrt(error) ** 2}
        return Estimate.normal(float(answers[self.hardest]), math.sqrt(error), details)


def bias_of(oracle: Oracle, histogram: Floats | None) -> float:
    """h'(W~ - W)h of an oracle that encodes a W~ near W; without a histogram the most it can be."""
    approximation: Approximation | None = getattr(oracle, "approximation", None)
    return 0.0 if approximation is None else approximation.bias(histogram)
