"""The rounds of a run as its record tells them: when replies came, how many, and how many were due."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.emulator.round import Round
from parley.emulator.wire.messages import Announce, Close, Replies

MOST_POINTS = 160
# Who speaks is asked of the protocol user by user; beyond this a report can do without.
MOST_USERS = 2**24
BLOCK = 2**20


@dataclass
class Course:
    """One round from its announcement on."""

    number: int
    name: str
    opened: float
    bytes_down: int
    due: int | None
    closed: float | None = None
    missing: int = 0
    replies: int = 0
    bytes_up: int = 0
    times: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)

    def take(self, replies: Replies, size: int, time: float) -> None:
        """Count a frame."""
        self.replies += len(replies.users)
        self.bytes_up += size
        self.times.append(time - self.opened)
        self.counts.append(self.replies)

    def close(self, close: Close, time: float) -> None:
        """The round is over."""
        self.closed, self.missing = time, close.missing
        if self.due is None and not close.missing:
            self.due = close.replies

    def record(self, began: float) -> dict[str, Any]:
        """For the page."""
        return {
            "number": self.number,
            "name": self.name,
            "opened": self.opened - began,
            "seconds": None if self.closed is None else self.closed - self.opened,
            "replies": self.replies,
            "due": self.due,
            "missing": self.missing,
            "frames": len(self.times),
            "bytes_up": self.bytes_up,
            "bytes_down": self.bytes_down,
            "series": self._series(),
        }

    def _series(self) -> list[tuple[float, int]]:
        """Time and replies so far, thinned out to what a picture can show; first and last always stay."""
        keep: NDArray[np.int64] = np.unique(np.linspace(0, len(self.times) - 1, MOST_POINTS).astype(np.int64))
        return [(round(self.times[index], 6), self.counts[index]) for index in keep if self.times]


def open_round(announce: Announce, step: Round | None, users: int, size: int, time: float) -> Course:
    """A round that was just announced."""
    name = step.name if step is not None else ""
    due = None if step is None or users > MOST_USERS else speakers(step, users)
    return Course(number=announce.round, name=name, opened=time, bytes_down=size, due=due)


def speakers(step: Round, users: int) -> int:
    """How many of the users speak in a round."""
    blocks = (np.arange(first, min(first + BLOCK, users)) for first in range(0, users, BLOCK))
    return sum(int(np.count_nonzero(step.participates(block))) for block in blocks)
