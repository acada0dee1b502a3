"""The same attacks through real sockets to real processes, one for each input: they look alike from outside.

Fewer attacks than in one process, and without what depends on time: how often a node says that it is there or asks for
a receipt, and reminders, which it hears or not depending on when it last spoke.
"""

from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from parley.emulator.transport.ports import BROADCAST
from parley.emulator.wire.codec import envelope
from parley.emulator.wire.messages import Ready, Refusal
from tests.attacks.impostor import Impostor, Victim, victim
from tests.attacks.parties import BOARD, HOSTED, INPUTS, NODE, NONCE, abort, consent_for, make_state, spoken, summed
from tests.attacks.scripts import ATTACKS
from tests.attacks.stage import Stage, outside_of

NAME = "three-round"
CHOSEN = (
    "honest",
    "fewer_inputs_than_agreed",
    "a_domain_of_another_type",
    "claims_that_lie",
    "numbers_that_are_not_finite",
    "arrays_of_another_type",
    "another_question_in_the_same_round",
    "everything_unsigned_or_signed_by_others",
    "frames_that_are_no_messages",
    "receipts_of_others",
    "a_second_setup",
)
PROBE = "unknown tag 9"


class Theatre:
    """One node as a process, one impostor for it alone, one script."""

    def __init__(self, board: Impostor, node: Victim, state: Path) -> None:
        self.board, self.node, self.state = board, node, state
        self._probes = count(9000)

    def play(self, attack: str) -> None:
        stage = Stage(NAME)
        for batch in ATTACKS[attack].script(stage):
            for sealed in batch:
                self.board.publish(BROADCAST, sealed)
            self._wait()
            stage.sent[:] = [frame for frame, _ in self.board.heard]

    def _wait(self) -> None:
        """Until all that was said was heard: a frame with an unknown tag is complained about.

        That is so when a batch is opened, before anything in it is heard; the second time is in a later batch.
        """
        for number in (next(self._probes), next(self._probes)):
            probe = summed(b"\x91\xcd" + number.to_bytes(2, "big"))
            # Again and again: in a batch with the word that its seat is its own, the first is not answered.
            say = partial(self.board.publish, BROADCAST, envelope(0, "analyst", probe))
            self.board.until(partial(self._is_over, number), say)

    def _is_over(self, number: int) -> bool:
        return self._complained(number) or self.node.process.poll() is not None

    def _complained(self, number: int) -> bool:
        return any(f"unknown tag {number}" in each.reason for each in self.board.of(Refusal))

    def seen(self) -> tuple[object, ...]:
        """All that is visible but the content of replies."""
        for nonce in (b"", NONCE):
            self.board.say(abort(nonce=nonce), BOARD)
        code = self.node.wait()
        self.board.listen(0.2)
        frames = [
            outside_of(frame)
            for frame, each in self.board.heard
            if each.kind in ("replies", "refusal") and not (isinstance(each, Refusal) and PROBE in each.reason)
        ]
        # Of the two words that end it, one may be heard after the other, or not at all.
        words = [line for line in self.node.words.splitlines() if PROBE not in line and "(abort)" not in line]
        pids = {each.pid for each in self.board.of(Ready)}
        size = (self.state / "state.parley").stat().st_size
        files = sorted(each.name for each in self.state.iterdir())
        return code, frames, words, len(pids), size, files


@pytest.mark.parametrize("attack", CHOSEN)
def test_processes_with_different_inputs_look_alike(attack: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        theatres = []
        for each in range(INPUTS):
            state = make_state(tmp_path / str(each) / "node", consent_for(spoken(NAME)))
            board = stack.enter_context(Impostor())
            node = stack.enter_context(victim(board, state, each, users=HOSTED))
            theatres.append(Theatre(board, node, state))
        for theatre in theatres:
            theatre.board.gather(NODE)
            theatre.play(attack)
        seen = [theatre.seen() for theatre in theatres]
    for other in seen[1:]:
        assert other == seen[0]
    expected = ATTACKS[attack]
    assert seen[0][0] == (3 if expected.code is None else expected.code)
    assert "Traceback" not in "".join(map(str, seen[0]))
