"""Where two records part: the first difference between two messages, two frames of replies, or two whole runs.

A difference holds both values, so that a person can see it. Names of runs and frames do not count.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.emulator.randomizer import Layout, layout, row_bytes
from parley.emulator.record.conversation import Conversation
from parley.emulator.record.user_sets import UserSet
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import Message, Replies, Users

MOST_BYTES = 128 * 2**20


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Where two records part: the round, the user (None: the analyst), and what each of them holds."""

    round: int | None
    user: int | None
    recorded: Any
    replayed: Any


def compare_messages(recorded: Message | None, replayed: Message | None) -> Difference | None:
    """Two words of the analyst: None where not a byte differs, else the first value that does."""
    if recorded is not None and replayed is not None and encode(recorded) == encode(replayed):
        return None
    number = getattr(recorded if recorded is not None else replayed, "round", None)
    if recorded is None or replayed is None or type(recorded) is not type(replayed):
        kinds = [None if each is None else {"kind": each.kind} for each in (recorded, replayed)]
        return Difference(round=number, user=None, recorded=kinds[0], replayed=kinds[1])
    for each in fields(recorded):
        found = _compare(each.name, getattr(recorded, each.name), getattr(replayed, each.name))
        if found is not None:
            return Difference(round=number, user=None, recorded={found[0]: found[1]}, replayed={found[0]: found[2]})
    return Difference(round=number, user=None, recorded={"bytes": "differ"}, replayed={"bytes": "differ"})


def _compare(name: str, one: Any, other: Any) -> tuple[str, Any, Any] | None:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        keys = sorted({*one, *other})
        return next((found for key in keys if (found := _compare(f"{name}.{key}", one.get(key), other.get(key)))), None)
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return next((found for place, pair in pairs if (found := _compare(f"{name}[{place}]", *pair))), None)
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and _plain(one) == _plain(other):
        flat, against = one.reshape(-1), other.reshape(-1)
        # Bytes, not values: -0.0 equals 0.0 and is another message.
        different = np.flatnonzero(row_bytes({"": flat}, one.size) != row_bytes({"": against}, one.size))
        if not len(different):
            return None
        place = int(different[0]) // one.dtype.itemsize
        return f"{name}[{place}]", flat[place].item(), against[place].item()
    same = type(one) is type(other) and not isinstance(one, tuple | np.ndarray) and one == other
    return None if same else (name, _plain(one), _plain(other))


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape}"
    return list(value) if isinstance(value, tuple) else value


def compare_replies(recorded: Replies, replayed: Replies) -> Difference | None:
    """Two frames of the same users: the first user whose reply is not the same bytes."""
    users = recorded.users
    if not np.array_equal(users, replayed.users):
        different = np.setxor1d(users, replayed.users)
    elif layout(recorded.columns) != layout(replayed.columns):
        different = users
    else:
        one, other = row_bytes(recorded.columns, len(users)), row_bytes(replayed.columns, len(users))
        different = users[(one != other).any(axis=1)]
    if not len(different):
        return None
    user = int(different[0])
    said = [reply_of(each, user) for each in (recorded, replayed)]
    return Difference(round=recorded.round, user=user, recorded=said[0], replayed=said[1])


def reply_of(replies: Replies, user: int) -> dict[str, Any] | None:
    """One user's reply, readable; None where the frame holds none."""
    for row in np.flatnonzero(replies.users == user):
        return {name: column[row].tolist() for name, column in replies.columns.items()}
    return None


@dataclass(frozen=True, kw_only=True)
class Diff:
    """How two runs compare. `recorded` and `replayed` of the first difference are the first and the second run's."""

    difference: Difference | None
    replies: tuple[int, int]
    different: int
    only: tuple[int, int]

    def record(self) -> dict[str, Any]:
        first = None if self.difference is None else dict(vars(self.difference))
        if first is not None:
            first["a"], first["b"] = first.pop("recorded"), first.pop("replayed")
        return {
            "identical": self.difference is None,
            "first_difference": first,
            "replies": {"a": self.replies[0], "b": self.replies[1]},
            "different": self.different,
            "only": {"a": self.only[0], "b": self.only[1]},
        }


class Page:
    """What some users said in each round, as bytes; where a round has no byte for a user, it was silent."""

    def __init__(self, conversation: Conversation, users: Users) -> None:
        self.users = users
        self.said: dict[int, NDArray[np.uint8]] = {}
        self.spoke: dict[int, NDArray[np.bool_]] = {}
        self.layouts: dict[int, Layout] = {}
        for _, replies in conversation.replies():
            place = np.minimum(np.searchsorted(users, replies.users), len(users) - 1)
            rows = np.flatnonzero(users[place] == replies.users)
            number, shape = replies.round, layout(replies.columns)
            if not len(rows):
                continue
            said = row_bytes({name: column[rows] for name, column in replies.columns.items()}, len(rows))
            if number not in self.said:
                self.said[number] = np.zeros((len(users), said.shape[1]), np.uint8)
                self.spoke[number] = np.zeros(len(users), np.bool_)
                self.layouts[number] = shape
            self.spoke[number][place[rows]] = True
            # A frame of another layout than its round's first is noise to who compares bytes: leave its rows empty.
            if shape == self.layouts[number]:
                self.said[number][place[rows]] = said

    def compare(self, other: "Page", number: int) -> tuple[NDArray[np.bool_], list[NDArray[np.bool_]]]:
        """Who said something else in this round, and who spoke in one run alone."""
        nobody = np.zeros(len(self.users), np.bool_)
        here, there = self.spoke.get(number, nobody), other.spoke.get(number, nobody)
        alone = [here & ~there, there & ~here]
        if self.layouts.get(number) != other.layouts.get(number):
            return here | there, alone
        return alone[0] | alone[1] | (here & there & (self.said[number] != other.said[number]).any(axis=1)), alone


def compare_runs(one: Conversation, other: Conversation) -> Diff:
    """The first difference in the order of the conversation: setup, then each round's broadcast and replies, result."""
    everybody, width = UserSet(), 1
    for run in (one, other):
        # The bytes that the replies of one user take.
        widths: dict[int, int] = {}
        for _, replies in run.replies():
            everybody.add(replies.users)
            each = sum(column.dtype.itemsize * int(np.prod(column.shape[1:])) for column in replies.columns.values())
            widths[replies.round] = max(widths.get(replies.round, 0), each + 1)
        width = max(width, 2 * sum(widths.values()))
    first: dict[int, int] = {}
    different, only = 0, [0, 0]
    for users in everybody.blocks(max(1, MOST_BYTES // width)):
        pages = Page(one, users), Page(other, users)
        for number in sorted({*pages[0].said, *pages[1].said}):
            apart, alone = pages[0].compare(pages[1], number)
            different += int((apart & ~alone[0] & ~alone[1]).sum())
            only = [count + int(each.sum()) for count, each in zip(only, alone, strict=True)]
            if apart.any() and number not in first:
                first[number] = int(users[np.argmax(apart)])
    difference, sent = _first(one, other, first), (one.sent.total(), other.sent.total())
    return Diff(difference=difference, replies=sent, different=different, only=(only[0], only[1]))


def _first(one: Conversation, other: Conversation, users: dict[int, int]) -> Difference | None:
    """The analyst's words of both runs side by side, and the first user of a round whose replies differ."""
    opened = [{announce.round: announce for announce in each.announces} for each in (one, other)]
    words: list[tuple[int | None, Message | None, Message | None]] = [
        (None, one.setup, other.setup),
        *((number, opened[0].get(number), opened[1].get(number)) for number in sorted({*opened[0], *opened[1]})),
        (None, one.ending, other.ending),
    ]
    for number, *pair in words:
        # Two runs never share their names.
        nameless = [None if each is None else replace(each, run="run") for each in pair]  # type: ignore[call-arg]
        difference = compare_messages(*nameless) if nameless != [None, None] else None
        if difference is not None:
            return difference
        if number is not None and number in users:
            user = users[number]
            said = []
            for run in (one, other):
                found = (reply_of(replies, user) for _, replies in run.replies() if replies.round == number)
                said.append(next((each for each in found if each is not None), None))
            return Difference(round=number, user=user, recorded=said[0], replayed=said[1])
    return None
