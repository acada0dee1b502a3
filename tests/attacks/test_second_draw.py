"""Nobody draws twice: states that were lost, shared, cut by a full disk or only partly written.

Coin key and journal used to be two files, either of which could be lost; a short write counted as written, and a full
disk was a traceback.
"""

import resource
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from parley.emulator.coins import setup_digest
from parley.emulator.roles.node_memory import Seated
from parley.emulator.wire.messages import Ready, Refusal, Replies
from parley.nodes.common import BAD_INPUT, UNFINISHED
from parley.nodes.state.user_state import State
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
    setup_of,
    spoken,
)
from tests.attacks.stage import Batches, Stage, play

GRR = "frequency-grr"
PROTOCOL = spoken(GRR)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return make_state(tmp_path / "node", consent_for(PROTOCOL))


def limited(size: int) -> Callable[[], None]:
    """A disk that takes no file beyond this size: what would cross it is written in part, then not at all."""
    return partial(resource.setrlimit, resource.RLIMIT_FSIZE, (size, size))


def answer(board: Impostor) -> None:
    board.gather(NODE)
    board.say(setup_of(PROTOCOL))
    board.ask(Replies, announces_of(GRR)[0])


def drawn(board: Impostor) -> set[bytes]:
    """All frames of replies that were heard, each once."""
    return {frame for frame, each in board.heard if isinstance(each, Replies)}


def ended_or_there(board: Impostor, node: Victim) -> bool:
    return node.process.poll() is not None or any(each.pid == node.process.pid for each in board.of(Ready))


def check_one_sentence(board: Impostor, node: Victim, code: int, words: str) -> None:
    """It ends with one sentence and answers nothing more; whoever refuses its state is not even heard."""
    before = len(board.of(Replies))

    def spoke() -> bool:
        ready = code == BAD_INPUT and any(each.pid == node.process.pid for each in board.of(Ready))
        return ready or len(board.of(Replies)) > before

    board.until(lambda: node.process.poll() is not None or spoke())
    assert not spoke()
    assert node.wait() == code
    assert node.log.count("\n") == 1, node.log
    assert node.log.startswith("parley: ")
    assert words in node.log


def test_without_its_state_a_node_says_nothing(state: Path) -> None:
    """Neither the key without the answers nor the answers without the key is a state."""
    with Impostor() as board:
        with victim(board, state, 1, users=HOSTED) as first:
            answer(board)
            first.kill()
        count = len(board.heard)
        whole = (state / "state.parley").read_bytes()
        for content in (whole[:-10], whole[: len(whole) // 2], whole[8:], None):
            if content is None:
                (state / "state.parley").unlink()
            else:
                (state / "state.parley").write_bytes(content)
            with victim(board, state, 1, users=HOSTED) as again:
                check_one_sentence(board, again, BAD_INPUT, "state")
        board.listen(0.5)
        assert {each.pid for each in board.of(Ready)} == {first.process.pid}
        assert all(each.kind in ("ready", "replies") for _, each in board.heard[count:])


def test_whatever_file_of_a_state_is_lost_nobody_draws_twice(state: Path) -> None:
    """A node that finds only some of its files again says nothing, or says what it said before."""
    with Impostor() as board:
        with victim(board, state, 1, users=HOSTED) as first:
            answer(board)
            first.kill()
        board.listen(0.5)
        said, kept = drawn(board), {path: path.read_bytes() for path in state.iterdir()}
        assert len(said) == 1
        for lost in kept:
            lost.unlink()
            with victim(board, state, 1, users=HOSTED) as again:
                board.until(partial(ended_or_there, board, again))
                if again.process.poll() is None:
                    board.ask(Replies, setup_of(PROTOCOL), announces_of(GRR)[0])
            for path, content in kept.items():
                path.write_bytes(content)
                path.chmod(0o600)
        board.listen(0.5)
        assert drawn(board) == said


def test_another_broadcast_for_an_answered_round_gets_no_second_draw(tmp_path: Path) -> None:
    """Without signatures no receipt helps: what the state remembers of its answers is all there is."""
    protocol = spoken("two-round")
    setup, (first, second) = setup_of(protocol), announces_of("two-round")
    other = replace(second, broadcast={name: 0.5 * array for name, array in second.broadcast.items()})
    state = make_state(tmp_path / "node", consent_for(protocol, analyst=b"", board=b""))
    with Impostor() as board:
        with victim(board, state, 1, users=HOSTED) as before:
            board.gather(NODE)
            board.ask(Replies, setup, first)
            board.ask(Replies, second)
            before.kill()
        board.listen(0.5)
        said = drawn(board)
        with victim(board, state, 1, users=HOSTED) as again:
            board.until(lambda: any(each.pid == again.process.pid for each in board.of(Ready)))

            def lie() -> None:
                for message in (setup, first, other):
                    board.say(message)

            board.until(lambda: bool(board.of(Refusal)) or drawn(board) != said, lie)
            board.listen(0.5)
        assert drawn(board) == said
        assert {each.reason for each in board.of(Refusal)} == {
            f"node {NODE}: a second, different broadcast for round 2"
        }


def test_a_state_serves_one_process(state: Path) -> None:
    with Impostor() as board, victim(board, state, 1, users=HOSTED) as first:
        board.gather(NODE)
        with victim(board, state, 1, users=HOSTED) as second:
            check_one_sentence(board, second, BAD_INPUT, "in use by another process")
        board.say(setup_of(PROTOCOL))
        board.ask(Replies, announces_of(GRR)[0])
        board.say(abort(), BOARD)
        assert first.wait() == 3
        assert {each.pid for each in board.of(Ready)} == {first.process.pid}


@pytest.mark.parametrize("more", [0, 1, 10, 80])
def test_a_disk_that_is_full_at_the_setup_ends_the_node_before_it_speaks(more: int, state: Path) -> None:
    size = (state / "state.parley").stat().st_size
    with Impostor() as board:
        with victim(board, state, 1, users=HOSTED, preexec_fn=limited(size + more)) as node:
            board.gather(NODE)
            board.say(setup_of(PROTOCOL))
            board.say(announces_of(GRR)[0])
            check_one_sentence(board, node, UNFINISHED, "cannot be written")
        board.listen(0.5)
        assert not board.of(Replies)
        assert not board.of(Refusal)
        # Nothing of the entry is left, and with room again the node takes part.
        assert (state / "state.parley").stat().st_size == size
        with victim(board, state, 1, users=HOSTED) as again:
            board.until(lambda: any(each.pid == again.process.pid for each in board.of(Ready)))
            board.say(setup_of(PROTOCOL))
            board.ask(Replies, setup_of(PROTOCOL), announces_of(GRR)[0])


def seated_size(folder: Path) -> int:
    """How large a state is with its setup and before its first answer."""
    setup = setup_of(PROTOCOL)
    other = make_state(folder, consent_for(PROTOCOL))
    with State(other, durable=False) as opened:
        opened.write(Seated(run=RUN, digest=setup_digest(setup), nonce=setup.nonce))
    return (other / "state.parley").stat().st_size


@pytest.mark.parametrize("more", [0, 7, 100])
def test_an_answer_that_cannot_be_noted_is_not_given(more: int, state: Path, tmp_path: Path) -> None:
    size = seated_size(tmp_path / "other")
    with Impostor() as board:
        with victim(board, state, 1, users=HOSTED, preexec_fn=limited(size + more)) as node:
            board.gather(NODE)
            board.say(setup_of(PROTOCOL))
            board.say(announces_of(GRR)[0])
            check_one_sentence(board, node, UNFINISHED, "nothing was sent")
        board.listen(0.5)
        assert not board.of(Replies)
        assert (state / "state.parley").stat().st_size == size


def test_evidence_that_cannot_be_kept_is_one_sentence(tmp_path: Path) -> None:
    """A disk that is full when the board lies: the node stops as it would have, and says what it has seen."""
    users = 4000
    state = make_state(tmp_path / "node", consent_for(PROTOCOL), users=users)
    with Impostor() as board, victim(board, state, 1, users=users, preexec_fn=limited(4096)) as node:
        answer(board)
        ledger = Ledger()
        ledger.close(1)
        board.show(ledger.receipt(NODE, 1))
        check_one_sentence(board, node, UNFINISHED, "its reply is not on record")
    assert "cannot be written" in node.log


@pytest.mark.parametrize("name", ["frequency-grr", "three-round", "shuffled"])
def test_a_node_that_has_answered_is_not_started_with_other_inputs(name: str, tmp_path: Path) -> None:
    """The same coins for another input would show, free of noise, how the two differ."""

    def asked(stage: Stage) -> Batches:
        yield from stage.seat()
        yield [stage.said(stage.announces[0])]

    stage = Stage(name)
    play(asked, name, 1, tmp_path / "node", stage=stage)
    sent = stage.replies(1)
    for other in (0, 2, 3):
        changed = np.array([1] * (HOSTED - 1) + [other])
        seen = play(asked, name, changed, tmp_path / "node", stage=stage)
        assert (seen.code, seen.sent) == (BAD_INPUT, ())
        assert "was answered about other inputs" in seen.errors
    play(asked, name, 1, tmp_path / "node", stage=stage)
    assert sent
    assert {frame for frame, _ in stage.replies(1)} == {frame for frame, _ in sent}


def test_inputs_of_others_are_refused_before_anybody_is_contacted(state: Path) -> None:
    with Impostor() as board:
        for inputs in (np.full(HOSTED, 4), np.full(HOSTED - 1, 0)):
            with victim(board, state, inputs) as node:
                check_one_sentence(board, node, BAD_INPUT, "input")
        board.listen(0.3)
        assert not board.heard
