"""The shuffler's part: gather the replies of a round, forget who sent them, post one anonymous batch.

To user nodes a shuffler is what a board is; to the board it is one node that hosts everybody. It knows no protocol: how
replies are mixed, and with how few nothing is posted, is said by the setup's parameter `shuffle`, which users read as
well. It keeps nothing on disk: killed and restarted, it asks for the round again and users send the same bytes.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulator.board import LONGEST_PATIENCE, SECONDS_A_NODE, Terms
from emulator.errors import RemoteProtocolError
from emulator.messages import (
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
from emulator.mixing import Draw, Mixing, mix, read_mixing, system_draw
from emulator.randomizer import Columns

SHUFFLER_NAME = "shuffler"
# A batch of one frame is on record whole or not at all, so frames are large.
FRAME_BYTES = 32 * 2**20
MOST_ROWS = 2**20
Layout = tuple[tuple[str, str, tuple[int, ...]], ...]


class Shuffler(Enum):
    """Where the shuffler stands."""

    GATHERING = auto()
    SEATED = auto()
    OPEN = auto()
    POSTED = auto()
    DONE = auto()


HEARD: Mapping[tuple[Shuffler, type[Message]], Shuffler] = {
    **{(Shuffler.GATHERING, early): Shuffler.GATHERING for early in (Ready, Roster, Setup, Announce, Reminder, Close)},
    **{(Shuffler.SEATED, word): Shuffler.SEATED for word in (Ready, Roster, Setup, Reminder, Close)},
    (Shuffler.SEATED, Announce): Shuffler.OPEN,
    **{(Shuffler.OPEN, word): Shuffler.OPEN for word in (Ready, Roster, Setup, Announce, Replies, Reminder)},
    (Shuffler.OPEN, Close): Shuffler.SEATED,
    **{(Shuffler.POSTED, word): Shuffler.POSTED for word in (Ready, Roster, Setup, Announce, Replies, Reminder)},
    (Shuffler.POSTED, Close): Shuffler.SEATED,
    **{(state, Replies): state for state in (Shuffler.GATHERING, Shuffler.SEATED)},
    **{(state, aside): state for state in Shuffler for aside in (Refusal, Event)},
    **{(state, end): Shuffler.DONE for state in Shuffler for end in (Result, Abort)},
    **{(Shuffler.DONE, late): Shuffler.DONE for late in (Ready, Roster, Setup, Announce, Replies, Reminder, Close)},
}
"""Where a message of a node or of the board leads."""

SAID: Mapping[tuple[Shuffler, type[Message]], Shuffler] = {
    (Shuffler.GATHERING, Ready): Shuffler.SEATED,
    (Shuffler.OPEN, Replies): Shuffler.POSTED,
    (Shuffler.OPEN, Refusal): Shuffler.POSTED,
    (Shuffler.POSTED, Replies): Shuffler.POSTED,
}
"""Where the shuffler's own word to the board leads."""


@dataclass(frozen=True)
class Up:
    """To the board."""

    message: Message


@dataclass(frozen=True)
class Down:
    """To every user node."""

    message: Message


Said = list[Up | Down]


@dataclass
class Guest:
    """One user node: its users and, for the open round, what it sent and what it still owes."""

    first: int
    users: int
    owes: set[int] | None = None
    held: dict[int, Replies] = field(default_factory=dict)
    refused: str = ""

    @property
    def finished(self) -> bool:
        return bool(self.refused) or (self.owes is not None and not self.owes)


class ShufflerRole:
    """Hears nodes and the board, says what goes up and down. `draw` is its randomness: the operating system's."""

    def __init__(self, terms: Terms, pid: int = 0, draw: Draw = system_draw) -> None:
        self.terms = terms
        self.state = Shuffler.GATHERING
        self.guests: dict[str, Guest] = {}
        self.round = 0
        self.dropped: Counter[str] = Counter()
        self.ending: Result | Abort | None = None
        self._pid = pid
        self._draw = draw
        self._mixing: Mixing | None = None
        self._early: dict[type[Message], Message] = {}
        self._batch: list[Replies] = []
        self._alone = False
        self._opened = 0.0
        self._began: float | None = None
        self._reminded = 0.0
        self._patience = self.patience
        self._answers: Mapping[type[Message], Callable[[Any, float], Said]] = {
            Ready: self._seat,
            Roster: self._relay,
            Setup: self._sit,
            Announce: self._open,
            Replies: self._take,
            Refusal: self._refuse,
            Reminder: self._again,
            Close: self._close,
            Result: self._end,
            Abort: self._end,
        }

    @property
    def patience(self) -> float:
        """Seconds before the first reminder, as at the board."""
        return max(self.terms.patience, SECONDS_A_NODE * self.terms.nodes)

    @property
    def over(self) -> bool:
        return self.state is Shuffler.DONE

    @property
    def ready(self) -> Ready:
        """What the board is told once every node is there, again and again until it is heard."""
        return Ready(node=SHUFFLER_NAME, first=0, users=self.terms.users, pid=self._pid)

    def hear(self, message: Message, now: float) -> Said:
        """Take in a word of a node or of the board. RemoteProtocolError: drop it."""
        moved = HEARD.get((self.state, type(message)))
        if moved is None:
            raise RemoteProtocolError(f"shuffler in {self.state.name}: a {message.kind} is not expected")
        run = getattr(message, "run", self.terms.run)
        if run != self.terms.run:
            raise RemoteProtocolError(f"shuffler: a {message.kind} of run {run} in run {self.terms.run}")
        if isinstance(message, Announce) and not self._opens(message):
            moved = self.state
        answer = self._answers.get(type(message))
        said = answer(message, now) if answer is not None and not self.over else []
        self.state = moved
        return said + self._settle(said, now)

    def _settle(self, said: Said, now: float) -> Said:
        """Let the shuffler's own words move it; once everybody is there, take up what came too early."""
        was = self.state
        for each in said:
            if isinstance(each, Up):
                self.state = SAID[self.state, type(each.message)]
        if was is not Shuffler.GATHERING or self.state is not Shuffler.SEATED:
            return []
        return [word for message in list(self._early.values()) for word in self.hear(message, now)]

    def tick(self, now: float) -> Said:
        """What the passing of time demands: going on without late nodes, a reminder, the batch at the deadline."""
        if self._began is None:
            self._began = now
        if self.state is Shuffler.GATHERING and now - self._began > self.terms.join_deadline:
            present = sum(guest.users for guest in self.guests.values())
            said: Said = [Up(self.ready)] if present and present >= self.terms.quorum * self.terms.users else []
            return said + self._settle(said, now)
        if self.state is not Shuffler.OPEN:
            return []
        if now - self._opened > self.terms.deadline:
            said = self._post()
            return said + self._settle(said, now)
        if now - self._reminded > self._patience:
            self._reminded, self._patience = now, min(2 * self._patience, max(LONGEST_PATIENCE, self.patience))
            return [Down(Reminder(run=self.terms.run, round=self.round, missing=self.missing()))]
        return []

    def missing(self) -> dict[str, tuple[int, ...]]:
        """Who still owes which chunks; an empty tuple stands for all of them."""
        return {
            name: tuple(sorted(guest.owes)) if guest.owes is not None else ()
            for name, guest in self.guests.items()
            if not guest.finished
        }

    def _opens(self, announce: Announce) -> bool:
        """Whether a round begins: neither before the setup nor a second time."""
        return self.state is Shuffler.SEATED and self._mixing is not None and announce.round > self.round

    def _relay(self, message: Message, now: float) -> Said:
        return [Down(message)]

    def _seat(self, ready: Ready, now: float) -> Said:
        known = self.guests.get(ready.node)
        if known and (known.first, known.users) != (ready.first, ready.users):
            raise RemoteProtocolError(f"shuffler: node {ready.node} came back with other users")
        if known:
            return [Down(each) for each in self._early.values()] if self.state is not Shuffler.GATHERING else []
        if ready.first + ready.users > self.terms.users or ready.users < 1:
            raise RemoteProtocolError(f"shuffler: node {ready.node} claims users beyond {self.terms.users}")
        for name, guest in self.guests.items():
            if ready.first < guest.first + guest.users and guest.first < ready.first + ready.users:
                raise RemoteProtocolError(f"shuffler: node {ready.node} claims users of node {name}")
        self.guests[ready.node] = Guest(ready.first, ready.users)
        if self.state is not Shuffler.GATHERING or len(self.guests) < self.terms.nodes:
            return []
        return [Up(self.ready)]

    def _sit(self, setup: Setup, now: float) -> Said:
        self._mixing = read_mixing(setup)
        self._early[Setup] = setup
        return [] if self.state is Shuffler.GATHERING else [Down(setup)]

    def _open(self, announce: Announce, now: float) -> Said:
        self._early[Announce] = announce
        if not self._opens(announce):
            return [Down(announce)] if self.state is Shuffler.OPEN else []
        self.round = announce.round
        self._opened = self._reminded = now
        self._patience = self.patience
        self._batch, self._alone = [], False
        for guest in self.guests.values():
            guest.owes, guest.held, guest.refused = None, {}, ""
        return [Down(announce)]

    def _take(self, replies: Replies, now: float) -> Said:
        guest = self.guests.get(replies.node)
        if guest is None:
            raise RemoteProtocolError(f"shuffler: replies of node {replies.node}, which has no seat")
        if self.state is not Shuffler.OPEN or replies.round != self.round or replies.chunk in guest.held:
            return []
        if replies.chunks > guest.users or (guest.held and replies.chunks != len(guest.held) + len(guest.owes or ())):
            raise RemoteProtocolError(f"shuffler: node {replies.node} sends {replies.chunks} chunks")
        if len(replies.users):
            lowest, highest = int(replies.users[0]), int(replies.users[-1])
            if lowest < guest.first or highest >= guest.first + guest.users:
                raise RemoteProtocolError(f"shuffler: node {replies.node} answers for users that are not its own")
        self._check_new(guest, replies)
        if guest.owes is None:
            guest.owes = set(range(replies.chunks))
        guest.owes.discard(replies.chunk)
        guest.held[replies.chunk] = replies
        self._reminded, self._patience = now, self.patience
        return self._post_when_complete()

    def _check_new(self, guest: Guest, replies: Replies) -> None:
        """One user, one reply: a user in two chunks would count twice in the crowd."""
        for other in guest.held.values():
            if len(np.intersect1d(other.users, replies.users, assume_unique=True)):
                raise RemoteProtocolError(f"shuffler: node {replies.node} answers twice for the same user")

    def _refuse(self, refusal: Refusal, now: float) -> Said:
        guest = self.guests.get(refusal.node)
        if guest is None:
            raise RemoteProtocolError(f"shuffler: a refusal from {refusal.node}, which has no seat")
        guest.refused = refusal.reason or "no reason given"
        return self._post_when_complete() if self.state is Shuffler.OPEN else []

    def _post_when_complete(self) -> Said:
        return self._post() if all(guest.finished for guest in self.guests.values()) else []

    def _post(self) -> Said:
        """Strip names, mix, and hand over: from here on nobody can tell whose reply is whose."""
        assert self._mixing is not None
        kept = self._kept()
        rows = sum(_rows(columns) for columns in kept)
        if rows < self._mixing.crowd:
            reasons = [guest.refused for guest in self.guests.values() if guest.refused]
            because = f"; a node said: {reasons[0]}" if reasons else ""
            return [Up(self._refusal(f"{rows} replies are fewer than the crowd of {self._mixing.crowd}{because}"))]
        if not self._alone and _step(kept[0]) < rows:
            # An earlier life may have posted a part of another order; the board's next reminder tells.
            return []
        whole = {name: np.concatenate([columns[name] for columns in kept]) for name in sorted(kept[0])}
        for guest in self.guests.values():
            guest.held = {}
        try:
            self._batch = self._frames(mix(whole, self._mixing, self._draw), rows)
        except RemoteProtocolError as error:
            return [Up(self._refusal(str(error)))]
        return [Up(each) for each in self._batch]

    def _kept(self) -> list[Columns]:
        """The replies of the layout that most of them have; one node's nonsense must not spoil the batch."""
        held = [
            replies.columns
            for guest in self.guests.values()
            for replies in guest.held.values()
            if len(replies.users) and replies.columns
        ]
        sizes: Counter[Layout] = Counter()
        for columns in held:
            sizes[_layout(columns)] += _rows(columns)
        chosen = max(sizes, key=lambda layout: (sizes[layout], layout), default=())
        self.dropped["layout"] = sum(sizes.values()) - sizes[chosen]
        return [columns for columns in held if _layout(columns) == chosen]

    def _frames(self, columns: Columns, rows: int) -> list[Replies]:
        """The batch in as few frames as fit; users are places in the batch, not people."""
        step = _step(columns)
        starts = range(0, rows, step)
        return [
            Replies(
                run=self.terms.run,
                round=self.round,
                node=SHUFFLER_NAME,
                chunk=chunk,
                chunks=len(starts),
                users=np.arange(start, min(start + step, rows), dtype=np.int64),
                columns={name: column[start : start + step] for name, column in columns.items()},
            )
            for chunk, start in enumerate(starts)
        ]

    def _again(self, reminder: Reminder, now: float) -> Said:
        """The board misses frames of the batch: the same ones again. A shuffler that does not know them must not guess.

        Frames of two permutations of the same replies would count some users twice and leave others out.
        """
        if SHUFFLER_NAME not in reminder.missing or reminder.round != self.round:
            return []
        wanted = reminder.missing[SHUFFLER_NAME]
        if self.state is Shuffler.POSTED:
            return [Up(each) for each in self._batch if not wanted or each.chunk in wanted]
        if self.state is not Shuffler.OPEN:
            return []
        if wanted:
            return [Up(self._refusal("the shuffler was restarted in the middle of a batch and cannot complete it"))]
        self._alone = True
        return self._post_when_complete()

    def _refusal(self, reason: str) -> Refusal:
        return Refusal(run=self.terms.run, round=self.round, node=SHUFFLER_NAME, reason=reason[:500])

    def _close(self, close: Close, now: float) -> Said:
        self._batch = []
        self._early.pop(Announce, None)
        for guest in self.guests.values():
            guest.held = {}
        return [Down(close)]

    def _end(self, ending: Result | Abort, now: float) -> Said:
        self.ending = ending
        self._batch = []
        return [Down(ending)]


def _layout(columns: Mapping[str, NDArray[Any]]) -> Layout:
    return tuple((name, column.dtype.str, column.shape[1:]) for name, column in sorted(columns.items()))


def _rows(columns: Columns) -> int:
    return len(next(iter(columns.values())))


def _step(columns: Columns) -> int:
    """How many rows of this layout a frame holds."""
    each = sum(column.nbytes for column in columns.values()) // _rows(columns) + 1
    return max(1, min(FRAME_BYTES // each, MOST_ROWS))
