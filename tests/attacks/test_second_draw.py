"""Nobody draws twice: states that were lost, shared, cut by a full disk or only partly written.

Coin key and journal used to be two files, either of which could be lost; a short write counted as written, and a full
disk was a traceback.
"""

import resource
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from emulator.cohort import Seated
from emulator.messages import Ready, Refusal, Replies
from emulator.question import setup_digest
from nodes.state import State
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


def check_one_sentence(node: Victim, code: int, words: str) -> None:
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
                check_one_sentence(again, 2, "state")
        board.listen(0.5)
        assert {each.pid for each in board.of(Ready)} == {first.process.pid}
        assert all(each.kind in ("ready", "replies") for _, each in board.heard[count:])


def test_a_state_serves_one_process(state: Path) -> None:
    with Impostor() as board, victim(board, state, 1, users=HOSTED) as first:
        board.gather(NODE)
        with victim(board, state, 1, users=HOSTED) as second:
            check_one_sentence(second, 2, "in use by another process")
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
            check_one_sentence(node, 3, "cannot be written")
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
            check_one_sentence(node, 3, "nothing was sent")
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
        check_one_sentence(node, 3, "its reply is not on record")
    assert "cannot be written" in node.log


def test_inputs_of_others_are_refused_before_anybody_is_contacted(state: Path) -> None:
    with Impostor() as board:
        for inputs in (np.full(HOSTED, 4), np.full(HOSTED - 1, 0)):
            with victim(board, state, inputs) as node:
                check_one_sentence(node, 2, "input")
        board.listen(0.3)
        assert not board.heard
