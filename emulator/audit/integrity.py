"""Integrity: the chain holds, every message came from who may send it, and a board could have written the record.

The hash chain shows that bytes were changed; it is no signature. Whoever writes a whole new chain is caught by what
the record says: the board's role is run again over it, and it must take every message in its place. What the board says
of others (who is absent, how many are missing, which process came back) is worked out again.
"""

import re
from collections import Counter
from pathlib import Path
from typing import Any

from parley.emulator.audit.evidence.heads import Heads
from parley.emulator.audit.evidence.senders import senders_of
from parley.emulator.audit.verdict import Verdict, failed, passed
from parley.emulator.errors import RemoteProtocolError, TranscriptError
from parley.emulator.record.conversation import Progress, quiet
from parley.emulator.record.records import Record
from parley.emulator.record.transcript import AlteredTranscript, TranscriptReader
from parley.emulator.roles.board import ANALYST_NAME, BOARD_NAME, LAUNCHER_NAME, Board, BoardRole, Terms
from parley.emulator.wire.codec import FORMAT
from parley.emulator.wire.messages import (
    Abort,
    Announce,
    Close,
    Event,
    Message,
    Ready,
    Reminder,
    Replies,
    Result,
    Resume,
    Roster,
)

# No honest run comes near: a hostile frame must not make the board's role count chunks without end.
MOST_USERS = 2**62
MOST_CHUNKS = 2**18
NAMED = 10
# How far back a clock may have been set while a process was away.
RESTART_SLACK_NS = 60 * 10**9
MOST_STEPS = 1000
RESTARTED = re.compile(r"pid (\d{1,19}) is now pid (\d{1,19})")


class WrongRecord(TranscriptError):
    """A whole record that no honest board would have written, with its number and byte."""

    def __init__(self, what: str, sequence: int | None = None, offset: int | None = None) -> None:
        super().__init__(what)
        self.sequence = sequence
        self.offset = offset


class Rewriter:
    """A board that is told what it wrote: whatever it would not have written is named."""

    def __init__(self, run: str, format: int = FORMAT) -> None:
        # The record does not say how many users the board was told of; what it does say must be consistent.
        self.role = BoardRole(Terms(run=run, users=MOST_USERS, nodes=MOST_USERS, quorum=1e-300))
        self.run = run
        self.format = format
        self._due: Close | None = None
        self._chunks: Counter[str] = Counter()
        self._pids: dict[str, set[int]] = {}

    def take(self, sender: str, message: Message) -> None:
        """Hear one recorded message; RemoteProtocolError says why a board would not have recorded it."""
        check_sender(sender, message)
        # A node that waits for any run of a pattern names none.
        if getattr(message, "run", self.run) not in (self.run, "" if isinstance(message, Ready) else self.run):
            raise RemoteProtocolError(f"a {message.kind} of another run stands in the record of {self.run}")
        if isinstance(message, Replies):
            self._count(message)
        if isinstance(message, Announce):
            self._chunks.clear()
        if sender == BOARD_NAME:
            self._own(message)
        else:
            self._others(sender, message)

    def _others(self, sender: str, message: Message) -> None:
        if self._due is not None and isinstance(message, Announce | Result):
            raise RemoteProtocolError(f"a {message.kind} before round {self._due.round} was closed")
        said = self.role.hear(sender, message, 0.0)
        if not said:
            raise RemoteProtocolError(f"a {message.kind} of {sender} that repeats another or answers no open round")
        for _, following in said[1:]:
            if isinstance(following, Close):
                self._due = following

    def _own(self, message: Message) -> None:
        if isinstance(message, Close):
            self._close(message)
            return
        if isinstance(message, Roster):
            users = sum(seat.users for seat in self.role.seats.values())
            if (message.nodes, message.users) != (len(self.role.seats), users):
                raise RemoteProtocolError(
                    f"a roster of {message.users} users on {message.nodes} nodes; "
                    f"{users} on {len(self.role.seats)} were seated"
                )
        elif isinstance(message, Reminder):
            self._check_reminder(message)
        elif isinstance(message, Event):
            self._check_event(message)
        self.role.record(message, 0.0)

    def _check_reminder(self, reminder: Reminder) -> None:
        """It names nodes that still owe something in the open round, and what they owe."""
        if self.role.state is not Board.OPEN or reminder.round != self.role.round:
            raise RemoteProtocolError(f"a reminder of round {reminder.round}, which is not open")
        for name, chunks in reminder.missing.items():
            seat = self.role.seats.get(name)
            if seat is None or seat.finished or chunks != tuple(sorted(seat.owes or ())):
                raise RemoteProtocolError(f"a reminder that {name[:80]!r} owes other chunks than it does")

    def _check_event(self, event: Event) -> None:
        """The board notes events in the round it is in; a node that came back was another process before."""
        if event.round != self.role.round:
            raise RemoteProtocolError(f"an event of round {event.round} in round {self.role.round}")
        if event.event != "restart":
            return
        seat, found = self.role.seats.get(event.node), RESTARTED.fullmatch(event.detail)
        # A board that was itself started again may know an earlier process of the node.
        had = set() if seat is None else self._pids.setdefault(event.node, {seat.pid})
        if found is None or int(found[1]) not in had or found[1] == found[2]:
            raise RemoteProtocolError(f"a restart of {event.node[:80]!r} that does not fit the processes it had")
        had.add(int(found[2]))

    def _close(self, close: Close) -> None:
        """A round's count is that of its replies, and with those missing that of the users who were asked."""
        if (close.round, close.replies) != (self.role.round, self.role.replies):
            raise RemoteProtocolError(
                f"a close of round {close.round} with {close.replies} replies; "
                f"the record has {self.role.replies} in round {self.role.round}"
            )
        asked = 0 if self.role.announce is None else self.role.announce.speakers
        if self.format > 1 and close.missing != max(0, asked - close.replies):
            raise RemoteProtocolError(f"a close with {close.missing} replies missing of {asked} users who were asked")
        absent = tuple(sorted(name for name, seat in self.role.seats.items() if not seat.whole))
        if self.format > 1 and close.absent != absent:
            raise RemoteProtocolError(
                f"a close with {_listed(close.absent)} absent; the record lacks {_listed(absent)}"
            )
        if not close.replies:
            raise RemoteProtocolError(f"a close of round {close.round}, in which nobody answered")
        if self._due is None:
            self.role.record(close, 0.0)
        self._due = None

    def _count(self, replies: Replies) -> None:
        self._chunks[replies.node] = replies.chunks
        if self._chunks.total() > MOST_CHUNKS:
            raise RemoteProtocolError(f"replies of {replies.node} in {replies.chunks} chunks, more than a run has")


def _listed(names: tuple[str, ...]) -> str:
    """A few names as a person reads them."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return (", ".join(repr(each[:80]) for each in names[:NAMED]) or "nobody") + more


def check_sender(sender: str, message: Message) -> None:
    """Each kind of message from who may send it."""
    if sender not in senders_of(message) or isinstance(message, Resume):
        raise RemoteProtocolError(f"a {message.kind} from {sender}, who may not send one")
    if isinstance(message, Ready) and sender in (ANALYST_NAME, BOARD_NAME):
        raise RemoteProtocolError(f"a user node that calls itself {sender}")


def check_integrity(source: Path | TranscriptReader, progress: Progress = quiet) -> Verdict:
    """Chain, sequence, senders, closing record; the first bad byte is named."""
    try:
        reader = source if isinstance(source, TranscriptReader) else TranscriptReader(source)
        kinds, clock = _read(reader, progress)
        end = reader.verify()
    except (AlteredTranscript, WrongRecord) as error:
        return failed(str(error), record=error.sequence, byte=error.offset)
    except TranscriptError as error:
        return failed(str(error), byte=0)
    evidence: dict[str, Any] = {
        "records": end.sequence,
        "messages": dict(kinds),
        "chain": end.chain.hex(),
        "bytes": end.offset,
        "seconds": clock.seconds,
        "warnings": clock.warnings(),
    }
    if reader.closing is None:
        reason = f"there is no closing record: the run is going on, or the file was cut at byte {reader.truncated_at}"
        return failed(reason, byte=reader.truncated_at, truncated=True, **evidence)
    return passed(outcome=reader.closing.outcome, **evidence)


class Clock:
    """The times of the records. They grow; only the clock of a board that was started again may have been set."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """From the first record to the last."""
        self._first = self._last = -1
        self._steps: list[tuple[int, int]] = []
        self._restarts = 0

    def take(self, record: Record, message: Message) -> None:
        """Note a record that is older than the one before it, and what may explain that."""
        if self._first < 0:
            self._first = self._last = record.time_ns
        back = self._last - record.time_ns
        if back > 0 and len(self._steps) < MOST_STEPS:
            self._steps.append((record.sequence, back))
        if isinstance(message, Event) and record.sender == LAUNCHER_NAME and BOARD_NAME in message.detail.split():
            self._restarts += 1
        self._last = record.time_ns
        self.seconds = (self._last - self._first) / 1e9

    def warnings(self) -> list[str]:
        """Steps back that no restart of the board explains. The launcher reports one after it has happened."""
        explained = [sequence for sequence, back in self._steps if back <= RESTART_SLACK_NS][: self._restarts]
        return [
            f"record {sequence} is {back / 1e9:.6g} s older than the one before it, and no restart explains that"
            for sequence, back in self._steps
            if sequence not in explained
        ][:NAMED]


def _read(reader: TranscriptReader, progress: Progress) -> tuple[Counter[str], Clock]:
    """Every message in its place; how many of each kind, and what their times say."""
    board, kinds, clock, heads = Rewriter(reader.run, reader.version), Counter[str](), Clock(), Heads()
    size = reader.path.stat().st_size
    for record in reader:
        try:
            message = record.message
            board.take(record.sender, message)
            wrong = heads.take(record, message) if reader.version > 1 else ""
            # Where nobody signs a close holds no head.
            if wrong and isinstance(message, Close) and (message.size or message.root):
                raise RemoteProtocolError(wrong)
        except TranscriptError as error:
            raise _wrong(reader, record, str(error)) from error
        except RemoteProtocolError as error:
            raise _wrong(reader, record, f"record {record.sequence} at byte {record.offset}: {error}") from error
        kinds[message.kind] += 1
        clock.take(record, message)
        progress("integrity", record.offset, size)
    if reader.closing is not None:
        _check_ending(reader, board, heads)
    return kinds, clock


def _check_ending(reader: TranscriptReader, board: Rewriter, heads: Heads) -> None:
    """The closing record says what the last broadcast said, unless the board was stopped before there was one."""
    assert reader.closing is not None
    closing, ending, outcome = reader.closing, board.role.ending, reader.closing.outcome
    if isinstance(ending, Result) != (outcome == "completed") or (
        isinstance(ending, Abort) and ending.outcome != outcome
    ):
        said = "nothing" if ending is None else ending.kind
        raise WrongRecord(f"{reader.path}: the run closed as {outcome} but its last word is {said}")
    if outcome == "completed" and board.role.state is not Board.DONE:
        raise WrongRecord(f"{reader.path}: the run closed as completed while it was not over")
    reason = ending.reason if isinstance(ending, Abort) else ""
    if ending is not None and closing.reason != reason:
        raise WrongRecord(
            f"{reader.path}: the run closed because {closing.reason!r:.200}, its last word is {reason!r:.200}"
        )
    wrong = heads.end(closing) if reader.version > 1 else ""
    if wrong:
        raise WrongRecord(f"{reader.path}: {wrong}")


def _wrong(reader: TranscriptReader, record: Record, what: str) -> WrongRecord:
    return WrongRecord(f"{reader.path}: {what}", record.sequence, record.offset)
