"""The parties as state machines without input or output: a role hears a message and says messages.

`ANALYST` and `COHORT` are the whole truth about which message may come when. A role has no clock, socket, logger
or random state; the same roles run in memory and over sockets, and both give the same bytes.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import numpy as np

from emulator.arithmetic import one_thread
from emulator.codec import encode
from emulator.coins import coins
from emulator.errors import LocalProtocolError, RemoteProtocolError
from emulator.messages import (
    Abort,
    Announce,
    Close,
    Event,
    Message,
    Ready,
    Refusal,
    Reminder,
    Replies,
    Result,
    Roster,
    Setup,
)
from emulator.protocol import Broadcast, Estimate, Inputs, Protocol, Tally, Trust, check_arrays

CHUNK = 4096
Builder = Callable[[str, Mapping[str, Any]], Protocol]


class Analyst(Enum):
    """Where the analyst stands."""

    WAITING = auto()
    OPENING = auto()
    GATHERING = auto()
    CONCLUDING = auto()
    DONE = auto()
    ENDED = auto()


class Cohort(Enum):
    """Where a user node stands."""

    WAITING = auto()
    SEATED = auto()
    DONE = auto()


ANALYST: Mapping[tuple[Analyst, type[Message]], Analyst] = {
    (Analyst.WAITING, Roster): Analyst.OPENING,
    (Analyst.OPENING, Setup): Analyst.OPENING,
    (Analyst.OPENING, Announce): Analyst.GATHERING,
    (Analyst.GATHERING, Replies): Analyst.GATHERING,
    (Analyst.GATHERING, Close): Analyst.CONCLUDING,
    (Analyst.CONCLUDING, Announce): Analyst.GATHERING,
    (Analyst.CONCLUDING, Result): Analyst.DONE,
    **{(state, Abort): Analyst.ENDED for state in Analyst if state not in (Analyst.DONE, Analyst.ENDED)},
    **{(state, aside): state for state in Analyst for aside in (Ready, Refusal, Reminder, Event)},
}

COHORT: Mapping[tuple[Cohort, type[Message]], Cohort] = {
    (Cohort.WAITING, Roster): Cohort.WAITING,
    (Cohort.WAITING, Setup): Cohort.SEATED,
    (Cohort.WAITING, Announce): Cohort.WAITING,
    (Cohort.WAITING, Reminder): Cohort.WAITING,
    (Cohort.WAITING, Close): Cohort.WAITING,
    (Cohort.SEATED, Roster): Cohort.SEATED,
    (Cohort.SEATED, Setup): Cohort.SEATED,
    (Cohort.SEATED, Announce): Cohort.SEATED,
    (Cohort.SEATED, Reminder): Cohort.SEATED,
    (Cohort.SEATED, Close): Cohort.SEATED,
    **{(state, end): Cohort.DONE for state in Cohort for end in (Result, Abort)},
    **{(state, aside): state for state in Cohort for aside in (Event, Refusal)},
    **{(Cohort.DONE, late): Cohort.DONE for late in (Roster, Setup, Announce, Reminder, Close)},
}


class AnalystRole:
    """Asks in rounds, folds replies into tallies, says the estimate.

    It hears everything that goes on record, its own words included: an analyst that was killed hears the record
    again from the start and is where it was. `pending` is what it has said and not yet heard back.
    """

    def __init__(self, protocol: Protocol, run: str) -> None:
        self.protocol = protocol
        self.run = run
        self.state = Analyst.WAITING
        self.pending: list[Message] = []
        self.rejections: Counter[str] = Counter()
        self.replied = 0
        self._heard: list[tuple[Broadcast, Tally]] = []
        self._tally: Tally | None = None

    @property
    def rejected(self) -> int:
        """Replies that no honest user would have sent and that count for nothing."""
        return self.rejections.total()

    @property
    def round(self) -> int:
        """The round now open or last open; 0 before the first."""
        return len(self._heard)

    def hear(self, message: Message) -> list[Message]:
        """Take in one recorded message; return what is to be said because of it."""
        if self.pending and type(message) is type(self.pending[0]):
            self._echo(message)
            return []
        if isinstance(message, Setup | Announce | Result):
            raise RemoteProtocolError(f"analyst in {self.state.name}: heard a {message.kind} that it did not say")
        before = self.state
        try:
            self._move(message)
            said = self._answer(message)
        except RemoteProtocolError:
            # Nothing of what is refused is used.
            self.state = before
            raise
        for each in said:
            self._move(each)
        self.pending += said
        return said

    def _move(self, message: Message) -> None:
        following = ANALYST.get((self.state, type(message)))
        if following is None:
            raise RemoteProtocolError(f"analyst in {self.state.name}: a {message.kind} is not expected")
        self.state = following

    def _echo(self, message: Message) -> None:
        """What comes back must be what was said, to the byte."""
        if encode(message) != encode(self.pending[0]):
            raise RemoteProtocolError(f"analyst: the record holds another {message.kind} than the one it said")
        self.pending.pop(0)

    def _answer(self, message: Message) -> list[Message]:
        if isinstance(message, Roster):
            claim = self.protocol.claim
            setup = Setup(
                run=self.run,
                protocol=self.protocol.name,
                parameters=self.protocol.parameters(),
                epsilon=claim.epsilon,
                delta=claim.delta,
                rounds=claim.rounds,
            )
            return [setup, self._open(self.protocol.opening())]
        if isinstance(message, Replies):
            self._gather(message)
        if isinstance(message, Close):
            return [self._conclude(message)]
        return []

    def _open(self, broadcast: Broadcast) -> Announce:
        number = len(self._heard) + 1
        check_arrays(f"round {number}", broadcast, self.protocol.rounds[number - 1].broadcast)
        nobody = self._nobody(number, broadcast)
        self._heard.append((broadcast, nobody))
        return Announce(run=self.run, round=number, broadcast=broadcast)

    def _nobody(self, number: int, broadcast: Broadcast) -> Tally:
        shape = self.protocol.rounds[number - 1].reply
        empty = {name: np.empty((0, *trailing), dtype) for name, (dtype, trailing) in shape.items()}
        return self.protocol.rounds[number - 1].tally(broadcast, empty)

    def _gather(self, replies: Replies) -> None:
        """Fold a chunk into the tally and forget it; replies outside the output space are left out and counted."""
        if replies.round != self.round:
            raise RemoteProtocolError(f"analyst in round {self.round}: a reply for round {replies.round}")
        step = self.protocol.rounds[self.round - 1]
        broadcast, tally = self._heard[-1]
        try:
            check_arrays(f"replies of {replies.node}", replies.columns, step.reply, len(replies.users))
        except RemoteProtocolError:
            self.rejections[replies.node] += len(replies.users)
            return
        good = step.check(broadcast, replies.columns) & step.speaks(replies.users)
        columns = replies.columns
        if not good.all():
            self.rejections[replies.node] += int((~good).sum())
            columns = {name: column[good] for name, column in columns.items()}
        self._heard[-1] = (broadcast, tally + step.tally(broadcast, columns))

    def _conclude(self, close: Close) -> Message:
        if close.round != self.round:
            raise RemoteProtocolError(f"analyst in round {self.round}: round {close.round} was closed")
        self.replied += self._heard[-1][1].replies
        if self._heard[-1][1].replies == 0:
            return Abort(run=self.run, outcome="failed", reason=f"no usable reply in round {self.round}")
        # The same replies must give the same bits, here and when the record is replayed.
        with one_thread():
            conclusion = self.protocol.conclude(tuple(self._heard))
        if not isinstance(conclusion, Estimate):
            return self._open(conclusion)
        return Result(
            run=self.run,
            estimate=conclusion.value,
            predicted_rmse=conclusion.predicted_rmse,
            low=conclusion.interval95[0],
            high=conclusion.interval95[1],
            replied=self.replied,
            details=self._with_rejections(conclusion.details),
        )

    def _with_rejections(self, details: Mapping[str, Any]) -> Mapping[str, Any]:
        """Whose replies were left out, and how many: there for all to see."""
        return {**details, "rejected": dict(self.rejections)} if self.rejections else details


@dataclass(frozen=True, kw_only=True)
class Commit:
    """Must be on the node's disk before anything that follows it is sent: this round's answer is now fixed."""

    run: str
    round: int
    digest: bytes


class CohortRole:
    """Answers for a cohort of users and defends each of them alone; it trusts nobody.

    `commitments` are the broadcasts already answered (round -> digest), from the journal of an earlier life.
    """

    def __init__(
        self,
        *,
        node: str,
        first: int,
        inputs: Inputs,
        key: bytes,
        cap: float,
        build: Builder,
        run: str | None = None,
        commitments: Mapping[int, bytes] | None = None,
        chunk: int = CHUNK,
        trusts: Trust = "nobody",
        delta_cap: float = 0.0,
    ) -> None:
        self.node = node
        self.first = first
        self.inputs = inputs
        self.state = Cohort.WAITING
        self.run = run
        self.protocol: Protocol | None = None
        self.commitments: dict[int, bytes] = dict(commitments or {})
        self._key = key
        self._cap = cap
        self._build = build
        self._chunk = chunk
        self._trusts = trusts
        self._delta_cap = delta_cap
        self._setup = b""
        self._open: Announce | None = None

    @property
    def chunks(self) -> int:
        """Frames in which the cohort answers."""
        return max(1, -(-len(self.inputs) // self._chunk))

    def hear(self, message: Message) -> Iterator[Message | Commit]:
        """Take in one message; yield what to write down and say. Raise RemoteProtocolError to refuse."""
        following = COHORT.get((self.state, type(message)))
        if following is None:
            raise RemoteProtocolError(f"node {self.node} in {self.state.name}: a {message.kind} is not expected")
        said: Iterator[Message | Commit] = iter(())
        if self.state is not Cohort.DONE:
            if isinstance(message, Setup):
                self._sit(message)
            elif isinstance(message, Announce) and self.state is Cohort.SEATED:
                said = self._answer(message)
            elif isinstance(message, Reminder) and self.state is Cohort.SEATED:
                said = self._again(message)
            elif isinstance(message, Result | Abort) and self.run not in (None, message.run):
                following = self.state
        self.state = following
        return said

    def _sit(self, setup: Setup) -> None:
        """Accept the terms of a run once; hear them again only if not a byte has changed."""
        digest = hashlib.sha256(encode(setup)).digest()
        if self._setup:
            if digest != self._setup:
                raise RemoteProtocolError(f"node {self.node}: a second, different setup for run {setup.run}")
            return
        if self.run not in (None, setup.run):
            raise RemoteProtocolError(f"node {self.node}: its coins belong to run {self.run}, not to {setup.run}")
        protocol = self._build(setup.protocol, setup.parameters)
        claim = protocol.claim
        declared = (setup.epsilon, setup.delta, setup.rounds)
        if declared != (claim.epsilon, claim.delta, claim.rounds):
            raise RemoteProtocolError(
                f"node {self.node}: setup claims {declared} but {setup.protocol} is "
                f"{(claim.epsilon, claim.delta, claim.rounds)}"
            )
        epsilon = claim.epsilon_for(self._trusts)
        # Said this way round a cap that is no number lets nothing through.
        if not epsilon <= self._cap:
            unless = "" if epsilon == claim.epsilon else f" for users who trust {self._trusts}"
            raise RemoteProtocolError(
                f"node {self.node}: epsilon {epsilon}{unless} is above this user's cap {self._cap}"
            )
        if not claim.delta <= self._delta_cap:
            raise RemoteProtocolError(
                f"node {self.node}: delta {claim.delta} is above this user's cap {self._delta_cap}"
            )
        if len(self.inputs) and int(self.inputs.max()) >= protocol.inputs:
            raise LocalProtocolError(f"node {self.node}: an input is outside 0..{protocol.inputs - 1}")
        self.protocol, self.run, self._setup = protocol, setup.run, digest

    def _answer(self, announce: Announce) -> Iterator[Message | Commit]:
        """Check the broadcast, fix the answer, answer. The second time the same broadcast comes, say nothing."""
        protocol = self._seated()
        if announce.run != self.run:
            raise RemoteProtocolError(f"node {self.node}: a broadcast of run {announce.run} in run {self.run}")
        if not 1 <= announce.round <= len(protocol.rounds):
            raise RemoteProtocolError(f"node {self.node}: round {announce.round} of {len(protocol.rounds)}")
        step = protocol.rounds[announce.round - 1]
        check_arrays(f"broadcast of round {announce.round}", announce.broadcast, step.broadcast)
        digest = hashlib.sha256(encode(announce)).digest()
        known = self.commitments.get(announce.round)
        if known is None and announce.round < max(self.commitments, default=0):
            raise RemoteProtocolError(f"node {self.node}: round {announce.round} comes out of order")
        if known is not None and known != digest:
            raise RemoteProtocolError(f"node {self.node}: a second, different broadcast for round {announce.round}")
        if known is not None and self._open is not None and self._open.round == announce.round:
            return iter(())
        # A broadcast made to overflow is a matter for `admit` to judge, not for a warning.
        with np.errstate(all="ignore"):
            step.admit(announce.broadcast)
        self._open = announce
        return self._fix_and_reply(announce, digest, fresh=known is None)

    def _fix_and_reply(self, announce: Announce, digest: bytes, *, fresh: bool) -> Iterator[Message | Commit]:
        if fresh:
            self.commitments[announce.round] = digest
            yield Commit(run=announce.run, round=announce.round, digest=digest)
        yield from self._replies(announce, range(self.chunks))

    def _again(self, reminder: Reminder) -> Iterator[Message | Commit]:
        """The same bytes once more: coins are addressed, so the reply is drawn again, not anew."""
        if reminder.run != self.run or self.node not in reminder.missing or self._open is None:
            return iter(())
        if reminder.round != self._open.round:
            return iter(())
        wanted = [each for each in reminder.missing[self.node] if each < self.chunks] or range(self.chunks)
        return self._replies(self._open, wanted)

    def _replies(self, announce: Announce, wanted: "range | list[int]") -> Iterator[Message]:
        step = self._seated().rounds[announce.round - 1]
        for chunk in wanted:
            start, stop = chunk * self._chunk, min((chunk + 1) * self._chunk, len(self.inputs))
            users = np.arange(self.first + start, self.first + stop, dtype=np.int64)
            speaking = step.speaks(users)
            flips = coins(self._key, announce.round, self.first + start, stop - start, step.coins)
            columns = step.respond(announce.broadcast, self.inputs[start:stop][speaking], flips[speaking])
            yield Replies(
                run=announce.run,
                round=announce.round,
                node=self.node,
                chunk=chunk,
                chunks=self.chunks,
                users=users[speaking],
                columns=columns,
            )

    def _seated(self) -> Protocol:
        if self.protocol is None:
            raise LocalProtocolError(f"node {self.node}: no setup was heard")
        return self.protocol
