"""The verbatim protocol two-round owes what every protocol owes; a user refuses what it must not answer."""

from typing import Any

import numpy as np
import pytest

from parley.emulator.coins import addressed, key_from_seed
from parley.emulator.errors import RemoteProtocolError
from parley.emulator.protocol import Analysis
from parley.protocols import registry
from parley.protocols.planning import fast_simulation
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.gini import GiniDiversity
from parley.protocols.workloads.kernel import Kernel
from tests.contracts.protocol_contract import ProtocolContract

KERNEL = Kernel(np.array([[1.0, 0.5, -1.0], [0.5, -2.0, 0.0], [-1.0, 0.0, 3.0]]))


class TestTwoRound(ProtocolContract):
    protocol = "two-round"
    flags = ("cautious",)

    def test_an_absurd_broadcast_is_refused(self) -> None:
        second = self.made.rounds[1]
        huge = {name: np.full(shape, 1e300) for name, (_, shape) in second.broadcast.items()}
        with pytest.raises(RemoteProtocolError):
            second.check_broadcast(huge)


class TestWithDiagonal(ProtocolContract):
    protocol = "two-round"
    flags = ("cautious",)
    workload = KERNEL
    data = "zipf"
    trials = 100


class TestWithLabels(ProtocolContract):
    protocol = "two-round"
    flags = ("cautious",)
    workload = AreaUnderCurve(levels=3)
    data = "scores"
    users = 20_000
    epsilon = 4.0
    trials = 60
    bias = 0.01


def second_round(protocol: Any, inputs: Any) -> tuple[Any, Any, Any]:
    """The analysis of the first round, the broadcast it leads to, and the replies to that."""
    rounds, users = protocol.rounds, len(inputs)
    flips = [addressed(key_from_seed(3), number, 0, users, step.coins) for number, step in enumerate(rounds, 1)]
    first = rounds[0].tally({}, rounds[0].respond({}, inputs, flips[0]))
    analysis = Analysis(protocol)
    analysis.open()
    public: Any = analysis.hear({}, first)
    return analysis, public, rounds[1].respond(public, inputs, flips[1])


def test_likelihoods_of_a_constant_range_can_be_looked_up() -> None:
    """Every reply of an honest user has a likelihood under every input."""
    protocol = registry.design("two-round", Kernel(np.ones((4, 4))), epsilon=2.0, users=300)
    _, public, replies = second_round(protocol, np.arange(300) % 4)
    assert np.isfinite(protocol.rounds[1].log_likelihood(public, replies)).all()


@pytest.mark.parametrize("matrix", [np.ones((4, 4)), -3e40 * np.ones((3, 3)), np.ones((4, 4)) - 1e-13 * np.tri(4)])
def test_a_constant_range_says_nothing_and_can_be_audited(matrix: Any) -> None:
    protocol = registry.lookup("two-round").design(Kernel(matrix), epsilon=2.0, users=300)
    inputs = np.arange(300) % len(matrix)
    analysis, public, replies = second_round(protocol, inputs)
    step = protocol.rounds[1]
    step.check_broadcast(public)
    assert step.check(public, replies).all()
    losses = step.log_likelihood(public, replies)
    assert np.ptp(losses, axis=1).max() <= 1e-4
    estimate: Any = analysis.hear(public, step.tally(public, replies))
    # The mean of the second round is that of the inner products, to within the noise of their tiny range.
    middle = float(step.sends(public)["inner"].at(np.arange(1))[0])
    assert estimate.details["form"] == pytest.approx(middle, rel=1e-6)


def test_few_users_do_not_make_the_interval_too_short() -> None:
    """A histogram explained from few users' vectors is too even: the interval knows that |Lh| is larger."""
    protocol: Any = registry.design("two-round", GiniDiversity(levels=60), epsilon=1.4, users=400)
    counts = np.zeros(60, dtype=np.int64)
    counts[[10, 40]] = 280, 120
    generators = [np.random.default_rng([1, trial]) for trial in range(60)]
    said = [found.predicted_rmse for found in fast_simulation.play_all(protocol, counts, generators)]
    expected = protocol.predicted_rmse(counts / 400)
    assert np.mean(np.square(said)) >= expected**2, f"{said} {expected}"
