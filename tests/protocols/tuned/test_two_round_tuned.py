"""The tuned two-round protocol owes what every protocol owes, with users or the budget split."""

from dataclasses import replace

import numpy as np

from parley.emulator.protocol import Protocol
from parley.protocols.tuned.two_round_tuned import TwoRoundTuned
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.kernel import Kernel
from tests.contracts.protocol_contract import ProtocolContract


class TestTwoRoundTuned(ProtocolContract):
    protocol = "two-round-tuned"
    lenient = ("salt",)


class TestSplitBudget(ProtocolContract):
    protocol = "two-round-tuned"
    lenient = ("salt",)

    def make(self) -> Protocol:
        made = super().make()
        assert isinstance(made, TwoRoundTuned)
        return replace(made, split="budget", shares=(0.5, 0.5))


class TestRatio(ProtocolContract):
    protocol = "two-round-tuned"
    workload = AreaUnderCurve(levels=4)
    data = "scores"
    lenient = ("salt",)
    # The ratio's own second-order error.
    bias = 0.01


class TestKernelWithDiagonal(ProtocolContract):
    protocol = "two-round-tuned"
    workload = Kernel(np.array([[1.0, 0.5, -1.0], [0.5, -2.0, 0.0], [-1.0, 0.0, 3.0]]))
    data = "zipf"
    lenient = ("salt",)
    users = 400


class TestByCategory(ProtocolContract):
    protocol = "two-round-tuned"
    lenient = ("salt",)

    def make(self) -> Protocol:
        made = super().make()
        assert isinstance(made, TwoRoundTuned)
        return replace(made, encoding="subset", shares=(0.5, 0.5))
