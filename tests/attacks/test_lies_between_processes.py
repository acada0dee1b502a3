"""The lies that matter most, told to real nodes through real sockets: killed, started again, and lied to."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from parley.emulator.transport.ports import BROADCAST
from parley.emulator.wire.codec import LARGEST_FRAME, envelope
from parley.emulator.wire.messages import Ready, Refusal, Reminder, Replies
from parley.nodes.state.user_state import load_evidence
from tests.attacks.impostor import Impostor, Victim, victim
from tests.attacks.parties import (
    BOARD,
    HOSTED,
    NODE,
    RUN,
    Ledger,
    abort,
    announces_of,
    consent_for,
    make_state,
    result,
    setup_of,
    spoiled,
    spoken,
    summed,
)

NAME = "two-round"
PROTOCOL = spoken(NAME)
SETUP, (FIRST, SECOND) = setup_of(PROTOCOL), announces_of(NAME)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return make_state(tmp_path / "node", consent_for(PROTOCOL))


def answer(board: Impostor) -> None:
    board.gather(NODE)
    board.say(SETUP)
    board.ask(Replies, FIRST)


def back(board: Impostor, node: Victim) -> None:
    """The node was started again, and has heard the setup."""
    board.until(lambda: any(each.pid == node.process.pid for each in board.of(Ready)))
    board.ask(Replies, SETUP, FIRST)


def dropped(board: Impostor) -> Ledger:
    ledger = Ledger()
    ledger.close(1)
    return ledger


def altered(board: Impostor) -> Ledger:
    ledger = Ledger()
    for frame, each in board.replies(1).values():
        ledger.hold(NODE, frame[:-5] + bytes([frame[-5] ^ 1]) + frame[-4:], each)
    ledger.close(1)
    return ledger


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("lie", [dropped, altered])
def test_a_reply_that_is_dropped_or_altered_is_found(lie: object, killed: bool, state: Path) -> None:
    assert callable(lie)
    with Impostor() as board:
        with victim(board, state, 1, users=HOSTED) as node:
            answer(board)
            sent = tuple(frame for frame, _ in board.replies(1).values())
            if not killed:
                board.show(lie(board).receipt(NODE, 1))
                assert node.wait() == 3
            else:
                node.kill()
        if killed:
            with victim(board, state, 1, users=HOSTED) as node:
                back(board, node)
                board.show(lie(board).receipt(NODE, 1))
                assert node.wait() == 3
        assert "its reply is not on record" in node.log
        assert "Traceback" not in node.log
        assert load_evidence(state / "evidence-1.parley").frames == sent


def test_a_history_that_is_rewritten_while_the_node_is_dead_is_found(state: Path) -> None:
    with Impostor() as board:
        with victim(board, state, 1, users=HOSTED) as node:
            answer(board)
            ledger = Ledger()
            board.hold(ledger, 1)
            ledger.close(1)
            board.show(ledger.receipt(NODE, 1))
            board.say(SECOND)
            board.until(lambda: bool(board.replies(2)))
            node.kill()
        # The first record of this one is another than that of the first one.
        other = Ledger(nonce=bytes(16))
        other.nonce = ledger.nonce
        for number in (1, 2):
            board.hold(other, number)
            other.close(number)
        with victim(board, state, 1, users=HOSTED) as node:
            board.until(lambda: any(each.pid == node.process.pid for each in board.of(Ready)))
            board.ask(Replies, SETUP, SECOND)
            board.show(other.receipt(NODE, 2))
            assert node.wait() == 3
        assert "does not extend the one before" in node.log
        assert (state / "evidence-2.parley").exists()


def test_a_reply_declared_missing_is_kept_as_evidence_and_the_run_goes_on(state: Path) -> None:
    ledger = Ledger()
    with Impostor() as board, victim(board, state, 1, users=HOSTED) as node:
        answer(board)
        ledger.close(1, absent=(NODE,))
        board.show(ledger.receipt(NODE, 1))
        board.say(SECOND)
        board.until(lambda: bool(board.replies(2)))
        board.hold(ledger, 2)
        ledger.close(2)
        board.show(ledger.receipt(NODE, 2))
        board.say(result())
        assert node.wait() == 0
    assert load_evidence(state / "evidence-1.parley").reason == "it answered, and the board declared its reply missing"


def test_numbers_that_are_not_finite_are_refused_on_record(state: Path) -> None:
    ledger = Ledger()
    with Impostor() as board, victim(board, state, 1, users=HOSTED) as node:
        answer(board)
        board.hold(ledger, 1)
        ledger.close(1)
        board.show(ledger.receipt(NODE, 1))
        for value in (np.nan, np.inf):
            board.publish(BROADCAST, envelope(0, "analyst", spoiled(SECOND, value)))
        board.until(lambda: bool(board.of(Refusal)))
        board.say(abort(), BOARD)
        assert node.wait() == 3
        assert "not finite" in board.of(Refusal)[0].reason
        assert board.of(Refusal)[0].round == 2
        assert not board.replies(2)


def test_frames_as_large_as_a_frame_may_be_are_dropped_and_the_run_goes_on(state: Path) -> None:
    with Impostor() as board, victim(board, state, 1, users=HOSTED) as node:
        board.gather(NODE)
        board.publish(BROADCAST, bytes(LARGEST_FRAME))
        board.publish(BROADCAST, summed(b"\xc6\x03\x00\x00\x00" + bytes(3 * 2**24)))
        board.publish(BROADCAST, envelope(0, "analyst", summed(b"\x92\x03\xc6\x03\x00\x00\x00" + bytes(3 * 2**24))))
        board.say(SETUP)
        board.ask(Replies, FIRST)
        board.say(abort(), BOARD)
        assert node.wait() == 3
        assert "Traceback" not in node.log
        assert max(map(len, node.log.splitlines())) < 1000


def test_a_frame_beyond_that_costs_the_connection_and_tells_nothing(state: Path) -> None:
    """libzmq cuts the connection for good: such a board is as one that has fallen silent."""
    with Impostor() as board, victim(board, state, 1, users=HOSTED) as node:
        board.gather(NODE)
        board.publish(BROADCAST, bytes(LARGEST_FRAME + 2**20))
        board.say(SETUP)
        board.say(FIRST)
        before = len(board.of(Ready))
        board.until(lambda: len(board.of(Ready)) > before + 1)
        assert {each.kind for _, each in board.heard} == {"ready"}
        assert node.process.poll() is None
        assert node.log == ""


def test_an_end_of_another_run_does_not_end_a_node_that_waits(state: Path) -> None:
    with Impostor() as board, victim(board, state, 1, users=HOSTED) as node:
        board.gather(NODE)
        for run in ("another", RUN):
            board.say(result(run), nonce=b"")
            board.say(result(run))
        board.say(abort("another"), BOARD)
        board.say(SETUP)
        board.say(FIRST)
        board.until(lambda: bool(board.of(Replies)) or node.process.poll() is not None)
        assert node.process.poll() is None


def test_a_domain_beyond_all_bounds_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    protocol = spoken("frequency-grr", inputs=4096)
    state = make_state(tmp_path / "node", consent_for(protocol))
    setup = setup_of(protocol)
    size = dict(setup.parameters["workload"])
    huge = {key: 2**20 if value == 4096 else value for key, value in size.items()}
    wrong = replace(setup, domain={"inputs": 2**20}, parameters={**setup.parameters, "workload": huge})
    assert huge != size
    with Impostor() as board, victim(board, state, 1, users=HOSTED) as node:
        board.gather(NODE)
        board.say(wrong)
        board.say(announces_of("frequency-grr")[0])
        board.until(lambda: bool(board.of(Refusal) or board.of(Replies)), lambda: board.say(wrong))
        assert not board.of(Replies)
        assert "the domain of 1048576 inputs is not the agreed of 4096 inputs" in board.of(Refusal)[0].reason
        board.say(setup)
        board.ask(Replies, announces_of("frequency-grr")[0])
        board.say(Reminder(run=RUN, round=1, missing={NODE: (5,)}), None)
        board.say(abort(), BOARD)
        assert node.wait() == 3
