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
