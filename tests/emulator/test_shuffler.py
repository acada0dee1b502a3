"""The shuffler's role as a conversation: who is told what, what is posted, and what never is."""

import itertools
from typing import Any

import numpy as np
import pytest

from emulator import shuffler as module
from emulator.board import Terms
from emulator.errors import RemoteProtocolError
from emulator.messages import (
    BROADCASTS,
    MESSAGES,
    Abort,
    Announce,
    Close,
    Message,
    Ready,
    Refusal,
    Reminder,
    Replies,
    Result,
    Resume,
    Roster,
    Setup,
)
from emulator.mixing import keyed_draw
from emulator.shuffler import HEARD, SHUFFLER_NAME, Down, Said, Shuffler, ShufflerRole, Up

RUN = "test"
RULE = {"crowd": 4, "axes": {}}


def setup(rule: Any = RULE) -> Setup:
    return Setup(run=RUN, protocol="any", parameters={"shuffle": rule}, epsilon=1.0, delta=1e-6, rounds=1)


def announce(number: int = 1) -> Announce:
    return Announce(run=RUN, round=number, broadcast={})


def replies(node: str, first: int, users: int, *, chunk: int = 0, chunks: int = 1, number: int = 1) -> Replies:
    numbers = np.arange(first, first + users)
    columns = {"value": numbers * 10, "copy": numbers.astype(np.float64)}
    return Replies(run=RUN, round=number, node=node, chunk=chunk, chunks=chunks, users=numbers, columns=columns)


def ready(node: str, first: int, users: int) -> Ready:
    return Ready(node=node, first=first, users=users, pid=1)


def role(**terms: Any) -> ShufflerRole:
    chosen = {"run": RUN, "users": 6, "nodes": 2, "deadline": 10.0, **terms}
    return ShufflerRole(Terms(**chosen), draw=keyed_draw(bytes(32)))


def opened(rule: Any = RULE, **terms: Any) -> ShufflerRole:
    shuffler = role(**terms)
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
    said = up(shuffler.hear(ready("b", 4, 2), 0.0))
    assert [(each.node, each.first, each.users) for each in said if isinstance(each, Ready)] == [(SHUFFLER_NAME, 0, 6)]
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
        shuffler = ShufflerRole(Terms(run=RUN, users=6, nodes=2), draw=keyed_draw(trial.to_bytes(32, "little")))
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
    shuffler = opened({"crowd": 5, "axes": {}})
    shuffler.hear(replies("a", 0, 4), 1.0)
    (said,) = up(shuffler.tick(11.0))
    assert isinstance(said, Refusal)
    assert "4 replies are fewer than the crowd of 5" in said.reason
    assert shuffler.state is Shuffler.POSTED
    assert up(shuffler.hear(replies("b", 4, 2), 12.0)) == []


def test_at_the_deadline_a_crowd_is_enough() -> None:
    shuffler = opened()
    shuffler.hear(replies("a", 0, 4), 1.0)
    assert up(shuffler.tick(9.0)) == []
    (batch,) = up(shuffler.tick(11.0))
    assert isinstance(batch, Replies)
    assert len(batch.users) == 4


def test_a_refusal_counts_as_an_answer_and_its_reason_is_passed_on_without_a_name() -> None:
    shuffler = opened({"crowd": 5, "axes": {}})
    shuffler.hear(replies("a", 0, 4), 1.0)
    (said,) = up(shuffler.hear(Refusal(run=RUN, round=1, node="b", reason="epsilon is above the cap"), 1.0))
    assert isinstance(said, Refusal)
    assert said.node == SHUFFLER_NAME
    assert "epsilon is above the cap" in said.reason


def test_it_reminds_those_who_are_missing_less_and_less_often() -> None:
    shuffler = opened()
    shuffler.hear(replies("a", 0, 2, chunk=0, chunks=2), 0.0)
    moments = [now for now in np.arange(0.1, 8.0, 0.1) if down(shuffler.tick(float(now)))]
    assert 3 <= len(moments) <= 8
    assert all(later >= earlier - 0.1 for earlier, later in itertools.pairwise(np.diff(moments)))
    assert shuffler.missing() == {"a": (1,), "b": ()}


def test_the_board_gets_the_same_frames_again() -> None:
    shuffler = opened()
    shuffler.hear(replies("a", 0, 4), 1.0)
    (batch,) = up(shuffler.hear(replies("b", 4, 2), 1.0))
    reminder = Reminder(run=RUN, round=1, missing={SHUFFLER_NAME: (0,)})
    assert up(shuffler.hear(reminder, 2.0)) == [batch]
    assert up(shuffler.hear(Reminder(run=RUN, round=1, missing={"other": ()}), 2.0)) == []


def test_a_shuffler_that_came_back_asks_for_the_round_again() -> None:
    """It hears setup and round before its nodes: once they are there, it takes them up and reminds everybody."""
    shuffler = role()
    for message in (Roster(run=RUN, nodes=1, users=6), setup(), announce()):
        shuffler.hear(message, 0.0)
    shuffler.hear(ready("a", 0, 4), 0.0)
    said = shuffler.hear(ready("b", 4, 2), 0.0)
    assert [type(each) for each in up(said)] == [Ready]
    assert [type(each) for each in down(said)] == [Setup, Announce]
    assert shuffler.state is Shuffler.OPEN
    (reminder,) = down(shuffler.tick(1.0))
    assert isinstance(reminder, Reminder)
    assert reminder.missing == {"a": (), "b": ()}


def test_frames_of_two_orders_are_never_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of several frames waits until the board says that it holds none of an earlier life."""
    monkeypatch.setattr(module, "FRAME_BYTES", 40)
    shuffler = opened()
    shuffler.hear(replies("a", 0, 4), 1.0)
    assert up(shuffler.hear(replies("b", 4, 2), 1.0)) == []
    said = up(shuffler.hear(Reminder(run=RUN, round=1, missing={SHUFFLER_NAME: ()}), 1.5))
    assert len(said) == 3
    assert shuffler.state is Shuffler.POSTED
    again = opened()
    (refusal,) = up(again.hear(Reminder(run=RUN, round=1, missing={SHUFFLER_NAME: (2,)}), 1.5))
    assert isinstance(refusal, Refusal)
    assert "restarted in the middle of a batch" in refusal.reason


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (replies("c", 0, 1), "no seat"),
        (replies("a", 3, 2), "not its own"),
        (replies("a", 0, 1, chunk=0, chunks=9), "chunks"),
        (Refusal(run=RUN, round=1, node="c", reason="?"), "no seat"),
        (ready("c", 3, 1), "claims users of"),
        (ready("c", 6, 1), "beyond"),
        (ready("a", 0, 3), "other users"),
        (Abort(run="another", outcome="failed", reason="?"), "run another"),
        (setup({"crowd": -1, "axes": {}}), "crowd"),
        (setup({"crowd": 4}), "how its replies"),
        (setup({"crowd": 4, "axes": {"value": "x"}}), "axes"),
    ],
)
def test_what_is_wrong_is_dropped(message: Message, cause: str) -> None:
    shuffler = opened()
    with pytest.raises(RemoteProtocolError, match=cause):
        shuffler.hear(message, 1.0)
    assert shuffler.state is Shuffler.OPEN


def test_nobody_answers_twice() -> None:
    shuffler = opened()
    shuffler.hear(replies("a", 0, 3, chunk=0, chunks=2), 1.0)
    assert shuffler.hear(replies("a", 0, 3, chunk=0, chunks=2), 1.0) == []
    with pytest.raises(RemoteProtocolError, match="twice for the same user"):
        shuffler.hear(replies("a", 2, 2, chunk=1, chunks=2), 1.0)


def test_one_nodes_nonsense_does_not_spoil_the_batch() -> None:
    shuffler = opened()
    nonsense = Replies(
        run=RUN, round=1, node="b", chunk=0, chunks=1, users=np.array([4]), columns={"value": np.array(["x"])}
    )
    shuffler.hear(nonsense, 1.0)
    (batch,) = up(shuffler.hear(replies("a", 0, 4), 1.0))
    assert isinstance(batch, Replies)
    assert set(batch.columns) == {"value", "copy"}
    assert len(batch.users) == 4
    assert shuffler.dropped["layout"] == 1


def test_a_rule_that_does_not_fit_the_replies_ends_the_round() -> None:
    shuffler = opened({"crowd": 4, "axes": {"value": 3}})
    shuffler.hear(replies("a", 0, 4), 1.0)
    (refusal,) = up(shuffler.hear(replies("b", 4, 2), 1.0))
    assert isinstance(refusal, Refusal)


def test_late_nodes_do_not_hold_up_a_quorum() -> None:
    shuffler = role(quorum=0.5, join_deadline=5.0)
    shuffler.hear(ready("a", 0, 4), 0.0)
    assert shuffler.tick(0.0) == []
    (said,) = up(shuffler.tick(6.0))
    assert isinstance(said, Ready)


@pytest.mark.parametrize("state", Shuffler)
@pytest.mark.parametrize("kind", MESSAGES)
def test_every_state_and_message_moves_or_is_refused(state: Shuffler, kind: type[Message]) -> None:
    assert ((state, kind) in HEARD) == (kind is not Resume)


def test_all_broadcasts_have_a_place() -> None:
    assert all((state, kind) in HEARD for state in Shuffler for kind in BROADCASTS)
