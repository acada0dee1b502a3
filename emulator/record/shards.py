"""The record of a run with several boards, read as if one board had written it.

The head board's record leads. Where it says that a shard took its seat, the shard's user nodes come with their readies;
where it holds a shard's tally, the shard's replies of that round come in its place. What is left out is what only ties
the parts together: tallies, ties, and what a shard's board says of its own rounds. `everything` leaves out nothing.

A shard that was declared missing in a round has replies that nobody counted; they are on its own record alone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from parley.emulator.errors import BadInput, TranscriptError
from parley.emulator.record.records import Record
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.wire import messages as wire

FOLDER = "shards"
# What a shard's users and their conditions add to the conversation.
KEPT = (wire.Ready, wire.Replies, wire.Refusal, wire.Event, wire.Reminder)


def read_run(path: Path, *, keep: int = 0, everything: bool = False) -> TranscriptReader:
    """The record of a run: that of its one board, or of all its boards as one."""
    return (
        ShardedReader(path, keep=keep, everything=everything) if is_sharded(path) else TranscriptReader(path, keep=keep)
    )


def is_sharded(path: Path) -> bool:
    """Whether the records of shards lie beside this one."""
    return path.with_name(FOLDER).is_dir()


def shard_path(path: Path, shard: str) -> Path:
    """Where the record of a shard lies, beside the head board's."""
    return path.with_name(FOLDER) / shard / path.name


class ShardedReader(TranscriptReader):
    """Reads all boards of a run as one record; its numbers and offsets count over all of them."""

    def __init__(self, path: str | Path, *, keep: int = 0, everything: bool = False) -> None:
        super().__init__(path, keep=keep)
        self._everything = everything
        self._shards: dict[str, TranscriptReader] = {}
        self._reached: _Place | None = None

    @cached_property
    def head(self) -> TranscriptReader:
        """The head board's own record."""
        return TranscriptReader(self.path, keep=self._keep)

    def shard(self, name: str) -> TranscriptReader:
        """The record of one shard; TranscriptError where there is none."""
        if name not in self._shards:
            path = shard_path(self.path, name)
            try:
                reader = TranscriptReader(path, keep=self._keep)
            except BadInput as error:
                raise TranscriptError(f"the record of {name} cannot be read: {error}") from error
            if reader.run != self.run:
                raise TranscriptError(f"the record of {name} is of the run {reader.run}, not of {self.run}")
            self._shards[name] = reader
        return self._shards[name]

    @property
    def shards(self) -> Mapping[str, TranscriptReader]:
        """The records of those shards that have been read so far."""
        return self._shards

    @property
    def size(self) -> int:
        """Bytes of all records."""
        return sum(each.path.stat().st_size for each in (self, *self._shards.values()))

    @property
    def unfinished(self) -> TranscriptReader | None:
        """A record without an end: the head board's or a shard's; None where all are closed."""
        for each in (self, *self._shards.values()):
            if each.closing is None:
                TranscriptReader.verify(each)
            if each.closing is None:
                return each
        return None

    def since(self, sequence: int) -> Iterator[Record]:
        """From this number on. Whoever has read to the end goes on from there."""
        place = _Place()
        if self._reached is not None and self._reached.number == sequence > 0:
            place, self._reached = self._reached, None
        for record in super().since(place.head):
            place.head = record.sequence + 1
            for each in self._in_place_of(record, place.parts):
                place.offset += len(each.frame)
                place.number += 1
                if place.number > sequence:
                    yield _numbered(each, place.number - 1, place.offset)
        self._reached = place

    def _in_place_of(self, record: Record, parts: dict[str, Iterator[Record]]) -> Iterator[Record]:
        """What stands in the whole record where the head board's has this."""
        message = record.message
        if self._everything or not isinstance(message, wire.Shard | wire.Tally):
            yield record
        if isinstance(message, wire.Shard) and message.node not in parts:
            parts[message.node] = iter(self.shard(message.node))
            yield from self._part(parts[message.node], 0, wire.Roster)
        elif isinstance(message, wire.Tally):
            if message.node not in parts:
                raise TranscriptError(f"{self.path}: a tally of {message.node}, which has no seat")
            yield from self._part(parts[message.node], message.round, wire.Close)
        elif isinstance(message, wire.Result | wire.Abort):
            for rest in parts.values():
                yield from self._part(rest, -1, wire.Tie)

    def _part(self, rest: Iterator[Record], number: int, until: type[wire.Message]) -> Iterator[Record]:
        """A shard's part of a round. Rounds before it are those in which the shard was declared missing."""
        opened = number if number == 0 else -1
        for record in rest:
            message = record.message
            if isinstance(message, wire.Announce):
                opened = message.round
            if self._everything or (isinstance(message, KEPT) and self._counts(message, opened, number)):
                yield record
            if isinstance(message, until) and getattr(message, "round", 0) == number:
                return

    @staticmethod
    def _counts(message: wire.Message, opened: int, number: int) -> bool:
        return opened == number or not isinstance(message, wire.Replies)


@dataclass
class _Place:
    """How far a reading is: the next record of the head board, the next of the whole, and each shard's rest."""

    head: int = 0
    number: int = 0
    offset: int = 0
    parts: dict[str, Iterator[Record]] = field(default_factory=dict)


def _numbered(record: Record, number: int, offset: int) -> Record:
    """The same record in the whole. Its message is taken along, so that it is decoded once."""
    moved = replace(record, sequence=number, offset=offset)
    moved.__dict__["message"] = record.message
    return moved
