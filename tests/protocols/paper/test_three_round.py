"""The verbatim protocol three-round owes what every protocol owes; a user refuses what it must not answer."""

import numpy as np
import pytest
import scipy

from parley.emulator.errors import RemoteProtocolError
from parley.protocols import registry
from parley.protocols.planning import fast_simulation
from parley.protocols.planning.families.paper import excess_variance
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.kendall import Kendall
from parley.protocols.workloads.kernel import Kernel
from parley.protocols.workloads.synthetic import draw
from tests.contracts.protocol_contract import SIGMAS, ProtocolContract

KERNEL = Kernel(np.array([[1.0, 0.5, -1.0], [0.5, -2.0, 0.0], [-1.0, 0.0, 3.0]]))


class TestThreeRound(ProtocolContract):
    protocol = "three-round"
    flags = ("clipping",)

    def test_an_absurd_broadcast_is_refused(self) -> None:
        second = self.made.rounds[1]
        huge = {name: np.full(shape, 1e300) for name, (_, shape) in second.broadcast.items()}
        with pytest.raises(RemoteProtocolError):
            second.check_broadcast(huge)


class TestWithDiagonal(ProtocolContract):
    protocol = "three-round"
    flags = ("clipping",)
    workload = KERNEL
    data = "zipf"
    trials = 100


class TestWithLabels(ProtocolContract):
    protocol = "three-round"
    flags = ("clipping",)
    workload = AreaUnderCurve(levels=3)
    data = "scores"
    users = 20_000
    epsilon = 4.0
    trials = 60
    bias = 0.01


def test_the_prediction_knows_what_clipping_takes_away() -> None:
    """With few users <Y, R 1_x - mu> often exceeds tau: Lemma clip-err's term is most of what the vectors cost."""
    workload, users, trials = Kendall(levels=(12, 12)), 150, 300
    protocol = registry.design("three-round", workload, epsilon=0.3, users=users)
    generator = np.random.default_rng(7)
    counts = workload.counts(draw("correlated", workload, users, generator))
    truth = workload.value(workload.form(counts / users), {}, users)
    squares = [(fast_simulation.play(protocol, counts, generator).value - truth) ** 2 for _ in range(trials)]
    ratios = np.array(squares) / protocol.predicted_rmse(counts / users) ** 2
    slack = SIGMAS * ratios.std() / np.sqrt(trials)
    assert 0.85**2 - slack <= ratios.mean() <= 1.15**2 + slack, f"{ratios.mean()} in {trials} trials, slack {slack}"
    assert slack < 0.6
    assert np.mean(squares) <= protocol.predicted_rmse() ** 2 * (1 + slack)


def test_the_excess_of_a_normal_number_is_its_integral() -> None:
    for bound, deviation in ((0.0, 1.0), (1.0, 2.0), (3.0, 0.5)):
        found, _ = scipy.integrate.quad(
            lambda x, low=bound, scale=deviation: (x - low) ** 2 * scipy.stats.norm.pdf(x, scale=scale),
            bound,
            bound + 12 * deviation,
        )
        assert excess_variance(bound, deviation) == pytest.approx(found, rel=1e-6, abs=1e-15)
    assert excess_variance(1.0, 0.0) == 0
