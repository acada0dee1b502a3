"""Integrity: the chain holds, every message came from who may send it, and a board could have written the record.

The hash chain shows that bytes were changed; it is no signature. Whoever writes a whole new chain is caught by what
the record says: the board's role is run again over it, and it must take every message in its place. What the board says
of others (who is absent, how many are missing, which process came back) is worked out again.
"""

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parley.emulator.audit.verdict import Verdict, failed, passed
from parley.emulator.errors import RemoteProtocolError, TranscriptError
from parley.emulator.record.conversation import Progress, quiet, watched
from parley.emulator.record.merkle import Tree
from parley.emulator.record.records import MEMORY, PROCESSES, Closing, Record, medium, medium_at
from parley.emulator.record.transcript import AlteredTranscript, TranscriptReader
from parley.emulator.roles.board import ANALYST_NAME, BOARD_NAME, LAUNCHER_NAME, Board, BoardRole, Terms
from parley.emulator.roles.shards.boards import HeadBoardRole, ShardBoardRole
from parley.emulator.wire import messages as wire
from parley.emulator.wire.codec import FORMAT

# No honest run comes near: a hostile frame must not make the board's role count chunks without end.
MOST_USERS = 2**62
MOST_CHUNKS = 2**18
NAMED = 10
# How far back a clock may have been set while a process was away.
RESTART_SLACK_NS = 60 * 10**9
MOST_STEPS = 1000
RAN = {PROCESSES: "between processes", MEMORY: "in memory"}
RESTARTED = re.compile(r"pid (\d{1,19}) is now pid (\d{1,19})")


class WrongRecord(TranscriptError):
    """A whole record that no honest board would have written, with its number and byte."""

    def __init__(self, what: str, sequence: int | None = None, offset: int | None = None) -> None:
        super().__init__(what)
        self.sequence, self.offset = sequence, offset


def senders_of(message: wire.Message) -> tuple[str, ...]:
    if isinstance(message, wire.Ready | wire.Shard | wire.Replies | wire.Tally | wire.Tie | wire.Refusal):
        return (message.node,)
    if isinstance(message, wire.Setup | wire.Announce | wire.Result):
        return (ANALYST_NAME,)
    if isinstance(message, wire.Abort):
        return ANALYST_NAME, BOARD_NAME
    return (BOARD_NAME, message.node) if isinstance(message, wire.Event) else (BOARD_NAME,)


@dataclass
class Heads:
    """Builds the tree again and holds every head on record against it. Heads that are all right extend each other.

    `covered` is how many records the last right head covers, `count` how many heads are right.
    """

    covered: int = 0
    count: int = 0
    _tree: Tree = field(default_factory=Tree)

    def take(self, record: Record, message: wire.Message) -> str:
        """Add one record; what is wrong with the head it holds, empty where nothing is."""
        wrong = ""
        if isinstance(message, wire.Close) and (message.size, message.root) != (len(self._tree), self._tree.root()):
            where = self.rewritten(f"record {record.sequence}")
            wrong = f"the head in the close of round {message.round} does not cover the records before it: {where}"
        elif isinstance(message, wire.Close):
            self.covered, self.count = message.size, self.count + 1
        self._tree.append(record.leaf)
        return wrong

    def end(self, closing: Closing) -> str:
        """What is wrong with the head in the closing record."""
        if closing.root == self._tree.root():
            return ""
        return f"the closing record does not cover the records before it: {self.rewritten('the end')}"

    def rewritten(self, until: str) -> str:
        return f"the record was rewritten between record {self.covered} and {until}"


class Rewriter:
    """A board that is told what it wrote: whatever it would not have written is named."""

    def __init__(self, run: str, format: int = FORMAT, board: type[BoardRole] = BoardRole) -> None:
        # The record does not say how many users the board was told of; what it does say must be consistent.
        self.role = board(Terms(run=run, users=MOST_USERS, nodes=MOST_USERS, quorum=1e-300))
        self.run, self.format = run, format
        self._due: wire.Close | wire.Abort | None = None
        self._chunks: Counter[str] = Counter()
        self._pids: dict[str, set[int]] = {}

    def take(self, sender: str, message: wire.Message) -> None:
        """Hear one recorded message; RemoteProtocolError says why a board would not have recorded it."""
        if sender not in senders_of(message) or isinstance(message, wire.Resume):
            raise RemoteProtocolError(f"a {message.kind} from {sender}, who may not send one")
        if isinstance(message, wire.Ready | wire.Shard) and sender in (ANALYST_NAME, BOARD_NAME):
            raise RemoteProtocolError(f"a user node that calls itself {sender}")
        # A node that waits for any run of a pattern names none.
        if getattr(message, "run", self.run) not in (self.run, "" if isinstance(message, wire.Ready) else self.run):
            raise RemoteProtocolError(f"a {message.kind} of another run stands in the record of {self.run}")
        if isinstance(message, wire.Replies):
            self._chunks[message.node] = message.chunks
            if self._chunks.total() > MOST_CHUNKS:
                raise RemoteProtocolError(f"replies of {message.node} in {message.chunks} chunks, more than a run has")
        if isinstance(message, wire.Announce):
            self._chunks.clear()
        if sender == BOARD_NAME:
            self._own(message)
            return
        if isinstance(self._due, wire.Close) and isinstance(message, wire.Announce | wire.Result):
            raise RemoteProtocolError(f"a {message.kind} before round {self._due.round} was closed")
        said = self.role.hear(sender, message, 0.0)
        if not said:
            raise RemoteProtocolError(f"a {message.kind} of {sender} that repeats another or answers no open round")
        for _, following in said[1:]:
            if isinstance(following, wire.Close | wire.Abort):
                self._due = following

    def _own(self, message: wire.Message) -> None:
        """What the board says of others is what the record says of them."""
        seats = self.role.seats
        if isinstance(message, wire.Abort) and isinstance(self._due, wire.Abort):
            # Everybody refused: the board gives up at once, and has done so here already.
            self._due = None
            return
        if isinstance(message, wire.Close):
            self._close(message)
            return
        if isinstance(message, wire.Roster):
            users = self.role.seated
            if (message.nodes, message.users) != (len(seats), users):
                said = f"a roster of {message.users} users on {message.nodes} nodes"
                raise RemoteProtocolError(f"{said}; {users} on {len(seats)} were seated")
        elif isinstance(message, wire.Reminder):
            if self.role.state is not Board.OPEN or message.round != self.role.round:
                raise RemoteProtocolError(f"a reminder of round {message.round}, which is not open")
            for name, chunks in message.missing.items():
                seat = seats.get(name)
                if seat is None or seat.finished or chunks != tuple(sorted(seat.owes or ())):
                    raise RemoteProtocolError(f"a reminder that {name[:80]!r} owes other chunks than it does")
        elif isinstance(message, wire.Event) and message.round != self.role.round:
            raise RemoteProtocolError(f"an event of round {message.round} in round {self.role.round}")
        elif isinstance(message, wire.Event) and message.event == "restart":
            seat, found = seats.get(message.node), RESTARTED.fullmatch(message.detail)
            # A board that was itself started again may know an earlier process of the node.
            had = set() if seat is None else self._pids.setdefault(message.node, {seat.pid})
            if found is None or int(found[1]) not in had or found[1] == found[2]:
                raise RemoteProtocolError(f"a restart of {message.node[:80]!r} that does not fit the processes it had")
            had.add(int(found[2]))
        self.role.record(message, 0.0)

    def _close(self, close: wire.Close) -> None:
        """A round's count is that of its replies, and with those missing that of the users who were asked."""
        if (close.round, close.replies) != (self.role.round, self.role.replies):
            said = f"a close of round {close.round} with {close.replies} replies"
            raise RemoteProtocolError(f"{said}; the record has {self.role.replies} in round {self.role.round}")
        asked = 0 if self.role.announce is None else self.role.announce.speakers
        if self.format > 1 and close.missing != self.role.lacking:
            raise RemoteProtocolError(f"a close with {close.missing} replies missing of {asked} users who were asked")
        absent = self.role.absent
        if self.format > 1 and close.absent != absent:
            said = f"a close with {_listed(close.absent)} absent"
            raise RemoteProtocolError(f"{said}; the record lacks {_listed(absent)}")
        if not close.replies and not isinstance(self.role, ShardBoardRole):
            raise RemoteProtocolError(f"a close of round {close.round}, in which nobody answered")
        if self._due is None:
            self.role.record(close, 0.0)
        self._due = None


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return (", ".join(repr(each[:80]) for each in names[:NAMED]) or "nobody") + more


@dataclass
class Clock:
    """The times of the records. They grow; only the clock of a board that was started again may have been set."""

    _first: int = -1
    _last: int = -1
    _steps: list[tuple[int, int]] = field(default_factory=list)
    _restarts: int = 0

    @property
    def seconds(self) -> float:
        return (self._last - self._first) / 1e9

    def take(self, record: Record, message: wire.Message) -> None:
        """Note a record that is older than the one before it, and what may explain that."""
        if self._first < 0:
            self._first = self._last = record.time_ns
        back = self._last - record.time_ns
        if back > 0 and len(self._steps) < MOST_STEPS:
            self._steps.append((record.sequence, back))
        if isinstance(message, wire.Event) and record.sender == LAUNCHER_NAME and BOARD_NAME in message.detail.split():
            self._restarts += 1
        self._last = record.time_ns

    def warnings(self) -> list[str]:
        """Steps back that no restart of the board explains. The launcher reports one after it has happened."""
        explained = [sequence for sequence, back in self._steps if back <= RESTART_SLACK_NS][: self._restarts]
        return [
            f"record {sequence} is {back / 1e9:.6g} s older than the one before it, and no restart explains that"
            for sequence, back in self._steps
            if sequence not in explained
        ][:NAMED]


def check_integrity(source: Path | TranscriptReader, progress: Progress = quiet) -> Verdict:
    """Chain, sequence, senders, closing record; the first bad byte is named."""
    kinds, clock = Counter[str](), Clock()
    try:
        reader = source if isinstance(source, TranscriptReader) else TranscriptReader(source)
        _read(reader, kinds, clock, progress)
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


def kind_of_board(reader: TranscriptReader) -> type[BoardRole]:
    """Whose record this is: the head board seats shards, and the board of a shard draws no nonce."""
    for record in reader:
        try:
            message = record.message
        except TranscriptError:
            break
        if isinstance(message, wire.Shard):
            return HeadBoardRole
        if isinstance(message, wire.Roster):
            return BoardRole if message.nonce or reader.version == 1 else ShardBoardRole
        if isinstance(message, wire.Setup | wire.Abort):
            break
    return BoardRole


def _read(reader: TranscriptReader, kinds: Counter[str], clock: Clock, progress: Progress) -> None:
    """Every message in its place. The closing record says what the last broadcast said, if there was one."""
    board, heads = Rewriter(reader.run, reader.version, kind_of_board(reader)), Heads()
    ran = medium(reader.header)
    for record in watched(reader, progress, "integrity"):
        try:
            message = record.message
            board.take(record.sender, message)
            if medium_at(record.time_ns) != ran:
                raise RemoteProtocolError(f"its time is not that of a run {RAN[ran]}, as the header calls it")
            wrong = heads.take(record, message) if reader.version > 1 else ""
            # Where nobody signs a close holds no head.
            if wrong and isinstance(message, wire.Close) and (message.size or message.root):
                raise RemoteProtocolError(wrong)
        except (TranscriptError, RemoteProtocolError) as error:
            where = "" if isinstance(error, TranscriptError) else f"record {record.sequence} at byte {record.offset}: "
            raise WrongRecord(f"{reader.path}: {where}{error}", record.sequence, record.offset) from error
        kinds[message.kind] += 1
        clock.take(record, message)
    if reader.closing is None:
        return
    closing, ending, outcome = reader.closing, board.role.ending, reader.closing.outcome
    unlike = isinstance(ending, wire.Abort) and ending.outcome != outcome
    if unlike or isinstance(ending, wire.Result) != (outcome == "completed"):
        said = "nothing" if ending is None else ending.kind
        raise WrongRecord(f"{reader.path}: the run closed as {outcome} but its last word is {said}")
    if outcome == "completed" and board.role.state is not Board.DONE:
        raise WrongRecord(f"{reader.path}: the run closed as completed while it was not over")
    reason = ending.reason if isinstance(ending, wire.Abort) else ""
    if ending is not None and closing.reason != reason:
        said = f"the run closed because {closing.reason!r:.200}"
        raise WrongRecord(f"{reader.path}: {said}, its last word is {reason!r:.200}")
    wrong = heads.end(closing) if reader.version > 1 else ""
    if wrong:
        raise WrongRecord(f"{reader.path}: {wrong}")
