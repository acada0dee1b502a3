"""Every step of every process, made once: states and frames are known by small numbers, and steps by two of them."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.roles.board import ANALYST_NAME, BOARD_NAME
from parley.emulator.roles.seats import Seat
from parley.emulator.wire import messages as wire
from parley.emulator.wire.codec import decode, encode, envelope, open_envelope
from parley.launch.testkit.invariants import Word, word_of
from parley.launch.testkit.world.between import RelayProcess, ShufflerProcess, is_sealed
from parley.launch.testkit.world.parties import Parties
from parley.launch.testkit.world.processes import (
    AnalystProcess,
    BoardProcess,
    Cut,
    Hear,
    Heard,
    Process,
    Records,
    UserProcess,
)
from parley.nodes.state.user_state import FILE, Identity, State

BOARD, ANALYST, FIRST_NODE = 0, 1, 2
ASIDES = (wire.Reminder, wire.Event)
"""What any role lets pass in any state."""
TAKEN_ONCE = (wire.Setup, wire.Seating, wire.Pledge, wire.Receipt, wire.Result)
"""What does nothing any more in this life of a node, once the node has taken it."""
MOST_ALIVE = 200
"""How many processes are kept running; any other is made again when it is needed."""


class Parcel(NamedTuple):
    """A frame on its way between two. `canonical` is the number of all frames that mean the same."""

    number: int
    to: int
    other: int
    frame: bytes
    canonical: int
    label: str
    message: wire.Message
    life: tuple[int, int] | None
    word: int | None
    is_lie: bool
    heard: Hear


@dataclass(frozen=True, eq=False)
class Standing:
    """A state that a process may be in, and how to bring a process there: its disk at birth, and what it heard since.

    Of the board: its `records`, and the number of the life in which each that has a seat spoke last. Of the analyst:
    how many records it has heard.
    """

    number: int
    who: int
    life: int
    canonical: int
    ended: str
    disk: bytes
    born: bytes
    heard: tuple[Heard, ...]
    records: tuple[int, ...] = ()
    lives: tuple[int, ...] = ()
    over: bool = False
    expected: int = 0

    @property
    def is_gone(self) -> bool:
        """Whether it stopped before the run was over, and nobody starts it again."""
        return self.ended.startswith("stopped")


class Step(NamedTuple):
    """What became of a process, what it sent and said, and where a crash may have cut that short."""

    to: Standing
    sent: tuple[int, ...]
    words: tuple[int, ...]
    cuts: tuple["Crash", ...]


class Crash(NamedTuple):
    """A process died in the middle of a step: what was on its disk, and what it had sent and said."""

    disk: bytes
    sent: tuple[int, ...]
    words: tuple[int, ...]
    how: str


class Company:
    """The processes of one world."""

    def __init__(self, parties: Parties, folder: Path) -> None:
        self.parties, self._folder = parties, folder
        self.everybody = (BOARD_NAME, ANALYST_NAME, *parties.names, *filter(None, [parties.middle]))
        self.middle = self.everybody.index(parties.middle) if parties.middle else None
        """Who stands between nodes and board, if anybody does."""
        self.seated = tuple(self.everybody.index(name) for name in parties.seated)
        self.standings: list[Standing] = []
        self.parcels: list[Parcel] = []
        self.words: list[Word] = []
        self.made = self.rebuilt = 0
        self._standing: dict[tuple[Any, ...], int] = {}
        self._parcel: dict[tuple[int, bytes], int] = {}
        self._word: dict[Word, int] = {}
        self._canonical: dict[Any, int] = {}
        self._born: dict[tuple[int, bytes, int], Step] = {}
        self._moved: dict[tuple[int, Heard], Step] = {}
        self._news: dict[tuple[int, int], Records | None] = {}
        self._alive: dict[int, Process] = {}
        self.spoken: dict[int, int] = {}
        """The frame to the board, or to who stands before it, that says a word."""
        self._folders = 0

    def close(self) -> None:
        for process in self._alive.values():
            process.close()
        self._alive.clear()

    @cached_property
    def first_disks(self) -> tuple[bytes, ...]:
        """What is on disk before anybody starts: the nodes' states."""
        states = [self.fresh_state(each) for each in self.parties.identities.values()]
        return (b"", b"", *states, *([] if self.middle is None else [b""]))

    def fresh_state(self, identity: Identity) -> bytes:
        folder = self._new_folder()
        State.create(folder, identity, durable=False)
        return (folder / FILE).read_bytes()

    def start(self, who: int, disk: bytes, life: int) -> Step:
        """Start a process on a disk."""
        found = self._born.get((who, disk, life))
        if found is None:
            process = self._start(who, disk, life)
            records = self._read(process, disk) if who == BOARD else ()
            found = self._born[who, disk, life] = self._step(process, who, disk, (), records)
        return found

    def move(self, before: Standing, heard: Heard) -> Step:
        """Let a process hear something."""
        found = self._moved.get((before.number, heard))
        if found is None:
            process = self._alive.pop(before.number, None) or self._rebuild(before)
            process.hear(heard)
            self.made += 1
            found = self._step(process, before.who, before.born, (*before.heard, heard), before.records)
            self._moved[before.number, heard] = found
        return found

    def news(self, board: int, analyst: int) -> Records | None:
        """What the analyst has not heard of the record; None while there is nothing but asides in it."""
        if (board, analyst) not in self._news:
            hearer = self.standings[analyst]
            rest = [self.parcels[each] for each in self.standings[board].records[hearer.expected :]]
            nothing = hearer.ended or all(isinstance(each.message, ASIDES) for each in rest)
            self._news[board, analyst] = None if nothing else Records(tuple(each.frame for each in rest))
        return self._news[board, analyst]

    def reopened(self, who: int, disk: bytes) -> bytes:
        """What a process finds on its disk when it comes back."""
        if who in (BOARD, ANALYST, self.middle):
            return disk
        return self.parties.cast.reopened(disk, self.parties.identities[self.everybody[who]], self.fresh_state)

    def is_stale(self, number: int, everybody: tuple[int, ...]) -> bool:
        """Whether a frame comes too late: its receiver has left or has taken it, or nobody waits for what it asks.

        Where that follows from what its receiver did before, the receiver is asked: hearing it must change nothing.
        """
        frame = self.parcels[number]
        standing, message, board = self.standings[everybody[frame.to]], frame.message, self.standings[everybody[BOARD]]
        if standing.ended:
            return True
        if frame.is_lie:
            return False
        if frame.to == self.middle:
            # It comes too late if all that it makes a relay or shuffler say does.
            step = self.move(standing, frame.heard)
            return step.to is standing and all(self.is_stale(each, everybody) for each in step.sent)
        if frame.to == BOARD:
            if frame.word is not None:
                on_record = any(self.parcels[each].word == frame.word for each in board.records)
                return (on_record or board.over) and self._is_idle(standing, frame)
            if not isinstance(message, wire.Inquiry):
                return board.over and not isinstance(message, wire.Ready)
            # All that it does is that something is said again.
            step = self.move(standing, frame.heard)
            return step.to is standing and bool(step.sent) and all(self.is_stale(each, everybody) for each in step.sent)
        if isinstance(message, TAKEN_ONCE):
            return frame.heard in standing.heard and self._is_idle(standing, frame)
        if isinstance(message, wire.Reminder) and self.everybody[frame.to] not in message.missing:
            return True
        if isinstance(message, wire.Announce | wire.Reminder):
            # Whatever it makes the node say, the board wants no more replies of that round.
            whose = self.everybody[self.seated[0] if self.parties.shuffled else frame.to]
            return self._is_answered(board, whose, message.round)
        return False

    def _is_idle(self, standing: Standing, frame: Parcel) -> bool:
        step = self.move(standing, frame.heard)
        return step.to is standing and not step.sent

    def _is_answered(self, board: Standing, node: str, number: int) -> bool:
        """Whether everything that a node has to say in a round is on record, or the round is closed."""
        held = set[int]()
        for each in board.records:
            message = self.parcels[each].message
            if isinstance(message, wire.Close) and message.round >= number:
                return True
            if isinstance(message, wire.Replies) and (message.node, message.round) == (node, number):
                held.add(message.chunk)
                if len(held) == message.chunks:
                    return True
        return False

    def _start(self, who: int, disk: bytes, life: int) -> Process:
        between = ShufflerProcess if self.parties.shuffled else RelayProcess
        kind = {BOARD: BoardProcess, ANALYST: AnalystProcess, self.middle: between}.get(who, UserProcess)
        return kind(self.parties, self.everybody[who], self._new_folder(), disk, life)

    def _rebuild(self, standing: Standing) -> Process:
        self.rebuilt += 1
        process = self._start(standing.who, standing.born, standing.life)
        for heard in standing.heard:
            process.hear(heard)
        return process

    def _new_folder(self) -> Path:
        self._folders += 1
        return self._folder / str(self._folders)

    def _step(
        self, process: Process, who: int, born: bytes, heard: tuple[Heard, ...], records: tuple[int, ...]
    ) -> Step:
        parcels = [self.parcel(each.to, each.frame) for each in process.sent]
        records = (*records, *(each.number for each in parcels if each.to == ANALYST))
        standing = self._stand(process, who, born, heard, records)
        cuts = dict[tuple[Any, ...], Crash]()
        disk = standing.disk
        for cut in process.cuts():
            sent, words = self._left(parcels[: cut.sent])
            how = self._how(cut, process, len(sent))
            cuts.setdefault((disk[: cut.size], sent, words), Crash(disk[: cut.size], sent, words, how))
        sent, words = self._left(parcels)
        cuts.pop((disk, sent, words), None)
        if standing.number in self._alive or process.ended or (standing.born, standing.heard) != (born, heard):
            # It came here on another way, so its clock may stand elsewhere than that of one that is made again.
            process.close()
        else:
            self._alive[standing.number] = process
            if len(self._alive) > MOST_ALIVE:
                self._alive.pop(next(iter(self._alive))).close()
        return Step(standing, sent, words, tuple(cuts.values()))

    def _left(self, parcels: Iterable[Parcel]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What is on its way, and the words among it: the analyst hears the record, and need not ask for it."""
        sent = [each for each in parcels if each.to != ANALYST and not isinstance(each.message, wire.Resume)]
        return tuple(each.number for each in sent), tuple(each.word for each in sent if each.word is not None)

    def _how(self, cut: Cut, process: Process, sent: int) -> str:
        written = (
            "" if cut.size == process.began else " in the middle of an entry" if cut.torn else " with its disk written"
        )
        return f"{written or ' before anything was written'}, {sent} frames sent"

    def _stand(
        self, process: Process, who: int, born: bytes, heard: tuple[Heard, ...], records: tuple[int, ...]
    ) -> Standing:
        exact, canonical = process.digests()
        disk = process.disk
        key = (who, process.life, hashlib.sha256(disk).digest(), exact, records)
        number = self._standing.get(key)
        if number is not None:
            return self.standings[number]
        known: dict[str, Any] = {}
        if isinstance(process, BoardProcess):
            seats: dict[str, Seat] = process.node.role.seats
            known["lives"] = tuple(seats[name].pid if name in seats else 0 for name in self.parties.seated)
            known["over"] = process.node.role.over
            known["records"] = records
            heavy = [each for each in records if not isinstance(self.parcels[each].message, ASIDES)]
            canonical += (
                bytes(process.node.writer is None)
                + repr(sorted(self.parcels[each].canonical for each in heavy)).encode()
            )
        elif isinstance(process, AnalystProcess):
            known["expected"] = process.node.expected
        standing = Standing(
            number=len(self.standings),
            who=who,
            life=process.life,
            canonical=self._canonical.setdefault((who, canonical), len(self._canonical)),
            ended=process.ended,
            disk=disk,
            born=born,
            heard=heard,
            **known,
        )
        self._standing[key] = standing.number
        self.standings.append(standing)
        return standing

    def _read(self, process: Process, disk: bytes) -> tuple[int, ...]:
        """The numbers of the records that were on disk when the board started."""
        if not disk:
            return ()
        folder = self._new_folder()
        folder.mkdir()
        (folder / FILE).write_bytes(disk)
        sealed = (envelope(each.sequence, each.sender, each.frame) for each in TranscriptReader(folder / FILE))
        return tuple(self.parcel(ANALYST_NAME, each).number for each in sealed)

    def parcel(self, to: str, frame: bytes, *, is_lie: bool = False) -> Parcel:
        """A frame on its way. What somebody hears is in an envelope, what the board hears is not."""
        who = self.everybody.index(to)
        number = self._parcel.get((who, frame))
        if number is not None:
            return self.parcels[number]
        # Who stands in the middle hears both.
        is_bare = who == BOARD or (who == self.middle and not is_sealed(frame))
        inside = frame if is_bare else open_envelope(frame)[2]
        message = decode(inside)
        life, meaning = None, (who, inside)
        if isinstance(message, wire.Ready):
            life = (self.everybody.index(message.node), message.pid)
            meaning = (who, encode(message.__class__(**{**vars(message), "pid": 0})))
        elif isinstance(message, wire.Receipt):
            meaning = (who, f"receipt {message.round}".encode())
        elif isinstance(message, wire.Close):
            meaning = (who, encode(message.__class__(**{**vars(message), "size": 0, "root": b""})))
        round = getattr(message, "round", 0)
        owner = getattr(message, "node", "")
        whose = f" of {owner}" if owner and (is_bare or who == ANALYST) else ""
        label = f"{message.kind}{f' {round}' if round else ''}{whose}"
        parcel = Parcel(
            number=len(self.parcels),
            to=who,
            other=BOARD if who != BOARD else self.everybody.index(owner) if owner in self.everybody else ANALYST,
            frame=frame,
            canonical=self._canonical.setdefault(("frame", meaning), len(self._canonical)),
            label=label,
            message=message,
            life=life,
            word=self.word(message) if is_bare or who == ANALYST else None,
            is_lie=is_lie,
            heard=Hear(frame, late=isinstance(message, wire.Reminder)),
        )
        if is_bare and parcel.word is not None:
            self.spoken.setdefault(parcel.word, parcel.number)
        self._parcel[who, frame] = parcel.number
        self.parcels.append(parcel)
        return parcel

    def word(self, message: wire.Message) -> int | None:
        """The number of what a message says where only one thing may be said; None for anything else."""
        word = word_of(message)
        if word is not None and word not in self._word:
            self._word[word] = len(self.words)
            self.words.append(word)
        return None if word is None else self._word[word]
