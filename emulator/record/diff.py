"""Two runs reply by reply: where they part, and how many replies differ. Names of runs and frames do not count."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.emulator.randomizer import Layout, layout, row_bytes
from parley.emulator.record.conversation import Conversation, Progress, quiet
from parley.emulator.record.differences import Difference, compare_messages, reply_of
from parley.emulator.record.user_sets import UserSet
from parley.emulator.wire.messages import Message, Replies, Users

MOST_BYTES = 128 * 2**20


@dataclass(frozen=True, kw_only=True)
class Diff:
    """How two runs compare. `recorded` and `replayed` of the first difference are the first and the second run's."""

    difference: Difference | None
    replies: tuple[int, int]
    different: int
    only: tuple[int, int]

    def record(self) -> dict[str, Any]:
        """As JSON."""
        first = None if self.difference is None else self.difference.record()
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

    def __init__(self, users: Users) -> None:
        self.users = users
        self.said: dict[int, NDArray[np.uint8]] = {}
        self.spoke: dict[int, NDArray[np.bool_]] = {}
        self.layouts: dict[int, Layout] = {}

    def take(self, replies: Replies) -> None:
        """Write down the part of a frame that belongs to these users."""
        place = np.minimum(np.searchsorted(self.users, replies.users), len(self.users) - 1)
        rows = np.flatnonzero(self.users[place] == replies.users)
        number, shape = replies.round, layout(replies.columns)
        if not len(rows):
            return
        said = row_bytes({name: column[rows] for name, column in replies.columns.items()}, len(rows))
        if number not in self.said:
            self.said[number] = np.zeros((len(self.users), said.shape[1]), np.uint8)
            self.spoke[number] = np.zeros(len(self.users), np.bool_)
            self.layouts[number] = shape
        self.spoke[number][place[rows]] = True
        # A frame of another layout than its round's first is noise to whoever compares bytes: leave its rows empty.
        if shape == self.layouts[number]:
            self.said[number][place[rows]] = said

    def heard(self, number: int) -> NDArray[np.bool_]:
        """Who spoke in a round."""
        return self.spoke.get(number, np.zeros(len(self.users), np.bool_))


def compare_runs(one: Conversation, other: Conversation, progress: Progress = quiet) -> Diff:
    """The first difference in the order of the conversation: setup, then each round's broadcast and replies, result."""
    everybody = UserSet()
    width = max(_survey(each, everybody) for each in (one, other))
    first: dict[int, int] = {}
    different, only = 0, [0, 0]
    done = 0
    for users in everybody.blocks(max(1, MOST_BYTES // max(1, width))):
        pages = [_page(each, users) for each in (one, other)]
        for number in sorted({*pages[0].said, *pages[1].said}):
            apart, alone = _apart(pages[0], pages[1], number)
            different += int((apart & ~alone[0] & ~alone[1]).sum())
            only = [count + int(each.sum()) for count, each in zip(only, alone, strict=True)]
            if apart.any() and number not in first:
                first[number] = int(users[np.argmax(apart)])
        done += len(users)
        progress("diff", done, len(everybody))
    return Diff(
        difference=_first(one, other, first),
        replies=(one.sent.total(), other.sent.total()),
        different=different,
        only=(only[0], only[1]),
    )


def _survey(conversation: Conversation, everybody: UserSet) -> int:
    """Add who replied; the bytes that the replies of one user take."""
    widths: dict[int, int] = {}
    for _, replies in conversation.replies():
        everybody.add(replies.users)
        each = sum(column.dtype.itemsize * int(np.prod(column.shape[1:])) for column in replies.columns.values())
        widths[replies.round] = max(widths.get(replies.round, 0), each + 1)
    return 2 * sum(widths.values())


def _page(conversation: Conversation, users: Users) -> Page:
    page = Page(users)
    for _, replies in conversation.replies():
        page.take(replies)
    return page


def _apart(one: Page, other: Page, number: int) -> tuple[NDArray[np.bool_], list[NDArray[np.bool_]]]:
    """Who said something else in this round, and who spoke in one run alone."""
    heard = [one.heard(number), other.heard(number)]
    alone = [heard[0] & ~heard[1], heard[1] & ~heard[0]]
    both = heard[0] & heard[1]
    if one.layouts.get(number) != other.layouts.get(number):
        return heard[0] | heard[1], alone
    return alone[0] | alone[1] | (both & (one.said[number] != other.said[number]).any(axis=1)), alone


def _first(one: Conversation, other: Conversation, users: dict[int, int]) -> Difference | None:
    for number, pair in _words(one, other):
        if number is None or pair != (None, None):
            found = compare_messages(*pair) if pair != (None, None) else None
            if found is not None:
                return found
        if number is not None and number in users:
            user = users[number]
            said = [_find(each, number, user) for each in (one, other)]
            return Difference(round=number, user=user, recorded=said[0], replayed=said[1])
    return None


def _words(
    one: Conversation, other: Conversation
) -> Iterator[tuple[int | None, tuple[Message | None, Message | None]]]:
    """The analyst's words of both runs side by side, with the number of the round they open."""
    yield None, (_nameless(one.setup), _nameless(other.setup))
    announces = [{announce.round: announce for announce in each.announces} for each in (one, other)]
    for number in sorted({*announces[0], *announces[1]}):
        yield number, (_nameless(announces[0].get(number)), _nameless(announces[1].get(number)))
    yield None, (_nameless(one.ending), _nameless(other.ending))


def _nameless(message: Message | None) -> Message | None:
    """A message of a run that has no name: two runs never share theirs."""
    return None if message is None else replace(message, run="run")  # type: ignore[call-arg]


def _find(conversation: Conversation, number: int, user: int) -> dict[str, Any] | None:
    for _, replies in conversation.replies():
        row = np.flatnonzero(replies.users == user) if replies.round == number else np.empty(0, np.int64)
        if len(row):
            return reply_of(replies, int(row[0]))
    return None
