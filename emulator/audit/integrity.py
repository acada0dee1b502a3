"""Integrity: the chain holds, every message came from who may send it, and a board could have written the record.

The hash chain shows that bytes were changed; it is no signature. Whoever writes a whole new chain is caught by what
the record says: the board's role is run again over it, and it must take every message in its place.
"""

from collections import Counter
from pathlib import Path
from typing import Any

from emulator.audit.verdict import Progress, Verdict, failed, passed, quiet
from emulator.board import ANALYST_NAME, BOARD_NAME, Board, BoardRole, Terms
from emulator.codec import FORMAT
from emulator.errors import RemoteProtocolError, TranscriptError
from emulator.messages import (
    Abort,
    Announce,
    Close,
    Event,
    Message,
    Ready,
    Refusal,
    Replies,
    Result,
    Resume,
    Roster,
    Setup,
)
from emulator.records import Record
from emulator.transcript import AlteredTranscript, TranscriptReader

# No honest run comes near: a hostile frame must not make the board's role count chunks without end.
MOST_USERS = 2**62
MOST_CHUNKS = 2**18


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

    def take(self, sender: str, message: Message) -> None:
        """Hear one recorded message; RemoteProtocolError says why a board would not have recorded it."""
        check_sender(sender, message)
        # A node that agreed to several runs says ready for none of them by name.
        if getattr(message, "run", self.run) not in ({"", self.run} if isinstance(message, Ready) else {self.run}):
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
                raise RemoteProtocolError(f"a roster of {message.users} users where {users} were seated")
        self.role.record(message, 0.0)

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
        if self._due is None:
            self.role.record(close, 0.0)
        self._due = None

    def _count(self, replies: Replies) -> None:
        self._chunks[replies.node] = replies.chunks
        if self._chunks.total() > MOST_CHUNKS:
            raise RemoteProtocolError(f"replies of {replies.node} in {replies.chunks} chunks, more than a run has")


def check_sender(sender: str, message: Message) -> None:
    """Each kind of message from who may send it."""
    if isinstance(message, Ready | Replies | Refusal):
        allowed: tuple[str, ...] = (message.node,)
    elif isinstance(message, Setup | Announce | Result):
        allowed = (ANALYST_NAME,)
    elif isinstance(message, Abort):
        allowed = (ANALYST_NAME, BOARD_NAME)
    elif isinstance(message, Event):
        allowed = (BOARD_NAME, message.node)
    else:
        allowed = (BOARD_NAME,)
    if sender not in allowed or isinstance(message, Resume):
        raise RemoteProtocolError(f"a {message.kind} from {sender}, who may not send one")
    if isinstance(message, Ready) and sender in (ANALYST_NAME, BOARD_NAME):
        raise RemoteProtocolError(f"a user node that calls itself {sender}")


def check_integrity(source: Path | TranscriptReader, progress: Progress = quiet) -> Verdict:
    """Chain, sequence, senders, closing record; the first bad byte is named."""
    try:
        reader = source if isinstance(source, TranscriptReader) else TranscriptReader(source)
        kinds, seconds = _read(reader, progress)
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
    }
    evidence["seconds"] = seconds
    if reader.closing is None:
        reason = f"there is no closing record: the run still goes on, or the file was cut at byte {reader.truncated_at}"
        return failed(reason, byte=reader.truncated_at, truncated=True, **evidence)
    return passed(outcome=reader.closing.outcome, **evidence)


def _read(reader: TranscriptReader, progress: Progress) -> tuple[Counter[str], float]:
    """Every message in its place; how many of each kind, and the seconds from the first to the last."""
    board, kinds, times = Rewriter(reader.run, reader.version), Counter[str](), list[int]()
    size = reader.path.stat().st_size
    for record in reader:
        try:
            message = record.message
            board.take(record.sender, message)
        except TranscriptError as error:
            raise _wrong(reader, record, str(error)) from error
        except RemoteProtocolError as error:
            raise _wrong(reader, record, f"record {record.sequence} at byte {record.offset}: {error}") from error
        kinds[message.kind] += 1
        times = [times[0] if times else record.time_ns, record.time_ns]
        progress("integrity", record.offset, size)
    if reader.closing is not None:
        _check_ending(reader, board)
    return kinds, (times[1] - times[0]) / 1e9 if times else 0.0


def _check_ending(reader: TranscriptReader, board: Rewriter) -> None:
    """The closing record says what the last broadcast said, unless the board was stopped before there was one."""
    assert reader.closing is not None
    ending, outcome = board.role.ending, reader.closing.outcome
    if isinstance(ending, Result) != (outcome == "completed") or (
        isinstance(ending, Abort) and ending.outcome != outcome
    ):
        said = "nothing" if ending is None else ending.kind
        raise WrongRecord(f"{reader.path}: the run closed as {outcome} but its last word is {said}")
    if outcome == "completed" and board.role.state is not Board.DONE:
        raise WrongRecord(f"{reader.path}: the run closed as completed while it was not over")


def _wrong(reader: TranscriptReader, record: Record, what: str) -> WrongRecord:
    return WrongRecord(f"{reader.path}: {what}", record.sequence, record.offset)
