"""The tuned one-round protocol under the contract; its figures against mathematics.md; one vector for the AUC."""

from dataclasses import replace

import numpy as np
import pytest

from parley.emulator.coins import key_from_seed
from parley.emulator.errors import BadInput
from parley.protocols import registry
from parley.protocols.paper.one_round import OneRound
from parley.protocols.tuned.one_round_tuned import OneRoundTuned
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.gini import GiniDiversity, GiniMeanDifference
from parley.protocols.workloads.kendall import Kendall
from parley.protocols.workloads.kernel import Kernel
from parley.protocols.workloads.synthetic import draw
from parley.protocols.workloads.workload import Workload
from tests.contracts.protocol_contract import ProtocolContract, estimate

KERNEL = Kernel(np.abs(np.subtract.outer(np.arange(8.0), np.arange(8.0))) + np.diag(np.arange(8.0)))


class TestOneRoundTuned(ProtocolContract):
    protocol = "one-round-tuned"


class TestOneRoundTunedOfAKernel(ProtocolContract):
    """A diagonal that is not constant needs no query of its own."""

    protocol = "one-round-tuned"
    workload = KERNEL
    data = "uniform"
    trials = 100

    def test_one_vector_is_all_a_user_sends(self) -> None:
        assert [name.split(".")[0] for name in self.made.rounds[0].reply] == ["vector", "vector"]


class TestOneRoundTunedOfAuc(ProtocolContract):
    protocol = "one-round-tuned"
    workload = AreaUnderCurve(levels=6)
    data = "rare"
    users = 10_000
    trials = 80
    bias = 0.005

    def test_the_worst_histogram_is_no_better_than_this_one(self) -> None:
        """The worst is meant among balanced ones: with a rare label the error is larger, and the result says so."""
        assert self.predicted(self.made, self.inputs) > self.worst()
        assert estimate(self.made, self.inputs, key_from_seed(1)).details["balanced"] is False


# mathematics.md, "Three rounds, tuned": RMSE of one-round-tuned on Kendall for eps 0.5 and 1, n = 1e4, 1e5, 1e6.
PUBLISHED = {
    (16, 0.5): (0.331, 0.0546, 0.0148),
    (16, 1.0): (0.104, 0.0241, 0.0073),
    (8, 0.5): (0.150, 0.0377, 0.0116),
    (8, 1.0): (0.0627, 0.0184, 0.0058),
}
USERS = (10**4, 10**5, 10**6)


@pytest.mark.parametrize(("levels", "epsilon"), PUBLISHED)
def test_predictions_agree_with_the_published_table(levels: int, epsilon: float) -> None:
    workload = Kendall(levels=(levels, levels))
    histogram = workload.histogram(draw("correlated", workload, 100_000, np.random.default_rng(1)))
    for users, published in zip(USERS, PUBLISHED[levels, epsilon], strict=True):
        designed = OneRoundTuned.design(workload, epsilon=epsilon, users=users)
        whole = replace(designed, rows=None)
        assert whole.predicted_rmse(histogram) == pytest.approx(published, rel=0.10), (users, published)
        assert designed.predicted_rmse(histogram) <= whole.predicted_rmse(histogram)


@pytest.mark.parametrize(
    "workload",
    [Kendall(levels=(8, 8)), AreaUnderCurve(levels=32), GiniMeanDifference(levels=64), GiniDiversity(levels=64)],
    ids=lambda workload: workload.name,
)
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_tuned_is_at_most_three_quarters_of_verbatim(workload: Workload, epsilon: float) -> None:
    histogram = np.full(workload.size, 1 / workload.size)
    for users in USERS:
        tuned = OneRoundTuned.design(workload, epsilon=epsilon, users=users)
        verbatim = OneRound.design(workload, epsilon=epsilon, users=users)
        for known in (histogram, None):
            assert tuned.predicted_rmse(known) <= 0.75 * verbatim.predicted_rmse(known)


def test_a_label_without_the_auc_is_refused() -> None:
    parameters = OneRoundTuned.design(Kendall(levels=(3, 3)), epsilon=1.0, users=100).parameters()
    with pytest.raises(BadInput, match="AUC alone"):
        registry.build("one-round-tuned", {**parameters, "weight": 1.0})


def test_with_few_users_small_rows_are_left_out_and_only_their_numbers_travel() -> None:
    workload = Kendall(levels=(8, 8))
    protocol = OneRoundTuned.design(workload, epsilon=0.5, users=10_000)
    whole = replace(protocol, rows=None)
    assert protocol.factors.rows < whole.factors.rows
    assert protocol.predicted_rmse() < whole.predicted_rmse()
    alpha = float(np.abs(protocol.factors.dense() - workload.matrix()).max())
    assert protocol.approximation.bias(None) == pytest.approx(alpha)
    assert set(protocol.parameters()) & {"rows", "factor"} == {"rows"}
    for rows in (np.array([0, 0]), np.array([3, 1]), np.array([64]), np.array([-1, 2]), np.array([0.0]), np.arange(0)):
        with pytest.raises(BadInput, match="rows"):
            registry.build("one-round-tuned", {**protocol.parameters(), "rows": rows})
