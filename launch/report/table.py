"""The table of messages: the first and the last of them, if there are too many for one page."""

from collections import deque
from typing import Any

import numpy as np

from parley.emulator.wire.messages import Event, Message, Ready, Replies
from parley.launch.report.words import cut, headline

FIRST, LAST = 1500, 500
# User numbers that are listed one by one, so that the filter by user is exact.
MOST_LISTED = 20_000
Row = dict[str, Any]


class Table:
    """A row a record."""

    def __init__(self, first: int = FIRST, last: int = LAST) -> None:
        self._limit = first
        self._first: list[Row] = []
        self._last: deque[Row] = deque(maxlen=last)
        self._listed = 0
        self.total = 0

    def take(self, sequence: int, seconds: float, sender: str, message: Message, size: int) -> None:
        """Add a record."""
        self.total += 1
        row = {
            "sequence": sequence,
            "seconds": round(seconds, 6),
            "sender": sender,
            "kind": message.kind,
            "round": getattr(message, "round", None),
            "bytes": size,
            "what": headline(message),
            **self._users(message),
        }
        if isinstance(message, Event):
            row["node"] = cut(message.node, 64)
        if len(self._first) < self._limit:
            self._first.append(row)
        else:
            self._last.append(row)

    def _users(self, message: Message) -> Row:
        """Who a frame speaks for: a range, or all numbers where they have gaps."""
        if isinstance(message, Ready) and message.users:
            return {"first": message.first, "last": message.first + message.users - 1}
        if not isinstance(message, Replies) or not len(message.users):
            return {}
        users = message.users
        span = {"first": int(users[0]), "last": int(users[-1])}
        if span["last"] - span["first"] + 1 == len(users):
            return span
        if self._listed + len(users) > MOST_LISTED:
            return {**span, "gaps": True}
        self._listed += len(users)
        return {**span, "users": np.diff(users, prepend=0).tolist()}

    def record(self, latest: int | None = None) -> dict[str, Any]:
        """For the page; with `latest`, only so many of the last rows."""
        rows = [*self._first, *self._last]
        return {"rows": rows if latest is None else rows[-latest:], "total": self.total}
