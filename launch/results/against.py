"""A record held against something else: another copy of it, or the evidence that a node kept."""

from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

from parley.emulator.errors import BadInput, RemoteProtocolError, TranscriptError
from parley.emulator.record.records import Record
from parley.emulator.record.shards import FOLDER, is_sharded, shard_path
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.roles.board import BOARD_NAME
from parley.emulator.roles.node_memory import Evidence
from parley.emulator.roles.shards.boards import board_of
from parley.emulator.wire.codec import decode, said_by
from parley.emulator.wire.messages import Close, Ready, Replies, Roster, Setup
from parley.emulator.wire.signatures import Keys
from parley.nodes.state.user_state import EVIDENCE_MAGIC, load_evidence

Relation = Literal["same", "prefix", "extension", "different"]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What was found, in one sentence each; good where nothing is missing from the run and nothing differs."""

    good: bool
    findings: tuple[str, ...]
    details: dict[str, Any]

    def record(self) -> dict[str, Any]:
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
    ours, theirs = _parts(run), _parts(other)
    found: list[tuple[Relation, int | None, str, str]] = []
    for name in {**ours, **theirs}:
        if name not in ours or name not in theirs:
            # A run without other's shard lacks something; one with a shard more does not.
            found.append(("extension" if name in ours else "different", None, name, f"only one has a record of {name}"))
            continue
        try:
            relation, number, what = _relation(TranscriptReader(ours[name]), TranscriptReader(theirs[name]))
        except TranscriptError as error:
            raise BadInput(f"{error}; see `parley audit`") from error
        says = {
            "same": f"same: {ours[name]} and {theirs[name]} hold the same {number} records",
            "prefix": f"{ours[name]} is a prefix of {theirs[name]}: it ends after {number} records",
            "extension": f"{theirs[name]} is a prefix of {ours[name]}: it ends after {number} records",
            "different": f"they differ from {what} on",
        }
        found.append((relation, number, name, f"{name}: {says[relation]}" if name else says[relation]))
    worst = max(found, key=lambda each: ("same", "extension", "prefix", "different").index(each[0]))
    return Comparison(
        good=worst[0] in ("same", "extension"),
        findings=tuple(sentence for relation, _, name, sentence in found if not name or relation != "same"),
        details={
            "kind": "record",
            "relation": worst[0],
            "record": worst[1],
            **({"shard": worst[2]} if worst[2] else {}),
        },
    )


def _parts(run: Path) -> dict[str, Path]:
    """The records of a run: that of its board under no name, and those of its shards."""
    shards = sorted(each.name for each in run.with_name(FOLDER).iterdir()) if is_sharded(run) else []
    return {"": run, **{name: shard_path(run, name) for name in shards}}


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
        if (ours.time_ns, ours.sender, ours.frame) != (theirs.time_ns, theirs.sender, theirs.frame):
            return "different", count, f"record {count}"
        count += 1
    if one.closing == other.closing:
        return "same", count, ""
    if one.closing is not None and other.closing is not None:
        return "different", count, "the closing record"
    return ("prefix" if one.closing is None else "extension"), count, ""


def compare_evidence(run: Path, path: Path, keys: Keys | None) -> Comparison:
    """Whether what a node kept is on record. What its node or the board did not sign proves nothing, and is refused."""
    evidence = load_evidence(path)
    if keys is None:
        raise BadInput(f"{path} proves nothing without its signers' keys; give a key list with --trust FILE")
    try:
        findings = tuple(_findings_of_any_board(run, path, evidence, keys))
    except TranscriptError as error:
        raise BadInput(f"{error}; see `parley audit`") from error
    all_there = f"everything that {evidence.node} kept of round {evidence.round} is on record"
    details = {"kind": "evidence", "node": evidence.node, "round": evidence.round, "reason": evidence.reason}
    return Comparison(good=not findings, findings=findings or (all_there,), details=details)


def _findings_of_any_board(run: Path, path: Path, evidence: Evidence, keys: Keys) -> list[str]:
    """In a run of several boards a node speaks to that of its shard, and may keep a close of either board."""
    for name, part in _parts(run).items():
        if name and any(
            isinstance(each.message, Ready) and each.message.node == evidence.node for each in TranscriptReader(part)
        ):
            own = {**keys, BOARD_NAME: keys.get(board_of(name), b"")}
            try:
                return _findings(part, path, evidence, own)
            except BadInput:
                return _findings(run, path, replace(evidence, frames=()), keys, whole=False)
    return _findings(run, path, evidence, keys)


def _findings(run: Path, path: Path, evidence: Evidence, keys: Keys, *, whole: bool = True) -> list[str]:
    """What of the evidence is not on record, once it bears the signatures it must; without `whole`, its close alone."""
    reader, node, number = TranscriptReader(run), evidence.node, evidence.round
    if reader.run != evidence.run:
        raise BadInput(f"the evidence belongs to the run {evidence.run[:80]!r}, the record to {reader.run!r}")
    # What the record holds about this node in this round.
    nonce, closed, recorded = b"", list[Record](), dict[int, Record]()
    for record in reader:
        message = record.message
        if isinstance(message, Roster | Setup):
            # The roster of a shard's board has none.
            nonce = nonce or message.nonce
        elif isinstance(message, Close) and message.round == number:
            closed.append(record)
        elif isinstance(message, Replies) and (message.round, message.node) == (number, node):
            recorded.setdefault(message.chunk, record)
    useless = f"{path} proves nothing about this record"
    try:
        close, before = decode(evidence.close), decode(evidence.before) if evidence.before else None
        frames = {frame: decode(frame) for frame in evidence.frames}
    except RemoteProtocolError as error:
        raise BadInput(f"{useless}: {error}") from error
    if not isinstance(close, Close) or (close.run, close.round) != (evidence.run, number):
        raise BadInput(f"{useless}: it does not hold the close of round {number}")
    board = keys.get(BOARD_NAME, b"")
    if not said_by(board, evidence.close, close, nonce):
        raise BadInput(f"{useless}: the board did not sign the close in it for this run")
    kept: dict[int, bytes] = {}
    for frame, message in frames.items():
        if not isinstance(message, Replies) or (message.run, message.round, message.node) != (close.run, number, node):
            raise BadInput(f"{useless}: it holds something other than replies of {node}")
        if not said_by(keys.get(node, b""), frame, message, nonce):
            raise BadInput(f"{useless}: {node} did not sign the replies in it")
        kept[message.chunk] = frame
    found: list[str] = []
    if before is not None and whole:
        # As the node saw it, it must be the one on record: a board may have written the record anew.
        if not isinstance(before, Close):
            raise BadInput(f"{useless}: it holds something other than a close")
        earlier = replace(evidence, close=evidence.before, round=before.round, frames=())
        found += _findings(run, path, earlier, keys, whole=False)
    if not closed:
        found.append(f"the close of round {number}, which the board signed, is missing from the record")
    elif closed[0].frame != evidence.close:
        place = f"record {closed[0].sequence}"
        if said_by(board, closed[0].frame, closed[0].message, nonce):
            found.append(f"the board signed two different closes of round {number}: the one in evidence and {place}")
        else:
            found.append(f"{place} is not the close of round {number} that the board signed; the one in evidence is")
    for chunk, frame in sorted(kept.items()):
        said = f"reply of {node} in round {number}"
        if chunk not in recorded:
            absent = any(node in each.message.absent for each in closed[:1] if isinstance(each.message, Close))
            named = ", and the close names it as absent" if absent else ""
            found.append(f"the {said} (chunk {chunk}) is missing from the record{named}")
        elif recorded[chunk].frame != frame:
            found.append(f"record {recorded[chunk].sequence} is another {said} than the one it kept")
    for chunk, record in sorted(recorded.items()) if whole else ():
        if chunk not in kept:
            what = f"a reply of {node} in round {number} that is not among those it kept"
            found.append(f"record {record.sequence} is {what}")
    return found
