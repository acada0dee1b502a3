"""What must hold after every run, however it was disturbed.

- One draw for each user and round: all replies that a node ever sends in a round are the same bytes, over all its
  lives, and its state on disk holds each question it answered, once.
- Every reply is the one that the witness gives for a question that the analyst asked. Everything on record was said by
  whom it names.
- The exact loss of everything that was said is within the claim.
- Nobody hangs, nobody crashes, no node has evidence against the board.
- The run gives the estimate of the quiet run or, where somebody was lost for good, that of fewer replies if there is a
  quorum, and otherwise it ends with a closed record.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from parley.emulator.audit.privacy import ROUNDING, Ledger
from parley.emulator.coins import coins, question_of, terms_of
from parley.emulator.errors import ParleyError, RemoteProtocolError
from parley.emulator.protocol import Inputs, Protocol
from parley.emulator.record.conversation import Answers
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.roles.board import ANALYST_NAME, BOARD_NAME, LAUNCHER_NAME
from parley.emulator.transport.virtual_time import Stalled
from parley.emulator.wire.codec import decode, unpack
from parley.emulator.wire.messages import Announce, Event, Message, Replies, Result, Setup
from parley.launch.cluster.virtual_run import Story
from parley.launch.results.folder import RunFolder
from parley.nodes.state.disk import Chain
from parley.nodes.state.user_state import FILE, MAGIC


@dataclass(frozen=True, kw_only=True)
class Violation:
    """A rule that was broken, and how it shows."""

    rule: str
    what: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}"


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
    """Judges runs of one protocol about the same inputs with the same key. What was checked once is remembered."""

    def __init__(self, protocol: Protocol, inputs: Inputs, key: bytes, quiet: Result | None) -> None:
        """`quiet`: the result of the quiet run; None where even that has none."""
        self.protocol, self.inputs, self.key, self.quiet = protocol, inputs, key, quiet
        self._decoded: dict[bytes, Message | None] = {}
        self._faithful: dict[tuple[bytes, bytes], str] = {}
        self._losses: dict[frozenset[bytes], float] = {}

    def judge(self, ran: Ran) -> list[Violation]:
        """All rules that a run has broken."""
        found = [*self._ending(ran), *self._draws(ran), *self._record(ran), *self._journals(ran)]
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

    def _record(self, ran: Ran) -> Iterator[Violation]:
        """The record is whole and closed, and holds what was said."""
        if ran.error is not None and not ran.folder.transcript.exists():
            # It was over before there was a board.
            return
        said, result = defaultdict[str, set[bytes]](set), None
        for name, frame in ran.said:
            said[name].add(frame)
        try:
            reader = TranscriptReader(ran.folder.transcript)
            for record in reader:
                if record.sender in (BOARD_NAME, LAUNCHER_NAME) or record.frame in said[record.sender]:
                    message = self._decode(record.frame) if record.sender == ANALYST_NAME else None
                    result = message if isinstance(message, Result) else result
                elif not isinstance(self._decode(record.frame), Event):
                    what = f"record {record.sequence} is in the name of {record.sender}, who did not say it"
                    yield Violation(rule="what is on record was said", what=what)
        except ParleyError as error:
            yield Violation(rule="the record is whole", what=str(error))
            return
        if reader.closing is None:
            yield Violation(rule="the record is closed", what=f"it ends at byte {reader.truncated_at}")
        elif ran.error is None and (reader.closing.outcome != "completed" or result is None):
            yield Violation(rule="the record is closed", what=f"as {reader.closing.outcome}, after a complete run")
        quiet, everybody = self.quiet, 0 if self.quiet is None else self.quiet.replied
        # Where a quorum is enough and somebody was missing, the estimate is one of fewer replies.
        fewer = ran.may_fail and result is not None and result.replied < everybody
        same = result is not None and quiet is not None and result.estimate == quiet.estimate
        if result is not None and not (same or fewer):
            wanted = "none" if quiet is None else f"{quiet.estimate!r} of {quiet.replied} replies"
            what = f"{result.estimate!r} of {result.replied} replies instead of {wanted}"
            yield Violation(rule="the estimate is that of the quiet run", what=what)

    def _draws(self, ran: Ran) -> Iterator[Violation]:
        """One draw, of the right coins, to questions that were asked; within the claim."""
        asked = self._questions(frame for name, frame in ran.said if name == ANALYST_NAME)
        nodes = {path.parent.name for path in ran.folder.path.glob(f"state/*/{FILE}")}
        drawn: dict[tuple[str, int, int], bytes] = {}
        for name, frame in ran.said:
            replies = self._decode(frame) if name in nodes else None
            if not isinstance(replies, Replies):
                continue
            place = name, replies.round, replies.chunk
            if drawn.setdefault(place, frame) != frame:
                what = f"{name} said two things in round {replies.round}"
                yield Violation(rule="one draw for each user and round", what=what)
            announce = asked.get(replies.question)
            if announce is None:
                what = f"{name} answers a question in round {replies.round} that nobody asked"
                yield Violation(rule="replies are those of the witness", what=what)
            elif wrong := self._unfaithful(replies, frame, announce):
                yield Violation(rule="replies are those of the witness", what=f"{name}, {wrong}")
        loss, claim = self._loss(frozenset(drawn.values()), asked), self.protocol.claim
        if claim.trusts == "nobody" and claim.delta == 0 and loss > claim.epsilon + ROUNDING:
            yield Violation(rule="the exact loss is within the claim", what=f"{loss:.6g} of {claim.epsilon:g}")

    def _questions(self, frames: Iterable[bytes]) -> dict[bytes, Announce]:
        """Everything the analyst asked, by its digest."""
        words = [self._decode(frame) for frame in dict.fromkeys(frames)]
        terms = [terms_of(word) for word in words if isinstance(word, Setup)]
        return {question_of(each, word): word for word in words if isinstance(word, Announce) for each in terms}

    def _unfaithful(self, replies: Replies, frame: bytes, announce: Announce) -> str:
        """How a reply differs from that of the witness; empty where it does not."""
        known = frame, replies.question
        if known not in self._faithful:
            self._faithful[known] = ""
            if len(replies.users):
                first, last = int(replies.users[0]), int(replies.users[-1])
                flip = partial(coins, self.key, replies.question)
                step = self.protocol.rounds[replies.round - 1]
                users, columns = step.draw(announce.broadcast, self.inputs[first : last + 1], first, flip)
                same = np.array_equal(users, replies.users) and set(columns) == set(replies.columns)
                if not same or any(not np.array_equal(columns[name], replies.columns[name]) for name in columns):
                    self._faithful[known] = f"round {replies.round}, users {first} to {last}"
        return self._faithful[known]

    def _loss(self, frames: frozenset[bytes], asked: dict[bytes, Announce]) -> float:
        """The largest exact loss of a user by all that was said."""
        if frames not in self._losses:
            ledger = Ledger(np.arange(len(self.inputs), dtype=np.int64), self.protocol.inputs)
            for frame in sorted(frames):
                replies = self._decode(frame)
                assert isinstance(replies, Replies)
                if replies.question in asked and len(replies.users):
                    step, public = self.protocol.rounds[replies.round - 1], asked[replies.question].broadcast
                    ledger.take(Answers.of(replies, step, public))
            self._losses[frames] = float(ledger.losses.max())
        return self._losses[frames]

    def _journals(self, ran: Ran) -> Iterator[Violation]:
        """What a node said it has written down, once, and it is still there."""
        answered = defaultdict[str, set[bytes]](set)
        for name, frame in ran.said:
            replies = None if name in (ANALYST_NAME, BOARD_NAME) else self._decode(frame)
            if isinstance(replies, Replies):
                answered[name].add(replies.question)
        for path in sorted(ran.folder.path.glob(f"state/*/{FILE}")):
            name, questions = path.parent.name, list[bytes]()
            try:
                for payload in Chain(MAGIC).payloads(path.read_bytes()):
                    entry = unpack(payload)
                    if isinstance(entry, tuple) and entry[0] == "answered":
                        questions.append(entry[1]["question"])
            except ValueError as error:
                if name not in ran.damaged:
                    yield Violation(rule="a journal is whole", what=f"{name} is {error}")
            if len(set(questions)) < len(questions):
                what = f"{name} wrote down a question that it had answered before"
                yield Violation(rule="one draw for each user and round", what=what)
            if not answered[name] <= set(questions):
                yield Violation(rule="nobody answers what is not in its journal", what=name)

    def _decode(self, frame: bytes) -> Message | None:
        if frame not in self._decoded:
            try:
                self._decoded[frame] = decode(frame)
            except RemoteProtocolError:
                self._decoded[frame] = None
        return self._decoded[frame]
