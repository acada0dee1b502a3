"""The shuffler's role as a conversation: who is told what, what is posted, and what never is."""

import itertools
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from parley.emulator.coins import question_of, setup_digest, terms_of
from parley.emulator.errors import RemoteProtocolError
from parley.emulator.roles.board import Terms
from parley.emulator.roles.mixing import keyed_draw, keyed_draws
from parley.emulator.roles.seats import owed
from parley.emulator.roles.shuffler import (
    HEARD,
    SHUFFLER_NAME,
    Down,
    Keep,
    Memory,
    Said,
    Shuffler,
    ShufflerRole,
    Up,
)
from parley.emulator.wire.codec import decode, encode, said_by
from parley.emulator.wire.messages import (
    BROADCASTS,
    MESSAGES,
    Abort,
    Announce,
    Close,
    Inquiry,
    Message,
    Pledge,
    Ready,
    Receipt,
    Refusal,
    Reminder,
    Replies,
    Result,
    Resume,
    Roster,
    Seating,
    Setup,
    Shard,
    Tally,
    Tie,
)
from parley.emulator.wire.signatures import derived

RUN = "test"
RULE = {"crowd": 4, "axes": {}}
NONCE = bytes(range(16))
SIGNER = derived(bytes(32), SHUFFLER_NAME)


def setup(rule: Any = RULE, **changes: Any) -> Setup:
    fields = {"run": RUN, "protocol": "any", "parameters": {"shuffle": rule}, "epsilon": 1.0, "delta": 1e-6}
    return Setup(**{**fields, "rounds": 1, "nonce": NONCE, **changes})


def announce(number: int = 1, **changes: Any) -> Announce:
    return Announce(**{"run": RUN, "round": number, "broadcast": {}, **changes})


def question(rule: Any = RULE, number: int = 1) -> bytes:
    return question_of(terms_of(setup(rule)), announce(number))


def replies(
    node: str, first: int, users: int, *, chunk: int = 0, chunks: int = 1, number: int = 1, rule: Any = RULE
) -> Replies:
    numbers = np.arange(first, first + users)
    return Replies(
        run=RUN,
        round=number,
        node=node,
        chunk=chunk,
        chunks=chunks,
        users=numbers,
        columns={"value": numbers * 10, "copy": numbers.astype(np.float64)},
        question=question(rule, number),
    )


def ready(node: str, first: int, users: int) -> Ready:
    return Ready(node=node, first=first, users=users, pid=1)


def role(memory: Memory | None = None, **terms: Any) -> ShufflerRole:
    chosen = {"run": RUN, "users": 6, "nodes": 2, "deadline": 10.0, **terms}
    return ShufflerRole(Terms(**chosen), draws=keyed_draws(bytes(32)), memory=memory, signer=SIGNER)


def opened(rule: Any = RULE, memory: Memory | None = None, **terms: Any) -> ShufflerRole:
    shuffler = role(memory, **{"quorum": 0.5, **terms})
    for message in (ready("a", 0, 4), ready("b", 4, 2), setup(rule), announce()):
        shuffler.hear(message, 0.0)
    assert shuffler.state is Shuffler.OPEN
    return shuffler


def up(said: Said) -> list[Message]:
    return [each.message for each in said if isinstance(each, Up)]


def down(said: Said) -> list[Message]:
    return [each.message for each in said if isinstance(each, Down)]


def test_it_is_one_node_with_everybody_once_all_are_there() -> None:
    shuffler = role()
    assert shuffler.hear(ready("a", 0, 4), 0.0) == []
    (said,) = up(shuffler.hear(ready("b", 4, 2), 0.0))
    assert isinstance(said, Ready)
    assert (said.node, said.first, said.users) == (SHUFFLER_NAME, 0, 6)
    assert (said.run, said.key) == (RUN, SIGNER.public)
    assert shuffler.state is Shuffler.SEATED


def test_a_round_from_end_to_end() -> None:
    shuffler = opened()
    assert up(shuffler.hear(replies("a", 0, 4), 1.0)) == []
    (batch,) = up(shuffler.hear(replies("b", 4, 2), 1.0))
    assert isinstance(batch, Replies)
    assert (batch.node, batch.users.tolist()) == (SHUFFLER_NAME, [0, 1, 2, 3, 4, 5])
    assert sorted(batch.columns["value"].tolist()) == [0, 10, 20, 30, 40, 50]
    assert np.array_equal(batch.columns["copy"] * 10, batch.columns["value"])
    close = Close(run=RUN, round=1, replies=6, missing=0)
    assert down(shuffler.hear(close, 2.0)) == [close]
    result = Result(run=RUN, estimate=0.0, predicted_rmse=1.0, low=-1.0, high=1.0, replied=6)
    assert down(shuffler.hear(result, 2.0)) == [result]
    assert shuffler.over


def test_nothing_in_a_batch_tells_who_sent_what() -> None:
    """Over all orders of arrival and many draws every message is in every place about equally often."""
    counts = np.zeros((6, 6))
    for trial in range(600):
        draw = keyed_draw(trial.to_bytes(32, "little"))
        shuffler = ShufflerRole(Terms(run=RUN, users=6, nodes=2), draws=lambda number, draw=draw: draw)  # type: ignore[misc]
        for message in (ready("a", 0, 4), ready("b", 4, 2), setup(), announce()):
            shuffler.hear(message, 0.0)
        order = [replies("a", 0, 4), replies("b", 4, 2)]
        said = [each for message in order[:: 1 if trial % 2 else -1] for each in shuffler.hear(message, 0.0)]
        (batch,) = up(said)
        assert isinstance(batch, Replies)
        counts[np.arange(6), batch.columns["value"] // 10] += 1
    statistic = float(((counts - 100) ** 2 / 100).sum())
    assert statistic < 89.0, f"chi-square {statistic} with 25 degrees, n 600, threshold 89 (alpha below 1e-6)"


def test_below_the_crowd_nothing_is_posted() -> None:
    rule = {"crowd": 5, "axes": {}}
    shuffler = opened(rule)
    shuffler.hear(replies("a", 0, 4, rule=rule), 1.0)
    (said,) = up(shuffler.tick(11.0))
    assert isinstance(said, Refusal)
    assert "4 replies are fewer than the crowd of 5" in said.reason
    assert shuffler.state is Shuffler.POSTED
    assert up(shuffler.hear(replies("b", 4, 2, rule=rule), 12.0)) == []


def test_at_the_deadline_a_crowd_is_enough() -> None:
    shuffler = opened()
    shuffler.hear(replies("a", 0, 4), 1.0)
    assert up(shuffler.tick(9.0)) == []
    (batch,) = up(shuffler.tick(11.0))
    assert isinstance(batch, Replies)
    assert len(batch.users) == 4


def test_a_refusal_counts_as_an_answer_and_nothing_of_its_reason_is_passed_on() -> None:
    """A node's reason names the node, and could name a user."""
    rule = {"crowd": 5, "axes": {}}
    shuffler = opened(rule)
    shuffler.hear(replies("a", 0, 4, rule=rule), 1.0)
    (said,) = up(shuffler.hear(Refusal(run=RUN, round=1, node="b", reason="node b: user 4 has a cap"), 1.0))
    assert isinstance(said, Refusal)
    assert (said.node, said.reason) == (SHUFFLER_NAME, "4 replies are fewer than the crowd of 5; nodes refused")


def test_a_node_that_sends_an_empty_chunk_is_counted_by_its_replies() -> None:
    """990 of 1,000 users in one empty chunk: 10 replies are a crowd of 4, and not half of those who were asked."""
    shuffler = role(users=1000, quorum=0.5)
    for message in (ready("a", 0, 10), ready("b", 10, 990), setup(), announce(speakers=1000)):
        shuffler.hear(message, 0.0)
    shuffler.hear(replies("a", 0, 10), 1.0)
    (said,) = up(shuffler.hear(replies("b", 10, 0), 1.0))
    assert isinstance(said, Refusal)
    assert said.reason == "10 replies are fewer than the crowd of 500"


def test_the_quorum_is_of_those_who_were_asked() -> None:
    shuffler = role(users=1000, quorum=0.5)
    for message in (ready("a", 0, 10), ready("b", 10, 990), setup(), announce(speakers=20)):
        shuffler.hear(message, 0.0)
    shuffler.hear(replies("a", 0, 10), 1.0)
    (said,) = up(shuffler.hear(replies("b", 10, 0), 1.0))
    assert isinstance(said, Replies)


def test_the_pledge_is_kept_and_then_goes_before_the_setup() -> None:
    shuffler = role()
    for message in (ready("a", 0, 4), ready("b", 4, 2)):
        shuffler.hear(message, 0.0)
    signed = encode(setup(), derived(bytes(32), "analyst"), NONCE)
    kept, *seats, pledge, passed = shuffler.hear(setup(), 0.0, signed)
    assert [type(each) for each in down(seats)] == [Seating, Seating]
    assert kept == Keep(run=RUN, setup=setup_digest(setup()))
    assert isinstance(pledge, Down)
    assert isinstance(pledge.message, Pledge)
    assert (pledge.message.run, pledge.message.setup) == (RUN, setup_digest(setup()))
    assert said_by(SIGNER.public, shuffler.frame(pledge), pledge.message, b"")
    assert isinstance(passed, Down)
    assert shuffler.frame(passed) == signed, "the analyst's own frame, signature and all"


def test_a_node_that_missed_it_hears_pledge_setup_and_round_again() -> None:
    shuffler = role()
    for message in (ready("a", 0, 4), ready("b", 4, 2)):
        shuffler.hear(message, 0.0)
    frames = {each.kind: encode(each, derived(bytes(32), "analyst"), NONCE) for each in (setup(), announce())}
    for each in (setup(), announce()):
        shuffler.hear(each, 0.0, frames[each.kind])
    again = [each for each in shuffler.hear(ready("b", 4, 2), 1.0) if isinstance(each, Down)]
    assert [each.message.kind for each in again] == ["seating", "pledge", "setup", "announce"]
    assert [shuffler.frame(each) for each in again[2:]] == list(frames.values())


def test_it_pledges_itself_to_one_setup_of_a_run_in_all_its_lives() -> None:
    shuffler = opened()
    other = setup(epsilon=2.0)
    for each in (shuffler, role(Memory(setup=setup_digest(setup())))):
        with pytest.raises(RemoteProtocolError, match="a second, different setup"):
            each.hear(other, 1.0)
    again = down(shuffler.hear(setup(), 1.0))
    assert [type(each) for each in again] == [Seating, Seating, Pledge, Setup], "the same one again is fine"


def test_replies_to_another_question_are_not_mixed_in() -> None:
    with pytest.raises(RemoteProtocolError, match="another question"):
        opened().hear(replies("a", 0, 4, rule={"crowd": 3, "axes": {}}), 1.0)


def test_the_batch_is_signed_for_the_run_and_bears_the_question() -> None:
    shuffler = opened()
    shuffler.hear(replies("a", 0, 4), 1.0)
    _, posted = shuffler.hear(replies("b", 4, 2), 1.0)
    assert isinstance(posted, Up)
    assert isinstance(posted.message, Replies)
    assert posted.message.question == question()
    assert said_by(SIGNER.public, shuffler.frame(posted), posted.message, NONCE)
    assert not said_by(SIGNER.public, shuffler.frame(posted), posted.message, bytes(16))


def test_the_same_draws_give_the_same_batch_whoever_answers_first() -> None:
    frames = set()
    for order in itertools.permutations(
        [replies("a", 0, 2, chunks=2), replies("a", 2, 2, chunk=1, chunks=2), replies("b", 4, 2)]
    ):
        shuffler = opened()
        said = [each for message in order for each in shuffler.hear(message, 1.0)]
        (batch,) = [each for each in said if isinstance(each, Keep)]
        frames.add(batch.frames)
    assert len(frames) == 1


def test_it_reminds_those_who_are_missing_less_and_less_often() -> None:
    shuffler = opened()
    shuffler.hear(replies("a", 0, 2, chunk=0, chunks=2), 0.0)
    moments = [now for now in np.arange(0.1, 8.0, 0.1) if down(shuffler.tick(float(now)))]
    assert 3 <= len(moments) <= 8
    assert all(later >= earlier - 0.1 for earlier, later in itertools.pairwise(np.diff(moments)))
    assert owed(shuffler.seats) == {"a": (1,), "b": ()}


def test_the_board_gets_the_same_frames_again() -> None:
    shuffler = opened()
    shuffler.hear(replies("a", 0, 4), 1.0)
    (batch,) = up(shuffler.hear(replies("b", 4, 2), 1.0))
    reminder = Reminder(run=RUN, round=1, missing={SHUFFLER_NAME: (0,)})
    assert [encode(each) for each in up(shuffler.hear(reminder, 2.0))] == [encode(batch)]
    assert up(shuffler.hear(Reminder(run=RUN, round=1, missing={"other": ()}), 2.0)) == []


def test_a_shuffler_that_came_back_asks_for_the_round_again() -> None:
    """It hears setup and round before its nodes: once they are there, it takes them up and reminds everybody."""
    shuffler = role(Memory(setup=setup_digest(setup())))
    for message in (Roster(run=RUN, nodes=1, users=6), setup(), announce()):
        shuffler.hear(message, 0.0)
    shuffler.hear(ready("a", 0, 4), 0.0)
    said = shuffler.hear(ready("b", 4, 2), 0.0)
    assert [type(each) for each in up(said)] == [Ready]
    assert [type(each) for each in down(said)] == [Seating, Seating, Pledge, Setup, Announce]
    assert shuffler.state is Shuffler.OPEN
    (reminder,) = down(shuffler.tick(1.0))
    assert isinstance(reminder, Reminder)
    assert reminder.missing == {"a": (), "b": ()}


def test_a_batch_is_kept_before_its_first_frame_and_comes_back_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next life says the same frames without a node being there, and never makes another batch."""
    monkeypatch.setattr("parley.emulator.roles.shuffler.FRAME_BYTES", 40)
    shuffler = opened()
    shuffler.hear(replies("a", 0, 4), 1.0)
    batch, *posted = shuffler.hear(replies("b", 4, 2), 1.0)
    assert isinstance(batch, Keep)
    assert len(batch.frames) == 3
    assert [shuffler.frame(each) for each in posted if isinstance(each, Up)] == list(batch.frames)
    again = ShufflerRole(
        Terms(run=RUN, users=6, nodes=2), memory=Memory(setup=batch.setup, batches={1: batch.frames}), signer=SIGNER
    )
    again.hear(setup(), 0.0)
    assert [encode(each, SIGNER, NONCE) for each in up(again.hear(announce(), 0.0))] == list(batch.frames)
    assert again.state is Shuffler.GATHERING
    missing = Reminder(run=RUN, round=1, missing={SHUFFLER_NAME: (2,)})
    assert [encode(each, SIGNER, NONCE) for each in up(again.hear(missing, 0.5))] == [batch.frames[2]]
    again.hear(ready("a", 0, 4), 1.0)
    again.hear(ready("b", 4, 2), 1.0)
    assert again.state is Shuffler.POSTED
    assert up(again.hear(replies("a", 0, 4), 1.0)) == up(again.hear(replies("b", 4, 2), 1.0)) == []


def test_a_kept_batch_is_said_for_its_own_setup_alone() -> None:
    shuffler = opened()
    shuffler.hear(replies("a", 0, 4), 1.0)
    batch = next(each for each in shuffler.hear(replies("b", 4, 2), 1.0) if isinstance(each, Keep))
    again = role(Memory(setup=batch.setup, batches={1: batch.frames}))
    assert again.hear(announce(), 0.0) == [], "no setup was heard yet"
    with pytest.raises(RemoteProtocolError, match="a second, different setup"):
        again.hear(setup(epsilon=3.0), 0.0)
    assert again.hear(announce(), 0.0) == []
    assert [decode(frame).kind for frame in batch.frames] == ["replies"]


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (replies("c", 0, 1), "no seat"),
        (replies("a", 3, 2), "not its own"),
        (replies("a", 0, 1, chunk=0, chunks=9), "more or fewer chunks"),
        (Refusal(run=RUN, round=1, node="c", reason="?"), "no seat"),
        (ready("c", 3, 1), "claims users of another"),
        (ready("c", 6, 1), "beyond"),
        (ready("a", 0, 3), "other users"),
        (Abort(run="another", outcome="failed", reason="?"), "another run"),
        (setup({"crowd": -1, "axes": {}}), "crowd"),
        (setup({"crowd": 4}), "how replies are mixed"),
        (setup({"crowd": 4, "axes": {"value": "x"}}), "axes"),
    ],
)
def test_what_is_wrong_is_dropped(message: Message, cause: str) -> None:
    shuffler = opened()
    with pytest.raises(RemoteProtocolError, match=cause) as error:
        shuffler.hear(message, 1.0)
    assert shuffler.state is Shuffler.OPEN
    named = re.search(r"\b(node|user|guest)s? [abc0-9]\b|'[abc]'", str(error.value))
    assert named is None, "the error ends up in the log"


def test_nobody_answers_twice() -> None:
    shuffler = opened()
    shuffler.hear(replies("a", 0, 3, chunk=0, chunks=2), 1.0)
    assert shuffler.hear(replies("a", 0, 3, chunk=0, chunks=2), 1.0) == []
    with pytest.raises(RemoteProtocolError, match="twice for the same user"):
        shuffler.hear(replies("a", 2, 2, chunk=1, chunks=2), 1.0)


def test_one_nodes_nonsense_does_not_spoil_the_batch() -> None:
    shuffler = opened()
    nonsense = Replies(
        run=RUN,
        round=1,
        node="b",
        chunk=0,
        chunks=1,
        users=np.array([4]),
        columns={"value": np.array([1.5], np.float32)},
        question=question(),
    )
    shuffler.hear(nonsense, 1.0)
    (batch,) = up(shuffler.hear(replies("a", 0, 4), 1.0))
    assert isinstance(batch, Replies)
    assert set(batch.columns) == {"value", "copy"}
    assert len(batch.users) == 4
    assert shuffler.dropped["layout"] == 1


def test_a_rule_that_does_not_fit_the_replies_ends_the_round() -> None:
    rule = {"crowd": 4, "axes": {"value": 3}}
    shuffler = opened(rule)
    shuffler.hear(replies("a", 0, 4, rule=rule), 1.0)
    (refusal,) = up(shuffler.hear(replies("b", 4, 2, rule=rule), 1.0))
    assert isinstance(refusal, Refusal)


def test_late_nodes_do_not_hold_up_a_quorum() -> None:
    shuffler = role(quorum=0.5, join_deadline=5.0)
    shuffler.hear(ready("a", 0, 4), 0.0)
    assert shuffler.tick(0.0) == []
    (said,) = up(shuffler.tick(6.0))
    assert isinstance(said, Ready)


# There is no shuffler in a run of several boards.
BETWEEN_BOARDS = (Shard, Tally, Tie)


@pytest.mark.parametrize("state", Shuffler)
@pytest.mark.parametrize("kind", MESSAGES)
def test_every_state_and_message_moves_or_is_refused(state: Shuffler, kind: type[Message]) -> None:
    assert ((state, kind) in HEARD) == (kind not in (Resume, Receipt, Pledge, Seating, *BETWEEN_BOARDS))


def test_all_broadcasts_have_a_place() -> None:
    assert all((state, kind) in HEARD for state in Shuffler for kind in BROADCASTS if kind not in BETWEEN_BOARDS)


def keyed(name: str, first: int, users: int, key: int) -> Ready:
    return replace(ready(name, first, users), key=bytes([key]) * 32)


def test_each_node_is_told_whose_its_seat_is() -> None:
    shuffler = role()
    for each in (keyed("a", 0, 4, 1), keyed("b", 4, 2, 2)):
        shuffler.hear(each, 0.0)
    told = [each for each in down(shuffler.hear(setup(), 0.0)) if isinstance(each, Seating)]
    assert {(each.node, each.key[0], each.nonce) for each in told} == {("a", 1, NONCE), ("b", 2, NONCE)}
    assert all(said_by(SIGNER.public, shuffler.frame(Down(each)), each, b"") for each in told)
    # A fresh state under an old name hears that the seat is not its own, and the seat does not change.
    again = down(shuffler.hear(keyed("a", 0, 4, 9), 1.0))
    assert [type(each) for each in again] == [Seating, Pledge, Setup]
    (asked,) = down(shuffler.hear(Inquiry(run=RUN, round=0, node="a"), 1.0))
    assert isinstance(asked, Seating)
    assert asked.key[0] == 1
    with pytest.raises(RemoteProtocolError, match="asks for a receipt"):
        shuffler.hear(Inquiry(run=RUN, round=1, node="a"), 1.0)
    assert shuffler.hear(Inquiry(run=RUN, round=0, node="c"), 1.0) == []


def test_a_shuffler_that_came_back_knows_from_its_list_whose_a_seat_is() -> None:
    listed = {"a": bytes([1]) * 32, "b": bytes([2]) * 32}
    terms = Terms(run=RUN, users=6, nodes=2, deadline=10.0)
    shuffler = ShufflerRole(terms, memory=Memory(setup=setup_digest(setup())), signer=SIGNER, keys=listed)
    shuffler.hear(setup(), 0.0)
    with pytest.raises(RemoteProtocolError, match="does not sign with the key that is listed"):
        shuffler.hear(keyed("a", 0, 4, 9), 0.0)
    (told,) = down(shuffler.hear(Inquiry(run=RUN, round=0, node="a"), 0.0))
    assert isinstance(told, Seating)
    assert told.key == listed["a"]
    shuffler.hear(keyed("a", 0, 4, 1), 0.0)
    assert "a" in shuffler.seats
