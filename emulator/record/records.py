"""What a transcript is made of: a head, then records of a payload each, chained by their hashes (docs/transcript.md).

Framing and chain are the same in every version of the format. What a payload holds may change: one function a version
turns payloads into today's records, so that old transcripts stay readable.

From version 2 on the messages are the leaves of a Merkle tree as well, whose head the board signs at the close of each
round and at the end. A leaf holds the digest of the frame, so that a node can prove a frame it no longer keeps.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, get_args

from parley.emulator.errors import LocalProtocolError, RemoteProtocolError, TranscriptError
from parley.emulator.record.merkle import leaf_of
from parley.emulator.wire.batches import SMALLEST_FRAME, Batch, is_batch, read_batch
from parley.emulator.wire.canonical import plain
from parley.emulator.wire.codec import LARGEST_FRAME, decode, pack, pack_plain, unpack
from parley.emulator.wire.messages import LONGEST_TEXT, NAME, Message, Outcome
from parley.emulator.wire.shapes import LARGEST, Shapes
from parley.emulator.wire.signatures import SIGNATURE_BYTES, Signer, verify

MAGIC = b"PARLEY\r\n"
VERSION = 2
HASH_BYTES = 32
# A header may say where a run took place: between processes unless it says so, or in memory.
PROCESSES, MEMORY = "processes", "memory"
# Every run in memory begins at this second since 1970, so that its record has the same times whenever it is made.
EPOCH_SECONDS = 1_000_000_000
# No run in memory lasts so long, and no clock of a real run has been so wrong.
YEAR_NS = 366 * 86_400 * 10**9
# Around a frame: the head of the array, sequence, time, sender and the head of the frame itself.
LARGEST_PAYLOAD = LARGEST_FRAME + 128
_shapes = Shapes(recorded=True)


@dataclass(frozen=True, kw_only=True)
class Record:
    """One message on record: its number, when and from whom it came, its exact bytes, where it lies in the file."""

    sequence: int
    time_ns: int
    sender: str
    frame: bytes
    offset: int
    format: int = VERSION

    @property
    def leaf(self) -> bytes:
        return leaf_of(self.sequence, self.time_ns, self.sender, hashlib.sha256(self.frame).digest())

    @property
    def time(self) -> float:
        """Seconds since 1970."""
        return self.time_ns / 1e9

    @cached_property
    def message(self) -> Message:
        """The frame decoded, or TranscriptError: the board records what it received, and that may be anything."""
        try:
            return decode(self.frame, format=1) if self.format == 1 else _shapes.decode(self.frame)
        except RemoteProtocolError as error:
            raise TranscriptError(f"record {self.sequence} at byte {self.offset}: {error}") from error


@dataclass(frozen=True, kw_only=True)
class Closing:
    """How the run ended, how many messages were on record then, and the head of the tree over them.

    Signature and root are empty in format 1, where the board has no signing key, and where somebody else than the
    board ended the record.
    """

    outcome: Outcome
    reason: str
    records: int
    root: bytes = b""
    signature: bytes = b""

    def said_by(self, public: bytes, nonce: bytes) -> bool:
        """Whether the holder of this key closed the record with exactly this."""
        return verify(public, self.signature, "end", nonce, self._body)

    def signed(self, signer: Signer, nonce: bytes) -> "Closing":
        return replace(self, signature=signer.sign("end", nonce, self._body))

    @property
    def _body(self) -> bytes:
        return pack([self.outcome, self.reason, self.records, self.root])


class Header(NamedTuple):
    """What the first record says about the run. `fields` holds at least its name, `run`."""

    fields: Mapping[str, Any]


def medium(header: Mapping[str, Any]) -> str:
    """Where the run of a header took place. Nobody signs that, but the times of the records tell (`medium_at`)."""
    return MEMORY if header.get("medium") == MEMORY else PROCESSES


def medium_at(time_ns: int) -> str:
    """Where a record with this time was made."""
    return MEMORY if 0 <= time_ns - EPOCH_SECONDS * 10**9 < YEAR_NS else PROCESSES


class Position(NamedTuple):
    """Between two records: where the next begins, its number (-1 for the header), the hash of all before it."""

    offset: int
    sequence: int
    chain: bytes


Entry = Header | Record | Batch | Closing


def head(version: int) -> bytes:
    return MAGIC + version.to_bytes(2, "little")


def start(version: int) -> Position:
    return Position(len(head(version)), -1, hashlib.sha256(head(version)).digest())


def link(chain: bytes, length: bytes, payload: bytes) -> bytes:
    """The hash of a record and of all before it."""
    digest = hashlib.sha256(chain + length)
    digest.update(payload)
    return digest.digest()


def header_payload(run: str, fields: Mapping[str, Any]) -> bytes:
    """The first record: the name of the run and whatever else its reader should know."""
    payload = pack(["header", {**fields, "run": run}])
    try:
        _parse(VERSION, payload, start(VERSION))
    except RemoteProtocolError as error:
        raise LocalProtocolError(f"the header of run {run[:80]!r} cannot be written: {error}") from error
    return payload


def message_payload(sequence: int, time_ns: int, sender: str, frame: bytes) -> bytes:
    if not NAME.fullmatch(sender) or not SMALLEST_FRAME <= len(frame) <= LARGEST_FRAME or not 0 <= time_ns < 2**63:
        raise LocalProtocolError(f"no record of {len(frame)} bytes from {sender[:80]!r} at {time_ns} ns")
    return pack_plain((sequence, time_ns, sender, frame))


def batch_payload(batch: Batch) -> bytes:
    """Two messages or more that are not all the same."""
    named, (number, size) = all(map(NAME.fullmatch, set(batch.senders))), batch.matrix.shape
    fits = number > 1 and SMALLEST_FRAME <= size <= LARGEST and number * size <= LARGEST_FRAME
    if not named or not fits or not 0 <= batch.time_ns < 2**63 or (batch.matrix == batch.matrix[0]).all():
        raise LocalProtocolError(f"no record of {number} messages of {size} bytes at {batch.time_ns} ns")
    return batch.payload


def leaves_of(batch: Batch) -> list[bytes]:
    """The leaf of each message of a batch."""
    numbered = zip(range(batch.sequence, batch.sequence + len(batch)), batch.senders, batch.frames, strict=True)
    return [
        leaf_of(number, batch.time_ns, sender, hashlib.sha256(frame).digest()) for number, sender, frame in numbered
    ]


def records_of(batch: Batch, offset: int) -> list[Record]:
    """The messages of a batch that lies at this byte."""
    numbers = range(batch.sequence, batch.sequence + len(batch))
    return [
        Record(sequence=number, time_ns=batch.time_ns, sender=sender, frame=frame, offset=offset)
        for number, sender, frame in zip(numbers, batch.senders, batch.frames, strict=True)
    ]


def closing(outcome: Outcome, reason: str, records: int, root: bytes) -> Closing:
    """The last record. A reason is cut to what fits: nothing may keep a run from being closed."""
    if outcome not in get_args(Outcome):
        raise LocalProtocolError(f"a run cannot end as {outcome!r}")
    text = reason[:LONGEST_TEXT].encode("utf-8", "replace").decode("utf-8")
    return Closing(outcome=outcome, reason=text, records=records, root=root)


def closing_payload(closing: Closing) -> bytes:
    return pack(["end", {name: getattr(closing, name) for name in CLOSING_FIELDS[VERSION]}])


CLOSING_FIELDS = {1: ("outcome", "reason", "records"), 2: ("outcome", "reason", "records", "root", "signature")}


def _parse(version: int, payload: bytes, position: Position) -> Entry:
    """["header", map], [sequence, time, sender, frame], a batch or ["end", map]. RemoteProtocolError otherwise."""
    value = unpack(payload)
    types = tuple(map(type, value)) if isinstance(value, tuple) else ()
    if types == (int, int, str, bytes):
        sequence, time_ns, sender, frame = value
        if sequence != position.sequence:
            raise RemoteProtocolError(f"its number is {sequence}")
        if not 0 <= time_ns < 2**63 or not NAME.fullmatch(sender) or not SMALLEST_FRAME <= len(frame) <= LARGEST_FRAME:
            raise RemoteProtocolError(f"a message of {len(frame)} bytes from {sender[:80]!r} at {time_ns} ns")
        place = {"sequence": sequence, "offset": position.offset, "format": version}
        return Record(time_ns=time_ns, sender=sender, frame=frame, **place)
    if version > 1 and is_batch(value):
        batch = read_batch(value)
        if batch.sequence != position.sequence:
            raise RemoteProtocolError(f"its number is {batch.sequence}")
        return batch
    if types != (str, dict) or value[0] not in ("header", "end"):
        raise RemoteProtocolError("it is neither a header nor a message nor a closing record")
    kind, fields = value
    if kind == "header":
        run = fields.get("run")
        if not isinstance(run, str) or not NAME.fullmatch(run):
            raise RemoteProtocolError("a header that does not name its run")
        return Header(plain("the header", fields))
    if set(fields) != set(CLOSING_FIELDS[version]):
        raise RemoteProtocolError(f"a closing record that does not hold {', '.join(CLOSING_FIELDS[version])}")
    if type(fields["outcome"]) is not str or fields["outcome"] not in get_args(Outcome):
        raise RemoteProtocolError("a closing record with an unknown outcome")
    if type(fields["reason"]) is not str or len(fields["reason"]) > LONGEST_TEXT:
        raise RemoteProtocolError("a closing record whose reason is not a short text")
    if type(fields["records"]) is not int:
        raise RemoteProtocolError("a closing record that does not count the records")
    for name, size in (("root", HASH_BYTES), ("signature", SIGNATURE_BYTES)):
        if type(fields.get(name, b"")) is not bytes or len(fields.get(name, b"")) not in (0, size):
            raise RemoteProtocolError("a closing record with an invalid root or signature")
    return Closing(**fields)


VERSIONS: Mapping[int, Callable[[bytes, Position], Entry]] = {each: partial(_parse, each) for each in CLOSING_FIELDS}
"""How the payloads of each version are read. Nobody signed messages of format 1, and its closing record has no head."""
