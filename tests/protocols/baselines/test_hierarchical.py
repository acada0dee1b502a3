"""The hierarchical histogram under the contract; its levels add up to the AUC's kernel."""

import numpy as np
import pytest

from parley.emulator.errors import BadInput
from parley.protocols.baselines.hierarchical import Hierarchical, siblings
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.kendall import Kendall
from tests.contracts.protocol_contract import ProtocolContract


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
