"""A node's seat at the table: its users and, for the open round, what it has said and what it still owes."""

import zlib
from bisect import bisect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from parley.emulator.errors import RemoteProtocolError
from parley.emulator.wire.messages import Replies


class Owing(Protocol):
    """A node that owes chunks of its answer to the open round: None stands for all of them."""

    @property
    def owes(self) -> set[int] | None: ...

    @property
    def finished(self) -> bool: ...


@dataclass
class Seat:
    """One node. `held` has a checksum of each chunk that is on record, `spans` the users those chunks speak for."""

    node: str
    first: int
    users: int
    pid: int
    key: bytes = b""
    owes: set[int] | None = None
    held: dict[int, int] = field(default_factory=dict)
    spans: list[tuple[int, int]] = field(default_factory=list)
    refused: bool = False
    left: bool = False

    @property
    def finished(self) -> bool:
        return self.left or self.refused or self.whole

    @property
    def whole(self) -> bool:
        """Whether every chunk of its answer is on record."""
        return self.owes is not None and not self.owes

    def open(self) -> None:
        """A round begins: everything is owed again."""
        self.owes, self.held, self.spans, self.refused = None, {}, [], False

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
            self._check_users(int(replies.users[0]), int(replies.users[-1]))
        return True

    def hold(self, replies: Replies) -> None:
        """A chunk is on record."""
        if self.owes is None:
            self.owes = set(range(replies.chunks))
        self.owes.discard(replies.chunk)
        self.held[replies.chunk] = fingerprint(replies)
        if len(replies.users):
            span = int(replies.users[0]), int(replies.users[-1])
            self.spans.insert(bisect(self.spans, span), span)

    def _check_users(self, lowest: int, highest: int) -> None:
        """The node's own users, and nobody a second time: chunks speak for disjoint stretches of users."""
        if lowest < self.first or highest >= self.first + self.users:
            raise RemoteProtocolError(f"board: node {self.node} answers for users that are not its own")
        place = bisect(self.spans, (lowest, highest))
        before, after = self.spans[max(0, place - 1) : place], self.spans[place : place + 1]
        if any(end >= lowest for _, end in before) or any(start <= highest for start, _ in after):
            raise RemoteProtocolError(f"board: node {self.node} answers for users of another chunk again")


def owed(seats: Mapping[str, Owing]) -> dict[str, tuple[int, ...]]:
    """Who still owes which chunks; an empty tuple stands for all of them."""
    return {name: tuple(sorted(seat.owes or ())) for name, seat in seats.items() if not seat.finished}


def fingerprint(replies: Replies) -> int:
    """Tells a repetition from another reply. Either is dropped; only the second is worth a word."""
    found = zlib.crc32(replies.users.tobytes(), replies.chunks)
    for name in sorted(replies.columns):
        found = zlib.crc32(replies.columns[name].tobytes(), zlib.crc32(name.encode(), found))
    return found
