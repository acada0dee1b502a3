"""Lanes of the diagram: a user each while there are few, else a node each, else neighbouring nodes together."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from emulator.messages import Ready, Users
from launch.report.words import plural

MOST_LANES = 30
GROUPS = 24


@dataclass(frozen=True, kw_only=True)
class Lane:
    """A lifeline: the users from `first` on, up to the next lane's."""

    label: str
    title: str
    first: int
    users: int


class Lanes:
    """Who is drawn where. Made once every node has taken its seat."""

    def __init__(self, seats: Iterable[Ready]) -> None:
        ordered = sorted(seats, key=lambda seat: seat.first)
        users = sum(seat.users for seat in ordered)
        self.by: Literal["user", "node", "group"]
        if users <= MOST_LANES:
            self.by, parts = "user", [[seat] for seat in ordered for _ in range(seat.users)]
        elif len(ordered) <= MOST_LANES:
            self.by, parts = "node", [[seat] for seat in ordered]
        else:
            edges = np.linspace(0, len(ordered), GROUPS + 1).astype(int)
            self.by = "group"
            parts = [ordered[start:stop] for start, stop in pairwise(edges.tolist())]
        self._nodes: dict[str, list[int]] = {}
        for index, part in enumerate(parts):
            for seat in part:
                self._nodes.setdefault(seat.node, []).append(index)
        self.lanes = tuple(self._lanes(parts))
        self._firsts = np.array([lane.first for lane in self.lanes], np.int64)

    def _lanes(self, parts: list[list[Ready]]) -> Iterable[Lane]:
        for index, part in enumerate(parts):
            head, users = part[0], sum(seat.users for seat in part)
            if self.by == "user":
                first = head.first + index - self._nodes[head.node][0]
                yield Lane(label=str(first), title=f"user {first} on {head.node}", first=first, users=1)
            elif self.by == "node":
                title = f"{head.node}: {plural(users, 'user')} from {head.first} on"
                yield Lane(label=head.node, title=title, first=head.first, users=users)
            else:
                title = f"{plural(len(part), 'node')}, {head.node} to {part[-1].node}: {plural(users, 'user')}"
                yield Lane(label=f"{len(part)} nodes", title=title, first=head.first, users=users)

    def of_node(self, name: str) -> list[int]:
        """The lanes a node's users are in; none for a node without a seat."""
        return self._nodes.get(name, [])

    def of_users(self, users: Users) -> NDArray[np.intp]:
        """The lane of each user."""
        return np.maximum(np.searchsorted(self._firsts, users, side="right") - 1, 0)

    def count(self, users: Users) -> NDArray[np.int64]:
        """How many of these users are in each lane."""
        return np.bincount(self.of_users(users), minlength=len(self.lanes)).astype(np.int64)

    @property
    def words(self) -> str:
        """What a lane is."""
        return {
            "user": "a lane is a user",
            "node": "a lane is a node with all its users",
            "group": "a lane is several nodes with all their users",
        }[self.by]
