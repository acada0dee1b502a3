"""A second setup gets nothing: neither after a restart nor from a copy of the state does a coin serve two questions.

Nodes used to forget the setup when they were killed, and their coins did not depend on it: the same coins under two
laws gave away 1,999 of 2,000 inputs at a cap of 0.1.
"""

import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from parley.emulator.coins import coins
from parley.emulator.protocol import Protocol
from parley.emulator.wire.messages import Ready, Refusal, Replies, Setup
from tests.attacks.impostor import Impostor, victim
from tests.attacks.parties import (
    BOARD,
    COIN_KEY,
    HOSTED,
    NODE,
    RUN,
    Ledger,
    abort,
    announces_of,
    consent_for,
    make_state,
    result,
    seating,
    setup_of,
    spoken,
)
from tests.attacks.stage import CHUNK, Batches, Script, Stage, play

GRR = "frequency-grr"
MANY = 2000
# Two-sided, alpha = 1e-6.
DEVIATIONS = 4.9


def others(setup: Setup) -> dict[str, Setup]:
    """The same run with other terms, each of which the users alone would agree to."""
    return {
        "another nonce": replace(setup, nonce=bytes(16)),
        "another protocol": setup_of(spoken("frequency-oue")),
        "less epsilon": setup_of(spoken(GRR, epsilon=0.5)),
        "the same with other words": replace(setup, parameters={**setup.parameters, "users": 41}),
    }


@pytest.mark.parametrize("what", others(setup_of(spoken(GRR))))
@pytest.mark.parametrize("answered", [False, True])
def test_after_a_restart_the_state_remembers_the_setup(what: str, answered: bool, tmp_path: Path) -> None:
    stage = Stage(GRR)

    def first(stage: Stage) -> Batches:
        yield from stage.seat()
        if answered:
            yield [stage.said(stage.announces[0])]

    def second(stage: Stage) -> Batches:
        other = others(stage.setup)[what]
        yield [stage.said(other)]
        yield [stage.said(stage.announces[0], nonce=other.nonce)]

    play(first, GRR, 1, tmp_path / "node", stage=stage)
    before = len(stage.replies(1))
    visible = play(second, GRR, 1, tmp_path / "node", stage=stage)
    assert (visible.count("refusal"), len(stage.replies(1)) - before) == (1, 0)
    assert "a second, different setup" in visible.log[0]


def asked(setup: Setup) -> Script:
    def script(stage: Stage) -> Batches:
        yield [stage.said(seating(nonce=setup.nonce), BOARD), stage.said(setup)]
        yield [stage.said(stage.announces[0], nonce=setup.nonce)]

    return script


def categories(stage: Stage, number: int) -> np.ndarray:  # type: ignore[type-arg]
    """What the users said in the last life but `number`."""
    frames = [each for _, each in stage.replies(1)]
    each = -(-MANY // CHUNK)
    column = [frame.columns["category.category"] for frame in frames[number * each : (number + 1) * each]]
    return np.concatenate(column)


def grr(inputs: int = 4, epsilon: float = 0.1) -> Protocol:
    return spoken(GRR, inputs=inputs, epsilon=epsilon)


@pytest.mark.parametrize("changed", [{"nonce": bytes(16)}, {}])
def test_a_copied_state_flips_other_coins_for_another_setup(changed: dict[str, bytes], tmp_path: Path) -> None:
    """Replies of 2,000 users to two setups agree as often as two independent draws do, or are the same bytes."""
    first = setup_of(grr())
    stage = Stage(GRR)
    consent = consent_for(grr())
    make_state(tmp_path / "node", consent, users=MANY)
    shutil.copytree(tmp_path / "node", tmp_path / "copy")
    inputs = np.arange(MANY, dtype=np.int64) % 4
    play(asked(first), GRR, inputs, tmp_path / "node", stage=stage)
    play(asked(replace(first, **changed)), GRR, inputs, tmp_path / "copy", stage=stage)  # type: ignore[arg-type]
    said, again = categories(stage, 0), categories(stage, 1)
    same = int((said == again).sum())
    if not changed:
        assert same == MANY
        return
    keep = math.exp(0.1) / (math.exp(0.1) + 3)
    chance = keep**2 + 3 * ((1 - keep) / 3) ** 2
    threshold = DEVIATIONS * math.sqrt(MANY * chance * (1 - chance))
    assert abs(same - MANY * chance) <= threshold, (same, MANY * chance, threshold)
    # What is said is true as often as the law has it.
    right = int((said == inputs).sum())
    assert abs(right - MANY * keep) <= DEVIATIONS * math.sqrt(MANY * keep * (1 - keep)), (right, MANY * keep)


def test_two_laws_share_no_coin(tmp_path: Path) -> None:
    """Two states with one coin key, whose users agreed to 4 and to 4,096 inputs: even then no coin serves twice."""
    truth, flips = np.arange(MANY, dtype=np.int64) % 4, []
    for inputs in (4, 4096):
        stage, protocol = Stage(GRR), grr(inputs)
        make_state(tmp_path / str(inputs), consent_for(protocol), users=MANY)
        play(asked(setup_of(protocol)), GRR, truth, tmp_path / str(inputs), stage=stage)
        (question,) = {each.question for _, each in stage.replies(1)}
        step = protocol.rounds[0]
        flips.append(coins(COIN_KEY, question, 0, MANY, step.coins))
        # These are the coins the users flipped.
        drawn = step.respond({}, truth, flips[-1])["category.category"]
        assert (drawn == categories(stage, 0)).all()
    width = min(each.shape[1] for each in flips)
    assert width >= 8
    assert not (flips[0][:, :width] == flips[1][:, :width]).all(axis=1).any()


def test_a_real_node_that_was_killed_refuses_another_setup_and_answers_its_own(tmp_path: Path) -> None:
    protocol = spoken(GRR, epsilon=0.1)
    state = make_state(tmp_path / "node", consent_for(protocol, cap=0.1))
    setup, question = setup_of(protocol), announces_of(GRR)[0]
    with Impostor() as board:
        with victim(board, state, 2, users=HOSTED) as first:
            board.gather(NODE)
            board.say(setup)
            board.ask(Replies, question)
            first.kill()
        before = dict(board.replies(1))
        with victim(board, state, 2, users=HOSTED) as second:
            board.until(lambda: len({each.pid for each in board.of(Ready)}) == 2)
            board.listen(0.5)
            count, other = len(board.of(Replies)), replace(setup, nonce=bytes(16))
            board.say(other)
            board.say(question, nonce=other.nonce)
            board.until(lambda: bool(board.of(Refusal)) or len(board.of(Replies)) > count, lambda: board.say(other))
            assert len(board.of(Replies)) == count
            for other in (replace(setup, nonce=bytes(16)), setup_of(spoken(GRR, epsilon=0.0625))):
                board.say(other)
                board.say(question, nonce=other.nonce)
            board.listen(1.0)
            count = len(board.of(Replies))
            board.say(setup)
            board.ask(Replies, question)
            board.say(abort(), BOARD)
            assert second.wait() == 3
        assert len(board.of(Replies)) > count
        frames = {frame for frame, each in board.heard if isinstance(each, Replies)}
        assert frames == {frame for frame, _ in before.values()}
        assert {each.reason for each in board.of(Refusal)} == {
            f"node {NODE}: a second, different setup for run {RUN}",
        }


def test_a_finished_run_is_not_begun_again(tmp_path: Path) -> None:
    protocol = spoken(GRR, epsilon=0.1)
    state = make_state(tmp_path / "node", consent_for(protocol, cap=0.1))
    with Impostor() as board:
        with victim(board, state, 2, users=HOSTED) as first:
            board.gather(NODE)
            board.say(setup_of(protocol))
            board.ask(Replies, announces_of(GRR)[0])
            ledger = Ledger()
            board.hold(ledger, 1)
            ledger.close(1)
            board.show(ledger.receipt(NODE, 1))
            board.say(result())
            assert first.wait() == 0
        board.listen(0.5)
        count = len(board.heard)
        with victim(board, state, 2, users=HOSTED) as second:
            board.until(lambda: second.process.poll() is not None or len(board.heard) > count)
            board.listen(0.5)
            assert len(board.heard) == count
            assert second.wait() == 0
        assert "is over; there is nothing to say" in second.log
