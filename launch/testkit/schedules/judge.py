"""Judges a run under a schedule, after it: by what was said, by its record, and by the journals on the nodes' disks.

To the rules of `invariants.py` come those that a whole run must keep:

- Nobody hangs, nobody crashes, no node has evidence against the board.
- The record is whole and closed, as complete only with a result. A run that lost nobody for good completes.
- A node's state on disk holds each question it answered, once.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from parley.emulator.errors import ParleyError, RemoteProtocolError
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.roles.board import ANALYST_NAME, BOARD_NAME, LAUNCHER_NAME
from parley.emulator.transport.virtual_time import Stalled
from parley.emulator.wire.codec import decode, unpack
from parley.emulator.wire.messages import Event, Message, Replies, Result
from parley.launch.cluster.virtual_run import Story
from parley.launch.results.folder import RunFolder
from parley.launch.testkit.invariants import ONE_DRAW, Rules, Violation, questions
from parley.nodes.state.disk import Chain
from parley.nodes.state.user_state import FILE, MAGIC


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A run to be judged: its folder, every frame that somebody said, and how it ended.

    `may_fail`: somebody was lost for good, so that it may end without a result. `damaged`: whose disks have failed.
    """

    folder: RunFolder
    said: list[tuple[str, bytes]]
    story: Story
    error: ParleyError | None
    may_fail: bool
    damaged: frozenset[str]


class Judge:
    """Judges runs by the same rules. Frames are decoded once."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._decoded: dict[bytes, Message | None] = {}

    def judge(self, ran: Ran) -> list[Violation]:
        """All rules that a run has broken."""
        found = [*self._ending(ran), *self._said(ran), *self._record(ran), *self._journals(ran)]
        for name, error in ran.story.crashes:
            found.append(Violation(rule="nobody crashes", what=f"{name}: {error!r}"))
        for path in sorted(ran.folder.path.glob("state/*/evidence-*")):
            found.append(Violation(rule="no node has evidence against the board", what=path.parent.name))
        return found

    def _ending(self, ran: Ran) -> Iterator[Violation]:
        if isinstance(ran.error, Stalled):
            yield Violation(rule="nobody hangs", what=str(ran.error))
        elif ran.error is not None and not ran.may_fail:
            yield Violation(rule="a run that lost nobody completes", what=str(ran.error))

    def _said(self, ran: Ran) -> Iterator[Violation]:
        """What nodes and analyst said. A shuffler says again what nodes said, in another order."""
        nodes = {path.parent.name for path in ran.folder.path.glob(f"state/*/{FILE}")}
        said = {each: self._decode(each) for name, each in ran.said if name == ANALYST_NAME or name in nodes}
        return self._rules.said(filter(None, said.values()), questions(said.values()))

    def _record(self, ran: Ran) -> Iterator[Violation]:
        """The record is whole and closed, and holds what was said."""
        if ran.error is not None and not ran.folder.transcript.exists():
            # It was over before there was a board.
            return
        records = list[tuple[tuple[str, bytes], Message | None]]()
        try:
            reader = TranscriptReader(ran.folder.transcript)
            for record in reader:
                message = self._decode(record.frame)
                # Board and launcher write down what they say; an event may be about somebody else.
                if record.sender not in (BOARD_NAME, LAUNCHER_NAME) and not isinstance(message, Event):
                    records.append(((record.sender, record.frame), message))
        except ParleyError as error:
            yield Violation(rule="the record is whole", what=str(error))
            return
        has_result = any(isinstance(message, Result) for _, message in records)
        if reader.closing is None:
            yield Violation(rule="the record is closed", what=f"it ends at byte {reader.truncated_at}")
        elif ran.error is None and (reader.closing.outcome != "completed" or not has_result):
            yield Violation(rule="the record is closed", what=f"as {reader.closing.outcome}, after a complete run")
        yield from self._rules.recorded(records, set(ran.said), fewer=ran.may_fail)

    def _journals(self, ran: Ran) -> Iterator[Violation]:
        """What a node said it has written down, once, and it is still there."""
        answered = defaultdict[str, set[bytes]](set)
        for name, frame in ran.said:
            replies = None if name in (ANALYST_NAME, BOARD_NAME) else self._decode(frame)
            if isinstance(replies, Replies):
                answered[name].add(replies.question)
        for path in sorted(ran.folder.path.glob(f"state/*/{FILE}")):
            name, asked = path.parent.name, list[bytes]()
            try:
                for payload in Chain(MAGIC).payloads(path.read_bytes()):
                    entry = unpack(payload)
                    if isinstance(entry, tuple) and entry[0] == "answered":
                        asked.append(entry[1]["question"])
            except ValueError as error:
                if name not in ran.damaged:
                    yield Violation(rule="a journal is whole", what=f"{name} is {error}")
            if len(set(asked)) < len(asked):
                yield Violation(rule=ONE_DRAW, what=f"{name} wrote down a question that it had answered before")
            if not answered[name] <= set(asked):
                yield Violation(rule="nobody answers what is not in its journal", what=name)

    def _decode(self, frame: bytes) -> Message | None:
        if frame not in self._decoded:
            try:
                self._decoded[frame] = decode(frame)
            except RemoteProtocolError:
                self._decoded[frame] = None
        return self._decoded[frame]
