"""The verbatim protocol two-round-black-box owes what every protocol owes; a user refuses what it must not answer."""

import numpy as np
import pytest

from parley.emulator.errors import RemoteProtocolError
from parley.protocols import registry
from parley.protocols.planning import fast_simulation
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.kendall import Kendall
from parley.protocols.workloads.kernel import Kernel
from parley.protocols.workloads.synthetic import draw
from tests.contracts.protocol_contract import SIGMAS, ProtocolContract

KERNEL = Kernel(np.array([[1.0, 0.5, -1.0], [0.5, -2.0, 0.0], [-1.0, 0.0, 3.0]]))


class TestTwoRoundBlackBox(ProtocolContract):
    protocol = "two-round-black-box"
    flags = ("clipping",)

    def test_an_absurd_broadcast_is_refused(self) -> None:
        second = self.made.rounds[1]
        huge = {name: np.full(shape, 1e300) for name, (_, shape) in second.broadcast.items()}
        with pytest.raises(RemoteProtocolError):
            second.check_broadcast(huge)


class TestWithDiagonal(ProtocolContract):
    protocol = "two-round-black-box"
    flags = ("clipping",)
    workload = KERNEL
    data = "zipf"
    trials = 100


class TestWithLabels(ProtocolContract):
    protocol = "two-round-black-box"
    flags = ("clipping",)
    workload = AreaUnderCurve(levels=3)
    data = "scores"
    users = 20_000
    epsilon = 4.0
    trials = 60
    bias = 0.01


def test_the_interval_is_wider_by_the_bias_of_clipping() -> None:
    """Where W h is near +-|W|, noise is cut off on one side only: estimates are too small, and the interval says so."""
    workload, users = Kendall(levels=(8, 8)), 3000
    protocol = registry.design("two-round-black-box", workload, epsilon=1.0, users=users)
    generator = np.random.default_rng(7)
    counts = workload.counts(draw("monotone", workload, users, generator))
    errors = protocol.planning._errors(counts / users, users)
    bias, deviation = abs(errors.mean()), np.sqrt(protocol.laplace.variance / users + errors.var())
    assert errors.mean() < -SIGMAS * errors.std() / np.sqrt(len(errors))
    said = np.mean([fast_simulation.play(protocol, counts, generator).predicted_rmse for _ in range(20)])
    assert said >= np.hypot(deviation, bias), f"{said} {deviation} {bias}"


def test_the_interval_reaches_as_far_as_clipping_may_have_hidden_the_form() -> None:
    """With few users most noisy answers are cut at +-|W|, and a part of the form with them; with many hardly any is."""
    signs = np.sign(np.random.default_rng(5).standard_normal((24, 24)))
    workload = Kernel((signs + signs.T) / 2 - np.diag(np.diag(signs)))
    counts, stretched = np.full(24, 100), {}
    counts[3] += 3600
    for scale in (1, 10_000):
        users = int(counts.sum()) * scale
        made = registry.design("two-round-black-box", workload, epsilon=0.3, users=users)
        found = [fast_simulation.play(made, counts * scale, np.random.default_rng([2, run])) for run in range(10)]
        # Around 0, from which it is stretched.
        usual = [max(abs(each.value + sign * 1.96 * each.predicted_rmse) for sign in (-1, 1)) for each in found]
        ends = [max(map(abs, each.interval95)) for each in found]
        stretched[scale] = np.mean(np.array(ends) / np.array(usual))
        assert (np.array(ends) >= 0.999 * np.array(usual)).all()
    assert stretched[1] > 1.1
    assert stretched[10_000] == pytest.approx(1.0, abs=0.01)
