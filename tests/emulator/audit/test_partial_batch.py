"""A shuffler that stops in the middle of its batch: the analyst draws no conclusion, and the audit lets none pass.

A batch of split-and-mix that lacked one frame of three once closed at a quorum of 0.6, with an estimate of -5.24 for a
truth of 0.0001, and the audit called that good.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.reference.simulate_shuffled import ShuffledRun
from parley.emulator.protocol import Protocol
from parley.emulator.roles.analyst import AnalystRole
from parley.emulator.roles.board import BoardRole
from parley.emulator.roles.mixing import system_draw
from parley.emulator.roles.shuffler import SHUFFLER_NAME, Said, Up
from parley.emulator.wire.messages import Abort, Close, Message, Refusal, Replies, Result
from parley.protocols.registry import design
from parley.protocols.workloads.kendall import Kendall
from tests.emulator.audit.recordings import KEY, RUN, audited, inputs_for, write

USERS, QUORUM, FRAMES = 60, 0.6, 3


@pytest.fixture(scope="module")
def protocol() -> Protocol:
    crowd = int(QUORUM * USERS)
    return design("split-and-mix", Kendall(levels=(2, 2)), epsilon=1.0, users=USERS, delta=1e-6, crowd=crowd)


@pytest.fixture(autouse=True)
def small_frames(protocol: Protocol, monkeypatch: pytest.MonkeyPatch) -> None:
    row = sum(dtype.itemsize * int(np.prod(shape)) for dtype, shape in protocol.rounds[0].reply.values())
    monkeypatch.setattr("parley.emulator.roles.shuffler.FRAME_BYTES", USERS // FRAMES * (row + 1))


class Interrupted(ShuffledRun):
    """The last frame never comes; instead of it the shuffler refuses, and the quorum is reached without it."""

    def __init__(self, protocol: Protocol, analyst: type[AnalystRole]) -> None:
        super().__init__(protocol, inputs_for(protocol, USERS), KEY, RUN, 2, 8, system_draw)
        self.board = BoardRole(replace(self.board.terms, quorum=QUORUM), self.board._draw_nonce)
        self.analyst = analyst(protocol, RUN)

    def _spread(self, said: Said) -> None:
        refusal = Refusal(run=RUN, round=1, node=SHUFFLER_NAME, reason="the replies are gone")
        super()._spread([Up(refusal) if _is_last(each) else each for each in said])


def _is_last(said: object) -> bool:
    return isinstance(said, Up) and isinstance(said.message, Replies) and said.message.chunk == FRAMES - 1


class Careless(AnalystRole):
    """Takes every batch for whole."""

    def _conclude(self, close: Close) -> Message:
        self._held = set(range(self._chunks))
        return super()._conclude(close)


def played(protocol: Protocol, analyst: type[AnalystRole]) -> list[tuple[str, Message]]:
    said = list(Interrupted(protocol, analyst).play())
    (close,) = [each for _, each in said if isinstance(each, Close)]
    assert (close.replies, close.absent) == (USERS - USERS // FRAMES, (SHUFFLER_NAME,))
    return said


def test_from_a_part_of_a_batch_nothing_is_concluded(protocol: Protocol) -> None:
    sender, last = played(protocol, AnalystRole)[-1]
    assert isinstance(last, Abort)
    assert (sender, last.outcome) == ("analyst", "failed")
    assert last.reason == "the shuffler's batch of round 1 is incomplete: 1 frames are missing"


def results(said: list[tuple[str, Message]]) -> Iterator[Result]:
    return (each for _, each in said if isinstance(each, Result))


def test_a_conclusion_from_a_part_of_a_batch_does_not_pass(protocol: Protocol, tmp_path: Path) -> None:
    said = played(protocol, Careless)
    (result,) = results(said)
    assert result.replied == USERS - USERS // FRAMES
    report = audited(write(tmp_path / "t.parley", said))
    assert report.verdicts["integrity"].verdict == "pass"
    assert report.verdicts["result"].verdict == "fail"
    assert not report.ok
