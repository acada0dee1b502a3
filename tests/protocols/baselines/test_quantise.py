"""Quantise and randomise under the contract; how its number of bins grows; what it is not for."""

import pytest

from parley.emulator.errors import BadInput
from parley.protocols.baselines.quantise import Quantise
from parley.protocols.planning.families.baselines import QuantisePlanning, coarsened
from parley.protocols.tuned.one_round_tuned import OneRoundTuned
from parley.protocols.workloads.gini import GiniMeanDifference
from parley.protocols.workloads.kendall import Kendall
from parley.protocols.workloads.lipschitz import Lipschitz
from tests.contracts.protocol_contract import ProtocolContract


class TestQuantise(ProtocolContract):
    protocol = "quantise"
    flags = ("cautious",)
    workload = GiniMeanDifference(levels=16)
    data = "bimodal"
    bias = 0.1

    def test_the_bias_is_the_one_predicted(self) -> None:
        protocol = self.made
        assert isinstance(protocol, Quantise)
        histogram = self.workload.histogram(self.inputs)
        coarse = protocol.coarse.workload.form(coarsened(histogram, protocol.bin_of, protocol.bins))
        assert QuantisePlanning(protocol).rounding(histogram) == pytest.approx(
            coarse - self.workload.form(histogram), abs=1e-12
        )


class TestQuantiseOfALipschitzKernel(ProtocolContract):
    protocol = "quantise"
    flags = ("cautious",)
    workload = Lipschitz("huber", levels=32)
    data = "uniform"
    users = 20_000
    epsilon = 2.0
    trials = 100
    bias = 0.1


def test_bins_grow_like_the_fourth_root_of_the_users() -> None:
    workload = GiniMeanDifference(levels=256)
    bins = [Quantise.design(workload, epsilon=1.0, users=users).bins for users in (10**3, 10**5, 10**7)]
    assert bins == sorted(bins)
    assert 4 <= bins[2] / bins[0] <= 25


@pytest.mark.parametrize("users", [10**4, 10**6])
def test_one_vector_is_better_than_quantising(users: int) -> None:
    workload = GiniMeanDifference(levels=64)
    earlier = Quantise.design(workload, epsilon=1.0, users=users)
    assert OneRoundTuned.design(workload, epsilon=1.0, users=users).predicted_rmse() < earlier.predicted_rmse()


def test_kernels_of_two_columns_are_refused() -> None:
    with pytest.raises(BadInput, match="one ordered column"):
        Quantise.design(Kendall(levels=(4, 4)), epsilon=1.0, users=100)


@pytest.mark.parametrize(("levels", "bins"), [(16, 1), (16, 17), (256, 129), (4097, 2)])
def test_too_few_or_too_many_bins_or_inputs_are_refused(levels: int, bins: int) -> None:
    with pytest.raises(BadInput, match=r"bins|inputs"):
        Quantise(workload=GiniMeanDifference(levels=levels), epsilon=1.0, users=100, bins=bins)
