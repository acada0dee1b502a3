"""Follow a run by its growing record, and end a record whose board cannot do so itself."""

import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from parley.emulator.errors import BadInput, LocalProtocolError, ParleyError, TranscriptError
from parley.emulator.record.transcript import TranscriptReader, TranscriptWriter
from parley.emulator.roles.board import BOARD_NAME, LAUNCHER_NAME
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import (
    Abort,
    Announce,
    Close,
    Event,
    Message,
    Outcome,
    Ready,
    Replies,
    Result,
    Roster,
)
from parley.launch.results.printable import printable
from parley.launch.results.progress import Standing

TAKEOVER_SECONDS = 5.0


class Follower:
    """Reads what was added to a transcript since it last looked."""

    def __init__(self, transcript: Path, *, nodes: int, users: int, declared: int) -> None:
        self.transcript = transcript
        self.standing = Standing(nodes=nodes, users=users, declared=declared)
        self.ending: Result | Abort | None = None
        self.reports: set[str] = set()
        self._reader: TranscriptReader | None = None
        self._next = 0
        self._opened = 0.0

    @property
    def ended(self) -> bool:
        return self.ending is not None

    @property
    def completed(self) -> bool:
        """The analyst has said its last word."""
        return isinstance(self.ending, Result)

    @property
    def closed(self) -> bool:
        """Nothing more will be recorded."""
        return self._reader is not None and self._reader.closing is not None

    def look(self) -> list[Standing]:
        """Take in all that is new: how things stood when each round was closed, and how they stand now."""
        passed: list[Standing] = []
        if self._reader is None and self.transcript.exists():
            # The board may be in the middle of writing the header.
            with suppress(TranscriptError):
                self._reader = TranscriptReader(self.transcript)
        if self._reader is not None:
            for record in self._reader.since(self._next):
                self._next = record.sequence + 1
                self._take(record.message, record.time)
                if isinstance(record.message, Close):
                    passed.append(self.standing)
        return [*passed, self.standing]

    def check_completed(self) -> None:
        """Raise unless the analyst has said its last word."""
        if isinstance(self.ending, Abort):
            raise LocalProtocolError(f"the run ended without a result: {printable(self.ending.reason)}")
        if self.ending is None:
            raise LocalProtocolError("the run ended without a result: the board stopped before the analyst was done")

    def _take(self, message: Message, now: float) -> None:
        standing = self.standing
        if isinstance(message, Ready):
            self.standing = replace(standing, joined=standing.joined + 1)
        elif isinstance(message, Announce):
            self._opened = now
            self.standing = replace(standing, round=message.round, replies=0)
        elif isinstance(message, Replies):
            self.standing = replace(standing, replies=standing.replies + len(message.users))
        elif isinstance(message, Close):
            self.standing = replace(standing, closed=message.round, missing=message.missing, seconds=now - self._opened)
        elif isinstance(message, Result | Abort):
            self.ending = message
        elif isinstance(message, Event) and message.node == LAUNCHER_NAME:
            self.reports.add(message.detail)


def close_broken(transcript: Path, run: str, error: BaseException) -> None:
    """Give a record its end when the processes that wrote it are gone: what happened, and the closing record."""
    if not transcript.exists():
        return
    outcome: Outcome = "failed" if isinstance(error, ParleyError) else "aborted"
    reason = (str(error) if isinstance(error, ParleyError) else "the launcher was told to stop")[:500]
    # A transcript that is closed already, damaged or still held by somebody is left as it is.
    with suppress(ParleyError), _resume(transcript) as writer:
        last, nonce = None, b""
        for record in TranscriptReader(transcript):
            last = record.message
            nonce = last.nonce if isinstance(last, Roster) else nonce
        if isinstance(last, Result):
            writer.close("completed")
            return
        if isinstance(last, Abort):
            # The board said how the run ended and died before it could close the record.
            writer.close(last.outcome, last.reason)
            return
        abort = Abort(run=run, outcome=outcome, reason=reason, nonce=nonce)
        writer.append(BOARD_NAME, encode(abort), time.time_ns())
        writer.close(outcome, reason)


def _resume(transcript: Path) -> TranscriptWriter:
    """Take the record over; a board that was killed a moment ago may still hold it."""
    limit = time.monotonic() + TAKEOVER_SECONDS
    while True:
        try:
            return TranscriptWriter.resume(transcript)
        except BadInput:
            if time.monotonic() > limit:
                raise
            time.sleep(0.02)
