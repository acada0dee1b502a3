"""A node's seat at the table: its users and, for the open round, what it has said and what it still owes."""

import zlib
from bisect import bisect
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import starmap
from typing import NamedTuple

import numpy as np

from parley.emulator.errors import RemoteProtocolError
from parley.emulator.wire.messages import Replies
from parley.emulator.wire.shapes import Alike


class Chunk(NamedTuple):
    """What the board must know of a frame of replies: whose it is, which of how many, for which users.

    `mark` tells a repetition from another reply: either is dropped, only the second is worth a word.
    """

    node: str
    number: int
    of: int
    users: int
    lowest: int
    highest: int
    mark: int

    @classmethod
    def read(cls, replies: Replies) -> "Chunk":
        users = replies.users
        ends = (int(users[0]), int(users[-1])) if len(users) else (0, -1)
        # Two sums stand for the users: to read all their bytes takes several times longer.
        mark = zlib.crc32(np.array((users.sum(), users @ users)).tobytes(), _names(replies.columns, replies.chunks))
        for name in sorted(replies.columns):
            mark = zlib.crc32(replies.columns[name].tobytes(), mark)
        return cls(replies.node, replies.chunk, replies.chunks, len(users), *ends, mark)

    @classmethod
    def read_all(cls, alike: Alike) -> list["Chunk"]:
        """The same for many frames at once."""
        columns = alike.shape.columns
        each = alike.users.reshape(len(alike), -1)
        users = np.stack((each.sum(axis=1), np.vecdot(each, each)), axis=1).view(np.uint8)
        said = np.concatenate(
            [users, *(alike.frames[:, columns[name].start : columns[name].end] for name in columns)], 1
        )
        width, raw, chunks = said.shape[1], said.tobytes(), alike.chunks.tolist()
        start = {each: _names(columns, each) for each in set(chunks)}
        marks = [zlib.crc32(raw[at * width : (at + 1) * width], start[of]) for at, of in enumerate(chunks)]
        many = [alike.shape.users] * len(alike)
        lowest, highest = alike.first.tolist(), (alike.first + alike.shape.users - 1).tolist()
        return list(
            starmap(cls, zip(alike.nodes, alike.chunk.tolist(), chunks, many, lowest, highest, marks, strict=True))
        )


def _names(columns: Mapping[str, object], chunks: int) -> int:
    return zlib.crc32(",".join(sorted(columns)).encode(), chunks)


@dataclass
class AnySeat:
    """One node: its users, the key that holds the seat, and which chunks it owes in the open round (None: all)."""

    first: int
    users: int
    key: bytes = b""
    owes: set[int] | None = field(default=None, kw_only=True)
    refused: bool = field(default=False, kw_only=True)

    @property
    def whole(self) -> bool:
        """Whether every chunk of its answer was taken."""
        return self.owes is not None and not self.owes

    @property
    def finished(self) -> bool:
        return self.refused or self.whole

    def open(self) -> None:
        """A round begins: everything is owed again."""
        self.owes, self.refused = None, False

    def hold(self, number: int, of: int) -> None:
        if self.owes is None:
            self.owes = set(range(of))
        self.owes.discard(number)


@dataclass
class Seat(AnySeat):
    """A seat at the board. `held` has the mark of each chunk on record, `spans` the users those chunks speak for."""

    node: str = ""
    pid: int = 0
    held: dict[int, int] = field(default_factory=dict)
    spans: list[tuple[int, int]] = field(default_factory=list)
    left: bool = False
    present: int = 0
    """Of a shard: how many of its users came."""

    @property
    def finished(self) -> bool:
        return self.left or super().finished

    def open(self) -> None:
        super().open()
        self.held, self.spans = {}, []

    def is_new(self, chunk: Chunk) -> bool:
        """Whether a chunk of the open round is to be recorded; not if it repeats one. Lies raise."""
        _, number, of, users, lowest, highest, mark = chunk
        if number in self.held:
            if self.held[number] != mark:
                raise RemoteProtocolError(f"board: node {self.node} answers twice, with other bytes")
            return False
        if self.owes is not None and of != len(self.owes) + len(self.held):
            raise RemoteProtocolError(f"board: node {self.node} changed its number of chunks")
        if of > self.users:
            raise RemoteProtocolError(f"board: node {self.node} sends {self.users} users in {of} chunks")
        if users:
            if lowest < self.first or highest >= self.first + self.users:
                raise RemoteProtocolError(f"board: node {self.node} answers for users that are not its own")
            # Nobody a second time: chunks speak for disjoint stretches of users. They mostly come in order.
            if self.spans and lowest <= self.spans[-1][1]:
                place = bisect(self.spans, (lowest, highest))
                before, after = self.spans[max(0, place - 1) : place], self.spans[place : place + 1]
                if any(end >= lowest for _, end in before) or any(start <= highest for start, _ in after):
                    raise RemoteProtocolError(f"board: node {self.node} answers for users of another chunk again")
        return True

    def take(self, chunk: Chunk) -> None:
        _, number, of, users, lowest, highest, mark = chunk
        self.hold(number, of)
        self.held[number] = mark
        if users:
            spans, span = self.spans, (lowest, highest)
            if not spans or span > spans[-1]:
                spans.append(span)
            else:
                spans.insert(bisect(spans, span), span)


@dataclass
class ShufflerSeat(AnySeat):
    """A seat at the shuffler, and what its node sent in the open round. No error names it: errors end up in a log."""

    held: dict[int, Replies] = field(default_factory=dict)

    def open(self) -> None:
        super().open()
        self.held = {}

    def take(self, replies: Replies) -> None:
        """Hold a new chunk of the open round; RemoteProtocolError if it says what this node may not say."""
        if replies.chunks > self.users or (self.held and replies.chunks != len(self.held) + len(self.owes or ())):
            raise RemoteProtocolError("shuffler: a node sends more or fewer chunks than it may")
        if len(replies.users):
            lowest, highest = int(replies.users[0]), int(replies.users[-1])
            if lowest < self.first or highest >= self.first + self.users:
                raise RemoteProtocolError("shuffler: a node answers for users that are not its own")
        for other in self.held.values():
            # A user in two chunks would count twice in the crowd.
            if len(np.intersect1d(other.users, replies.users, assume_unique=True)):
                raise RemoteProtocolError("shuffler: a node answers twice for the same user")
        self.hold(replies.chunk, replies.chunks)
        self.held[replies.chunk] = replies


def owed(seats: Mapping[str, AnySeat]) -> dict[str, tuple[int, ...]]:
    """Who still owes which chunks; an empty tuple stands for all of them."""
    return {name: tuple(sorted(seat.owes or ())) for name, seat in seats.items() if not seat.finished}
