"""The tuned one-round protocol under the contract; against the verbatim one; its exact U-statistic."""

import math

import numpy as np
import pytest

from parley.emulator.protocol import Heard
from parley.protocols import registry
from parley.protocols.paper.one_round import OneRound
from parley.protocols.planning import fast_simulation
from parley.protocols.tuned.one_round_tuned import OneRoundTuned
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.gini import GiniDiversity, GiniMeanDifference
from parley.protocols.workloads.kendall import Kendall
from parley.protocols.workloads.kernel import Kernel
from parley.protocols.workloads.workload import Workload
from tests.contracts.protocol_contract import SIGMAS, ProtocolContract

KERNEL = Kernel(np.abs(np.subtract.outer(np.arange(8.0), np.arange(8.0))) + np.diag(np.arange(8.0)))


class TestOneRoundTuned(ProtocolContract):
    protocol = "one-round-tuned"
    lenient = ("salt",)


class TestOneRoundTunedOfAKernel(ProtocolContract):
    """A diagonal that is not constant needs no query of its own."""

    protocol = "one-round-tuned"
    workload = KERNEL
    data = "uniform"
    trials = 100
    lenient = ("salt",)

    def test_one_byte_is_all_a_user_sends(self) -> None:
        assert [dtype.itemsize for dtype, _ in self.made.rounds[0].reply.values()] == [1]


class TestOneRoundTunedOfManyInputs(ProtocolContract):
    """More inputs than tables are for: a codebook."""

    protocol = "one-round-tuned"
    workload = GiniMeanDifference(levels=40)
    data = "normal"
    trials = 100
    lenient = ("salt",)


class TestOneRoundTunedOfAuc(ProtocolContract):
    protocol = "one-round-tuned"
    workload = AreaUnderCurve(levels=6)
    data = "scores"
    users = 10_000
    trials = 80
    bias = 0.005
    lenient = ("salt",)


USERS = (10**4, 10**5, 10**6)


@pytest.mark.parametrize(
    "workload",
    [Kendall(levels=(8, 8)), AreaUnderCurve(levels=32), GiniMeanDifference(levels=64), GiniDiversity(levels=64)],
    ids=lambda workload: workload.name,
)
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_tuned_is_at_most_three_quarters_of_verbatim(workload: Workload, epsilon: float) -> None:
    histogram = np.linspace(1, 2, workload.size) / np.linspace(1, 2, workload.size).sum()
    for users in USERS:
        tuned = OneRoundTuned.design(workload, epsilon=epsilon, users=users)
        verbatim = OneRound.design(workload, epsilon=epsilon, users=users)
        assert tuned.predicted_rmse(histogram) <= 0.75 * verbatim.predicted_rmse(histogram)


def test_the_u_statistic_is_unbiased_and_as_accurate_as_its_formula() -> None:
    workload = Kendall(levels=(3, 3))
    protocol = registry.design("one-round-tuned", workload, epsilon=1.0, users=2000)
    assert isinstance(protocol, OneRoundTuned)
    counts = np.array([400, 300, 100, 200, 300, 200, 100, 100, 300])
    step, found = protocol.rounds[0], []
    for run in range(300):
        tally = fast_simulation.tally(step, {}, counts, np.random.default_rng([7, run]))
        found.append(protocol.pairs(Heard({}, step.sends({}), tally)))
    truth = workload.form(counts / 2000) * 2000 / 1999
    errors = np.array(found) - truth
    assert abs(errors.mean()) <= SIGMAS * errors.std() / math.sqrt(300)
    predicted = protocol.planning.pairs_variance(2000, counts / 2000)
    assert float((errors**2).mean()) == pytest.approx(predicted, rel=SIGMAS * math.sqrt(2 / 300))
