"""A record held against something else: another copy of it, or the evidence that a node kept."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

from parley.emulator.audit.authorship import Keys
from parley.emulator.errors import BadInput, RemoteProtocolError, TranscriptError
from parley.emulator.record.records import Record
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.roles.board import BOARD_NAME
from parley.emulator.roles.node_memory import Evidence
from parley.emulator.wire.codec import decode, said_by
from parley.emulator.wire.messages import Close, Replies, Roster
from parley.nodes.state.user_state import EVIDENCE_MAGIC, load_evidence

Relation = Literal["same", "prefix", "extension", "different"]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What was found, in one sentence each; good where nothing is missing from the run and nothing differs."""

    good: bool
    findings: tuple[str, ...]
    details: dict[str, Any]

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return {"ok": self.good, "against": {**self.details, "findings": list(self.findings)}}


def is_evidence(path: Path) -> bool:
    """Whether a file is what a node kept, and not a record."""
    try:
        with open(path, "rb") as file:
            return file.read(len(EVIDENCE_MAGIC)) == EVIDENCE_MAGIC
    except OSError:
        return False


def compare_records(run: Path, other: Path) -> Comparison:
    """Two copies of a record: the same to the byte, one the beginning of the other, or different from some record on.

    A run that goes further than the other copy is good: nothing of the other is missing from it.
    """
    try:
        relation, number, what = _relation(TranscriptReader(run), TranscriptReader(other))
    except TranscriptError as error:
        raise BadInput(f"{error}; see `parley audit`") from error
    says = {
        "same": f"same: {run} and {other} hold the same {number} records",
        "prefix": f"{run} is a prefix of {other}: it ends after {number} records",
        "extension": f"{other} is a prefix of {run}: it ends after {number} records",
        "different": f"they differ from {what} on",
    }
    return Comparison(
        good=relation in ("same", "extension"),
        findings=(says[relation],),
        details={"kind": "record", "relation": relation, "record": number},
    )


def _relation(one: TranscriptReader, other: TranscriptReader) -> tuple[Relation, int | None, str]:
    if one.version != other.version or one.header != other.header:
        return "different", None, "the header"
    count = 0
    for ours, theirs in zip_longest(one, other):
        if ours is None or theirs is None:
            # A closing record says that nothing follows; a copy without one is merely not finished.
            shorter: tuple[TranscriptReader, Relation] = (one, "prefix") if ours is None else (other, "extension")
            if shorter[0].closing is not None:
                return "different", count, f"record {count}"
            return shorter[1], count, ""
        if _bytes(ours) != _bytes(theirs):
            return "different", count, f"record {count}"
        count += 1
    if one.closing == other.closing:
        return "same", count, ""
    if one.closing is not None and other.closing is not None:
        return "different", count, "the closing record"
    return ("prefix" if one.closing is None else "extension"), count, ""


def _bytes(record: Record) -> tuple[int, str, bytes]:
    return record.time_ns, record.sender, record.frame


def compare_evidence(run: Path, path: Path, keys: Keys | None) -> Comparison:
    """Whether what a node kept is on record. What its node or the board did not sign proves nothing, and is refused."""
    evidence = load_evidence(path)
    if keys is None:
        raise BadInput(f"{path} proves nothing without its signers' keys; give a key list with --trust FILE")
    try:
        on_record = _Round.read(TranscriptReader(run), evidence)
    except TranscriptError as error:
        raise BadInput(f"{error}; see `parley audit`") from error
    close, replies = _signed(path, evidence, keys, on_record.nonce)
    findings = (
        *_about_earlier(path, evidence, run, keys, on_record.nonce),
        *_about_close(evidence, close, on_record, keys),
        *_about_replies(evidence, replies, on_record),
    )
    all_there = f"everything that {evidence.node} kept of round {evidence.round} is on record"
    details = {"kind": "evidence", "node": evidence.node, "round": evidence.round, "reason": evidence.reason}
    return Comparison(good=not findings, findings=findings or (all_there,), details=details)


@dataclass(frozen=True, kw_only=True)
class _Round:
    """What the record holds about one node in one round."""

    nonce: bytes
    close: Record | None
    replies: dict[int, Record]

    @classmethod
    def read(cls, reader: TranscriptReader, evidence: Evidence) -> "_Round":
        if reader.run != evidence.run:
            raise BadInput(f"the evidence belongs to the run {evidence.run[:80]!r}, the record to {reader.run!r}")
        nonce, close, replies = b"", None, dict[int, Record]()
        for record in reader:
            message = record.message
            if isinstance(message, Roster):
                nonce = nonce or message.nonce
            elif isinstance(message, Close) and message.round == evidence.round:
                close = close or record
            elif isinstance(message, Replies) and (message.round, message.node) == (evidence.round, evidence.node):
                replies.setdefault(message.chunk, record)
        return cls(nonce=nonce, close=close, replies=replies)


def _signed(path: Path, evidence: Evidence, keys: Keys, nonce: bytes) -> tuple[Close, dict[int, bytes]]:
    """The close and the node's frames, each under the signature it must bear in the run on record."""
    useless = f"{path} proves nothing about this record"
    try:
        close = decode(evidence.close)
        frames = {frame: decode(frame) for frame in evidence.frames}
    except RemoteProtocolError as error:
        raise BadInput(f"{useless}: {error}") from error
    here = evidence.run, evidence.round
    if not isinstance(close, Close) or (close.run, close.round) != here:
        raise BadInput(f"{useless}: it does not hold the close of round {evidence.round}")
    if not said_by(keys.get(BOARD_NAME, b""), evidence.close, close, nonce):
        raise BadInput(f"{useless}: the board did not sign the close in it for this run")
    replies: dict[int, bytes] = {}
    for frame, message in frames.items():
        if not isinstance(message, Replies) or (message.run, message.round, message.node) != (*here, evidence.node):
            raise BadInput(f"{useless}: it holds something other than replies of {evidence.node}")
        if not said_by(keys.get(evidence.node, b""), frame, message, nonce):
            raise BadInput(f"{useless}: {evidence.node} did not sign the replies in it")
        replies[message.chunk] = frame
    return close, replies


def _about_close(evidence: Evidence, close: Close, found: _Round, keys: Keys) -> Iterator[str]:
    if found.close is None:
        yield f"the close of round {close.round}, which the board signed, is missing from the record"
    elif found.close.frame != evidence.close:
        recorded = found.close.message
        if said_by(keys.get(BOARD_NAME, b""), found.close.frame, recorded, found.nonce):
            yield (
                f"the board signed two different closes of round {close.round}: the one in evidence and "
                f"record {found.close.sequence}"
            )
        else:
            yield (
                f"record {found.close.sequence} is not the close of round {close.round} that the board signed; "
                "the one in evidence is"
            )


def _about_earlier(path: Path, evidence: Evidence, run: Path, keys: Keys, nonce: bytes) -> Iterator[str]:
    """The close before, as the node saw it, must be the one on record: a board may have written the record anew."""
    if not evidence.before:
        return
    earlier = replace(evidence, close=evidence.before, round=_round_of(path, evidence.before), frames=())
    close, _ = _signed(path, earlier, keys, nonce)
    yield from _about_close(earlier, close, _Round.read(TranscriptReader(run), earlier), keys)


def _round_of(path: Path, frame: bytes) -> int:
    try:
        message = decode(frame)
    except RemoteProtocolError as error:
        raise BadInput(f"{path} proves nothing about this record: {error}") from error
    if not isinstance(message, Close):
        raise BadInput(f"{path} proves nothing about this record: it holds something other than a close")
    return message.round


def _about_replies(evidence: Evidence, replies: dict[int, bytes], found: _Round) -> Iterator[str]:
    node, number = evidence.node, evidence.round
    for chunk, frame in sorted(replies.items()):
        record = found.replies.get(chunk)
        if record is None:
            named = found.close.message if found.close is not None else None
            absent = isinstance(named, Close) and node in named.absent
            said = ", and the close names it as absent" if absent else ""
            yield f"the reply of {node} in round {number} (chunk {chunk}) is missing from the record{said}"
        elif record.frame != frame:
            yield f"record {record.sequence} is another reply of {node} in round {number} than the one it kept"
    for chunk, record in sorted(found.replies.items()):
        if chunk not in replies:
            yield f"record {record.sequence} is a reply of {node} in round {number} that is not among those it kept"
