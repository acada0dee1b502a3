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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from parley.emulator.coins import question_of, setup_digest, terms_of
from parley.emulator.errors import RemoteProtocolError
from parley.emulator.roles.board import Terms
from parley.emulator.roles.mixing import Draws, Mixing, gather, mix, read_mixing, system_draws
from parley.emulator.roles.seats import ShufflerSeat, owed
from parley.emulator.wire import messages as wire
from parley.emulator.wire.codec import decode, encode
from parley.emulator.wire.signatures import Keys, Signer

SHUFFLER_NAME = "shuffler"
FRAME_BYTES = 32 * 2**20
MOST_ROWS = 2**20

Shuffler = Enum("Shuffler", "GATHERING SEATED OPEN POSTED DONE")
WORDS = (wire.Ready, wire.Roster, wire.Setup, wire.Announce, wire.Replies, wire.Reminder, wire.Close)
ASIDES = (wire.Refusal, wire.Event, wire.Inquiry)
HEARD: Mapping[tuple[Shuffler, type[wire.Message]], Shuffler] = {
    **{(state, word): state for state in Shuffler for word in (*WORDS, *ASIDES)},
    (Shuffler.SEATED, wire.Announce): Shuffler.OPEN,
    (Shuffler.OPEN, wire.Close): Shuffler.SEATED,
    (Shuffler.POSTED, wire.Close): Shuffler.SEATED,
    **{(state, end): Shuffler.DONE for state in Shuffler for end in (wire.Result, wire.Abort)},
}
"""Where a message of a node or of the board leads."""

SAID: Mapping[tuple[Shuffler, type[wire.Message]], Shuffler] = {
    (Shuffler.GATHERING, wire.Ready): Shuffler.SEATED,
    (Shuffler.GATHERING, wire.Replies): Shuffler.GATHERING,
    (Shuffler.OPEN, wire.Replies): Shuffler.POSTED,
    (Shuffler.OPEN, wire.Refusal): Shuffler.POSTED,
    (Shuffler.POSTED, wire.Replies): Shuffler.POSTED,
}
"""Where the shuffler's own word to the board leads."""


@dataclass(frozen=True, kw_only=True)
class Keep:
    """On disk before the pledge leaves: the one setup of the run that this shuffler serves. That is round 0.

    On disk before its first frame leaves: the one batch of a round. It is mixed, and public from then on.
    """

    run: str
    setup: bytes
    round: int = 0
    frames: tuple[bytes, ...] = field(default=(), repr=False)


@dataclass
class Memory:
    """What a shuffler knows from an earlier life: the setup, and the frames of each batch."""

    setup: bytes = b""
    batches: dict[int, tuple[bytes, ...]] = field(default_factory=dict)

    def note(self, keep: Keep) -> None:
        self.setup = keep.setup
        if keep.round:
            self.batches[keep.round] = keep.frames


@dataclass(frozen=True)
class Up:
    """To the board; a frame of a batch goes as it was kept."""

    message: wire.Message
    frame: bytes = b""


@dataclass(frozen=True)
class Down:
    """To every user node; what others have said goes as the frame they signed."""

    message: wire.Message
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
        keys: Keys | None = None,
    ) -> None:
        """`keys`: with which key each user node must sign. A shuffler that comes back knows them from nowhere else."""
        self.terms = terms
        self.state = Shuffler.GATHERING
        self.seats: dict[str, ShufflerSeat] = {}
        self.memory = memory or Memory()
        self.round = 0
        self.dropped: Counter[str] = Counter()
        self.ending: wire.Result | wire.Abort | None = None
        self.farewell: Down | None = None
        self._pid, self._draws, self._signer, self._keys = pid, draws, signer, keys
        self._mixing: Mixing | None = None
        self._terms = self._nonce = self._question = b""
        self._speakers = 0
        self._early: dict[type[wire.Message], Down] = {}
        self._opened = self._reminded = 0.0
        self._began: float | None = None
        self._wait = terms.first_wait
        self._answers: Mapping[type[wire.Message], Callable[[Any, bytes, float], Said]] = {
            wire.Ready: self._seat,
            wire.Roster: lambda message, frame, now: [Down(message, frame)],
            wire.Setup: self._sit,
            wire.Announce: self._open,
            wire.Replies: self._take,
            wire.Refusal: self._refuse,
            wire.Inquiry: self._inquired,
            wire.Reminder: self._again,
            wire.Close: self._close,
            wire.Result: self._end,
            wire.Abort: self._end,
        }

    @property
    def over(self) -> bool:
        return self.state is Shuffler.DONE

    @property
    def ready(self) -> wire.Ready:
        """What the board is told once every node is there, again and again until it is heard."""
        key = b"" if self._signer is None else self._signer.public
        return wire.Ready(
            node=SHUFFLER_NAME, first=0, users=self.terms.users, pid=self._pid, run=self.terms.run, key=key
        )

    def frame(self, said: Up | Down) -> bytes:
        """A word as it goes out: somebody else's as it came, the shuffler's own signed."""
        return said.frame or encode(said.message, self._signer, self._nonce)

    def hear(self, message: wire.Message, now: float, frame: bytes = b"") -> Said:
        """Take in a word of a node, or of the board with its frame. RemoteProtocolError: drop it."""
        moved = HEARD.get((self.state, type(message)))
        if moved is None:
            raise RemoteProtocolError(f"shuffler in {self.state.name}: a {message.kind} is not expected")
        if getattr(message, "run", self.terms.run) not in ("", self.terms.run):
            raise RemoteProtocolError(f"shuffler: a {message.kind} of another run than {self.terms.run}")
        if isinstance(message, wire.Announce) and not self._opens(message):
            moved = self.state
        if isinstance(message, wire.Result) and self._mixing is None:
            # A node that came back does not believe a result without the setup before it.
            raise RemoteProtocolError("shuffler: a result before the setup; it asks for both again")
        answer = self._answers.get(type(message))
        wanted = not self.over or isinstance(message, wire.Ready | wire.Inquiry)
        said = answer(message, frame, now) if answer is not None and wanted else []
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
        early = [self._early[kind] for kind in (wire.Setup, wire.Announce) if kind in self._early]
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
            return [Down(wire.Reminder(run=self.terms.run, round=self.round, missing=owed(self.seats)))]
        return []

    def _opens(self, announce: wire.Announce) -> bool:
        """Whether a round begins: neither before the setup nor a second time."""
        return self.state is Shuffler.SEATED and self._mixing is not None and announce.round > self.round

    def _seat(self, ready: wire.Ready, frame: bytes, now: float) -> Said:
        known = self.seats.get(ready.node)
        if self._keys is not None and self._keys.get(ready.node) != ready.key and not known:
            raise RemoteProtocolError("shuffler: a node does not sign with the key that is listed for it")
        if known and (known.first, known.users) != (ready.first, ready.users):
            raise RemoteProtocolError("shuffler: a node came back with other users")
        if known and self.state is Shuffler.GATHERING:
            return []
        if known:
            # What it may have missed: its seat, the pledge, the setup it is about, the open round. Also under another
            # key: it is to hear that the seat is not its own.
            pledge = (
                [Down(wire.Pledge(run=self.terms.run, setup=self.memory.setup))] if wire.Setup in self._early else []
            )
            early = [self._early[kind] for kind in (wire.Setup, wire.Announce) if kind in self._early]
            return [*self._seating(ready.node), *pledge, *early]
        if ready.first + ready.users > self.terms.users or ready.users < 1:
            raise RemoteProtocolError(f"shuffler: a node claims users beyond {self.terms.users}")
        for seat in self.seats.values():
            if ready.first < seat.first + seat.users and seat.first < ready.first + ready.users:
                raise RemoteProtocolError("shuffler: a node claims users of another")
        self.seats[ready.node] = ShufflerSeat(ready.first, ready.users, ready.key)
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
        return [
            Down(wire.Seating(run=self.terms.run, node=name, key=key, nonce=self._nonce)) for name, key in held.items()
        ]

    def _inquired(self, inquiry: wire.Inquiry, frame: bytes, now: float) -> Said:
        if inquiry.round:
            raise RemoteProtocolError("shuffler: a node asks for a receipt, and there are none behind a shuffler")
        return self._seating(inquiry.node)

    def _sit(self, setup: wire.Setup, frame: bytes, now: float) -> Said:
        """Pledge to serve this setup, now and in every later life; no other setup of the run gets a pledge."""
        mixing, digest = read_mixing(setup), setup_digest(setup)
        if self.memory.setup not in (b"", digest):
            raise RemoteProtocolError("shuffler: a second, different setup; it serves one setup of a run")
        kept: Said = []
        if not self.memory.setup:
            pledged = Keep(run=self.terms.run, setup=digest)
            self.memory.note(pledged)
            kept = [pledged]
        self._mixing, self._terms, self._nonce = mixing, terms_of(setup), setup.nonce
        self._early[wire.Setup] = Down(setup, frame)
        if self.state is Shuffler.GATHERING:
            return kept
        seats = self._seating(*self.seats)
        return [*kept, *seats, Down(wire.Pledge(run=self.terms.run, setup=digest)), self._early[wire.Setup]]

    def _open(self, announce: wire.Announce, frame: bytes, now: float) -> Said:
        self._early[wire.Announce] = Down(announce, frame)
        if not self._opens(announce):
            again = self._batch(announce.round) if self.state is Shuffler.GATHERING else []
            return [self._early[wire.Announce]] if self.state is Shuffler.OPEN else again
        self.round, self._speakers = announce.round, announce.speakers or self.terms.users
        self._question = question_of(self._terms, announce)
        self._opened = self._reminded = now
        self._wait = self.terms.first_wait
        for seat in self.seats.values():
            seat.open()
        return [self._early[wire.Announce], *self._batch(announce.round)]

    def _batch(self, number: int) -> Said:
        """The batch of a round that was made before, in this life or an earlier one: frame by frame as it was."""
        found = self.memory.batches.get(number, ()) if self._mixing is not None else ()
        return [Up(decode(frame), frame) for frame in found]

    def _take(self, replies: wire.Replies, frame: bytes, now: float) -> Said:
        seat = self.seats.get(replies.node)
        if seat is None:
            raise RemoteProtocolError("shuffler: replies of a node that has no seat")
        if self.state is not Shuffler.OPEN or replies.round != self.round or replies.chunk in seat.held:
            return []
        if replies.question != self._question:
            raise RemoteProtocolError("shuffler: replies to another question than the one that was passed on")
        seat.take(replies)
        self._reminded, self._wait = now, self.terms.first_wait
        return self._post() if all(each.finished for each in self.seats.values()) else []

    def _refuse(self, refusal: wire.Refusal, frame: bytes, now: float) -> Said:
        seat = self.seats.get(refusal.node)
        if seat is None:
            raise RemoteProtocolError("shuffler: a refusal of a node that has no seat")
        seat.refused = True
        complete = all(each.finished for each in self.seats.values())
        return self._post() if complete and self.state is Shuffler.OPEN else []

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
        # As few frames as fit; users are places in the batch, not people.
        row_bytes = sum(column.nbytes for column in mixed.values()) // rows + 1
        step = max(1, min(FRAME_BYTES // row_bytes, MOST_ROWS))
        starts, signed = range(0, rows, step), list[bytes]()
        alike: dict[str, Any] = {"run": self.terms.run, "round": self.round, "question": self._question}
        alike |= {"node": SHUFFLER_NAME, "chunks": len(starts)}
        for chunk, start in enumerate(starts):
            users = np.arange(start, min(start + step, rows), dtype=np.int64)
            columns = {name: column[start : start + step] for name, column in mixed.items()}
            signed.append(self.frame(Up(wire.Replies(chunk=chunk, users=users, columns=columns, **alike))))
        batch = Keep(run=self.terms.run, setup=self.memory.setup, round=self.round, frames=tuple(signed))
        self.memory.note(batch)
        return [batch, *self._batch(self.round)]

    def _again(self, reminder: wire.Reminder, frame: bytes, now: float) -> Said:
        """The board misses frames of the batch: the same ones again, and never those of another order."""
        if SHUFFLER_NAME not in reminder.missing or self.state is Shuffler.SEATED:
            return []
        # A batch is in the order of its chunks.
        wanted, batch = reminder.missing[SHUFFLER_NAME], self._batch(reminder.round)
        return [each for chunk, each in enumerate(batch) if not wanted or chunk in wanted]

    def _refusal(self, reason: str) -> wire.Refusal:
        return wire.Refusal(run=self.terms.run, round=self.round, node=SHUFFLER_NAME, reason=reason[:500])

    def _close(self, close: wire.Close, frame: bytes, now: float) -> Said:
        self._early.pop(wire.Announce, None)
        for seat in self.seats.values():
            seat.held = {}
        return [Down(close, frame)]

    def _end(self, ending: wire.Result | wire.Abort, frame: bytes, now: float) -> Said:
        self.ending, self.farewell = ending, Down(ending, frame)
        return [self.farewell]
