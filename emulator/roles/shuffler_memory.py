"""What a shuffler holds: its pledge and its batches, which are on disk, and the open round's replies, which never are.

No error here names a node or a user: errors end up in a log.
"""

from dataclasses import dataclass, field

import numpy as np

from parley.emulator.errors import RemoteProtocolError
from parley.emulator.roles.seats import AnySeat
from parley.emulator.wire.messages import Replies


@dataclass(frozen=True, kw_only=True)
class Pledged:
    """On disk before the pledge leaves: the one setup of the run that this shuffler serves."""

    run: str
    setup: bytes


@dataclass(frozen=True, kw_only=True)
class Batch:
    """On disk before its first frame leaves: the one batch of a round. It is mixed, and public from then on."""

    run: str
    setup: bytes
    round: int
    frames: tuple[bytes, ...] = field(repr=False)


Keep = Pledged | Batch


@dataclass
class Memory:
    """What a shuffler knows from an earlier life."""

    setup: bytes = b""
    batches: dict[int, Batch] = field(default_factory=dict)

    def note(self, keep: Keep) -> None:
        if isinstance(keep, Pledged):
            self.setup = keep.setup
        else:
            self.batches[keep.round] = keep


@dataclass
class Seat(AnySeat):
    """A seat at the shuffler, and what its node sent in the open round."""

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
