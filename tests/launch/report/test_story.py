"""The story: lanes, merged arrows, missing replies, and records that nobody honest would write."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.emulator.record.records import Record
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import (
    MESSAGES,
    Abort,
    Announce,
    Close,
    Event,
    Message,
    Ready,
    Refusal,
    Reminder,
    Replies,
    Result,
    Roster,
    Setup,
)
from parley.launch.report.diagram import GROUPS, MOST_FRAMES, MOST_LANES, MOST_ROUNDS, MOST_SIGNS, Lanes
from parley.launch.report.page import safe_json
from parley.launch.report.story import FIRST, LAST, Story
from parley.launch.report.words import body, headline
from tests.vectors.wire import messages

COUNT = st.one_of(st.integers(0, 40), st.integers(0, 2**62 - 1))
SMALL = st.integers(0, 4)
NODE = st.sampled_from(["node-0", "node-1", "node-2", "board", "analyst", "launcher"])
TEXT = st.text(max_size=30)
FLOAT = st.floats(allow_nan=False, allow_infinity=False)
ARRAYS = st.dictionaries(
    st.text(min_size=1, max_size=8).filter(str.isprintable),
    st.sampled_from([np.zeros(0), np.arange(5.0), np.ones((2, 2), np.bool_), np.array(3, np.uint64)]),
    max_size=2,
)


@st.composite
def replies(draw: st.DrawFn) -> Replies:
    # One frame spans fewer than 2^32 users, and their numbers stay below 2^62.
    users = min(draw(COUNT), 2**61) + np.array(sorted(draw(st.sets(st.integers(0, 2**31), max_size=5))), np.int64)
    columns = {"right": np.arange(len(users), dtype=np.uint8)}
    return Replies(run="r", round=draw(SMALL), node=draw(NODE), chunk=0, chunks=1, users=users, columns=columns)


MESSAGE = st.one_of(
    st.builds(Ready, node=NODE, first=COUNT, users=COUNT, pid=COUNT),
    st.builds(Roster, run=st.just("r"), nodes=COUNT, users=COUNT),
    st.builds(
        Setup,
        run=st.just("r"),
        protocol=st.sampled_from(["three-round", "nobody"]),
        parameters=st.dictionaries(st.sampled_from("abc"), st.one_of(FLOAT, TEXT, st.lists(FLOAT, max_size=3))),
        epsilon=FLOAT,
        delta=FLOAT,
        rounds=COUNT,
    ),
    st.builds(Announce, run=st.just("r"), round=COUNT, broadcast=ARRAYS),
    replies(),
    st.builds(Refusal, run=st.just("r"), round=COUNT, node=NODE, reason=TEXT),
    st.builds(Close, run=st.just("r"), round=COUNT, replies=COUNT, missing=COUNT),
    st.builds(Result, run=st.just("r"), estimate=FLOAT, predicted_rmse=FLOAT, low=FLOAT, high=FLOAT, replied=COUNT),
    st.builds(Abort, run=st.just("r"), outcome=st.just("failed"), reason=TEXT),
    st.builds(Reminder, run=st.just("r"), round=COUNT, missing=st.dictionaries(NODE, st.just((1,)), max_size=3)),
    st.builds(
        Event, event=TEXT | st.just("loss"), node=NODE | TEXT, round=COUNT, detail=TEXT | st.just("fault 1: x y")
    ),
)


def tell(*messages: Message, sender: str = "board") -> Story:
    story = Story()
    for number, message in enumerate(messages):
        frame = encode(message)
        story.take(Record(sequence=number, time_ns=number * 10**6, sender=sender, frame=frame, offset=0))
    return story


def marks(story: Story, **wanted: Any) -> list[dict[str, Any]]:
    found = [mark for band in story.diagram.record()["bands"] for mark in band["marks"]]
    return [mark for mark in found if all(mark[name] == value for name, value in wanted.items())]


def seated(nodes: int, each: int) -> list[Message]:
    ready = [Ready(node=f"node-{index}", first=index * each, users=each, pid=1) for index in range(nodes)]
    return [*ready, Roster(run="r", nodes=nodes, users=nodes * each)]


def answer(node: int, *users: int, chunk: int = 0, chunks: int = 1) -> Replies:
    chosen = np.array(users, np.int64)
    columns = {"right": np.zeros(len(users), np.uint8)}
    return Replies(run="r", round=1, node=f"node-{node}", chunk=chunk, chunks=chunks, users=chosen, columns=columns)


OPEN = Announce(run="r", round=1, broadcast={})


@settings(max_examples=150, deadline=None)
@given(st.lists(MESSAGE, max_size=12))
def test_any_record_has_a_story(messages: list[Message]) -> None:
    safe_json(tell(*messages).record())


@pytest.mark.parametrize(
    ("nodes", "each", "by", "lanes"),
    [
        (2, 3, "user", 6),
        (MOST_LANES, 1, "user", MOST_LANES),
        (2, MOST_LANES, "node", 2),
        (MOST_LANES, 2, "node", MOST_LANES),
        (MOST_LANES + 1, 1, "group", GROUPS),
        (1000, 1, "group", GROUPS),
    ],
)
def test_lanes(nodes: int, each: int, by: str, lanes: int) -> None:
    seats = [message for message in seated(nodes, each) if isinstance(message, Ready)]
    made = Lanes(reversed(seats))
    assert (made.by, len(made.lanes)) == (by, lanes)
    users = np.arange(nodes * each)
    counts = np.bincount(made.of_users(users), minlength=lanes).tolist()
    assert counts == np.diff([*(lane.first for lane in made.lanes), len(users)]).tolist()
    assert by == "user" or all(f" {count} user" in lane.title for count, lane in zip(counts, made.lanes, strict=True))
    for seat in seats:
        assert set(made.of_users(np.arange(seat.first, seat.first + each))) == set(made.of_node(seat.node))


def test_a_user_is_an_arrow() -> None:
    story = tell(*seated(2, 3), OPEN, answer(0, 0, 2), answer(1, 3, 4, 5))
    assert [mark["start"] for mark in marks(story, kind="replies")] == [0, 2, 3, 4, 5]


def test_a_frame_is_an_arrow_with_many_users() -> None:
    story = tell(*seated(2, 100), OPEN, answer(0, *range(60)), answer(0, *range(60, 100)), answer(1, 150))
    assert [(mark["start"], mark["replies"]) for mark in marks(story, kind="replies")] == [(0, 60), (0, 40), (1, 1)]


def test_many_frames_become_one_arrow_per_lane() -> None:
    frames = [answer(0, user, chunk=user, chunks=100) for user in range(MOST_FRAMES + 1)]
    story = tell(*seated(2, 100), OPEN, *frames, answer(1, 100, 101))
    (first, second) = marks(story, kind="replies")
    assert (first["replies"], first["frames"], first["title"]) == (MOST_FRAMES + 1, MOST_FRAMES + 1, "65 replies")
    assert (second["start"], second["replies"]) == (1, 2)
    assert any("one arrow per lane" in note for note in story.diagram.record()["notes"])


def test_losses_break_their_arrow_and_other_faults_are_signs() -> None:
    faults = [
        Event(event="loss", node="node-1", round=1, detail="up replies"),
        Event(event="corrupt", node="node-0", round=1, detail="down announce"),
        Event(event="delay", node="node-0", round=1, detail="up replies 0.100 s"),
        Event(event="kill", node="launcher", round=1, detail="fault 1: node-1 is killed for good"),
        Event(event="loss", node="stranger", round=1, detail="up replies"),
    ]
    story = tell(*seated(2, 1), OPEN, *faults)
    assert [(mark["start"], mark["to"]) for mark in marks(story, broken=True)] == [(1, "board"), ("board", 0)]
    assert [mark["start"] for mark in marks(story, sign=True)] == [0, 1]
    assert story.record()["faults"]["total"] == 5
    assert any("1 faults of parties without a lane" in note for note in story.diagram.record()["notes"])


def test_faults_before_everybody_is_there_wait_for_the_lanes() -> None:
    early = Event(event="loss", node="node-1", round=0, detail="up ready")
    story = tell(early, *seated(2, 1))
    (mark,) = marks(story, broken=True)
    assert (mark["sequence"], mark["start"]) == (0, 1)
    assert [each["sequence"] for each in marks(story)] == [0, 1, 2, 3]


def test_a_late_node_gets_a_lane() -> None:
    story = tell(*seated(2, 1), OPEN, Ready(node="node-7", first=7, users=1, pid=1), answer(7, 7))
    (mark,) = marks(story, kind="replies")
    assert mark["start"] == 2
    assert [lane["label"] for lane in story.diagram.record()["lanes"]] == ["0", "1", "7"]


def test_pictures_do_not_grow_without_end() -> None:
    fault = Event(event="loss", node="node-0", round=1, detail="up replies")
    rounds = [Announce(run="r", round=number, broadcast={}) for number in range(1, MOST_ROUNDS + 6)]
    story = tell(*seated(1, 1), OPEN, *[fault] * (FIRST + LAST), *rounds)
    record = story.record()
    assert len(marks(story, broken=True)) == MOST_SIGNS
    assert len(record["messages"]["rows"]) == FIRST + LAST < record["messages"]["total"]
    assert len([band for band in record["diagram"]["bands"] if band["round"]]) == MOST_ROUNDS
    assert any("rounds" in note for note in record["diagram"]["notes"])


def test_every_kind_of_message_is_said_in_words() -> None:
    """Proofs, keys and frames are bytes that nobody can read."""
    said = [(message, [headline(message), *body(message)]) for message, _ in messages()]
    assert {type(message) for message, _ in said} == set(MESSAGES)
    for message, lines in said:
        assert not [line for line in lines if "b'" in line or 'b"' in line or "\\x" in line], (message.kind, lines)
