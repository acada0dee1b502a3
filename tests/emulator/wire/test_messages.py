"""Messages check themselves when made: each rule refuses what breaks it, and takes what just keeps it."""

from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest

from parley.emulator.errors import RemoteProtocolError
from parley.emulator.wire import messages
from parley.emulator.wire.messages import LARGEST_COUNT, LONGEST_TEXT, Message

GOOD: dict[type[Message], dict[str, Any]] = {
    messages.Ready: {
        "node": "user-1",
        "first": 0,
        "users": 2,
        "pid": 7,
        "run": "r1",
        "key": bytes(32),
    },
    messages.Roster: {"run": "r1", "nodes": 1, "users": 2, "nonce": bytes(16)},
    messages.Setup: {
        "run": "r1",
        "protocol": "three-round",
        "parameters": {"levels": (8, 8)},
        "epsilon": 1.0,
        "delta": 0.0,
        "rounds": 3,
        "version": 1,
        "domain": {"inputs": 64},
        "nonce": bytes(16),
    },
    messages.Announce: {"run": "r1", "round": 1, "broadcast": {"center": np.zeros(3)}, "speakers": 2},
    messages.Replies: {
        "run": "r1",
        "round": 1,
        "node": "user-1",
        "chunk": 0,
        "chunks": 1,
        "users": np.array([3, 5]),
        "columns": {"bit": np.array([0, 1], dtype=np.uint8), "row": np.zeros((2, 4))},
        "question": bytes(32),
    },
    messages.Refusal: {"run": "r1", "round": 1, "node": "user-1", "reason": "more than my cap"},
    messages.Close: {
        "run": "r1",
        "round": 1,
        "replies": 2,
        "missing": 0,
        "absent": ("user-2",),
        "size": 7,
        "root": bytes(32),
    },
    messages.Result: {
        "run": "r1",
        "estimate": 0.5,
        "predicted_rmse": 0.1,
        "low": 0.3,
        "high": 0.7,
        "replied": 2,
    },
    messages.Abort: {"run": "r1", "outcome": "failed", "reason": "below the quorum", "nonce": bytes(16)},
    messages.Reminder: {"run": "r1", "round": 1, "missing": {"user-1": (0, 2)}},
    messages.Resume: {"sequence": 0, "count": 0},
    messages.Event: {"event": "drop", "node": "user-1", "round": 1, "detail": "loss"},
    messages.Receipt: {
        "run": "r1",
        "round": 1,
        "node": "user-1",
        "close": b"frame",
        "chunks": (0, 1),
        "sequences": (3, 5),
        "times": (10, 20),
        "paths": (bytes(64), b""),
        "before": 0,
        "consistency": bytes(32),
    },
    messages.Inquiry: {"run": "r1", "round": 1, "node": "user-1"},
    messages.Pledge: {"run": "r1", "setup": bytes(32)},
    messages.Seating: {"run": "r1", "node": "user-1", "key": bytes(32), "nonce": bytes(16)},
    messages.Shard: {
        "run": "r1",
        "node": "shard-0",
        "stretches": np.array([[0, 3], [5, 9]]),
        "pid": 1,
        "roster": b"frame",
        "key": bytes(32),
    },
    messages.Tally: {
        "run": "r1",
        "round": 1,
        "node": "shard-0",
        "replies": 7,
        "sums": {"y": np.array([3, 4])},
        "rejected": {"user-1": 1},
        "silent": 0,
        "close": b"frame",
        "question": bytes(32),
    },
    messages.Tie: {"run": "r1", "round": 1, "node": "shard-0", "tally": b"frame", "receipt": b"frame"},
}


def make(kind: type[Message], **changes: Any) -> Message:
    return kind(**(GOOD[kind] | changes))


def fields_of(kind_of_value: type) -> list[tuple[type[Message], str]]:
    """Every field of every message that holds a value of this type."""
    return [(kind, name) for kind, good in GOOD.items() for name, value in good.items() if type(value) is kind_of_value]


def refused(kind: type[Message], what: str, **changes: Any) -> None:
    with pytest.raises(RemoteProtocolError, match=what) as caught:
        make(kind, **changes)
    assert str(caught.value).startswith(f"{kind.kind}: ")


def test_the_set_is_closed_and_kinds_are_distinct() -> None:
    assert set(GOOD) == set(messages.MESSAGES) == set(Message.__subclasses__())
    assert len(set(messages.KINDS)) == len(messages.KINDS)


@pytest.mark.parametrize("kind", messages.MESSAGES, ids=lambda kind: kind.kind)
def test_messages_are_frozen(kind: type[Message]) -> None:
    message = make(kind)
    for name in GOOD[kind]:
        with pytest.raises(FrozenInstanceError):
            setattr(message, name, GOOD[kind][name])


@pytest.mark.parametrize(("kind", "name"), fields_of(int), ids=str)
def test_counts_are_counts(kind: type[Message], name: str) -> None:
    refused(kind, f"{name} is negative or too large: -1", **{name: -1})
    refused(kind, f"{name} is negative or too large", **{name: LARGEST_COUNT})


@pytest.mark.parametrize(("kind", "name"), fields_of(float), ids=str)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), np.float64("nan")])
def test_numbers_are_finite(kind: type[Message], name: str, value: float) -> None:
    refused(kind, f"{name} is not finite", **{name: value})


@pytest.mark.parametrize(("kind", "name"), fields_of(str), ids=str)
def test_texts_are_short_and_names_are_names(kind: type[Message], name: str) -> None:
    if name in kind.names:
        for bad in ("", " ", "a b", "-a", ".a", "a/b", "a\n", "é", "a" * 65):
            refused(kind, f"{name} is not a name", **{name: bad})
        for good in ("a", "0", "A.b_c:d-e", "a" * 64):
            assert getattr(make(kind, **{name: good}), name) == good
    elif (kind, name) == (messages.Ready, "run"):
        refused(kind, "run is not a name", run="a b")
        assert make(kind, run="")
    elif name != "outcome":
        refused(kind, f"{name} is {LONGEST_TEXT + 1} characters long", **{name: "a" * (LONGEST_TEXT + 1)})
        assert make(kind, **{name: "a" * LONGEST_TEXT})


DIGESTS = [
    (kind, name)
    for kind, name in fields_of(bytes)
    if name not in ("close", "consistency", "roster", "tally", "receipt")
]


@pytest.mark.parametrize(("kind", "name"), DIGESTS, ids=str)
def test_digests_keys_and_nonces_have_their_length_or_are_not_there(kind: type[Message], name: str) -> None:
    size = len(GOOD[kind][name])
    assert size == (16 if name == "nonce" else 32)
    for wrong in (1, size - 1, size + 1, 2 * size):
        refused(kind, f"{name} has {wrong} bytes instead of {size}", **{name: bytes(wrong)})
    assert make(kind, **{name: b""})


def test_a_receipt_has_a_place_a_time_and_a_path_for_each_chunk() -> None:
    for name in ("chunks", "sequences", "times", "paths"):
        refused(messages.Receipt, "differ in number", **{name: GOOD[messages.Receipt][name][:1]})
    refused(messages.Receipt, "a path of 33 bytes", paths=(bytes(33), b""))
    refused(messages.Receipt, "a path of 31 bytes", consistency=bytes(31))


@pytest.mark.parametrize("kind", messages.MESSAGES, ids=lambda kind: kind.kind)
def test_what_format_1_did_not_have_can_be_left_out(kind: type[Message]) -> None:
    known = [name for name in GOOD[kind] if name not in kind.since_format_2]
    assert set(kind.since_format_2) <= set(GOOD[kind])
    assert kind(**{name: GOOD[kind][name] for name in known})


def test_kinds_of_format_1_are_those_it_had() -> None:
    old = [kind.kind for kind in messages.MESSAGES[: messages.KINDS_OF_FORMAT_1]]
    assert old == [
        *("ready", "roster", "setup", "announce", "replies", "refusal", "close", "result", "abort", "reminder"),
        *("resume", "event"),
    ]


def test_a_chunk_is_one_of_its_chunks() -> None:
    refused(messages.Replies, "chunk 1 of 1", chunk=1)
    refused(messages.Replies, "chunk 0 of 0", chunks=0)
    assert make(messages.Replies, chunk=1, chunks=2)


@pytest.mark.parametrize(
    ("what", "users"),
    [
        ("not increasing", np.array([5, 3])),
        ("not increasing", np.array([3, 3])),
        ("not increasing", np.array([-1, 3])),
        ("2 dimensions", np.array([[3], [5]])),
        ("uint64", np.array([5, 3], dtype=np.uint64)),
        ("float64", np.array([3.0, 5.0])),
    ],
)
def test_users_are_increasing_numbers(what: str, users: Any) -> None:
    refused(messages.Replies, what, users=users)


@pytest.mark.parametrize("column", [np.zeros(3), np.zeros((1, 2)), np.zeros(()), np.zeros(0)])
def test_columns_have_a_row_for_each_user(column: Any) -> None:
    refused(messages.Replies, "column bit has shape", columns={"bit": column})


def test_nobody_may_reply() -> None:
    nobody = make(messages.Replies, users=np.arange(0), columns={"bit": np.zeros((0, 4))})
    assert isinstance(nobody, messages.Replies)
    assert len(nobody.users) == 0


@pytest.mark.parametrize(
    ("what", "stretches"),
    [
        ("not pairs", np.array([0, 3])),
        ("not pairs", np.array([[0.0, 3.0]])),
        ("not pairs", np.empty((0, 2), np.int64)),
        ("empty, or touch", np.array([[3, 3]])),
        ("empty, or touch", np.array([[-1, 3]])),
        ("empty, or touch", np.array([[0, 3], [3, 5]])),
        ("empty, or touch", np.array([[4, 6], [0, 2]])),
        ("empty, or touch", np.array([[0, LARGEST_COUNT]])),
    ],
)
def test_stretches_of_users_are_apart(what: str, stretches: Any) -> None:
    refused(messages.Shard, what, stretches=stretches)


def test_a_shard_counts_its_users() -> None:
    shard = make(messages.Shard)
    assert isinstance(shard, messages.Shard)
    assert (shard.users, shard.first, shard.end) == (7, 0, 9)


def test_a_tally_is_made_of_whole_numbers() -> None:
    refused(messages.Tally, "whole numbers", sums={"y": np.array([0.5])})
    refused(messages.Tally, "fewer than one", rejected={"user-1": 0})


@pytest.mark.parametrize("outcome", ["completed", "", "Failed"])
def test_an_aborted_run_did_not_complete(outcome: str) -> None:
    refused(messages.Abort, "outcome is", outcome=outcome)


def test_what_user_nodes_hear_is_a_subset() -> None:
    assert set(messages.BROADCASTS) < set(messages.MESSAGES)
    assert messages.Replies not in messages.BROADCASTS
    # What proves itself goes to one node alone.
    assert not {messages.Receipt, messages.Inquiry, messages.Pledge, messages.Seating} & set(messages.BROADCASTS)
