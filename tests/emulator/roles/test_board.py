"""The board: admission, closing, deadlines, reminders; and that it can be rebuilt from its own record."""

from dataclasses import replace

import numpy as np
import pytest

from parley.emulator.coins import question_of, terms_of
from parley.emulator.errors import BadInput, RemoteProtocolError
from parley.emulator.roles.board import BOARD, MOST_NAMED, Board, BoardRole, Terms
from parley.emulator.roles.seats import owed
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import (
    Abort,
    Announce,
    Close,
    Event,
    Inquiry,
    Message,
    Ready,
    Refusal,
    Reminder,
    Replies,
    Result,
    Roster,
)
from tests.emulator.samples import RUN, every_message, setup

TERMS = Terms(run=RUN, users=10, nodes=2, deadline=10.0, quorum=0.5, join_deadline=5.0, patience=1.0)


def ready(node: str, first: int, users: int, pid: int = 1) -> Ready:
    return Ready(node=node, first=first, users=users, pid=pid)


def replies(node: str, first: int, count: int, *, chunk: int = 0, chunks: int = 1, number: int = 1) -> Replies:
    users = np.arange(first, first + count)
    question = question_of(terms_of(setup()), announce(number))
    return Replies(
        run=RUN, round=number, node=node, chunk=chunk, chunks=chunks, users=users, columns={}, question=question
    )


def kinds(said: list[tuple[str, Message]]) -> list[str]:
    return [message.kind for _, message in said]


def announce(number: int = 1, speakers: int = 10, **broadcast: np.ndarray) -> Announce:
    return Announce(run=RUN, round=number, broadcast=broadcast, speakers=speakers)


def seated() -> BoardRole:
    role = BoardRole(TERMS)
    assert kinds(role.hear("a", ready("a", 0, 6), 0.0)) == ["ready"]
    assert kinds(role.hear("b", ready("b", 6, 4), 0.0)) == ["ready", "roster"]
    return role


def opened(speakers: int = 10) -> BoardRole:
    role = seated()
    role.hear("analyst", setup(), 0.0)
    role.hear("analyst", announce(speakers=speakers), 0.0)
    assert role.state is Board.OPEN
    return role


def test_a_round_closes_when_every_node_has_answered() -> None:
    role = opened()
    assert kinds(role.hear("a", replies("a", 0, 3, chunk=1, chunks=2), 1.0)) == ["replies"]
    assert kinds(role.hear("b", replies("b", 6, 4), 1.0)) == ["replies"]
    said = role.hear("a", replies("a", 3, 3, chunk=0, chunks=2), 1.0)
    assert kinds(said) == ["replies", "close"]
    close = said[-1][1]
    assert isinstance(close, Close)
    assert (close.replies, close.missing, close.absent) == (10, 0, ())


def test_repetitions_are_dropped_and_contradictions_refused() -> None:
    role = opened()
    assert role.hear("a", ready("a", 0, 6), 0.0) == []
    assert kinds(role.hear("a", ready("a", 0, 6, pid=2), 0.0)) == ["event"]
    assert role.hear("analyst", setup(), 0.0) == []
    assert role.hear("analyst", announce(), 0.0) == []
    role.hear("a", replies("a", 0, 6), 0.0)
    assert role.hear("a", replies("a", 0, 6), 0.0) == []
    for sender, message in (
        ("a", ready("a", 0, 5)),
        ("analyst", setup(epsilon=0.25)),
        ("analyst", announce(mu=np.zeros(1))),
        ("analyst", announce(speakers=9)),
        ("analyst", announce(3)),
        ("analyst", Announce(run="other", round=2, broadcast={})),
        ("a", Announce(run=RUN, round=2, broadcast={})),
        ("b", replies("b", 5, 4)),
        ("c", replies("c", 6, 4)),
        ("b", replies("b", 6, 4, chunk=0, chunks=5)),
        ("a", Roster(run=RUN, nodes=1, users=10)),
        ("a", Refusal(run=RUN, round=1, node="c", reason="no")),
        ("a", Inquiry(run=RUN, round=1, node="a")),
        ("c", ready("c", 9, 1)),
    ):
        with pytest.raises(RemoteProtocolError):
            role.hear(sender, message, 0.0)
    assert role.state is Board.OPEN


def test_nobody_sits_on_anothers_chair() -> None:
    role = BoardRole(TERMS)
    role.hear("a", ready("a", 0, 6), 0.0)
    with pytest.raises(RemoteProtocolError, match="claims users of node a"):
        role.hear("b", ready("b", 5, 4), 0.0)
    with pytest.raises(RemoteProtocolError, match="beyond 10"):
        role.hear("b", ready("b", 6, 5), 0.0)


def test_reminders_name_what_is_missing_and_come_less_and_less_often() -> None:
    role = opened()
    role.hear("a", replies("a", 0, 3, chunk=0, chunks=2), 0.5)
    assert role.tick(0.9) == []
    times = [now / 10 for now in range(0, 99) if kinds(role.tick(now / 10)) == ["reminder"]]
    assert len(times) == 3
    ((_, reminder),) = role.settle([("board", Reminder(run=RUN, round=1, missing=owed(role.seats)))], 9.9)
    assert isinstance(reminder, Reminder)
    assert dict(reminder.missing) == {"a": (1,), "b": ()}


def test_at_the_deadline_the_quorum_decides() -> None:
    role = opened()
    role.hear("a", replies("a", 0, 6), 1.0)
    ((_, close),) = [each for each in role.tick(10.5) if each[1].kind != "reminder"]
    assert isinstance(close, Close)
    assert (close.replies, close.missing, close.absent) == (6, 4, ("b",))
    role = opened()
    role.hear("b", replies("b", 6, 4), 1.0)
    ((_, abort),) = role.tick(10.5)
    assert isinstance(abort, Abort)
    assert "round 1: 4 of 10 users answered, below the quorum" in abort.reason
    assert role.state is Board.ENDED


def test_the_quorum_counts_replies_and_not_chunks() -> None:
    """A node whose frames are all there but hold nobody has answered for nobody."""
    role = opened()
    role.hear("a", replies("a", 0, 0), 1.0)
    said = role.hear("b", replies("b", 6, 4), 1.0)
    assert kinds(said) == ["replies", "abort"]
    role = opened(speakers=4)
    role.hear("a", replies("a", 0, 0), 1.0)
    said = role.hear("b", replies("b", 6, 2), 1.0)
    assert kinds(said) == ["replies", "close"]
    close = said[-1][1]
    assert isinstance(close, Close)
    assert (close.replies, close.missing, close.absent) == (2, 2, ())
    role = opened(speakers=4)
    role.hear("a", replies("a", 0, 0), 1.0)
    assert kinds(role.hear("b", replies("b", 6, 1), 1.0)) == ["replies", "abort"]


def test_users_who_never_came_count_against_the_quorum() -> None:
    """Of 10 users 6 are seated and 3 of these were asked: 5 of all who would have been asked, of which half are due."""
    for answered, ending in ((3, "close"), (2, "abort")):
        role = BoardRole(TERMS)
        role.tick(0.0)
        role.hear("a", ready("a", 0, 6), 1.0)
        role.tick(6.0)
        role.hear("analyst", setup(), 6.0)
        role.hear("analyst", announce(speakers=3), 6.0)
        assert kinds(role.hear("a", replies("a", 0, answered), 7.0)) == ["replies", ending]


def test_a_node_whose_answer_is_not_whole_is_absent_by_name() -> None:
    role = opened()
    role.hear("a", replies("a", 0, 5, chunk=0, chunks=2), 1.0)
    role.hear("b", Refusal(run=RUN, round=1, node="b", reason="no"), 1.0)
    ((_, close),) = [each for each in role.tick(10.5) if each[1].kind != "reminder"]
    assert isinstance(close, Close)
    assert (close.replies, close.missing, close.absent) == (5, 5, ("a", "b"))


def test_the_nonce_is_drawn_when_the_roster_is_closed_and_not_before() -> None:
    drawn: list[bytes] = []

    def draw() -> bytes:
        drawn.append(bytes([len(drawn) + 1]) * 16)
        return drawn[-1]

    role = BoardRole(TERMS, draw)
    role.hear("a", ready("a", 0, 6), 0.0)
    assert drawn == []
    said = role.hear("b", ready("b", 6, 4), 0.0)
    assert isinstance(said[-1][1], Roster)
    assert [said[-1][1].nonce] == drawn == [role.nonce]
    restored = BoardRole(TERMS, draw)
    for each in (ready("a", 0, 6), ready("b", 6, 4), said[-1][1]):
        restored.record(each, 1.0)
    assert restored.nonce == role.nonce
    assert len(drawn) == 1


def test_who_waits_for_another_run_or_signs_with_another_key_gets_no_seat() -> None:
    keys = {"a": bytes(31) + b"a", "b": bytes(31) + b"b"}
    role = BoardRole(TERMS, keys=keys)
    for wrong, reason in (
        (replace(ready("a", 0, 6), run="other", key=keys["a"]), "waits for run other, this is r"),
        (ready("a", 0, 6), "does not sign with the key that is listed for it"),
        (replace(ready("a", 0, 6), key=keys["b"]), "does not sign with the key that is listed for it"),
        (replace(ready("c", 0, 6), key=keys["a"]), "does not sign with the key that is listed for it"),
    ):
        with pytest.raises(RemoteProtocolError, match=reason):
            role.hear(wrong.node, wrong, 0.0)
    assert role.seats == {}
    assert kinds(role.hear("a", replace(ready("a", 0, 6), run=RUN, key=keys["a"]), 0.0)) == ["ready"]
    assert kinds(role.hear("b", replace(ready("b", 6, 4), key=keys["b"]), 0.0)) == ["ready", "roster"]


def test_who_refuses_is_not_waited_for() -> None:
    role = opened()
    role.hear("a", replies("a", 0, 6), 1.0)
    said = role.hear("b", Refusal(run=RUN, round=1, node="b", reason="no"), 1.0)
    assert kinds(said) == ["refusal", "close"]
    role.hear("analyst", announce(2), 2.0)
    assert owed(role.seats) == {"a": (), "b": ()}


def test_who_refuses_the_terms_takes_no_part_at_all() -> None:
    role = seated()
    role.hear("analyst", setup(), 0.0)
    role.hear("b", Refusal(run=RUN, round=0, node="b", reason="no"), 0.0)
    role.hear("analyst", announce(), 0.0)
    assert owed(role.seats) == {"a": ()}


def test_too_few_to_begin_and_enough_to_begin() -> None:
    role = BoardRole(TERMS)
    role.tick(0.0)
    role.hear("b", ready("b", 6, 4), 1.0)
    assert kinds(role.tick(6.0)) == ["abort"]
    role = BoardRole(TERMS)
    role.tick(0.0)
    role.hear("a", ready("a", 0, 6), 1.0)
    assert kinds(role.tick(6.0)) == ["roster"]
    role.hear("analyst", setup(), 6.0)
    role.hear("analyst", announce(speakers=6), 6.0)
    with pytest.raises(RemoteProtocolError, match="comes after the roster was closed"):
        role.hear("b", ready("b", 6, 4), 7.0)
    assert owed(role.seats) == {"a": ()}
    # Who has a seat may come back to it.
    assert kinds(role.hear("a", ready("a", 0, 6, pid=2), 7.0)) == ["event"]


def test_a_restarted_board_is_where_its_record_ends() -> None:
    role = BoardRole(TERMS)
    heard: list[tuple[str, Message]] = [
        ("a", ready("a", 0, 6)),
        ("b", ready("b", 6, 4)),
        ("analyst", setup()),
        ("analyst", announce()),
        ("b", replies("b", 6, 4)),
        ("x", Event(event="drop", node="x", round=1, detail="noise")),
        ("a", replies("a", 0, 3, chunk=0, chunks=2)),
    ]
    record = [message for each in heard for _, message in role.hear(*each, now=0.0)]
    restored = BoardRole(TERMS)
    for message in record:
        restored.record(message, 5.0)
    assert restored.state is role.state
    assert owed(restored.seats) == owed(role.seats) == {"a": (1,)}
    assert restored.hear("analyst", setup(), 5.0) == []
    final = restored.hear("a", replies("a", 3, 3, chunk=1, chunks=2), 5.0)
    assert [encode(m) for _, m in final] == [
        encode(m) for _, m in role.hear("a", replies("a", 3, 3, chunk=1, chunks=2), 5.0)
    ]


@pytest.mark.parametrize("state", list(Board))
@pytest.mark.parametrize("message", every_message(), ids=lambda each: each.kind)
def test_the_board_moves_by_its_table_or_raises(state: Board, message: Message) -> None:
    role = opened()
    role.state = state
    if (state, type(message)) in BOARD:
        if not isinstance(message, Replies):
            role.record(message, 0.0)
            assert role.state is BOARD[(state, type(message))]
    else:
        with pytest.raises(RemoteProtocolError, match=state.name):
            role.record(message, 0.0)


@pytest.mark.parametrize(
    "wrong", [{"users": 0}, {"nodes": 11}, {"nodes": 0}, {"quorum": 0.0}, {"quorum": 1.5}, {"deadline": 0.0}]
)
def test_terms_that_make_no_sense(wrong: dict[str, float]) -> None:
    with pytest.raises(BadInput):
        Terms(**{"run": RUN, "users": 10, "nodes": 2, **wrong})  # type: ignore[arg-type]


def test_only_results_end_well() -> None:
    role = opened()
    role.hear("a", replies("a", 0, 6), 1.0)
    role.hear("b", replies("b", 6, 4), 1.0)
    result = Result(run=RUN, estimate=0.5, predicted_rmse=0.1, low=0.3, high=0.7, replied=10)
    role.hear("analyst", result, 2.0)
    assert role.over
    assert isinstance(role.ending, Result)


def test_a_reminder_names_a_few_of_a_crowd_and_the_next_one_others() -> None:
    crowd = 3 * MOST_NAMED
    role = BoardRole(Terms(run=RUN, users=crowd, nodes=crowd, patience=0.01))
    for number in range(crowd):
        role.hear(f"n{number}", ready(f"n{number}", number, 1), 0.0)
    role.hear("analyst", setup(), 0.0)
    role.hear("analyst", announce(), 0.0)
    named: set[str] = set()
    for now in range(1, 4):
        ((_, reminder),) = role.tick(10.0 * now)
        assert isinstance(reminder, Reminder)
        assert len(reminder.missing) == MOST_NAMED
        named |= set(reminder.missing)
    assert len(named) == crowd


def test_a_reply_to_another_question_is_dropped() -> None:
    role = opened()
    with pytest.raises(RemoteProtocolError, match="another question"):
        role.hear("a", replace(replies("a", 0, 6), question=bytes(32)), 1.0)
    with pytest.raises(RemoteProtocolError, match="another question"):
        role.hear("a", replace(replies("a", 0, 6), question=b""), 1.0)
    assert kinds(role.hear("a", replies("a", 0, 6), 1.0)) == ["replies"]


def test_an_abort_carries_the_nonce_once_it_is_drawn() -> None:
    """Without it an abort would end any later run of the same name."""
    nonce, before = bytes(range(16)), BoardRole(TERMS, lambda: bytes(range(16)))
    assert before.abort("aborted", "enough").nonce == b""
    role = BoardRole(TERMS, lambda: nonce)
    for name, first, users in (("a", 0, 6), ("b", 6, 4)):
        role.hear(name, ready(name, first, users), 0.0)
    assert role.abort("aborted", "enough").nonce == nonce
    for other in (b"", bytes(16)):
        with pytest.raises(RemoteProtocolError, match="bound to another nonce"):
            role.hear("analyst", Abort(run=RUN, outcome="failed", reason="so", nonce=other), 1.0)
    said = role.hear("analyst", Abort(run=RUN, outcome="failed", reason="so", nonce=nonce), 1.0)
    assert kinds(said) == ["abort"]


def test_the_key_on_record_holds_the_seat_also_after_a_restart() -> None:
    """With and without a list of keys; a ready under another key moves nothing, and its author is told whose it is."""
    own, other, nonce = bytes([1]) * 32, bytes([9]) * 32, bytes(range(16))
    for listed in (None, {"a": own, "b": own}):
        role, again = (BoardRole(TERMS, lambda: nonce, listed) for _ in range(2))
        assert role.seating("a") is None
        for name, first, users in (("a", 0, 6), ("b", 6, 4)):
            for _, message in role.hear(name, replace(ready(name, first, users), key=own), 0.0):
                again.record(message, 0.0)
        for each in (role, again):
            with pytest.raises(RemoteProtocolError, match="key that"):
                each.hear("a", replace(ready("a", 0, 6, pid=2), key=other), 1.0)
            told = each.seating("a")
            assert told is not None
            assert (told.run, told.node, told.key, told.nonce) == (RUN, "a", own, nonce)
            assert each.seating("c") is None
            assert kinds(each.hear("a", replace(ready("a", 0, 6, pid=3), key=own), 2.0)) == ["event"]
