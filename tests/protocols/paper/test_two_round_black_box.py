"""The verbatim protocol two-round-black-box owes what every protocol owes; a user refuses what it must not answer."""

import numpy as np
import pytest

from parley.emulator.errors import RemoteProtocolError
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.kernel import Kernel
from tests.contracts.protocol_contract import ProtocolContract

KERNEL = Kernel(np.array([[1.0, 0.5, -1.0], [0.5, -2.0, 0.0], [-1.0, 0.0, 3.0]]))


class TestTwoRoundBlackBox(ProtocolContract):
    protocol = "two-round-black-box"

    def test_an_absurd_broadcast_is_refused(self) -> None:
        second = self.made.rounds[1]
        huge = {name: np.full(shape, 1e300) for name, (_, shape) in second.broadcast.items()}
        with pytest.raises(RemoteProtocolError):
            second.check_broadcast(huge)


class TestWithDiagonal(ProtocolContract):
    protocol = "two-round-black-box"
    workload = KERNEL
    data = "zipf"
    trials = 100


class TestWithLabels(ProtocolContract):
    protocol = "two-round-black-box"
    workload = AreaUnderCurve(levels=3)
    data = "scores"
    users = 20_000
    epsilon = 4.0
    trials = 60
    bias = 0.01
