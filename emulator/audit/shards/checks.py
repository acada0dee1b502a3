"""What is checked besides where a run had several boards: each record for itself, and that they belong together.

A shard's sub-analyst is run again over the shard's record. What it says must be what the head board has on record of
it: the users who came, the sums of every round, and the close of the shard's board below them. What the head analyst
said must stand in every shard's record with the same bytes. So a tally that is not the sum of its replies, and a record
in another's place, are found, and the shard is named.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from parley.emulator.arithmetic import one_thread
from parley.emulator.audit.authorship import check_authorship
from parley.emulator.audit.integrity import check_integrity
from parley.emulator.audit.result import check_result
from parley.emulator.audit.verdict import Verdict, failed, passed
from parley.emulator.errors import ParleyError, RemoteProtocolError, TranscriptError
from parley.emulator.protocol import Builder
from parley.emulator.record.conversation import Conversation, Progress, listen, quiet
from parley.emulator.record.shards import ShardedReader
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.roles.board import BOARD_NAME
from parley.emulator.roles.shards.boards import board_of
from parley.emulator.roles.shards.sub_analyst import SubAnalystRole
from parley.emulator.roles.shards.ties import check_tie
from parley.emulator.wire import messages as wire
from parley.emulator.wire.codec import decode, encode
from parley.emulator.wire.signatures import Keys


@dataclass
class HeadWords:
    """What the head board's record says of the run and of each shard, as frames."""

    shards: dict[str, wire.Shard] = field(default_factory=dict)
    tallies: dict[tuple[str, int], bytes] = field(default_factory=dict)
    closes: dict[int, bytes] = field(default_factory=dict)
    absent: set[tuple[str, int]] = field(default_factory=set)
    broadcasts: dict[tuple[str, int], bytes] = field(default_factory=dict)
    nonce: bytes = b""

    @classmethod
    def read(cls, reader: TranscriptReader) -> "HeadWords":
        found = cls()
        for record in reader:
            message, number = record.message, getattr(record.message, "round", 0)
            if isinstance(message, wire.Shard):
                found.shards[message.node] = message
            elif isinstance(message, wire.Tally):
                found.tallies[message.node, number] = record.frame
            elif isinstance(message, wire.Close):
                found.closes[number] = record.frame
                found.absent |= {(name, number) for name in message.absent}
            elif isinstance(message, wire.Setup | wire.Announce | wire.Result):
                found.broadcasts[message.kind, number] = record.frame
                found.nonce = message.nonce if isinstance(message, wire.Setup) else found.nonce
        return found


def check_shards_integrity(reader: ShardedReader, progress: Progress = quiet) -> Verdict:
    """Every record for itself, and the words that tie them together, to the byte."""
    whole = check_integrity(reader.head, progress)
    if whole.verdict != "pass":
        return whole
    kinds, records, size = Counter(whole.evidence["messages"]), whole.evidence["records"], whole.evidence["bytes"]
    parts, warnings = dict[str, Mapping[str, Any]](), list(whole.evidence["warnings"])
    words = HeadWords.read(reader.head)
    for name in words.shards:
        try:
            shard = reader.shard(name)
        except TranscriptError as error:
            return failed(str(error), shard=name)
        found = check_integrity(shard, progress)
        if found.verdict != "pass":
            return failed(f"{name}: {found.reason}", **{**found.evidence, "shard": name})
        for record in shard:
            wrong = _unlike(name, record.message, record.frame, words)
            if wrong:
                return failed(f"{name}: record {record.sequence}: {wrong}", shard=name, record=record.sequence)
        if ("result", 0) in words.broadcasts and found.evidence["outcome"] != "completed":
            if (name, max(words.closes)) not in words.absent:
                return failed(f"{name}: its record ends without the result of the run", shard=name)
            warnings.append(f"{name} was declared missing, and its record ends before the run did")
        kinds.update(found.evidence["messages"])
        records, size = records + found.evidence["records"], size + found.evidence["bytes"]
        warnings += [f"{name}: {each}" for each in found.evidence["warnings"]]
        parts[name] = {each: found.evidence[each] for each in ("records", "chain", "bytes")}
    evidence = {**whole.evidence, "records": records, "messages": dict(kinds), "bytes": size, "warnings": warnings}
    return passed(**evidence, shards=parts)


def _unlike(name: str, message: wire.Message, frame: bytes, words: HeadWords) -> str:
    """What a record of a shard says that the head board's record does not; empty where they agree."""
    number = getattr(message, "round", 0)
    if isinstance(message, wire.Roster) and words.shards[name].roster != frame:
        return "the head board seated a shard with another roster"
    asked = isinstance(message, wire.Setup | wire.Announce | wire.Result)
    if asked and words.broadcasts.get((message.kind, number)) != frame:
        return f"its {message.kind} is not the one on the head board's record"
    if isinstance(message, wire.Close) and (name, number) not in words.absent:
        tally = decode(words.tallies.get((name, number), b"")) if (name, number) in words.tallies else None
        if not isinstance(tally, wire.Tally) or tally.close != frame:
            return f"the tally of round {number} is that of another record than this one"
    if isinstance(message, wire.Tie):
        try:
            tied = check_tie(message, None, words.nonce)
        except RemoteProtocolError as error:
            return str(error)
        if message.node != name or tied.close != words.closes.get(number):
            return f"its tie of round {number} leads to another head than that of the run"
    return ""


def check_shards_result(conversation: Conversation, reader: ShardedReader, build: Builder) -> Verdict:
    """Every tally is the sum of its shard's replies, and the head analyst's words follow from the tallies."""
    with np.errstate(all="ignore"), one_thread():
        words = HeadWords.read(reader.head)
        for name in words.shards:
            wrong = _wrong_sums(name, reader.shard(name), words, build)
            if wrong:
                ending = conversation.ending
                estimate = ending.estimate if isinstance(ending, wire.Result) else None
                return failed(f"{name}: {wrong}", shard=name, estimate=estimate)
    verdict = check_result(listen(reader.head, build))
    return Verdict(
        verdict=verdict.verdict, reason=verdict.reason, evidence={**verdict.evidence, "shards": len(words.shards)}
    )


def _wrong_sums(name: str, shard: TranscriptReader, words: HeadWords, build: Builder) -> str:
    role = SubAnalystRole(node=name, run=shard.run, pid=words.shards[name].pid, build=build)
    try:
        for record in shard:
            role.hear(record.message, record.frame)
            if isinstance(record.message, wire.Roster):
                came = decode(role.shard)
                assert isinstance(came, wire.Shard)
                said = words.shards[name]
                if not np.array_equal(came.stretches, said.stretches):
                    return f"it took a seat for {said.users} users; {came.users} others came to its board"
            if isinstance(record.message, wire.Close) and (name, role.round) in words.tallies:
                said_sums = decode(words.tallies[name, role.round])
                assert isinstance(said_sums, wire.Tally)
                assert role.answer is not None
                if encode(said_sums) != encode(role.answer):
                    what = _differing(said_sums, role.answer)
                    return f"the tally of round {role.round} is not the sum of its replies: {what}"
    except ParleyError as error:
        return f"its replies cannot be added up again: {error}"
    return ""


def _differing(said: wire.Tally, found: wire.Tally) -> str:
    """Where two tallies differ first."""
    if set(said.sums) == set(found.sums):
        for name in said.sums:
            if not np.array_equal(said.sums[name], found.sums[name]):
                return f"{name} differs"
    for name in ("replies", "rejected", "silent", "close", "question"):
        if getattr(said, name) != getattr(found, name):
            return f"{name} differs"
    return "it has other sums"


def check_shards_authorship(reader: ShardedReader, build: Builder, keys: Keys | None, progress: Progress) -> Verdict:
    """Every record under the keys of those who wrote it; a shard's board has its own."""
    reader.head.verify()
    authors = set[bytes]()
    head = check_authorship(Conversation(reader.head, build, progress), keys, authors)
    if keys is None or head.verdict == "fail":
        return head
    words, verdicts = HeadWords.read(reader.head), [head]
    for name in words.shards:
        own = {**keys, BOARD_NAME: keys.get(board_of(name), b"")}
        reader.shard(name).verify()
        found = check_authorship(Conversation(reader.shard(name), build, progress), own, authors)
        if found.verdict == "fail":
            return failed(f"{name}: {found.reason}", **{**found.evidence, "shard": name})
        for number, tie in _ties(reader.shard(name)):
            try:
                check_tie(tie, keys.get(BOARD_NAME, b""), words.nonce)
            except RemoteProtocolError as error:
                return failed(f"{name}: round {number}: {error}", shard=name)
        verdicts.append(found)
    counted = {
        each: sum(verdict.evidence[each] for verdict in verdicts) for each in ("signatures", "heads", "unsigned_events")
    }
    worst = next((verdict for verdict in verdicts if verdict.verdict != "pass"), head)
    return Verdict(
        verdict=worst.verdict, reason=worst.reason, evidence={**head.evidence, **counted, "authors": len(authors)}
    )


def _ties(reader: TranscriptReader) -> Iterator[tuple[int, wire.Tie]]:
    for record in reader:
        if isinstance(record.message, wire.Tie):
            yield record.message.round, record.message


def check_uncounted(
    whole: Verdict, reader: ShardedReader, build: Builder, check: Callable[[Conversation], Verdict]
) -> Verdict:
    """Privacy also of shards that were declared missing in a round: their users answered, though nobody counted it."""
    for name in sorted({name for name, _ in HeadWords.read(reader.head).absent} & set(reader.shards)):
        found = check(listen(reader.shard(name), build))
        if found.verdict == "fail":
            return failed(f"{name}: {found.reason}", **{**found.evidence, "shard": name})
    return whole


def checks_of_shards(
    conversation: Conversation,
    reader: ShardedReader,
    build: Builder,
    keys: Keys | None,
    privacy: Callable[[Conversation], Verdict],
) -> dict[str, Callable[[], Verdict]]:
    """The checks that are others where there were several boards."""
    return {
        "authorship": lambda: check_shards_authorship(reader, build, keys, conversation.progress),
        "privacy": lambda: check_uncounted(privacy(conversation), reader, build, privacy),
        "result": lambda: check_shards_result(conversation, reader, build),
    }
