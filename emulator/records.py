"""What a transcript is made of: a head, then records of a payload each, chained by their hashes (docs/transcript.md).

Framing and chain are the same in every version of the format. What a payload holds may change: one function a version
turns payloads into today's records, so that old transcripts stay readable.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, cast, get_args

from emulator.codec import LARGEST_FRAME, decode, pack, plain, unpack
from emulator.errors import LocalProtocolError, RemoteProtocolError, TranscriptError
from emulator.messages import LONGEST_TEXT, NAME, Message, Outcome

MAGIC = b"PARLEY\r\n"
VERSION = 1
HASH_BYTES = 32
SMALLEST_FRAME = 5
# Around a frame: the head of the array, sequence, time, sender and the head of the frame itself.
LARGEST_PAYLOAD = LARGEST_FRAME + 128


@dataclass(frozen=True, kw_only=True)
class Record:
    """One message on record: its number, when and from whom it came, its exact bytes, where it lies in the file."""

    sequence: int
    time_ns: int
    sender: str
    frame: bytes
    offset: int

    @property
    def time(self) -> float:
        """Seconds since 1970."""
        return self.time_ns / 1e9

    @cached_property
    def message(self) -> Message:
        """The frame decoded, or TranscriptError: the board records what it received, and that may be anything."""
        try:
            return decode(self.frame)
        except RemoteProtocolError as error:
            raise TranscriptError(f"record {self.sequence} at byte {self.offset}: {error}") from error


@dataclass(frozen=True, kw_only=True)
class Closing:
    """How the run ended, and how many messages were on record then."""

    outcome: Outcome
    reason: str
    records: int


class Header(NamedTuple):
    """What the first record says about the run. `fields` holds at least its name, `run`."""

    fields: Mapping[str, Any]


class Position(NamedTuple):
    """Between two records: where the next begins, its number (-1 for the header), the hash of all before it."""

    offset: int
    sequence: int
    chain: bytes


Entry = Header | Record | Closing


def head(version: int) -> bytes:
    """The first bytes of the file."""
    return MAGIC + version.to_bytes(2, "little")


def start(version: int) -> Position:
    """The position of the header record."""
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
        _parse_version_1(payload, start(VERSION))
    except RemoteProtocolError as error:
        raise LocalProtocolError(f"the header of run {run[:80]!r} cannot be written: {error}") from error
    return payload


def message_payload(sequence: int, time_ns: int, sender: str, frame: bytes) -> bytes:
    """One message, as it was on the wire."""
    if not NAME.fullmatch(sender) or not SMALLEST_FRAME <= len(frame) <= LARGEST_FRAME or not 0 <= time_ns < 2**63:
        raise LocalProtocolError(f"no record of {len(frame)} bytes from {sender[:80]!r} at {time_ns} ns")
    return pack([sequence, time_ns, sender, frame])


def closing_payload(outcome: Outcome, reason: str, records: int) -> bytes:
    """The last record. A reason is cut to what fits: nothing may keep a run from being closed."""
    if outcome not in get_args(Outcome):
        raise LocalProtocolError(f"a run cannot end as {outcome!r}")
    text = reason[:LONGEST_TEXT].encode("utf-8", "replace").decode("utf-8")
    return pack(["end", {"outcome": outcome, "reason": text, "records": records}])


def _parse_version_1(payload: bytes, position: Position) -> Entry:
    """Version 1: ["header", map], [sequence, time, sender, frame] or ["end", map]. RemoteProtocolError otherwise."""
    value = unpack(payload)
    types = tuple(map(type, value)) if isinstance(value, tuple) else ()
    if types == (int, int, str, bytes):
        return _message(position, *value)
    if types == (str, dict) and value[0] == "header":
        return _header(value[1])
    if types == (str, dict) and value[0] == "end":
        return _closing(value[1])
    raise RemoteProtocolError("it is neither a header nor a message nor a closing record")


def _message(position: Position, sequence: int, time_ns: int, sender: str, frame: bytes) -> Record:
    if sequence != position.sequence:
        raise RemoteProtocolError(f"it bears the number {sequence}")
    if not 0 <= time_ns < 2**63 or not NAME.fullmatch(sender) or not SMALLEST_FRAME <= len(frame) <= LARGEST_FRAME:
        raise RemoteProtocolError(f"a message of {len(frame)} bytes from {sender[:80]!r} at {time_ns} ns")
    return Record(sequence=sequence, time_ns=time_ns, sender=sender, frame=frame, offset=position.offset)


def _header(fields: Mapping[str, Any]) -> Header:
    run = fields.get("run")
    if not isinstance(run, str) or not NAME.fullmatch(run):
        raise RemoteProtocolError("a header that does not name its run")
    return Header(plain("the header", fields))


def _closing(fields: Mapping[str, Any]) -> Closing:
    if set(fields) != {"outcome", "reason", "records"}:
        raise RemoteProtocolError("a closing record without outcome, reason and number of records, or with more")
    outcome, reason, records = fields["outcome"], fields["reason"], fields["records"]
    if type(outcome) is not str or outcome not in get_args(Outcome):
        raise RemoteProtocolError("a closing record with an outcome that is none")
    if type(reason) is not str or len(reason) > LONGEST_TEXT:
        raise RemoteProtocolError("a closing record with a reason that is no short text")
    if type(records) is not int:
        raise RemoteProtocolError("a closing record that does not count the records")
    return Closing(outcome=cast(Outcome, outcome), reason=reason, records=records)


VERSIONS: Mapping[int, Callable[[bytes, Position], Entry]] = {1: _parse_version_1}
