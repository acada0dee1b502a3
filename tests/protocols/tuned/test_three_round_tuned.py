"""The tuned three-round protocol owes what every protocol owes, with users or the budget split."""

from dataclasses import replace

from parley.emulator.protocol import Protocol
from parley.protocols.tuned.three_round_tuned import ThreeRoundTuned
from tests.contracts.protocol_contract import ProtocolContract


class TestThreeRoundTuned(ProtocolContract):
    protocol = "three-round-tuned"
    lenient = ("salt",)


class TestSplitBudget(ProtocolContract):
    protocol = "three-round-tuned"
    lenient = ("salt",)

    def make(self) -> Protocol:
        made = super().make()
        assert isinstance(made, ThreeRoundTuned)
        return replace(made, split="budget", shares=(0.25, 0.25, 0.5))
