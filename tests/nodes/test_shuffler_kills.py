"""A shuffler that is killed before and after every call of its disk and every frame: one batch a round, or none."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.reference.simulate_shuffled import ShuffledRun, Words
from parley.emulator.coins import key_from_seed
from parley.emulator.protocol import Protocol
from parley.emulator.roles.mixing import system_draw
from parley.emulator.roles.shuffler import SHUFFLER_NAME, Down, Said, ShufflerRole, Up
from parley.emulator.wire.messages import BROADCASTS, Message, Replies, Result
from parley.nodes.state.batches import Batches
from parley.protocols.registry import design
from parley.protocols.workloads.kendall import Kendall
from tests.nodes.mortal import Fate, Killed, MortalDisk

USERS = 40
INPUTS = np.arange(USERS, dtype=np.int64) % 4
FRAMES = 3


@pytest.fixture(scope="module")
def protocol() -> Protocol:
    return design("split-and-mix", Kendall(levels=(2, 2)), epsilon=1.0, users=USERS, delta=1e-6)


@pytest.fixture(autouse=True, scope="module")
def small_frames(protocol: Protocol) -> object:
    """A batch of this protocol fills three frames."""
    patch = pytest.MonkeyPatch()
    row = sum(dtype.itemsize * int(np.prod(shape)) for dtype, shape in protocol.rounds[0].reply.values())
    patch.setattr("parley.emulator.roles.shuffler.FRAME_BYTES", -(-USERS // FRAMES) * (row + 1))
    yield
    patch.undo()


class MortalRun(ShuffledRun):
    """The run in memory with a shuffler whose state is on disk, and who lives again after every death."""

    def __init__(self, protocol: Protocol, folder: Path, fate: Fate) -> None:
        super().__init__(protocol, INPUTS, key_from_seed(4), "mortal", 2, 8, system_draw)
        self.fate, self.folder = fate, folder
        self.left: list[bytes] = []
        self.lives = 0
        self.now = 0.0
        self.protected(self.be_born)

    def be_born(self) -> None:
        self.lives += 1
        self.fate.dead = False
        self.disk = MortalDisk(self.fate)
        self.batches = Batches(self.folder, "mortal", disk=self.disk)
        self.shuffler = ShufflerRole(self.shuffler.terms, self.lives, memory=self.batches.memory)
        self.to_shuffler.clear()
        # Nodes and the board say again what they have said, as they do to one who comes back.
        for cohort in self.cohorts:
            self.to_shuffler.append(iter([(cohort.node, cohort.ready(0))]))
        for message in (self.board.setup, self.board.announce):
            if message is not None:
                self.spread(self.shuffler.hear(message, self.now))

    def protected(self, step: object, *given: object) -> None:
        """Do it; whoever dies of it is buried and born again."""
        try:
            step(*given)  # type: ignore[operator]
        except Killed:
            self.disk.bury()
            self.protected(self.be_born)

    def spread(self, said: Said) -> None:
        for each in said:
            if isinstance(each, Up):
                self.fate.moment()
                if isinstance(each.message, Replies):
                    self.left.append(self.shuffler.frame(each))
                self.to_board.append((SHUFFLER_NAME, each.message))
                self.fate.moment()
            elif isinstance(each, Down):
                self._spread([each])
            else:
                self.batches.write(each)

    def hear(self, message: Message) -> None:
        self.spread(self.shuffler.hear(message, self.now))

    def tick(self) -> None:
        self.spread(self.shuffler.tick(self.now))

    def _gather(self, now: float) -> None:
        spoken = next(self.to_shuffler[0], None)
        if spoken is None:
            self.to_shuffler.popleft()
        else:
            self.protected(self.hear, spoken[1])

    def play(self) -> Words:
        while not self.board.over and self.now < 100.0:
            if self.to_board:
                yield from self._record(self.board.hear(*self.to_board.popleft(), now=self.now), self.now)
            elif self.to_shuffler:
                self._gather(self.now)
            else:
                self.now += 1.0
                self.protected(self.tick)
                yield from self._record(self.board.tick(self.now), self.now)
        self.disk.bury()

    def _record(self, said: list[tuple[str, Message]], now: float) -> Words:
        for sender, message in said:
            yield sender, message
            self.to_board.extend(("analyst", word) for word in self.analyst.hear(message))
            if isinstance(message, BROADCASTS):
                self.protected(self.hear, message)


def survive(protocol: Protocol, *deaths: int) -> tuple[MortalRun, Result]:
    with tempfile.TemporaryDirectory() as folder:
        run = MortalRun(protocol, Path(folder), Fate(*deaths))
        messages = [message for _, message in run.play()]
    assert isinstance(messages[-1], Result), f"killed at {deaths}: {messages[-1]}"
    posted = [message for message in messages if isinstance(message, Replies)]
    assert [each.chunks for each in posted] == [FRAMES] * FRAMES
    assert len(set(run.left)) == FRAMES, f"killed at {deaths}: frames of two batches have left"
    return run, messages[-1]


def moments(protocol: Protocol) -> int:
    return survive(protocol)[0].fate.moments


def test_every_moment(protocol: Protocol) -> None:
    """The estimate is that of the run nobody disturbed: shares mean nothing unless all of one batch are there."""
    untouched, result = survive(protocol)
    assert untouched.lives == 1
    for moment in range(untouched.fate.moments):
        run, again = survive(protocol, moment)
        assert run.lives == 2
        assert again.estimate == result.estimate, f"killed at moment {moment}"
    assert untouched.fate.moments > 60


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_several_deaths(protocol: Protocol, data: st.DataObject) -> None:
    last = 2 * moments(protocol)
    deaths = data.draw(st.sets(st.integers(min_value=0, max_value=last), min_size=2, max_size=4))
    survive(protocol, *deaths)
