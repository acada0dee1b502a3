"""A transcript as a conversation: its summary, and its messages, read as often as needed.

Replies come with the question they answer, frame by frame (`answers`) or joined into larger parts (`joined`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import ParleyError, RemoteProtocolError
from parley.emulator.protocol import Broadcast, Builder, Protocol, check_arrays
from parley.emulator.randomizer import Columns
from parley.emulator.record.records import Record
from parley.emulator.record.shards import read_run
from parley.emulator.record.summary import Summary
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.round import Round, Tally
from parley.emulator.wire.messages import Announce, Message, Replies, Users

# A short record is read many times over and kept, and of a long one the beginning: its users take eight bytes each.
KEPT_BYTES = 2**20
# Users that are worth a call of their own: frames with fewer wait for others of their round.
PART = 4096
# A row of likelihoods, and the vectors a round computes for all k inputs, must fit memory whatever a setup says.
MOST_INPUTS = 2**13
# How often progress hears of one reading: a long record has more messages than anybody can watch.
PROGRESS_STEPS = 200
Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done and how much there is."""


def quiet(what: str, done: int, total: int) -> None:
    """Progress that nobody watches."""


def watched(reader: TranscriptReader, progress: Progress, what: str) -> Iterator[Record]:
    """Every record, while progress hears now and then how many bytes of the file were read."""
    size, due = reader.size, 0
    for record in reader:
        yield record
        if record.offset >= due:
            progress(what, record.offset, size)
            due = record.offset + size // PROGRESS_STEPS
    progress(what, size, size)


class Conversation(Summary):
    """What one reading finds, and the way to read again; `progress` hears how far a reading for some purpose is."""

    def __init__(self, reader: TranscriptReader, build: Builder, progress: Progress = quiet) -> None:
        super().__init__(build)
        self.reader, self.progress = reader, progress
        self.tallies: dict[int, Tally] | None = None
        """What an analyst heard in each round, once one has gone through the record."""

    @property
    def format(self) -> int:
        return self.reader.version

    @property
    def announces(self) -> list[Announce]:
        return [each.announce for each in self.rounds]

    @property
    def questions(self) -> dict[int, Announce]:
        """The broadcast of each round, as the record first has it."""
        return {each.round: each for each in reversed(self.announces)}

    def messages(self, what: str = "") -> Iterator[tuple[Record, Message]]:
        """Every record with its message; with `what`, progress hears how many bytes of the file were read for it."""
        for record in watched(self.reader, self.progress, what) if what else self.reader:
            yield record, record.message

    def replies(self, what: str = "") -> Iterator[tuple[Record, Replies]]:
        for record, message in self.messages(what):
            if isinstance(message, Replies):
                yield record, message

    def refused(self, protocol: Protocol) -> dict[int, str]:
        """Why an honest user would refuse the question of each round; "" where not."""
        return {number: fits(protocol, question) for number, question in self.questions.items()}

    def heard_all(self) -> None:
        """Let go of the protocol if an old record names its broadcasts and replies otherwise than it does now."""
        for each in self.rounds if self.format == 1 else []:
            step = self.step(each.number)
            arrays, columns = (set(), set()) if step is None else (set(step.broadcast), set(step.reply))
            unlike = set(each.announce.broadcast) != arrays or each.columns not in (None, columns)
            if unlike and self.protocol is not None:
                self.unbuilt, self.protocol = f"in format 1 {self.protocol.name} sent other messages than today", None


def listen(source: Path | TranscriptReader, build: Builder, progress: Progress = quiet) -> Conversation:
    """Read a transcript once; TranscriptError where it was altered."""
    reader = source if isinstance(source, TranscriptReader) else read_run(source, keep=KEPT_BYTES)
    conversation = Conversation(reader, build, progress)
    for record in reader:
        conversation.take(record)
    conversation.heard_all()
    return conversation


def fits(protocol: Protocol, announce: Announce) -> str:
    """Why an honest user would refuse this broadcast; empty where it would not."""
    if not 1 <= announce.round <= len(protocol.rounds):
        return f"round {announce.round} of {len(protocol.rounds)}"
    step = protocol.rounds[announce.round - 1]
    try:
        check_arrays(f"broadcast of round {announce.round}", announce.broadcast, step.broadcast)
        step.check_broadcast(announce.broadcast)
    except ParleyError as error:
        return str(error)
    return ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """Replies of different users in one round: row i is that of users[i], sent by nodes[i] in record records[i].

    The columns include public ones, which no message carries.
    """

    round: int
    step: Round
    public: Broadcast
    users: Users
    columns: Columns
    records: NDArray[np.int64]
    nodes: NDArray[np.str_]

    @classmethod
    def of(cls, replies: Replies, step: Round, public: Broadcast, record: int = 0) -> "Answers":
        return cls(
            round=replies.round,
            step=step,
            public=public,
            users=replies.users,
            columns=step.complete(public, replies.users, replies.columns),
            # Views of one number and one name: a frame may hold many users.
            records=np.broadcast_to(np.int64(record), len(replies.users)),
            nodes=np.broadcast_to(np.array(replies.node), len(replies.users)),
        )

    def take(self, rows: slice | NDArray[np.intp] | NDArray[np.bool_]) -> "Answers":
        some = {name: column[rows] for name, column in self.columns.items()}
        return replace(self, users=self.users[rows], columns=some, records=self.records[rows], nodes=self.nodes[rows])

    @staticmethod
    def join(parts: Sequence["Answers"]) -> "Answers":
        """All rows of parts that answer the same question."""
        first = parts[0]
        if len(parts) == 1:
            return first
        columns = {name: np.concatenate([part.columns[name] for part in parts]) for name in first.columns}
        names = ("users", "records", "nodes")
        whole: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        return replace(first, columns=columns, **whole)


def malformed(protocol: Protocol, replies: Replies, refused: Mapping[int, str]) -> str:
    """Why a frame has no likelihood: nobody would answer its broadcast, or its arrays are not as declared."""
    wrong = refused.get(replies.round, "a reply to a round that was not announced")
    if wrong:
        return wrong
    try:
        check_arrays("the reply", replies.columns, protocol.rounds[replies.round - 1].reply, len(replies.users))
    except RemoteProtocolError as error:
        return str(error)
    return ""


def answers(
    conversation: Conversation, protocol: Protocol, only: Mapping[int, Users] | None = None
) -> Iterator[Answers]:
    """Every frame of replies that has a likelihood, with the round and broadcast it answers.

    `only`: of these users of each round, in increasing order, and of nobody else.
    """
    questions, refused = conversation.questions, conversation.refused(protocol)
    for record, replies in conversation.replies():
        if malformed(protocol, replies, refused) == "":
            step, public = protocol.rounds[replies.round - 1], questions[replies.round].broadcast
            some = replies if only is None else _part(replies, only[replies.round])
            yield Answers.of(some, step, public, record.sequence)


def _part(replies: Replies, only: Users) -> Replies:
    """The replies of these users in a frame."""
    if not len(replies.users):
        return replies
    low, high = np.searchsorted(only, [replies.users[0], replies.users[-1] + 1])
    wanted = only[low:high]
    rows = np.searchsorted(replies.users, wanted)
    rows = rows[replies.users[rows] == wanted]
    columns = {name: column[rows] for name, column in replies.columns.items()}
    return replace(replies, users=replies.users[rows], columns=columns)


def joined(
    conversation: Conversation, protocol: Protocol, only: Mapping[int, Users] | None = None
) -> Iterator[Answers]:
    """The same in parts of many users each, in the order of the record. Nobody is in a part twice."""
    waiting: list[Answers] = []
    users: set[int] = set()
    for fresh in answers(conversation, protocol, only):
        speakers = set(fresh.users.tolist()) if len(fresh.users) < PART else set()
        if waiting and (not speakers or waiting[0].round != fresh.round or not users.isdisjoint(speakers)):
            yield Answers.join(waiting)
            waiting, users = [], set()
        waiting.append(fresh)
        users |= speakers
        if not speakers or len(users) >= PART:
            yield Answers.join(waiting)
            waiting, users = [], set()
    if waiting:
        yield Answers.join(waiting)


def tallies(conversation: Conversation, protocol: Protocol) -> dict[int, Tally]:
    """What the analyst keeps of each round: the sums over the replies that count."""
    if conversation.tallies is not None:
        return {number: tally for number, tally in conversation.tallies.items() if tally.replies}
    found: dict[int, Tally] = {}
    for part in joined(conversation, protocol):
        good = part.take(part.step.check(part.public, part.columns) & part.step.participates(part.users))
        tally = part.step.tally(part.public, good.columns)
        found[part.round] = found[part.round] + tally if part.round in found else tally
    return found
