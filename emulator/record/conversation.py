"""A transcript as a conversation: its summary, and its messages, read as often as needed."""

from collections.abc import Callable, Iterator
from pathlib import Path

from parley.emulator.errors import ParleyError
from parley.emulator.protocol import Broadcast, Protocol, check_arrays
from parley.emulator.record.records import Record
from parley.emulator.record.summary import Summary
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.roles.analyst import Builder
from parley.emulator.wire.messages import Announce, Message, Replies

# A short record is read many times over and kept; a long one is read from its file each time, in little memory.
KEPT_BYTES = 2**22
Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done and how much there is."""


def quiet(what: str, done: int, total: int) -> None:
    """Progress that nobody watches."""


class Conversation(Summary):
    """What one reading finds, and the way to read again."""

    def __init__(self, reader: TranscriptReader, build: Builder) -> None:
        super().__init__(build)
        self.reader = reader

    @property
    def format(self) -> int:
        return self.reader.version

    @property
    def announces(self) -> list[Announce]:
        return [each.announce for each in self.rounds]

    def messages(self, what: str = "", progress: Progress = quiet) -> Iterator[tuple[Record, Message]]:
        """Every record with its message; `progress` hears how many bytes of the file were read for `what`."""
        size = self.reader.path.stat().st_size
        for record in self.reader:
            yield record, record.message
            progress(what, record.offset, size)

    def replies(self, what: str = "", progress: Progress = quiet) -> Iterator[tuple[Record, Replies]]:
        for record, message in self.messages(what, progress):
            if isinstance(message, Replies):
                yield record, message

    def broadcasts(self) -> dict[int, Broadcast]:
        """The broadcast of each round, as the record first has it."""
        return {each.round: each.broadcast for each in reversed(self.announces)}

    def refused(self, protocol: Protocol) -> dict[int, str]:
        """Why an honest user would refuse the broadcast of each round, as the record first has it; "" where not."""
        return {each.round: fits(protocol, each) for each in reversed(self.announces)}

    def heard_all(self) -> None:
        """Let go of the protocol if an old record names its broadcasts and replies otherwise than it does now."""
        for each in self.rounds if self.format == 1 else []:
            step = self.step(each.number)
            arrays, columns = (set(), set()) if step is None else (set(step.broadcast), set(step.reply))
            unlike = set(each.announce.broadcast) != arrays or each.columns not in (None, columns)
            if unlike and self.protocol is not None:
                self.unbuilt, self.protocol = f"in format 1 {self.protocol.name} sent other messages than today", None


def listen(source: Path | TranscriptReader, build: Builder) -> Conversation:
    """Read a transcript once; TranscriptError where it was altered."""
    reader = source if isinstance(source, TranscriptReader) else TranscriptReader(source, keep=KEPT_BYTES)
    conversation = Conversation(reader, build)
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
