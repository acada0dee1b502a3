"""Theorem lb-red run for real: the contract, every oracle, and the answers against W h."""

from typing import Any

import numpy as np
import pytest

from parley.emulator.coins import key_from_seed
from parley.emulator.errors import BadInput
from parley.emulator.protocol import Inputs
from parley.protocols.paper.linear_queries_by_reduction import ORACLES, Reduction
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
