"""The shuffler's part: gather the replies of a round, forget who sent them, post one anonymous batch.

To user nodes a shuffler is what a board is; to the board it is one node that hosts everybody. It knows no protocol: how
replies are mixed, and with how few nothing is posted, is said by the setup's parameter `shuffle`, which users read as
well. It signs a pledge to serve one setup and no other, and passes the frames of analyst and board on as they came.

Theory of operation. What it says as `Keep` must be on disk before anything that follows it is sent: the setup before
the pledge, the mixed batch before its first frame. Killed and restarted, it says the same batch again; if there is
none yet, it asks for the round again and users send the same bytes. Replies that are not mixed are never kept.

No error here names a node or a user, nor a number by which one could be told: errors end up in a log.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import numpy as np

from parley.emulator.coins import question_of, setup_digest, terms_of
from parley.emulator.errors import RemoteProtocolError
from parley.emulator.randomizer import Columns
from parley.emulator.roles.board import Terms
from parley.emulator.roles.mixing import Draws, Mixing, gather, mix, read_mixing, rows_a_frame, system_draws
from parley.emulator.roles.seats import owed
from parley.emulator.roles.shuffler_memory import Batch, Keep, Memory, Pledged, Seat
from parley.emulator.wire.codec import decode, encode
from parley.emulator.wire.messages import (
    Abort,
    Announce,
    Close,
    Event,
    Inquiry,
    Message,
    Pledge,
    Ready,
    Refusal,
    Reminder,
    Replies,
    Result,
    Roster,
    Seating,
    Setup,
)
from parley.emulator.wire.signatures import Signer

SHUFFLER_NAME = "shuffler"


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
    **{(state, aside): state for state in Shuffler for aside in (Refusal, Event, Inquiry)},
    **{(state, end): Shuffler.DONE for state in Shuffler for end in (Result, Abort)},
    **{(Shuffler.DONE, late): Shuffler.DONE for late in (Ready, Roster, Setup, Announce, Replies, Reminder, Close)},
}
"""Where a message of a node or of the board leads."""

SAID: Mapping[tuple[Shuffler, type[Message]], Shuffler] = {
    (Shuffler.GATHERING, Ready): Shuffler.SEATED,
    (Shuffler.GATHERING, Replies): Shuffler.GATHERING,
    (Shuffler.OPEN, Replies): Shuffler.POSTED,
    (Shuffler.OPEN, Refusal): Shuffler.POSTED,
    (Shuffler.POSTED, Replies): Shuffler.POSTED,
}
"""Where the shuffler's own word to the board leads."""


@dataclass(frozen=True)
class Up:
    """To the board; a frame of a batch goes as it was kept."""

    message: Message
    frame: bytes = b""


@dataclass(frozen=True)
class Down:
    """To every user node; what others have said goes as the frame they signed."""

    message: Message
    frame: bytes = b""


Said = list[Up | Down | Keep]


class ShufflerRole:
    """Hears nodes and the board, says what to keep and what goes up and down. `draws` is its randomness for a round."""

    def __init__(
        self,
        terms: Terms,
        pid: int = 0,
        draws: Draws = system_draws,
        *,
        memory: Memory | None = None,
        signer: Signer | None = None,
        keys: Mapping[str, bytes] | None = None,
    ) -> None:
        """`keys`: with which key each user node must sign. A shuffler that comes back knows them from nowhere else."""
        self.terms = terms
        self.state = Shuffler.GATHERING
        self.seats: dict[str, Seat] = {}
        self.memory = memory or Memory()
        self.round = 0
        self.dropped: Counter[str] = Counter()
        self.ending: Result | Abort | None = None
        self.farewell: Down | None = None
        self._pid = pid
        self._draws = draws
        self._signer = signer
        self._keys = keys
        self._mixing: Mixing | None = None
        self._terms = self._nonce = self._question = b""
        self._speakers = 0
        self._early: dict[type[Message], Down] = {}
        self._opened = 0.0
        self._began: float | None = None
        self._reminded = 0.0
        self._wait = terms.first_wait
        self._answers: Mapping[type[Message], Callable[[Any, bytes, float], Said]] = {
            Ready: self._seat,
            Roster: self._pass_on,
            Setup: self._sit,
            Announce: self._open,
            Replies: self._take,
            Refusal: self._refuse,
            Inquiry: self._inquired,
            Reminder: self._again,
            Close: self._close,
            Result: self._end,
            Abort: self._end,
        }

    @property
    def over(self) -> bool:
        return self.state is Shuffler.DONE

    @property
    def ready(self) -> Ready:
        """What the board is told once every node is there, again and again until it is heard."""
        key = b"" if self._signer is None else self._signer.public
        return Ready(node=SHUFFLER_NAME, first=0, users=self.terms.users, pid=self._pid, run=self.terms.run, key=key)

    def frame(self, said: Up | Down) -> bytes:
        """A word as it goes out: somebody else's as it came, the shuffler's own signed."""
        return said.frame or encode(said.message, self._signer, self._nonce)

    def hear(self, message: Message, now: float, frame: bytes = b"") -> Said:
        """Take in a word of a node, or of the board with its frame. RemoteProtocolError: drop it."""
        moved = HEARD.get((self.state, type(message)))
        if moved is None:
            raise RemoteProtocolError(f"shuffler in {self.state.name}: a {message.kind} is not expected")
        if getattr(message, "run", self.terms.run) not in ("", self.terms.run):
            raise RemoteProtocolError(f"shuffler: a {message.kind} of another run than {self.terms.run}")
        if isinstance(message, Announce) and not self._opens(message):
            moved = self.state
        answer = self._answers.get(type(message))
        said = answer(message, frame, now) if answer is not None and not self.over else []
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
        early = [self._early[kind] for kind in (Setup, Announce) if kind in self._early]
        return [word for each in early for word in self.hear(each.message, now, each.frame)]

    def tick(self, now: float) -> Said:
        """What the passing of time demands: going on without late nodes, a reminder, the batch at the deadline."""
        if self._began is None:
            self._began = now
        if self.state is Shuffler.GATHERING and now - self._began > self.terms.join_deadline:
            present = sum(seat.users for seat in self.seats.values())
            said: Said = [Up(self.ready)] if present and present >= self.terms.quorum * self.terms.users else []
            return said + self._settle(said, now)
        if self.state is not Shuffler.OPEN:
            return []
        if now - self._opened > self.terms.deadline:
            said = self._post()
            return said + self._settle(said, now)
        if now - self._reminded > self._wait:
            self._reminded, self._wait = now, self.terms.next_wait(self._wait)
            return [Down(Reminder(run=self.terms.run, round=self.round, missing=self.missing()))]
        return []

    def missing(self) -> dict[str, tuple[int, ...]]:
        """Who still owes which chunks; an empty tuple stands for all of them."""
        return owed(self.seats)

    def _opens(self, announce: Announce) -> bool:
        """Whether a round begins: neither before the setup nor a second time."""
        return self.state is Shuffler.SEATED and self._mixing is not None and announce.round > self.round

    def _pass_on(self, message: Message, frame: bytes, now: float) -> Said:
        return [Down(message, frame)]

    def _seat(self, ready: Ready, frame: bytes, now: float) -> Said:
        known = self.seats.get(ready.node)
        if self._keys is not None and self._keys.get(ready.node) != ready.key and not known:
            raise RemoteProtocolError("shuffler: a node does not sign with the key that is listed for it")
        if known and (known.first, known.users) != (ready.first, ready.users):
            raise RemoteProtocolError("shuffler: a node came back with other users")
        if known:
            # Also under another key: it is to hear that the seat is not its own.
            return self._all_again(ready.node) if self.state is not Shuffler.GATHERING else []
        if ready.first + ready.users > self.terms.users or ready.users < 1:
            raise RemoteProtocolError(f"shuffler: a node claims users beyond {self.terms.users}")
        for seat in self.seats.values():
            if ready.first < seat.first + seat.users and seat.first < ready.first + ready.users:
                raise RemoteProtocolError("shuffler: a node claims users of another")
        self.seats[ready.node] = Seat(ready.first, ready.users, ready.key)
        if self.state is not Shuffler.GATHERING or len(self.seats) < self.terms.nodes:
            return []
        return [Up(self.ready)]

    def _seating(self, *nodes: str) -> Said:
        """Which keys hold these nodes' seats: each is told of its own."""
        if self._signer is None or not self._nonce:
            return []
        listed = self._keys or {}
        held = {name: seat.key for name, seat in self.seats.items() if name in nodes}
        held |= {name: listed[name] for name in nodes if name in listed}
        return [Down(Seating(run=self.terms.run, node=name, key=key, nonce=self._nonce)) for name, key in held.items()]

    def _inquired(self, inquiry: Inquiry, frame: bytes, now: float) -> Said:
        if inquiry.round:
            raise RemoteProtocolError("shuffler: a node asks for a receipt, and there are none behind a shuffler")
        return self._seating(inquiry.node)

    def _all_again(self, node: str) -> Said:
        """For a node that may have missed it: its seat, the pledge, the setup it is about, the open round."""
        pledge = [Down(Pledge(run=self.terms.run, setup=self.memory.setup))] if Setup in self._early else []
        return [
            *self._seating(node),
            *pledge,
            *(self._early[kind] for kind in (Setup, Announce) if kind in self._early),
        ]

    def _sit(self, setup: Setup, frame: bytes, now: float) -> Said:
        """Pledge to serve this setup, now and in every later life; no other setup of the run gets a pledge."""
        mixing, digest = read_mixing(setup), setup_digest(setup)
        if self.memory.setup not in (b"", digest):
            raise RemoteProtocolError("shuffler: a second, different setup; it serves one setup of a run")
        kept: Said = []
        if not self.memory.setup:
            pledged = Pledged(run=self.terms.run, setup=digest)
            self.memory.note(pledged)
            kept = [pledged]
        self._mixing, self._terms, self._nonce = mixing, terms_of(setup), setup.nonce
        self._early[Setup] = Down(setup, frame)
        if self.state is Shuffler.GATHERING:
            return kept
        seats = self._seating(*self.seats)
        return [*kept, *seats, Down(Pledge(run=self.terms.run, setup=digest)), self._early[Setup]]

    def _open(self, announce: Announce, frame: bytes, now: float) -> Said:
        self._early[Announce] = Down(announce, frame)
        if not self._opens(announce):
            again = self._batch(announce.round) if self.state is Shuffler.GATHERING else []
            return [self._early[Announce]] if self.state is Shuffler.OPEN else again
        self.round, self._speakers = announce.round, announce.speakers or self.terms.users
        self._question = question_of(self._terms, announce)
        self._opened = self._reminded = now
        self._wait = self.terms.first_wait
        for seat in self.seats.values():
            seat.open()
        return [self._early[Announce], *self._batch(announce.round)]

    def _batch(self, number: int) -> Said:
        """The batch of a round that was made before, in this life or an earlier one: frame by frame as it was."""
        found = self.memory.batches.get(number) if self._mixing is not None else None
        return [] if found is None else [Up(decode(frame), frame) for frame in found.frames]

    def _take(self, replies: Replies, frame: bytes, now: float) -> Said:
        seat = self.seats.get(replies.node)
        if seat is None:
            raise RemoteProtocolError("shuffler: replies of a node that has no seat")
        if self.state is not Shuffler.OPEN or replies.round != self.round or replies.chunk in seat.held:
            return []
        if replies.question != self._question:
            raise RemoteProtocolError("shuffler: replies to another question than the one that was passed on")
        seat.take(replies)
        self._reminded, self._wait = now, self.terms.first_wait
        return self._post_when_complete()

    def _refuse(self, refusal: Refusal, frame: bytes, now: float) -> Said:
        seat = self.seats.get(refusal.node)
        if seat is None:
            raise RemoteProtocolError("shuffler: a refusal of a node that has no seat")
        seat.refused = True
        return self._post_when_complete() if self.state is Shuffler.OPEN else []

    def _post_when_complete(self) -> Said:
        return self._post() if all(seat.finished for seat in self.seats.values()) else []

    def _post(self) -> Said:
        """Strip names, mix, keep, and hand over: from here on nobody can tell whose reply is whose."""
        assert self._mixing is not None
        held = [replies for seat in self.seats.values() for replies in seat.held.values()]
        whole, rows, self.dropped["layout"] = gather(held)
        needed = max(self._mixing.crowd, math.ceil(self.terms.quorum * self._speakers))
        if rows < needed:
            # A node's reason could name it.
            because = "; nodes refused" if any(seat.refused for seat in self.seats.values()) else ""
            return [Up(self._refusal(f"{rows} replies are fewer than the crowd of {needed}{because}"))]
        for seat in self.seats.values():
            seat.held = {}
        try:
            mixed = mix(whole, self._mixing, self._draws(self.round))
        except RemoteProtocolError as error:
            return [Up(self._refusal(str(error)))]
        frames = tuple(self.frame(Up(each)) for each in self._frames(mixed, rows))
        batch = Batch(run=self.terms.run, setup=self.memory.setup, round=self.round, frames=frames)
        self.memory.note(batch)
        return [batch, *self._batch(self.round)]

    def _frames(self, columns: Columns, rows: int) -> Iterator[Replies]:
        """The batch in as few frames as fit; users are places in the batch, not people."""
        step = rows_a_frame(columns, rows)
        starts = range(0, rows, step)
        for chunk, start in enumerate(starts):
            yield Replies(
                run=self.terms.run,
                round=self.round,
                node=SHUFFLER_NAME,
                chunk=chunk,
                chunks=len(starts),
                users=np.arange(start, min(start + step, rows), dtype=np.int64),
                columns={name: column[start : start + step] for name, column in columns.items()},
                question=self._question,
            )

    def _again(self, reminder: Reminder, frame: bytes, now: float) -> Said:
        """The board misses frames of the batch: the same ones again, and never those of another order."""
        if SHUFFLER_NAME not in reminder.missing or self.state is Shuffler.SEATED:
            return []
        wanted = reminder.missing[SHUFFLER_NAME]
        return [
            each
            for each in self._batch(reminder.round)
            if isinstance(each, Up) and isinstance(each.message, Replies)
            if not wanted or each.message.chunk in wanted
        ]

    def _refusal(self, reason: str) -> Refusal:
        return Refusal(run=self.terms.run, round=self.round, node=SHUFFLER_NAME, reason=reason[:500])

    def _close(self, close: Close, frame: bytes, now: float) -> Said:
        self._early.pop(Announce, None)
        for seat in self.seats.values():
            seat.held = {}
        return [Down(close, frame)]

    def _end(self, ending: Result | Abort, frame: bytes, now: float) -> Said:
        self.ending = ending
        self.farewell = Down(ending, frame)
        return [self.farewell]
