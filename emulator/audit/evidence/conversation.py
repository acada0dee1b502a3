"""A transcript as a conversation: who sat where, what was set up, asked and answered. Read as often as needed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from parley.emulator.arithmetic import one_thread
from parley.emulator.errors import ParleyError
from parley.emulator.protocol import Broadcast, Protocol, check_arrays
from parley.emulator.record.records import Record
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.roles.analyst import Builder
from parley.emulator.wire.messages import Abort, Announce, Message, Ready, Replies, Result, Setup

# A short record is read many times over and kept; a long one is read from its file each time, in little memory.
KEPT_BYTES = 2**22


@dataclass(frozen=True, kw_only=True, eq=False)
class Conversation:
    """What one reading finds. `problem` says why the protocol cannot be built, where it cannot."""

    reader: TranscriptReader
    setup: Setup | None
    protocol: Protocol | None
    problem: str
    seats: tuple[Ready, ...]
    announces: tuple[Announce, ...]
    ending: Result | Abort | None

    @property
    def format(self) -> int:
        """The version of the record."""
        return self.reader.version

    def messages(self) -> Iterator[tuple[Record, Message]]:
        """Every record with its message."""
        for record in self.reader:
            yield record, record.message

    def replies(self) -> Iterator[tuple[Record, Replies]]:
        """The replies in the order of the record."""
        for record, message in self.messages():
            if isinstance(message, Replies):
                yield record, message

    def broadcasts(self) -> dict[int, Broadcast]:
        """The broadcast of each round, as the record first has it."""
        found: dict[int, Broadcast] = {}
        for announce in self.announces:
            found.setdefault(announce.round, announce.broadcast)
        return found


def listen(source: Path | TranscriptReader, build: Builder) -> Conversation:
    """Read a transcript once; TranscriptError where it was altered."""
    reader = source if isinstance(source, TranscriptReader) else TranscriptReader(source, keep=KEPT_BYTES)
    setup: Setup | None = None
    seats: list[Ready] = []
    announces: list[Announce] = []
    ending: Result | Abort | None = None
    columns: dict[int, set[str]] = {}
    for record in reader:
        message = record.message
        if isinstance(message, Setup):
            setup = setup or message
        elif isinstance(message, Announce):
            announces.append(message)
        elif isinstance(message, Ready):
            seats.append(message)
        elif isinstance(message, Replies):
            columns.setdefault(message.round, set(message.columns))
        elif isinstance(message, Result | Abort):
            ending = message
    protocol, problem = rebuild(setup, build)
    if protocol is not None and reader.version == 1 and not speaks_today(protocol, announces, columns):
        problem, protocol = f"in format 1 {protocol.name} sent other messages than today", None
    return Conversation(
        reader=reader,
        setup=setup,
        protocol=protocol,
        problem=problem,
        seats=tuple(seats),
        announces=tuple(announces),
        ending=ending,
    )


def rebuild(setup: Setup | None, build: Builder) -> tuple[Protocol | None, str]:
    """The protocol a setup describes, or why there is none."""
    if setup is None:
        return None, "the record holds no setup"
    try:
        # Factors that are computed here must come out as they did for the parties of the run.
        with one_thread():
            return build(setup.protocol, setup.parameters), ""
    except ParleyError as error:
        return None, f"the protocol of the setup cannot be built: {error}"


def speaks_today(protocol: Protocol, announces: list[Announce], columns: Mapping[int, set[str]]) -> bool:
    """Whether an old record names its broadcasts and replies as the protocol does now."""
    words = {number: (set(step.broadcast), set(step.reply)) for number, step in enumerate(protocol.rounds, 1)}
    asked = all(set(each.broadcast) == words.get(each.round, (set(), set()))[0] for each in announces)
    return asked and all(found == words.get(number, (set(), set()))[1] for number, found in columns.items())


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
