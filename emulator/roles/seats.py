"""A node's seat at the table: its users and, for the open round, what it has said and what it still owes."""

import zlib
from bisect import bisect
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from parley.emulator.errors import RemoteProtocolError
from parley.emulator.wire.messages import Replies


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

    def hold(self, replies: Replies) -> None:
        """Take a chunk that is new."""
        if self.owes is None:
            self.owes = set(range(replies.chunks))
        self.owes.discard(replies.chunk)


@dataclass
class Seat(AnySeat):
    """A seat at the board. `held` has a checksum of each chunk on record, `spans` the users those chunks speak for."""

    node: str = ""
    pid: int = 0
    held: dict[int, int] = field(default_factory=dict)
    spans: list[tuple[int, int]] = field(default_factory=list)
    left: bool = False

    @property
    def finished(self) -> bool:
        return self.left or super().finished

    def open(self) -> None:
        super().open()
        self.held, self.spans = {}, []

    def is_new(self, replies: Replies) -> bool:
        """Whether a chunk of the open round is to be recorded; not if it repeats one. Lies raise."""
        if replies.chunk in self.held:
            if self.held[replies.chunk] != fingerprint(replies):
                raise RemoteProtocolError(f"board: node {self.node} answers twice, with other bytes")
            return False
        if self.owes is not None and replies.chunks != len(self.owes) + len(self.held):
            raise RemoteProtocolError(f"board: node {self.node} changed its number of chunks")
        if replies.chunks > self.users:
            raise RemoteProtocolError(f"board: node {self.node} sends {self.users} users in {replies.chunks} chunks")
        if len(replies.users):
            lowest, highest = int(replies.users[0]), int(replies.users[-1])
            if lowest < self.first or highest >= self.first + self.users:
                raise RemoteProtocolError(f"board: node {self.node} answers for users that are not its own")
            # Nobody a second time: chunks speak for disjoint stretches of users.
            place = bisect(self.spans, (lowest, highest))
            before, after = self.spans[max(0, place - 1) : place], self.spans[place : place + 1]
            if any(end >= lowest for _, end in before) or any(start <= highest for start, _ in after):
                raise RemoteProtocolError(f"board: node {self.node} answers for users of another chunk again")
        return True

    def hold(self, replies: Replies) -> None:
        super().hold(replies)
        self.held[replies.chunk] = fingerprint(replies)
        if len(replies.users):
            span = int(replies.users[0]), int(replies.users[-1])
            self.spans.insert(bisect(self.spans, span), span)


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
        self.hold(replies)
        self.held[replies.chunk] = replies


def owed(seats: Mapping[str, AnySeat]) -> dict[str, tuple[int, ...]]:
    """Who still owes which chunks; an empty tuple stands for all of them."""
    return {name: tuple(sorted(seat.owes or ())) for name, seat in seats.items() if not seat.finished}


def fingerprint(replies: Replies) -> int:
    """Tells a repetition from another reply. Either is dropped; only the second is worth a word."""
    found = zlib.crc32(replies.users.tobytes(), replies.chunks)
    for name in sorted(replies.columns):
        found = zlib.crc32(replies.columns[name].tobytes(), zlib.crc32(name.encode(), found))
    return found
