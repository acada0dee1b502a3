"""The public record: a file of chained records that only ever grows. docs/transcript.md describes its bytes.

Each record is one unbuffered write, so a killed process loses nothing it had recorded. Each carries the hash of
everything before it, so a changed byte is found at the record it is in. Only a closing record says that a run ended:
the end of the file says nothing.
"""

import fcntl
import hashlib
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, BinaryIO, Self

from parley.emulator.errors import BadInput, LocalProtocolError, RemoteProtocolError, TranscriptError
from parley.emulator.record import records
from parley.emulator.record.merkle import Tree, leaf_of
from parley.emulator.wire.batches import Batch
from parley.emulator.wire.canonical import CutOff, extent
from parley.emulator.wire.messages import NAME, Outcome
from parley.emulator.wire.shapes import Matrix, Span
from parley.emulator.wire.signatures import Signer

_MARK_EVERY = 2**20
_BUFFER = 2**18


class AlteredTranscript(TranscriptError):
    """A record that is not what was written, with its number (-1: the header) and the byte it starts at."""

    def __init__(self, path: Path, position: records.Position, what: str) -> None:
        where = "the header record" if position.sequence < 0 else f"record {position.sequence}"
        super().__init__(f"{path}: {where} at byte {position.offset}: {what}")
        self.sequence = position.sequence
        self.offset = position.offset


class TranscriptWriter:
    """Appends records. Holds a lock on its file, so that two boards never write to one transcript."""

    def __init__(self, path: Path, descriptor: int, position: records.Position, tree: Tree | None = None) -> None:
        self.path = path
        self.tree = tree or Tree()
        """Over the messages on record."""
        self._descriptor = descriptor
        self._position = position
        self.pwrite: Callable[[int, bytes | memoryview, int], int] = os.pwrite
        # macOS has no fdatasync.
        self.fdatasync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)
        """The calls that write; a virtual disk puts its own in their place."""

    @classmethod
    def create(cls, path: str | Path, run: str, **header: Any) -> Self:
        """A new transcript with its header record; refuses a file that exists."""
        path = Path(path)
        if not NAME.fullmatch(run):
            raise BadInput(f"{run[:80]!r} cannot name a run: use letters, digits and . _ : -, at most 64 of them")
        payload = records.header_payload(run, header)
        # The header is written under another name: whoever sees the transcript sees a whole header.
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        writer = cls(path, _open_locked(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL), records.start(records.VERSION))
        try:
            writer._write(payload, before=records.head(records.VERSION))
            os.link(draft, path)
        except FileExistsError as error:
            writer.abandon()
            raise BadInput(f"{path} already exists; a transcript is never overwritten") from error
        finally:
            draft.unlink()
        return writer

    @classmethod
    def resume(cls, path: str | Path) -> Self:
        """Go on after a crash: verify all of it, cut off a record that was not written to its end."""
        path = Path(path)
        with ExitStack() as stack:
            descriptor = _open_locked(path, os.O_WRONLY)
            stack.callback(os.close, descriptor)
            reader = TranscriptReader(path)
            if reader.version != records.VERSION:
                raise TranscriptError(f"{path} has the older version {reader.version}: it can be read, not continued")
            tree = Tree()
            for record in reader:
                tree.append(record.leaf)
            end = reader.verify()
            if reader.closing is not None:
                raise TranscriptError(f"{path} is closed ({reader.closing.outcome}): its run cannot go on")
            os.ftruncate(descriptor, end.offset)
            stack.pop_all()
        return cls(path, descriptor, end, tree)

    @property
    def sequence(self) -> int:
        """The number the next message will get."""
        return self._position.sequence

    def append(self, sender: str, frame: bytes, time_ns: int) -> int:
        """Record one message; its number on the record. When this returns the operating system has it."""
        sequence = self.sequence
        self._write(records.message_payload(sequence, time_ns, sender, frame))
        self.tree.append(leaf_of(sequence, time_ns, sender, hashlib.sha256(frame).digest()))
        return sequence

    def append_batch(self, name: Span, frames: Matrix, time_ns: int) -> Batch:
        """Record frames of one size in one write, all or none; the batch with the numbers they got.

        `name`: where in a frame the name of its sender is.
        """
        batch = Batch(sequence=self.sequence, time_ns=time_ns, name=name, matrix=frames)
        self._write(records.batch_payload(batch), messages=len(batch))
        self.tree.extend(records.leaves_of(batch))
        return batch

    def close(self, outcome: Outcome, reason: str = "", signer: Signer | None = None, nonce: bytes = b"") -> None:
        """The closing record, signed by the board where it has a key; nothing can be written after it."""
        last = records.closing(outcome, reason, self.sequence, self.tree.root())
        self._write(records.closing_payload(last if signer is None else last.signed(signer, nonce)))
        self.sync()
        self.abandon()

    def sync(self) -> None:
        self.fdatasync(self._opened())

    def abandon(self) -> None:
        """Let go of the file as it is, without a closing record: `resume` goes on from here."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.abandon()

    def _write(self, payload: bytes, before: bytes = b"", *, messages: int = 1) -> None:
        offset, sequence, chain = self._position
        length = len(payload).to_bytes(4, "little")
        chain = records.link(chain, length, payload)
        record = b"".join((before, length, payload, chain))
        begin = offset - len(before)
        descriptor = self._opened()
        # One write; if the disk takes only a part, the rest follows or the part is taken back.
        try:
            written = self.pwrite(descriptor, record, begin)
            while written < len(record):
                written += self.pwrite(descriptor, memoryview(record)[written:], begin + written)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(descriptor, begin)
            raise TranscriptError(f"{self.path} cannot be written: {error.strerror}") from error
        self._position = records.Position(begin + len(record), sequence + messages, chain)

    def _opened(self) -> int:
        if self._descriptor < 0:
            raise LocalProtocolError(f"{self.path} is closed; nothing more can be recorded")
        return self._descriptor


def _open_locked(path: Path, flags: int) -> int:
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o644)
    except FileExistsError as error:
        raise BadInput(f"{path} already exists; a transcript is never overwritten") from error
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise BadInput(f"{path} is being written by another process") from error
    return descriptor


class TranscriptReader:
    """Reads a transcript as a stream and verifies it on the way, also while it is still being written.

    After an iteration `closing` is the closing record; where there is none yet, `truncated_at` is the byte at which
    the next whole record was missing. Iterate again, or `since` a sequence, to hear what was added.

    The first records, up to `keep` bytes of them, stay in memory with their messages: whoever reads a short record
    again and again has it verified and decoded once.
    """

    def __init__(self, path: str | Path, *, keep: int = 0) -> None:
        self.path = Path(path)
        self._keep = keep
        self._kept: list[records.Record] = []
        self.closing: records.Closing | None = None
        self.truncated_at: int | None = None
        with self._open() as file:
            self.version = self._read_version(file)
            self._parse = records.VERSIONS[self.version]
            step = self._step(file, records.start(self.version))
        if step is None:
            raise TranscriptError(f"{self.path} ends at byte {self.truncated_at}, before its header record does")
        header, position = step
        if not isinstance(header, records.Header):
            raise AlteredTranscript(self.path, records.start(self.version), "it is not a header")
        self.header: Mapping[str, Any] = header.fields
        self._marks = [position]
        self._last = position

    @property
    def run(self) -> str:
        return str(self.header["run"])

    @property
    def size(self) -> int:
        """Bytes of the file as it is now."""
        return self.path.stat().st_size

    @property
    def unfinished(self) -> "TranscriptReader | None":
        """Itself, if it was read to its end and has no closing record."""
        return self if self.closing is None else None

    def __iter__(self) -> Iterator[records.Record]:
        return self.since(0)

    def since(self, sequence: int) -> Iterator[records.Record]:
        """The records from number `sequence` on. What was verified before is not read again."""
        wanted = max(sequence, 0)
        while wanted < len(self._kept):
            yield self._kept[wanted]
            wanted += 1
        # From the last position known at or before the record.
        position = self._last
        if position.sequence > wanted:
            place = bisect_right(self._marks, wanted, key=lambda mark: mark.sequence) - 1
            position = self._marks[max(0, place)]
        for record, _ in self._walk(position):
            if record.sequence >= wanted:
                yield record

    def verify(self) -> records.Position:
        """Read to the end; where the next record would begin."""
        end = self._last
        for _, after in self._walk(end):
            end = after
        return end

    def _walk(self, position: records.Position) -> Iterator[tuple[records.Record, records.Position]]:
        self.truncated_at = None
        with self._open() as file:
            file.seek(position.offset)
            while (step := self._step(file, position)) is not None:
                entry, after = step
                if isinstance(entry, records.Closing):
                    if entry.records != position.sequence:
                        what = f"the closing record counts {entry.records} messages, there are {position.sequence}"
                        raise AlteredTranscript(self.path, position, what)
                    if file.read(1):
                        raise AlteredTranscript(self.path, after, "there are bytes after the closing record")
                    self.closing = entry
                    return
                if isinstance(entry, records.Header):
                    raise AlteredTranscript(self.path, position, "it is a second header")
                found = [entry] if isinstance(entry, records.Record) else records.records_of(entry, position.offset)
                position = after
                if after.offset > self._last.offset:
                    self._last = after
                if after.offset >= self._marks[-1].offset + _MARK_EVERY:
                    self._marks.append(after)
                if entry.sequence == len(self._kept) and after.offset <= self._keep:
                    self._kept += found
                for each in found:
                    yield each, position

    def _step(self, file: BinaryIO, position: records.Position) -> tuple[records.Entry, records.Position] | None:
        """The record at `position` and the position after it; None where the file ends before the record does."""
        offset, sequence, chain = position
        length = file.read(4)
        size = int.from_bytes(length, "little")
        if len(length) == 4 and size > records.LARGEST_PAYLOAD:
            raise AlteredTranscript(self.path, position, f"it claims to be {size} bytes long")
        # Nothing more is read after a short read: the file may have grown in between.
        payload = file.read(size) if len(length) == 4 else b""
        stored = file.read(records.HASH_BYTES) if len(length) == 4 and len(payload) == size else b""
        if len(stored) < records.HASH_BYTES:
            # A record that is merely not whole still has a payload as long as its length field says.
            try:
                inside = extent(payload)
            except CutOff:
                inside = size
            except RemoteProtocolError as error:
                raise AlteredTranscript(self.path, position, str(error)) from error
            if inside != size:
                raise AlteredTranscript(self.path, position, f"it claims to be {size} bytes long and holds {inside}")
            self.truncated_at = offset
            return None
        linked = records.link(chain, length, payload)
        if linked != stored:
            raise AlteredTranscript(self.path, position, "its hash does not match its bytes")
        try:
            entry = self._parse(payload, position)
        except RemoteProtocolError as error:
            raise AlteredTranscript(self.path, position, str(error)) from error
        messages = len(entry) if isinstance(entry, Batch) else 1
        return entry, records.Position(offset + 4 + size + records.HASH_BYTES, sequence + messages, linked)

    def _read_version(self, file: BinaryIO) -> int:
        head = file.read(len(records.MAGIC) + 2)
        if head[: len(records.MAGIC)] != records.MAGIC[: len(head)] or not head:
            raise TranscriptError(f"{self.path} is not a transcript: it does not begin as one")
        if len(head) < len(records.MAGIC) + 2:
            raise TranscriptError(f"{self.path} ends at byte {len(head)}, before its header record does")
        version = int.from_bytes(head[len(records.MAGIC) :], "little")
        if version not in records.VERSIONS:
            readable = ", ".join(map(str, records.VERSIONS))
            raise TranscriptError(f"{self.path} has transcript version {version}; this program reads {readable}")
        return version

    def _open(self) -> BinaryIO:
        try:
            if not self.path.is_file():
                raise BadInput(f"there is no file {self.path}")
            return open(self.path, "rb", buffering=_BUFFER)
        except OSError as error:
            raise BadInput(f"{self.path} cannot be read: {error.strerror}") from error
