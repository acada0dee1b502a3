"""The link from the board to the analyst alone: whatever happens on it, the analyst hears the record in order.

A small world relies on this. It lets the analyst hear the record in order at any later moment, instead of trying every
order of every delivery with everything else that may happen.
"""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from parley.emulator.errors import BadInput
from parley.emulator.simulate import conversation
from parley.emulator.wire import messages as wire
from parley.emulator.wire.codec import decode, encode, envelope
from parley.launch.testkit.world.explore import explore
from parley.launch.testkit.world.parties import RUN, Parties
from parley.launch.testkit.world.processes import AnalystProcess, Records, Wait
from parley.protocols.registry import design
from parley.protocols.workloads.gini import GiniDiversity
from tests.launch.testkit.world.worlds import small

BATCH = 3


@pytest.fixture(scope="module")
def record() -> list[bytes]:
    """Everything on the record of a quiet run of one round, in the envelopes in which it is delivered."""
    said = conversation(small(1), np.array([0, 1]), PARTIES.key, run=RUN, nodes=2)
    return [envelope(number, sender, encode(message)) for number, (sender, message) in enumerate(said)]


PARTIES = Parties(protocol=small(1), inputs=np.array([0, 1]), nodes=2, signed=False)


class Heard(AnalystProcess):
    """An analyst that stands where it has heard the first records of a run."""

    def __init__(self, folder: Path, record: Sequence[bytes]) -> None:
        super().__init__(PARTIES, "analyst", folder, b"", 1)
        self.record = record

    def take(self, sealed: Sequence[bytes]) -> None:
        for each in sealed:
            if not self.ended:
                self.hear(Records((each,)))

    def answers(self) -> list[bytes]:
        """What the board delivers again, because the analyst asks for it when nothing comes any more."""
        self.hear(Wait())
        asked = [message for each in self.sent if isinstance(message := decode(each.frame), wire.Resume)]
        return [
            sealed
            for each in asked
            for sealed in self.record[each.sequence : each.sequence + each.count if each.count else None]
        ]


def schedules(batch: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Every order of every batch from which any are lost, and in which any one comes twice."""
    for count in range(len(batch) + 1):
        for kept in itertools.combinations(batch, count):
            for twice in ((), *((each,) for each in kept)):
                yield from set(itertools.permutations((*kept, *twice)))


def words(analyst: AnalystProcess) -> list[bytes]:
    """What it has said and not heard back."""
    return [encode(each) for each in analyst.node.role.pending]


@pytest.mark.parametrize("start", range(6))
def test_whatever_happens_on_the_link_the_analyst_hears_the_record(
    start: int, record: list[bytes], tmp_path: Path
) -> None:
    tried = 0
    batch = record[start : start + BATCH]
    quiet = Heard(tmp_path / "quiet", record)
    quiet.take(record[: start + len(batch)])
    for schedule in schedules(batch):
        analyst = Heard(tmp_path / "other", record)
        analyst.take(record[:start])
        analyst.take(schedule)
        # What is still missing it asks for; what it hears again does no harm.
        while not analyst.ended and analyst.node.expected < start + len(batch):
            before = analyst.node.expected
            analyst.take([each for each in analyst.answers() if each in batch])
            assert analyst.ended or analyst.node.expected > before
        assert analyst.ended == quiet.ended
        assert analyst.node.expected == quiet.node.expected
        assert words(analyst) == words(quiet)
        assert analyst.node.role.state is quiet.node.role.state
        analyst.close()
        tried += 1
    quiet.close()
    assert tried > 50


def test_a_small_world_has_no_relay_before_its_shuffler() -> None:
    mixed = design("shuffled", GiniDiversity(levels=2), epsilon=1.0, users=2)
    with pytest.raises(BadInput, match="contradict each other"):
        explore(mixed, relayed=True)
