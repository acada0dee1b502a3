"""Lanes of the diagram: a user each while there are few, else a node each, else neighbouring nodes together."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from parley.emulator.roles.shuffler import SHUFFLER_NAME
from parley.emulator.wire.messages import Ready, Users
from parley.launch.report.words import plural

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
    """Who is drawn where. Made when the board has closed the table; a node that comes later gets a lane at the end."""

    def __init__(self, seats: Iterable[Ready]) -> None:
        ordered = sorted(seats, key=lambda seat: seat.first)
        users = sum(seat.users for seat in ordered)
        self.by: Literal["user", "node", "group"] = "group"
        self.lanes: list[Lane] = []
        self._nodes: dict[str, list[int]] = {}
        if any(seat.node == SHUFFLER_NAME for seat in ordered):
            # Behind a shuffler the rows of a frame are no users: nothing can be said of a single one.
            self.by, parts = "node", [ordered]
        elif users <= MOST_LANES:
            self.by, parts = "user", [[seat] for seat in ordered]
        elif len(ordered) <= MOST_LANES:
            self.by, parts = "node", [[seat] for seat in ordered]
        else:
            edges = np.linspace(0, len(ordered), GROUPS + 1).astype(int).tolist()
            parts = [ordered[start:stop] for start, stop in pairwise(edges)]
        for part in parts:
            self._add(part)
        self._sort()

    def add(self, seat: Ready) -> bool:
        """A lane for a node that came late; False if there is no room for it."""
        if seat.node in self._nodes or len(self.lanes) + (seat.users if self.by == "user" else 1) > MOST_LANES:
            return False
        self._add([seat])
        self._sort()
        return True

    def _add(self, part: list[Ready]) -> None:
        before = len(self.lanes)
        self.lanes += self._made(part)
        for seat in part:
            self._nodes[seat.node] = list(range(before, len(self.lanes)))

    def _made(self, part: list[Ready]) -> list[Lane]:
        head, users = part[0], sum(seat.users for seat in part)
        if self.by == "user":
            return [
                Lane(label=str(user), title=f"user {user} on {head.node}", first=user, users=1)
                for user in range(head.first, head.first + users)
            ]
        if self.by == "node" or len(part) == 1:
            title = f"{head.node}: {plural(users, 'user')} from {head.first} on"
            return [Lane(label=head.node, title=title, first=head.first, users=users)]
        title = f"{plural(len(part), 'node')}, {head.node} to {part[-1].node}: {plural(users, 'user')}"
        return [Lane(label=f"{len(part)} nodes", title=title, first=head.first, users=users)]

    def _sort(self) -> None:
        firsts = np.array([lane.first for lane in self.lanes], np.int64)
        self._order = np.argsort(firsts, kind="stable")
        self._firsts = firsts[self._order]

    def of_node(self, name: str) -> list[int]:
        """The lanes a node's users are in; none for a node without a seat."""
        return self._nodes.get(name, [])

    def of_users(self, users: Users) -> NDArray[np.intp]:
        """The lane of each user."""
        place = np.maximum(np.searchsorted(self._firsts, users, side="right") - 1, 0)
        return self._order[place]

    def count(self, users: Users) -> NDArray[np.int64]:
        """How many of these users are in each lane."""
        return np.bincount(self.of_users(users), minlength=len(self.lanes)).astype(np.int64)

    @property
    def words(self) -> str:
        """What a lane is."""
        return {
            "user": "each lane is a user",
            "node": "each lane is a node with all its users",
            "group": "each lane is several nodes with all their users",
        }[self.by]
