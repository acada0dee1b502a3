"""The sequence diagram as data: bands of marks. A mark is an arrow, a broken arrow, or a sign on a lane."""

import re
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parley.emulator.record.summary import Summary
from parley.emulator.roles.board import LAUNCHER_NAME
from parley.emulator.roles.shuffler import SHUFFLER_NAME
from parley.emulator.round import BLOCK_USERS
from parley.emulator.wire import messages as wire
from parley.launch.report.words import body, cut, headline, named, plural

ALL, BOARD, ANALYST = "all", "board", "analyst"
End = str | int
MOST_LANES = 30
GROUPS = 24
MOST_ROUNDS = 12
MOST_FRAMES = 64
MOST_SIGNS = 40
# Who speaks is asked of the protocol user by user; beyond this a picture can do without.
MOST_USERS = 2**24
# What is said only when every node has its seat; faults before that wait until the lanes are known.
AFTER_SEATING = (wire.Roster, wire.Setup, wire.Announce, wire.Replies, wire.Close, wire.Result, wire.Abort)
# What became of a message: these never arrived as they were sent, so their arrow breaks off.
VICTIM = re.compile(r"fault \d+: (\S+) ")
LOST = ("loss", "partition", "drop", "corrupt")
LANE_OF = {"user": "a user", "node": "a node with all its users", "group": "several nodes with all their users"}


class Lane(NamedTuple):
    """A lifeline: the users from `first` on, up to the next lane's."""

    label: str
    title: str
    first: int


class Lanes:
    """Who is drawn where. Made when the board has closed the table; a node that comes later gets a lane at the end."""

    def __init__(self, seats: Iterable[wire.Ready]) -> None:
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

    def add(self, seat: wire.Ready) -> bool:
        """A lane for a node that came late; False if there is no room for it."""
        if seat.node in self._nodes or len(self.lanes) + (seat.users if self.by == "user" else 1) > MOST_LANES:
            return False
        self._add([seat])
        return True

    def _add(self, part: list[wire.Ready]) -> None:
        before, head, users = len(self.lanes), part[0], sum(seat.users for seat in part)
        if self.by == "user":
            everybody = range(head.first, head.first + users)
            self.lanes += [Lane(str(user), f"user {user} on {head.node}", user) for user in everybody]
        elif self.by == "node" or len(part) == 1:
            title = f"{head.node}: {plural(users, 'user')} from {head.first} on"
            self.lanes.append(Lane(head.node, title, head.first))
        else:
            title = f"{plural(len(part), 'node')}, {head.node} to {part[-1].node}: {plural(users, 'user')}"
            self.lanes.append(Lane(f"{len(part)} nodes", title, head.first))
        for seat in part:
            self._nodes[seat.node] = list(range(before, len(self.lanes)))

    def of_node(self, name: str) -> list[int]:
        """The lanes a node's users are in; none for a node without a seat."""
        return self._nodes.get(name, [])

    def of_users(self, users: wire.Users) -> NDArray[np.intp]:
        firsts = np.array([lane.first for lane in self.lanes], np.int64)
        order = np.argsort(firsts, kind="stable")
        place = np.maximum(np.searchsorted(firsts, users, side="right", sorter=order) - 1, 0)
        return order[place]


# One thing to draw: where it starts, where it goes (a lane, a party, `all` or several lanes), what is said about it.
Mark = dict[str, Any]


@dataclass
class Band:
    """A stretch of the conversation: the start-up, a round, the end."""

    title: str
    number: int | None
    marks: list[Mark] = field(default_factory=list)
    frames: int = 0
    # One arrow per lane, for rounds with more frames than can be drawn.
    merged: dict[int, Mark] = field(default_factory=dict)
    heard: Counter[int] = field(default_factory=Counter)
    signs: int = 0

    def record(self) -> dict[str, Any]:
        """For the page: too many frames become one arrow a lane."""
        marks = self.marks
        if self.frames > MOST_FRAMES:
            marks = [each for each in marks if each["kind"] != wire.Replies.kind]
            for each in self.merged.values():
                lines = [f"{plural(each['frames'], 'frame')}, drawn as one arrow where the last one arrived"]
                several = {"title": plural(each["replies"], "reply"), "lines": lines} if each["frames"] > 1 else {}
                marks.append({**each, **several})
        marks = sorted(marks, key=lambda mark: int(mark["sequence"]))
        return {"title": self.title, "round": self.number, "marks": marks}


class Diagram:
    """Hears the record message by message and keeps what can be drawn; its size is bounded whatever it hears."""

    def __init__(self, summary: Summary) -> None:
        self.summary = summary
        self.seats: dict[str, wire.Ready] = {}
        self._arrivals: list[tuple[int, float, str, wire.Message]] = []
        self.lanes: Lanes | None = None
        self._early: deque[tuple[int, float, str, wire.Message]] = deque(maxlen=MOST_SIGNS)
        self.bands = [Band("start-up", None)]
        self.rounds = 0
        self.undrawn: Counter[str] = Counter()

    def take(self, sequence: int, seconds: float, sender: str, message: wire.Message) -> None:
        heard = (sequence, seconds, sender, message)
        if isinstance(message, wire.Ready):
            if message.node in self.seats:
                return
            self.seats[message.node] = message
            if self.lanes is None:
                self._arrivals.append(heard)
                return
            self.undrawn["late nodes"] += not self.lanes.add(message)
        elif self.lanes is None and not isinstance(message, AFTER_SEATING):
            self._early.append(heard)
            return
        elif isinstance(message, wire.Announce):
            self.rounds += 1
            self.bands.append(Band("", message.round))
        elif isinstance(message, wire.Result | wire.Abort):
            self.bands.append(Band("the end", None))
        if self.rounds > MOST_ROUNDS and self.bands[-1].number is not None and not isinstance(message, wire.Ready):
            self.undrawn["rounds"] += isinstance(message, wire.Announce)
            return
        if self.lanes is None:
            # The lanes are known once the board has closed the table.
            self.lanes = Lanes(self.seats.values())
            for before in (*(self._arrivals if self.lanes.by != "group" else ()), *self._early):
                self._draw(self.lanes, *before)
        self._draw(self.lanes, *heard)

    def _draw(self, lanes: Lanes, sequence: int, seconds: float, sender: str, message: wire.Message) -> None:
        def mark(start: End, to: End | list[int], **more: Any) -> None:
            said = {"title": headline(message), "lines": body(message)} if "title" not in more else {}
            plain = {"broken": False, "sign": False, "replies": 0, "frames": 1}
            ends = {"sequence": sequence, "seconds": seconds, "kind": message.kind, "start": start, "to": to}
            self._keep({**ends, **said, **plain, **more})

        band = self.bands[-1]
        if isinstance(message, wire.Roster | wire.Setup | wire.Announce | wire.Close | wire.Result | wire.Abort):
            mark(ANALYST if sender == ANALYST else BOARD, ALL)
            for lane, owed in self._owed(lanes) if isinstance(message, wire.Close) and message.missing else ():
                title = f"{plural(owed, 'reply')} missing when the round was closed"
                mark(lane, BOARD, kind="missing", title=title, lines=[lanes.lanes[lane].title], broken=True)
        elif isinstance(message, wire.Reminder):
            if to := sorted({lane for node in message.missing for lane in lanes.of_node(node)}):
                mark(BOARD, to)
        elif isinstance(message, wire.Ready | wire.Refusal):
            for lane in lanes.of_node(message.node)[: 1 if isinstance(message, wire.Ready) else None]:
                mark(lane, BOARD)
        elif isinstance(message, wire.Replies) and lanes.of_node(message.node) and len(message.users):
            if lanes.by != "user":
                lane = int(lanes.of_users(message.users[:1])[0])
                band.heard[lane] += len(message.users)
                mark(lane, BOARD, replies=len(message.users))
                return
            places = lanes.of_users(message.users).tolist()
            for row, (user, lane) in enumerate(zip(message.users.tolist(), places, strict=True)):
                band.heard[lane] += 1
                lines = named({name: column[row] for name, column in message.columns.items()})
                mark(lane, BOARD, title=f"reply of user {user}", lines=lines, replies=1)
        elif isinstance(message, wire.Event):
            # The launcher's own reports name the process it struck.
            struck = VICTIM.match(message.detail) if message.node == LAUNCHER_NAME else None
            node = message.node if struck is None else struck[1]
            spots: list[End] = [node] if node in (ANALYST, BOARD) else [*lanes.of_node(node)[:1]]
            self.undrawn["faults of parties without a lane"] += not spots
            for spot in spots:
                lines = [cut(message.detail)] if message.detail else []
                more = {"title": cut(f"{message.event} at {node}", 80), "lines": lines}
                # A lost message breaks off on its way; anything else is a sign on the lane it happened to.
                if message.event not in LOST or spot == BOARD:
                    mark(spot, spot, **more, sign=True)
                elif message.detail.startswith("down"):
                    mark(BOARD, spot, **more, broken=True)
                else:
                    mark(spot, BOARD, **more, broken=True)

    def _keep(self, mark: Mark) -> None:
        band, lane = self.bands[-1], mark["start"]
        if mark["kind"] == wire.Replies.kind:
            band.frames += 1
            before = band.merged.get(lane, {"replies": 0, "frames": 0})
            band.merged[lane] = {**mark, **{name: mark[name] + before[name] for name in ("replies", "frames")}}
            if band.frames > MOST_FRAMES:
                return
        elif mark["kind"] in (wire.Event.kind, wire.Reminder.kind, wire.Refusal.kind, wire.Ready.kind):
            band.signs += 1
            if band.signs > MOST_SIGNS:
                self.undrawn["faults, reminders and refusals"] += 1
                return
        band.marks.append(mark)

    def _owed(self, lanes: Lanes) -> list[tuple[int, int]]:
        """The lanes that still owe replies in the last round, and how many."""
        band, seated = self.bands[-1], self.summary.seated
        step = self.summary.step(band.number or 0)
        if step is None or not 0 < len(seated) <= MOST_USERS:
            return []
        due = np.zeros(len(lanes.lanes), np.int64)
        for users in seated.blocks(BLOCK_USERS):
            due += np.bincount(lanes.of_users(users[step.participates(users)]), minlength=len(due))
        owed = due - [band.heard[lane] for lane in range(len(due))]
        return [(lane, int(owed[lane])) for lane in np.flatnonzero(owed > 0).tolist()]

    def record(self) -> dict[str, Any]:
        lanes = self.lanes or Lanes(self.seats.values())
        bands = [band for band in self.bands if band.marks or band.merged]
        for band in bands:
            step = self.summary.step(band.number or 0)
            band.title = band.title or f"round {band.number}" + ("" if step is None else f": {step.name}")
        return {
            "by": lanes.by,
            "lanes": [{"label": lane.label, "title": lane.title} for lane in lanes.lanes],
            "bands": [band.record() for band in bands],
            "notes": self._notes(lanes),
        }

    def _notes(self, lanes: Lanes) -> list[str]:
        """What is not drawn."""
        notes = [
            f"In this diagram each lane is {LANE_OF[lanes.by]}. Time runs downwards, one step per message.",
            "Not drawn: the delivery of each reply to the analyst and to every observer, which follows its arrival at "
            "the board; repetitions that the board had already heard; acknowledgements of the transport.",
        ]
        merged = [band for band in self.bands if band.frames > MOST_FRAMES]
        if merged:
            notes.append(f"{plural(len(merged), 'round')} with more than {MOST_FRAMES} frames: one arrow per lane.")
        if lanes.by == "user" and any(seat.users > 1 for seat in self.seats.values()):
            notes.append("Messages and faults of a whole node are drawn at its first user.")
        if SHUFFLER_NAME in self.seats:
            notes.append("Messages between users and shuffler are not on record.")
        if lanes.by == "group":
            notes.append(f"Start-up messages of {plural(len(self.seats), 'node')} are not drawn.")
        notes += [f"Also not drawn: {count:,} {what}." for what, count in self.undrawn.items() if count]
        return notes
