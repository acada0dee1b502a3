"""The hierarchical histogram under the contract; its levels add up to the AUC's kernel."""

import math

import numpy as np
import pytest

from parley.emulator.errors import BadInput
from parley.protocols import registry
from parley.protocols.baselines.hierarchical import Hierarchical, siblings
from parley.protocols.planning import fast_simulation
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.kendall import Kendall
from tests.contracts.protocol_contract import SIGMAS, ProtocolContract


class TestHierarchical(ProtocolContract):
    protocol = "hierarchical"
    flags = ("cautious",)
    workload = AreaUnderCurve(levels=8)
    data = "scores"
    users = 20_000
    trials = 100
    bias = 0.003


class TestHierarchicalOfAnOddNumberOfLevels(ProtocolContract):
    protocol = "hierarchical"
    flags = ("cautious",)
    workload = AreaUnderCurve(levels=5)
    data = "scores"
    users = 10_000
    epsilon = 2.0
    trials = 100
    bias = 0.003


@pytest.mark.parametrize("levels", [2, 3, 8, 13])
def test_levels_add_up_to_the_kernel_of_the_auc(levels: int) -> None:
    workload = AreaUnderCurve(levels=levels)
    protocol = Hierarchical(workload=workload, epsilon=1.0, users=100)
    total = np.zeros((2 * levels, 2 * levels))
    for number, category in enumerate(protocol.nodes.T, 1):
        total += siblings(1 << number)[np.ix_(category, category)]
    assert np.array_equal(total, workload.matrix())


def test_other_statistics_are_refused() -> None:
    with pytest.raises(BadInput, match="AUC"):
        Hierarchical.design(Kendall(levels=(4, 4)), epsilon=1.0, users=100)
    with pytest.raises(BadInput, match="limit"):
        Hierarchical.design(AreaUnderCurve(levels=10**5), epsilon=1.0, users=100)


def test_the_error_said_is_the_error_made() -> None:
    """In a tree of one level nobody is sampled; in a deeper one the halves of the ratio come from the same replies."""
    for levels, epsilon in ((2, 4.0), (8, 2.0)):
        workload = AreaUnderCurve(levels=levels)
        counts = np.stack([np.full(levels, 6000), np.arange(1, levels + 1) * 1000], axis=1).reshape(-1)
        made = registry.design("hierarchical", workload, epsilon=epsilon, users=int(counts.sum()))
        truth = workload.exact(np.repeat(np.arange(workload.size), counts))
        found = [fast_simulation.play(made, counts, np.random.default_rng([6, run])) for run in range(360)]
        squares = np.array([(each.value - truth) ** 2 for each in found])
        said = np.mean([each.predicted_rmse**2 for each in found])
        # The mean of squares of normal errors, in standard errors.
        z = (squares.mean() / said - 1) / math.sqrt(2 / len(squares))
        assert abs(z) < SIGMAS, f"RMSE {math.sqrt(squares.mean()):.4g}, said {math.sqrt(said):.4g}, z {z:.1f}"
