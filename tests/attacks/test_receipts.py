"""A board that drops, alters or disowns replies: every node finds it out by itself, also after a restart.

Each lie is told to nodes with every input, which must all behave alike, and after a restart as well as before.
"""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from parley.emulator.wire.codec import decode, encode, said_by
from parley.emulator.wire.messages import Close, Receipt
from parley.nodes.state.user_state import load_evidence
from tests.attacks.parties import BOARD, INPUTS, NODE, NONCE, Ledger
from tests.attacks.stage import Batches, Script, Stage, Visible, play
from tests.attacks.test_same_for_every_input import answered

PROTOCOLS = ("three-round", "two-round-tuned", "frequency-grr")
Lie = Callable[[Stage, int], Receipt]


def held(stage: Stage, number: int, ledger: Ledger | None = None, sender: str = NODE) -> Ledger:
    """All that the node sent in this round, on record."""
    ledger = ledger or stage.ledger
    for frame, replies in {each.chunk: (frame, each) for frame, each in stage.replies(number)}.values():
        ledger.hold(sender, frame, replies)
    return ledger


def nothing_held(stage: Stage, number: int) -> Receipt:
    stage.ledger.close(number)
    return stage.ledger.receipt(NODE, number)


def one_chunk_dropped(stage: Stage, number: int) -> Receipt:
    for frame, replies in stage.replies(number):
        if replies.chunk != 1:
            stage.ledger.hold(NODE, frame, replies)
    stage.ledger.close(number)
    return stage.ledger.receipt(NODE, number)


def another_reply_in_its_place(stage: Stage, number: int) -> Receipt:
    for frame, replies in stage.replies(number):
        changed = {name: column ^ 1 for name, column in replies.columns.items()}
        frame = encode(replace(replies, columns=changed), BOARD, NONCE) if replies.chunk == 2 else frame
        stage.ledger.hold(NODE, frame, replies)
    stage.ledger.close(number)
    return stage.ledger.receipt(NODE, number)


def the_leaf_of_somebody_else(stage: Stage, number: int) -> Receipt:
    held(stage, number, sender="other").close(number)
    return stage.ledger.receipt(NODE, number)


def _altered(change: Callable[[Receipt], Receipt]) -> Lie:
    def lie(stage: Stage, number: int) -> Receipt:
        held(stage, number).close(number)
        return change(stage.ledger.receipt(NODE, number))

    return lie


def _flipped(path: bytes) -> bytes:
    return path[:-1] + bytes([path[-1] ^ 1])


def _other_size(by: int) -> Lie:
    def lie(stage: Stage, number: int) -> Receipt:
        ledger = held(stage, number)
        ledger.close(number)
        # The proofs are those of the tree as it is.
        receipt = ledger.receipt(NODE, number)
        close = decode(receipt.close)
        assert isinstance(close, Close)
        other = replace(close, size=max(0, close.size + by))
        return replace(receipt, close=encode(other, BOARD, NONCE))

    return lie


LIES: dict[str, Lie] = {
    "nothing held": nothing_held,
    "one chunk dropped": one_chunk_dropped,
    "another reply in its place": another_reply_in_its_place,
    "the leaf of somebody else": the_leaf_of_somebody_else,
    "a path with a wrong digest": _altered(
        lambda each: replace(each, paths=(*each.paths[:-1], _flipped(each.paths[-1])))
    ),
    "a path that is too short": _altered(lambda each: replace(each, paths=(each.paths[0][32:], *each.paths[1:]))),
    "a path that is too long": _altered(lambda each: replace(each, paths=(each.paths[0] + bytes(32), *each.paths[1:]))),
    "no paths": _altered(lambda each: replace(each, paths=(b"",) * len(each.paths))),
    "other places": _altered(lambda each: replace(each, sequences=each.sequences[::-1])),
    "places beyond the end": _altered(lambda each: replace(each, sequences=tuple(2**60 for _ in each.sequences))),
    "negative places": _altered(lambda each: replace(each, sequences=tuple(-1 for _ in each.sequences))),
    "other times": _altered(lambda each: replace(each, times=tuple(time + 1 for time in each.times))),
    "one chunk for all": _altered(
        lambda each: replace(each, sequences=each.sequences[:1] * 3, times=each.times[:1] * 3, paths=each.paths[:1] * 3)
    ),
    "chunks that do not exist": _altered(lambda each: replace(each, chunks=(0, 1, 3))),
    "a size too large": _other_size(1),
    "a size too small": _other_size(-1),
    "a size of nothing": _other_size(-(10**9)),
}


def lying(lie: Lie, number: int) -> Script:
    """Honest until this round is answered, then the lie."""

    def script(stage: Stage) -> Batches:
        yield from stage.seat()
        yield from stage.rounds(1, number - 1)
        yield [stage.said(stage.announces[number - 1])]
        yield [stage.said(lie(stage, number), None)]
        yield from stage.rounds(number + 1)
        yield from stage.end()

    return script


def until(number: int) -> Script:
    """Honest until this round is answered; then the node is killed."""

    def script(stage: Stage) -> Batches:
        yield from stage.seat()
        yield from stage.rounds(1, number - 1)
        yield [stage.said(stage.announces[number - 1])]

    return script


def after(lie: Lie, number: int, *, asked: bool) -> Script:
    """What a node hears that was started again: the setup, perhaps the question once more, then the lie."""

    def script(stage: Stage) -> Batches:
        yield from stage.seat()
        if asked:
            yield [stage.said(stage.announces[number - 1])]
        yield [stage.said(lie(stage, number), None)]
        yield from stage.rounds(number + 1)
        yield from stage.end()

    return script


def check_stopped(visible: Visible, folder: Path, stage: Stage, number: int, reason: str) -> None:
    """It left with one sentence, and with evidence that others can check."""
    assert visible.code == 3
    assert visible.errors.count("\n") == 1
    assert reason in visible.errors
    assert max(answered(visible), default=number) <= number
    evidence = load_evidence(folder / f"evidence-{number}.parley")
    assert evidence.frames == tuple(dict.fromkeys(frame for frame, _ in stage.replies(number)))
    assert said_by(BOARD.public, evidence.close, decode(evidence.close), NONCE)


@pytest.mark.parametrize("what", LIES)
@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_reply_that_is_not_on_record_ends_the_node_with_evidence(name: str, what: str, tmp_path: Path) -> None:
    number, seen = min(2, len(Stage(name).announces)), []
    for each in range(INPUTS):
        stage = Stage(name)
        seen.append(play(lying(LIES[what], number), name, each, tmp_path / str(each), stage=stage))
        reason = "" if "size" in what else "is not on record"
        check_stopped(seen[-1], tmp_path / str(each), stage, number, reason)
    assert all(each == seen[0] for each in seen)


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("what", LIES)
def test_a_restart_does_not_hide_the_lie(what: str, asked: bool, tmp_path: Path) -> None:
    stage, number = Stage("three-round"), 2
    assert play(until(number), "three-round", 1, tmp_path / "node", stage=stage).code is None
    visible = play(after(LIES[what], number, asked=asked), "three-round", 1, tmp_path / "node", stage=stage)
    check_stopped(visible, tmp_path / "node", stage, number, "")


def rewritten(stage: Stage, number: int, **changed: object) -> Receipt:
    """A record that holds the node's replies of all rounds, but not what was before them."""
    other = Ledger()
    for frame, replies in stage.replies(number)[:1]:
        other.hold("somebody", frame, replies)
    for earlier in range(1, number + 1):
        held(stage, earlier, other).close(earlier)
    return other.receipt(NODE, number, **changed)


@pytest.mark.parametrize("changed", [{}, {"before": 0, "consistency": b""}, {"before": 1}, {"consistency": bytes(32)}])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_history_that_is_rewritten_between_closes(
    restarted: bool, changed: dict[str, object], tmp_path: Path
) -> None:
    stage = Stage("three-round")

    def lie(stage: Stage, number: int) -> Receipt:
        return rewritten(stage, number, **changed)

    if restarted:
        play(until(2), "three-round", 1, tmp_path / "node", stage=stage)
        visible = play(after(lie, 2, asked=True), "three-round", 1, tmp_path / "node", stage=stage)
    else:
        visible = play(lying(lie, 2), "three-round", 1, tmp_path / "node", stage=stage)
    check_stopped(visible, tmp_path / "node", stage, 2, "does not extend the one before")


def declared_missing(stage: Stage, number: int) -> Receipt:
    stage.ledger.close(number, absent=(NODE,))
    return stage.ledger.receipt(NODE, number)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_reply_that_is_declared_missing_leaves_evidence_and_the_node_goes_on(name: str, tmp_path: Path) -> None:
    seen = []
    for each in range(INPUTS):
        stage = Stage(name)
        seen.append(play(lying(declared_missing, 1), name, each, tmp_path / str(each), stage=stage))
        evidence = load_evidence(tmp_path / str(each) / "evidence-1.parley")
        assert evidence.frames == tuple(frame for frame, _ in stage.replies(1))
        close = decode(evidence.close)
        assert isinstance(close, Close)
        assert NODE in close.absent
        assert answered(seen[-1]) == set(range(1, stage.last + 1))
        assert seen[-1].code == 0
    assert all(each == seen[0] for each in seen)


def test_two_closes_of_one_round_are_both_kept(tmp_path: Path) -> None:
    """The board declares a reply missing, and after a restart of the node that it was there: it has signed both."""
    stage = Stage("three-round")

    def first(stage: Stage) -> Batches:
        yield from until(1)(stage)
        yield [stage.said(declared_missing(stage, 1), None)]

    play(first, "three-round", 1, tmp_path / "node", stage=stage)
    stage.ledger = Ledger()
    visible = play(after(nothing_held, 1, asked=True), "three-round", 1, tmp_path / "node", stage=stage)
    assert visible.code == 3
    kept = [load_evidence(path) for path in sorted((tmp_path / "node").glob("evidence-1*.parley"))]
    assert len({each.close for each in kept}) == 2


def test_a_round_that_was_missed_may_be_left_out_under_the_boards_signature(tmp_path: Path) -> None:
    def script(stage: Stage) -> Batches:
        yield from stage.seat()
        yield [stage.said(stage.announces[1])]
        yield [stage.said(declared_missing(stage, 1), None)]
        yield from stage.account(2)
        yield from stage.rounds(3)
        yield from stage.end()

    visible = play(script, "three-round", 1, tmp_path / "node")
    assert (visible.code, answered(visible)) == (0, {2, 3})
    assert not list((tmp_path / "node").glob("evidence*"))


@pytest.mark.parametrize("number", [2, 3])
def test_a_round_that_is_skipped_is_waited_for(number: int, tmp_path: Path) -> None:
    """Without a signed close in between, all that comes is the question where the receipt is."""

    def script(stage: Stage) -> Batches:
        yield from stage.seat()
        for _ in range(3):
            yield [stage.said(stage.announces[number - 1])]
        yield [stage.said(stage.announces[0])]
        yield [stage.said(stage.announces[number - 1])]

    seen = [play(script, "three-round", each, tmp_path / str(each)) for each in range(INPUTS)]
    assert all(each == seen[0] for each in seen)
    assert seen[0].count("inquiry") >= 1
    # The first round is asked in the end, and may be answered: nothing after it was.
    assert answered(seen[0]) == {1}


def restored(folder: Path, stage: Stage) -> Path:
    """A state as it was before the first answer, in the place of the one that knows of it."""

    def seated(stage: Stage) -> Batches:
        yield from stage.seat()

    play(seated, stage.name, 1, folder, stage=stage)
    backup = shutil.copytree(folder, folder.with_suffix(".backup"))
    play(until(1), stage.name, 1, folder, stage=stage)
    return Path(backup)


def honest_receipt(stage: Stage, number: int) -> Receipt:
    held(stage, number).close(number)
    return stage.ledger.receipt(NODE, number)


def held_and_declared_missing(stage: Stage, number: int) -> Receipt:
    held(stage, number).close(number, absent=(NODE,))
    return stage.ledger.receipt(NODE, number)


@pytest.mark.parametrize("shown", [honest_receipt, held_and_declared_missing, nothing_held])
def test_a_restored_state_stops_at_a_reply_it_does_not_remember(shown: Lie, tmp_path: Path) -> None:
    stage = Stage("three-round")
    backup = restored(tmp_path / "node", stage)
    visible = play(after(shown, 1, asked=False), "three-round", 1, backup, stage=stage)
    assert (visible.code, answered(visible)) == (3, set())
    assert "does not remember" in visible.errors
    assert load_evidence(backup / "evidence-1.parley").frames == ()


def test_a_restored_state_that_is_asked_again_says_the_same_bytes(tmp_path: Path) -> None:
    stage = Stage("three-round")
    backup = restored(tmp_path / "node", stage)
    before = [frame for frame, _ in stage.replies(1)]
    play(until(1), "three-round", 1, backup, stage=stage)
    assert [frame for frame, _ in stage.replies(1)] == before * 2


def test_a_result_without_a_receipt_is_no_good_end(tmp_path: Path) -> None:
    """The board leaves without showing the last reply: the node says so, and does not count the run as over."""

    def script(stage: Stage) -> Batches:
        yield from until(stage.last)(stage)
        yield from stage.end()
        for _ in range(20):
            yield []

    visible = play(script, "frequency-grr", 1, tmp_path / "node")
    assert visible.code == 3
    assert "has not proved that the last reply is on record" in visible.errors


@pytest.mark.parametrize("name", ["shuffled", "split-and-mix"])
def test_who_speaks_to_a_shuffler_waits_for_no_receipt_and_is_stopped_by_none(name: str, tmp_path: Path) -> None:
    """Its frames are on nobody's record, so that a true close can be made to look like a lie."""

    def script(stage: Stage) -> Batches:
        yield from until(1)(stage)
        yield [stage.said(nothing_held(stage, 1), None)]
        yield from stage.end()

    assert play(script, name, 1, tmp_path / "node").code == 0
