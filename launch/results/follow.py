"""Follow a run by its growing record, and end a record whose board cannot do so itself."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from parley.emulator.errors import BadInput, LocalProtocolError, ParleyError, TranscriptError
from parley.emulator.record.conversation import KEPT_BYTES, Conversation
from parley.emulator.record.shards import read_run
from parley.emulator.record.summary import Summary, summarize
from parley.emulator.record.transcript import TranscriptReader, TranscriptWriter
from parley.emulator.roles.board import BOARD_NAME, LAUNCHER_NAME
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import Abort, Close, Event, Outcome, Result
from parley.launch.report.story import Story
from parley.launch.results.display.printable import printable
from parley.launch.results.display.progress import Standing
from parley.protocols.registry import build

TAKEOVER_SECONDS = 5.0


class Follower:
    """Reads what was added to a transcript since it last looked, and tells it as a story while it grows."""

    def __init__(self, transcript: Path, expected: Standing) -> None:
        self.transcript = transcript
        self.story = Story()
        self.reports: set[str] = set()
        self._expected = expected
        self._reader: TranscriptReader | None = None

    @property
    def summary(self) -> Summary:
        return self.story.summary

    @property
    def ended(self) -> bool:
        return self.summary.ending is not None

    @property
    def completed(self) -> bool:
        """The analyst has said its last word."""
        return isinstance(self.summary.ending, Result)

    @property
    def closed(self) -> bool:
        """Nothing more will be recorded."""
        return self._reader is not None and self._reader.closing is not None and self._reader.unfinished is None

    def look(self) -> list[Standing]:
        """Take in all that is new: how things stood when each round was closed, and how they stand now."""
        passed: list[Standing] = []
        if self._reader is None and self.transcript.exists():
            # The board may be in the middle of writing the header.
            with suppress(TranscriptError):
                self._reader = read_run(self.transcript, keep=KEPT_BYTES)
                self.story = Story(Conversation(self._reader, build))
        if self._reader is not None:
            for record in self._reader.since(self.summary.next):
                self.story.take(record)
                if isinstance(record.message, Close):
                    passed.append(self.standing)
                elif isinstance(record.message, Event) and record.message.node == LAUNCHER_NAME:
                    self.reports.add(record.message.detail)
        return [*passed, self.standing]

    @property
    def standing(self) -> Standing:
        summary = self.summary
        standing = replace(self._expected, joined=len(summary.seats))
        if summary.rounds:
            last = summary.rounds[-1]
            standing = replace(standing, round=last.number, replies=last.replies, asked=summary.asked(last.number))
        for each in reversed(summary.rounds[-2:]):
            if each.seconds is not None:
                return replace(standing, closed=each.number, missing=each.missing, seconds=each.seconds)
        return standing

    def check_completed(self) -> None:
        ending = self.summary.ending
        if isinstance(ending, Abort):
            raise LocalProtocolError(f"the run ended without a result: {printable(ending.reason)}")
        if ending is None:
            raise LocalProtocolError("the run ended without a result: the board stopped before the analyst was done")


def close_broken(transcript: Path, run: str, error: BaseException, time_ns: Callable[[], int] = time.time_ns) -> None:
    """Give a record its end when the processes that wrote it are gone: what happened, and the closing record."""
    if not transcript.exists():
        return
    outcome: Outcome = "failed" if isinstance(error, ParleyError) else "aborted"
    reason = (str(error) if isinstance(error, ParleyError) else "the launcher was told to stop")[:500]
    # A transcript that is closed already, damaged or still held by somebody is left as it is.
    with suppress(ParleyError), _resume(transcript) as writer:
        summary = summarize(TranscriptReader(transcript))
        last = summary.ending
        if last is None:
            nonce = b"" if summary.roster is None else summary.roster.nonce
            last = Abort(run=run, outcome=outcome, reason=reason, nonce=nonce)
            writer.append(BOARD_NAME, encode(last), time_ns())
        # Where the board said how the run ended, it died before it could close the record.
        writer.close(*("completed",) if isinstance(last, Result) else (last.outcome, last.reason))


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
