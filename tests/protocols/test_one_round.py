"""The one-round protocol under the contract, and what is its own: approximations, side queries, the exact MSE."""

import numpy as np
import pytest

from protocols.one_round import OneRound
from protocols.workloads.auc import AreaUnderCurve
from protocols.workloads.kernel import Kernel
from tests.contracts.protocol_contract import ProtocolContract

SIGNS = np.sign(np.random.default_rng(7).standard_normal((12, 12)))


class TestOneRound(ProtocolContract):
    protocol = "one-round"


class TestOneRoundOfAKernel(ProtocolContract):
    """Random signs have a diagonal that is not constant, and factors that travel."""

    protocol = "one-round"
    workload = Kernel(SIGNS)
    data = "uniform"
    trials = 100


class TestOneRoundOfAuc(ProtocolContract):
    protocol = "one-round"
    workload = AreaUnderCurve(levels=4)
    data = "scores"
    users = 20_000
    epsilon = 2.0
    trials = 60
    bias = 0.002


@pytest.mark.parametrize("users", [4, 10_000])
def test_an_approximation_is_used_only_where_few_users_make_it_pay(users: int) -> None:
    protocol = OneRound.design(Kernel(SIGNS), epsilon=0.5, users=users)
    alpha = protocol.approximation.bias(None)
    assert (alpha > 1e-6) == (users == 4)
