"""The sequence diagram as data: bands of marks. A mark is an arrow, a broken arrow, or a sign on a lane."""

import re
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from parley.emulator.record.summary import Summary
from parley.emulator.roles.board import LAUNCHER_NAME
from parley.emulator.roles.shuffler import SHUFFLER_NAME
from parley.emulator.round import BLOCK_USERS
from parley.emulator.wire.messages import (
    Abort,
    Announce,
    Close,
    Event,
    Message,
    Ready,
    Refusal,
    Reminder,
    Replies,
    Result,
    Roster,
    Setup,
)
from parley.launch.report.lanes import Lanes
from parley.launch.report.words import body, cut, headline, named, plural

ALL, BOARD, ANALYST = "all", "board", "analyst"
End = str | int
MOST_ROUNDS = 12
MOST_FRAMES = 64
MOST_SIGNS = 40
# Who speaks is asked of the protocol user by user; beyond this a picture can do without.
MOST_USERS = 2**24
# What is said only when every node has its seat; faults before that wait until the lanes are known.
AFTER_SEATING = (Roster, Setup, Announce, Replies, Close, Result, Abort)
# What became of a message: these never arrived as they were sent, so their arrow breaks off.
VICTIM = re.compile(r"fault \d+: (\S+) ")
LOST = ("loss", "partition", "drop", "corrupt")


@dataclass(frozen=True, kw_only=True)
class Mark:
    """One thing to draw. `to` is a lane, a party, `all` or several lanes; a sign stays on its lane."""

    sequence: int
    seconds: float
    kind: str
    start: End
    to: End | list[int]
    title: str
    lines: list[str]
    broken: bool = False
    sign: bool = False
    replies: int = 0
    frames: int = 1

    def record(self) -> dict[str, Any]:
        """For the page."""
        if self.frames == 1:
            return dict(vars(self))
        lines = [f"{plural(self.frames, 'frame')}, drawn as one arrow where the last one arrived"]
        return {**vars(self), "title": plural(self.replies, "reply"), "lines": lines}


@dataclass
class Band:
    """A stretch of the conversation: the start-up, a round, the end."""

    title: str
    number: int | None
    marks: list[Mark] = field(default_factory=list)
    frames: int = 0
    merged: dict[int, Mark] = field(default_factory=dict)
    heard: Counter[int] = field(default_factory=Counter)
    signs: int = 0

    def record(self) -> dict[str, Any]:
        """For the page: too many frames become one arrow a lane."""
        marks = sorted(self.marks, key=lambda mark: mark.sequence)
        if self.frames > MOST_FRAMES:
            marks = [each for each in marks if each.kind != Replies.kind] + list(self.merged.values())
            marks.sort(key=lambda mark: mark.sequence)
        return {"title": self.title, "round": self.number, "marks": [mark.record() for mark in marks]}


class Diagram:
    """Hears the record message by message and keeps what can be drawn; its size is bounded whatever it hears."""

    def __init__(self, summary: Summary) -> None:
        self.summary = summary
        self.seats: dict[str, Ready] = {}
        self._arrivals: dict[str, tuple[int, float]] = {}
        self.lanes: Lanes | None = None
        self._early: deque[tuple[int, float, str, Message]] = deque(maxlen=MOST_SIGNS)
        self.bands = [Band("start-up", None)]
        self.rounds = 0
        self.undrawn: Counter[str] = Counter()

    @property
    def band(self) -> Band:
        return self.bands[-1]

    def take(self, sequence: int, seconds: float, sender: str, message: Message) -> None:
        """Draw one message, if it can be drawn."""
        if isinstance(message, Ready):
            self._arrive(sequence, seconds, message)
            return
        if self.lanes is None and not isinstance(message, AFTER_SEATING):
            self._early.append((sequence, seconds, sender, message))
            return
        if isinstance(message, Announce):
            self.rounds += 1
            self.bands.append(Band("", message.round))
        elif isinstance(message, Result | Abort):
            self.bands.append(Band("the end", None))
        if self.rounds > MOST_ROUNDS and self.band.number is not None:
            self.undrawn["rounds"] += isinstance(message, Announce)
            return
        if self.lanes is None:
            self._seat()
            for early in self._early:
                self._draw(*early)
        self._draw(sequence, seconds, sender, message)
        if isinstance(message, Close) and message.missing:
            self._missing(sequence, seconds)

    def _draw(self, sequence: int, seconds: float, sender: str, message: Message) -> None:
        for mark in self._marks(sequence, seconds, sender, message):
            self._keep(mark)

    def _arrive(self, sequence: int, seconds: float, ready: Ready) -> None:
        if ready.node in self.seats:
            return
        self.seats[ready.node] = ready
        self._arrivals[ready.node] = (sequence, seconds)
        if self.lanes is None:
            return
        if not self.lanes.add(ready):
            self.undrawn["late nodes"] += 1
        for lane in self.lanes.of_node(ready.node)[:1]:
            self._keep(self._mark(sequence, seconds, ready, lane, BOARD))

    def _seat(self) -> None:
        """The lanes are known once the board has closed the table."""
        self.lanes = Lanes(self.seats.values())
        if self.lanes.by == "group":
            return
        for node, (sequence, seconds) in self._arrivals.items():
            for lane in self.lanes.of_node(node)[:1]:
                self._keep(self._mark(sequence, seconds, self.seats[node], lane, BOARD))

    def _mark(self, sequence: int, seconds: float, message: Message, start: End, to: Any, **more: Any) -> Mark:
        return Mark(
            sequence=sequence,
            seconds=seconds,
            kind=message.kind,
            start=start,
            to=to,
            **{"title": headline(message), "lines": body(message), **more},
        )

    def _marks(self, sequence: int, seconds: float, sender: str, message: Message) -> list[Mark]:
        if isinstance(message, Roster | Setup | Announce | Close | Result | Abort):
            start = ANALYST if sender == ANALYST else BOARD
            return [self._mark(sequence, seconds, message, start, ALL)]
        assert self.lanes is not None
        if isinstance(message, Reminder):
            to = sorted({lane for node in message.missing for lane in self.lanes.of_node(node)})
            return [self._mark(sequence, seconds, message, BOARD, to)] if to else []
        if isinstance(message, Replies):
            return self._replies(sequence, seconds, message)
        if isinstance(message, Refusal):
            return [self._mark(sequence, seconds, message, lane, BOARD) for lane in self.lanes.of_node(message.node)]
        return self._event(sequence, seconds, message) if isinstance(message, Event) else []

    def _replies(self, sequence: int, seconds: float, message: Replies) -> list[Mark]:
        assert self.lanes is not None
        known = self.lanes.of_node(message.node)
        if not known or not len(message.users):
            return []
        lanes = self.lanes.of_users(message.users)
        if self.lanes.by != "user":
            lane = int(lanes[0])
            self.band.heard[lane] += len(message.users)
            return [self._mark(sequence, seconds, message, lane, BOARD, replies=len(message.users))]
        marks = []
        for row, (user, lane) in enumerate(zip(message.users.tolist(), lanes.tolist(), strict=True)):
            self.band.heard[lane] += 1
            lines = named({name: column[row] for name, column in message.columns.items()})
            marks.append(
                self._mark(
                    sequence, seconds, message, lane, BOARD, title=f"reply of user {user}", lines=lines, replies=1
                )
            )
        return marks

    def _event(self, sequence: int, seconds: float, message: Event) -> list[Mark]:
        """A lost message breaks off on its way; anything else is a sign on the lane it happened to."""
        assert self.lanes is not None
        # The launcher's own reports name the process it struck.
        struck = VICTIM.match(message.detail) if message.node == LAUNCHER_NAME else None
        node = message.node if struck is None else struck[1]
        places: list[End] = [node] if node in (ANALYST, BOARD) else [*self.lanes.of_node(node)[:1]]
        if not places:
            self.undrawn["faults of parties without a lane"] += 1
            return []
        (lane,) = places
        lines = [cut(message.detail)] if message.detail else []
        title = cut(f"{message.event} at {node}", 80)
        if message.event not in LOST or lane == BOARD:
            return [self._mark(sequence, seconds, message, lane, lane, title=title, lines=lines, sign=True)]
        downward = message.detail.startswith("down")
        start, to = (BOARD, lane) if downward else (lane, BOARD)
        return [self._mark(sequence, seconds, message, start, to, title=title, lines=lines, broken=True)]

    def _keep(self, mark: Mark) -> None:
        band = self.band
        if mark.kind == Replies.kind:
            band.frames += 1
            self._merge(band, mark)
            if band.frames <= MOST_FRAMES:
                band.marks.append(mark)
            return
        if mark.kind in (Event.kind, Reminder.kind, Refusal.kind, Ready.kind):
            band.signs += 1
            if band.signs > MOST_SIGNS:
                self.undrawn["faults, reminders and refusals"] += 1
                return
        band.marks.append(mark)

    @staticmethod
    def _merge(band: Band, mark: Mark) -> None:
        """One arrow a lane, for rounds with more frames than can be drawn."""
        lane = mark.start
        assert isinstance(lane, int)
        before = band.merged.get(lane)
        if before is not None:
            mark = replace(mark, replies=mark.replies + before.replies, frames=mark.frames + before.frames)
        band.merged[lane] = mark

    def _missing(self, sequence: int, seconds: float) -> None:
        """An arrow that breaks off for every lane that still owed replies when the round was closed."""
        lanes, band, seated = self.lanes, self.band, self.summary.seated
        step = self.summary.step(band.number or 0)
        if lanes is None or step is None or not 0 < len(seated) <= MOST_USERS:
            return
        due = np.zeros(len(lanes.lanes), np.int64)
        for users in seated.blocks(BLOCK_USERS):
            due += lanes.count(users[step.participates(users)])
        for lane, owed in enumerate((due - [band.heard[lane] for lane in range(len(due))]).tolist()):
            if owed > 0:
                title = f"{plural(owed, 'reply')} missing when the round was closed"
                missing = Mark(
                    sequence=sequence,
                    seconds=seconds,
                    kind="missing",
                    start=lane,
                    to=BOARD,
                    title=title,
                    lines=[lanes.lanes[lane].title],
                    broken=True,
                )
                band.marks.append(missing)

    def record(self) -> dict[str, Any]:
        """For the page."""
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
            f"In this diagram {lanes.words}. Time runs downwards, one step per message.",
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
        notes += [f"Also not drawn: {count:,} {what}." for what, count in self.undrawn.items()]
        return notes
