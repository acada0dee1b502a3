"""The shuffled protocol under the contract; its local epsilon against its claim; through the shuffler in memory."""

import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.reference.simulate_shuffled import shuffled_conversation, simulate_shuffled
from parley.emulator.coins import key_from_seed
from parley.emulator.errors import BadInput
from parley.emulator.roles.mixing import Mixing, keyed_draw
from parley.emulator.simulate import simulate
from parley.emulator.wire.messages import Replies, Result
from parley.protocols import registry
from parley.protocols.shuffle.amplification import delta_bound, of_choice
from parley.protocols.shuffle.shuffled import Shuffled
from parley.protocols.tuned.one_round_tuned import OneRoundTuned
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.kendall import Kendall
from tests.contracts.protocol_contract import ProtocolContract

WORKLOAD = Kendall(levels=(3, 3))


class TestShuffled(ProtocolContract):
    protocol = "shuffled"
    trials = 120
    lenient = ("salt",)

    def test_it_is_registered_under_its_name(self) -> None:
        """Listed to those who trust a shuffler, and to nobody else."""
        assert self.protocol in registry.names("shuffler")
        assert self.protocol not in registry.names()

    def test_every_user_loses_at_most_epsilon(self) -> None:
        """One reply alone loses eps_0, far above the claim: that one holds for the crowd."""
        total = self.losses(400)
        loss = total.max(axis=1) - total.min(axis=1)
        local = self.made.claim.local_epsilon
        assert local is not None
        assert self.epsilon < float(loss.max()) <= local + 1e-9


class TestShuffledAuc(TestShuffled):
    workload = AreaUnderCurve(levels=6)
    data = "rare"
    users = 4000
    trials = 60
    bias = 0.005


@pytest.mark.parametrize("users", [1000, 10_000])
def test_the_claim_is_shown_by_the_bound(users: int) -> None:
    made = Shuffled.design(WORKLOAD, epsilon=1.0, users=users, delta=1e-6)
    assert delta_bound(of_choice(made.codebook.choice), users, 1.0) <= 1e-6
    assert made.claim.delta == 1e-6
    assert made.claim.local_epsilon == made.local_epsilon > 3.0
    assert made.claim.epsilon_for("nobody") == made.local_epsilon
    assert made.claim.epsilon_for("shuffler") == 1.0
    local = OneRoundTuned.design(WORKLOAD, epsilon=1.0, users=users)
    assert made.predicted_rmse() < local.predicted_rmse() / 2


def test_too_few_users_are_refused_with_the_inequality() -> None:
    made = Shuffled.design(WORKLOAD, epsilon=1.0, users=10_000)
    with pytest.raises(BadInput, match=r"delta\(eps; eps_0, n\) <= delta fails: .* n = 9000; take more users"):
        replace(made, shuffle=Mixing(crowd=9_000))
    with pytest.raises(BadInput, match="crowd of 10001"):
        replace(made, shuffle=Mixing(crowd=10_001))
    parameters = dict(made.parameters())
    with pytest.raises(BadInput, match="fails"):
        registry.build("shuffled", {**parameters, "local_epsilon": made.local_epsilon + 0.1})
    with pytest.raises(BadInput, match="mixed along"):
        registry.build("shuffled", {**parameters, "shuffle": {"crowd": 10_000, "axes": {"candidate.place": 0}}})
    with pytest.raises(BadInput, match="top is"):
        registry.build("shuffled", {**parameters, "top": made.candidates - 1})


def test_a_smaller_crowd_costs_local_epsilon() -> None:
    whole = Shuffled.design(WORKLOAD, epsilon=1.0, users=5000)
    part = Shuffled.design(WORKLOAD, epsilon=1.0, users=5000, crowd=4000)
    assert part.local_epsilon < whole.local_epsilon
    assert part.delta_shown(5000) < part.delta_shown(4000) <= 1e-6


def test_the_shuffler_changes_nothing_but_the_order() -> None:
    made = Shuffled.design(WORKLOAD, epsilon=1.0, users=500)
    inputs = np.random.default_rng(1).integers(0, 9, 500)
    key = key_from_seed(3)
    through = simulate_shuffled(made, inputs, key, nodes=4, chunk=50, draw=keyed_draw(key))
    past = simulate(made, inputs, key)
    assert isinstance(through, Result)
    assert (through.estimate, through.predicted_rmse) == (past.estimate, past.predicted_rmse)
    batches = [
        message
        for sender, message in shuffled_conversation(made, inputs, key, nodes=4, chunk=50)
        if isinstance(message, Replies) and sender == "shuffler"
    ]
    assert [len(batch.users) for batch in batches] == [500]
    assert np.array_equal(batches[0].users, np.arange(500))


def test_at_a_small_epsilon_without_a_crowd_nothing_is_gained() -> None:
    made = Shuffled.design(WORKLOAD, epsilon=0.1, users=3, delta=1e-9)
    assert made.local_epsilon == pytest.approx(0.1, abs=2e-3)
    assert math.isclose(made.claim.epsilon, 0.1)
