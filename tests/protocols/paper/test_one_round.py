"""The one-round protocol under the contract, and what is its own: approximations, side queries, the exact MSE."""

from dataclasses import replace

import numpy as np
import pytest

from parley.protocols.paper.one_round import OneRound
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.kendall import Kendall
from parley.protocols.workloads.kernel import Kernel
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
    users = 8000
    epsilon = 2.0
    trials = 60
    bias = 0.002


@pytest.mark.parametrize("users", [4, 10_000])
def test_an_approximation_is_used_only_where_few_users_make_it_pay(users: int) -> None:
    protocol = OneRound.design(Kernel(SIGNS), epsilon=0.5, users=users)
    alpha = protocol.approximation.bias(None)
    assert (alpha > 1e-6) == (users == 4)


def test_fewer_rows_are_sent_where_their_noise_costs_more_than_their_absence() -> None:
    """Theorem alg-main's rank reduction: alpha is measured, and used only if the predicted error falls."""
    workload = Kendall(levels=(8, 8))
    for users, shorter in ((10_000, True), (10**7, False)):
        protocol = OneRound.design(workload, epsilon=0.5, users=users)
        whole = replace(protocol, left=None, right=None)
        assert (protocol.approximation.factors.rows < whole.approximation.factors.rows) == shorter
        assert protocol.predicted_rmse() <= whole.predicted_rmse()
        measured = float(np.abs(protocol.approximation.factors.dense() - workload.matrix()).max())
        assert protocol.approximation.bias(None) == pytest.approx(measured, abs=1e-9)
