"""The matrix mechanism under the contract, for queries of any shape and for the W of a statistic."""

from typing import Any

import numpy as np

from parley.emulator.coins import key_from_seed
from parley.emulator.protocol import Inputs, Protocol
from parley.protocols.paper.linear_queries import MatrixMechanism
from parley.protocols.workloads.kendall import Kendall
from parley.protocols.workloads.linear import LinearQueries
from tests.contracts.protocol_contract import SIGMAS, ProtocolContract, estimate

PREFIXES = LinearQueries(np.tril(np.ones((5, 8)), 2))


class TestMatrixMechanism(ProtocolContract):
    protocol = "linear-queries"

    def truth(self, protocol: Any, inputs: Inputs) -> float:
        return float(protocol.truth(inputs))


class TestMatrixMechanismOfRectangularQueries(TestMatrixMechanism):
    workload = PREFIXES

    @property
    def inputs(self) -> Inputs:
        return np.random.default_rng(5).binomial(7, 0.3, self.users).astype(np.int64)


def test_every_answer_is_unbiased_and_as_accurate_as_predicted() -> None:
    inputs = np.random.default_rng(5).binomial(7, 0.3, 1000).astype(np.int64)
    protocol = MatrixMechanism.design(PREFIXES, epsilon=2.0, users=len(inputs))
    histogram = np.bincount(inputs, minlength=8) / len(inputs)
    runs = [estimate(protocol, inputs, key_from_seed(seed)).details["answers"] for seed in range(300)]
    errors = np.array(runs) - PREFIXES.exact(inputs)
    assert np.all(np.abs(errors.mean(axis=0)) <= SIGMAS * errors.std(axis=0) / np.sqrt(len(runs)))
    ratios = errors**2 / protocol.planning.answer_variances(len(inputs), histogram)
    assert np.all(np.abs(ratios.mean(axis=0) - 1) <= SIGMAS * ratios.std(axis=0) / np.sqrt(len(runs)))
    assert protocol.planning.mean_squared_error(1000, histogram) <= protocol.planning.mean_squared_error(1000)


def test_the_scalar_is_the_hardest_answer() -> None:
    protocol: Protocol = MatrixMechanism.design(Kendall(levels=(3, 4)), epsilon=1.0, users=50)
    found = estimate(protocol, np.arange(50) % 12, key_from_seed(0))
    assert len(found.details["answers"]) == 12
    assert found.value == found.details["answers"][found.details["query"]]
