"""Theorem lb-red run for real: the contract, every oracle, and the answers against W h."""

from typing import Any

import numpy as np
import pytest

from parley.emulator.coins import key_from_seed
from parley.emulator.errors import BadInput
from parley.emulator.protocol import Inputs
from parley.protocols.factorization.factors import exact
from parley.protocols.paper.linear_queries_by_reduction import ORACLES, Reduction
from parley.protocols.paper.one_round import OneRound
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.kendall import Kendall
from parley.protocols.workloads.kernel import Kernel
from tests.contracts.protocol_contract import SIGMAS, ProtocolContract, estimate


class TestReduction(ProtocolContract):
    protocol = "linear-queries-by-reduction"
    workload = Kendall(levels=(2, 3))
    users = 400
    epsilon = 2.0
    trials = 60

    def truth(self, protocol: Any, inputs: Inputs) -> float:
        return float(protocol.truth(inputs))


@pytest.mark.parametrize("oracle", ORACLES)
def test_all_answers_of_every_oracle_are_unbiased(oracle: str) -> None:
    workload = Kendall(levels=(2, 2))
    inputs = np.repeat(np.arange(4), [60, 30, 80, 30])
    protocol = Reduction.design(workload, epsilon=4.0, users=200, oracle=oracle)
    runs = np.array([estimate(protocol, inputs, key_from_seed(seed)).details["answers"] for seed in range(80)])
    errors = runs - workload.apply(workload.histogram(inputs))
    assert np.all(np.abs(errors.mean(axis=0)) <= SIGMAS * errors.std(axis=0) / np.sqrt(len(runs)))
    histogram = workload.histogram(inputs)
    predicted = np.array([protocol.planning.answer_variance(each, 200, histogram) for each in range(4)])
    ratios = errors**2 / predicted
    assert np.all(np.abs(ratios.mean(axis=0) - 1) <= 0.3 + SIGMAS * ratios.std(axis=0) / np.sqrt(len(runs)))


def test_the_auc_needs_no_second_budget() -> None:
    protocol = Reduction.design(AreaUnderCurve(levels=3), epsilon=1.0, users=50)
    assert isinstance(protocol.first.workload, Kendall)
    assert protocol.first.epsilon == 0.5


def test_absurd_sizes_and_unsuitable_oracles_are_refused() -> None:
    with pytest.raises(BadInput, match="linear-queries"):
        Reduction.design(Kendall(levels=(16, 16)), epsilon=1.0, users=10**6)
    varying = Kernel(np.diag([1.0, 2.0, 3.0]))
    with pytest.raises(BadInput, match="diagonal"):
        Reduction.design(varying, epsilon=1.0, users=100, oracle="one-round-tuned")
    with pytest.raises(BadInput, match="none of"):
        Reduction.design(varying, epsilon=1.0, users=100, oracle="three-round")


def test_the_biases_of_both_oracles_add_up() -> None:
    """Oracles that encode W/2: without noise an answer errs by 2 b' - b/2, at most by 5/2 of alpha."""
    workload = Kendall(levels=(2, 3))
    halves = [oracle_of_half(workload, users) for users in (100, 200)]
    protocol = Reduction(users=100, first=halves[0], second=halves[1])
    replies = 10**12
    alpha = np.abs(workload.matrix() / 2).max()
    assert protocol.planning.answer_variance(0, replies) == pytest.approx((2 * alpha + alpha / 2) ** 2, rel=1e-6)
    histogram = np.array([0.3, 0.1, 0.1, 0.2, 0.0, 0.3])
    for each in range(6):
        joint = (histogram + np.eye(6)[each]) / 2
        second, first = (-workload.form(shares) / 2 for shares in (joint, histogram))
        found = protocol.planning.answer_variance(each, replies, histogram)
        assert found == pytest.approx((2 * second - first / 2) ** 2, rel=1e-6, abs=1e-9)


def oracle_of_half(workload: Kendall, users: int) -> OneRound:
    factors = exact(workload).factors
    half = OneRound(
        workload=workload,
        epsilon=1.0,
        users=users,
        top=1,
        left=factors.left.dense() / 2,
        right=np.array(factors.right.dense()),
    )
    assert half.approximation.bias(None) == pytest.approx(0.5)
    return half
