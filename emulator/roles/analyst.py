"""The analyst as a state machine without input or output: it hears a message and says messages.

`ANALYST` is the whole truth about which message may come when. A role has no clock, socket, logger or random state;
the same roles run in memory and over sockets, and both give the same bytes.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum

import numpy as np

from parley.emulator.arithmetic import one_thread
from parley.emulator.errors import RemoteProtocolError
from parley.emulator.protocol import Analysis, Broadcast, Estimate, Protocol, check_arrays
from parley.emulator.randomizer import Columns
from parley.emulator.roles.board import ASIDES
from parley.emulator.roles.consent import Domain, domain_of
from parley.emulator.round import Tally
from parley.emulator.wire import messages as wire
from parley.emulator.wire.codec import FORMAT, encode
from parley.emulator.wire.shapes import Alike

# A seat for everybody on earth would keep the analyst, and whoever reads its record, busy for hours.
MOST_USERS = 2**30

Analyst = Enum("Analyst", "WAITING OPENING GATHERING CONCLUDING DONE ENDED")
ANALYST: Mapping[tuple[Analyst, type[wire.Message]], Analyst] = {
    (Analyst.WAITING, wire.Roster): Analyst.OPENING,
    (Analyst.OPENING, wire.Setup): Analyst.OPENING,
    (Analyst.OPENING, wire.Announce): Analyst.GATHERING,
    (Analyst.GATHERING, wire.Replies): Analyst.GATHERING,
    (Analyst.GATHERING, wire.Tally): Analyst.GATHERING,
    (Analyst.GATHERING, wire.Close): Analyst.CONCLUDING,
    (Analyst.CONCLUDING, wire.Announce): Analyst.GATHERING,
    (Analyst.CONCLUDING, wire.Result): Analyst.DONE,
    **{(state, wire.Abort): Analyst.ENDED for state in Analyst if state not in (Analyst.DONE, Analyst.ENDED)},
    **{(state, aside): state for state in Analyst for aside in ASIDES},
}


def note_silent(known: Counter[tuple[int, str]], number: int, node: str, silent: int, users: int) -> None:
    """How many users of a node are silent for their wallets, as it says: once a round, and no more than it has."""
    if silent:
        known[number, node] = min(silent, users)


class AnalystRole:
    """Asks in rounds, folds replies into tallies, says the estimate.

    It hears everything that goes on record, its own words included: an analyst that was killed hears the record
    again from the start and is where it was. `pending` is what it has said and not yet heard back.
    """

    def __init__(self, protocol: Protocol, run: str, domain: Domain | None = None, *, format: int = FORMAT) -> None:
        """`domain`: what the inputs mean, where they come from columns.

        `format` is that of the record; in format 1 nobody said what inputs mean and how many users answer.
        """
        self.protocol, self.run, self.format = protocol, run, format
        self.domain = domain_of(protocol.inputs) if domain is None else domain
        self.nonce = b""
        self.state = Analyst.WAITING
        self.pending: list[wire.Message] = []
        self.rejections: Counter[str] = Counter()
        self._silent: Counter[tuple[int, str]] = Counter()
        self.replied = 0
        self._seats: list[tuple[int, int]] = []
        self._seated = self._chunks = 0
        self._users: dict[str, int] = {}
        self._shards: set[str] = set()
        self._held: set[int] = set()
        self._heard: list[tuple[Broadcast, Tally]] = []
        self._analysis = Analysis(protocol)

    @property
    def rejected(self) -> int:
        """Replies that no honest user would have sent and that count for nothing."""
        return self.rejections.total()

    @property
    def tallies(self) -> dict[int, Tally]:
        """What it has heard in each round."""
        return {number: tally for number, (_, tally) in enumerate(self._heard, 1)}

    @property
    def round(self) -> int:
        """The round now open or last open; 0 before the first."""
        return len(self._heard)

    def hear(self, message: wire.Message) -> list[wire.Message]:
        """Take in one recorded message; return what is to be said because of it."""
        if isinstance(message, wire.Abort) and self.pending and not self.agrees(message, self.pending[0]):
            # The board gave up before it heard this: what is not on record was never said.
            self.pending, self.state = [], Analyst.ENDED
            return []
        if self.pending and type(message) is type(self.pending[0]):
            # What comes back must be what was said, to the byte; a choice may be another that users accept.
            if not self.agrees(message, self.expected(message)):
                raise RemoteProtocolError(f"analyst: the record holds a different {message.kind} than the one it said")
            self.pending.pop(0)
            if isinstance(message, wire.Announce):
                self._heard[-1] = (message.broadcast, self._heard[-1][1])
            return []
        if isinstance(message, wire.Setup | wire.Announce | wire.Result):
            raise RemoteProtocolError(f"analyst in {self.state.name}: heard a {message.kind} that it did not say")
        before = self.state
        try:
            self._move(type(message))
            said = self._answer(message)
        except RemoteProtocolError:
            # Nothing of what is refused is used.
            self.state = before
            raise
        for each in said:
            self._move(type(each))
        self.pending += said
        return said

    def hear_all(self, replies: Alike) -> None:
        """Take in recorded replies of one shape, which say nothing that calls for an answer."""
        self._move(wire.Replies)
        self._gather(replies.shape.round, replies.users, replies.columns, replies.nodes)
        self._chunks = self._chunks or int(replies.chunks[0])
        self._held.update(replies.chunk.tolist())

    def _move(self, kind: type[wire.Message]) -> None:
        following = ANALYST.get((self.state, kind))
        if following is None:
            raise RemoteProtocolError(f"analyst in {self.state.name}: a {kind.kind} is not expected")
        self.state = following

    def expected(self, message: wire.Message) -> wire.Message | None:
        """What the analyst says at this place of the record: its own word, with choices as the record has them."""
        said = self.pending[0] if self.pending else None
        if not (isinstance(said, wire.Announce) and isinstance(message, wire.Announce)) or not self._analysis.chosen:
            return said
        recorded = {name: message.broadcast[name] for name in self._analysis.chosen if name in message.broadcast}
        public = {**said.broadcast, **recorded}
        step = self.protocol.rounds[said.round - 1]
        check_arrays(f"round {said.round}", public, step.broadcast)
        step.check_broadcast(public)
        return replace(said, broadcast=public)

    def agrees(self, message: wire.Message, said: wire.Message | None) -> bool:
        """Whether a recorded word is the one that was said."""
        return said is not None and encode(message) == encode(said)

    def _answer(self, message: wire.Message) -> list[wire.Message]:
        if isinstance(message, wire.Ready | wire.Shard):
            if isinstance(message, wire.Shard):
                self._seats += [(first, end) for first, end in message.stretches.tolist()]
                self._shards.add(message.node)
            else:
                self._seats.append((message.first, message.first + message.users))
            self._seated += message.users
            self._users[message.node] = message.users
            if self._seated > MOST_USERS:
                raise RemoteProtocolError(f"analyst: nodes claim more than {MOST_USERS} users")
        if isinstance(message, wire.Roster):
            claim, self.nonce = self.protocol.claim, message.nonce
            setup = wire.Setup(
                run=self.run,
                protocol=self.protocol.name,
                parameters=self.protocol.parameters(),
                epsilon=claim.epsilon,
                delta=claim.delta,
                rounds=claim.rounds,
                version=self.protocol.version,
                domain=self.domain,
                nonce=self.nonce,
            )
            with one_thread():
                opening = self._analysis.open()
            return [setup, self._open(opening)]
        if isinstance(message, wire.Replies):
            self._gather(message.round, message.users, message.columns, [message.node])
            self._chunks = self._chunks or message.chunks
            self._held.add(message.chunk)
        if isinstance(message, wire.Tally):
            self._add(message)
        if isinstance(message, wire.Event) and message.round <= self.round:
            most = self._users.get(message.node, 0)
            note_silent(self._silent, message.round, message.node, wire.silent_users(message), most)
        if isinstance(message, wire.Close):
            return [self._conclude(message)]
        return []

    def _open(self, broadcast: Broadcast) -> wire.Announce:
        number = len(self._heard) + 1
        step = self.protocol.rounds[number - 1]
        check_arrays(f"round {number}", broadcast, step.broadcast)
        columns = {name: np.empty((0, *trailing), dtype) for name, (dtype, trailing) in step.reply.items()}
        nobody = step.complete(broadcast, np.zeros(0, np.int64), columns)
        self._heard.append((broadcast, step.tally(broadcast, nobody)))
        self._chunks, self._held = 0, set()
        # How many of the users who are there answer in this round.
        speakers = 0 if self.format == 1 else sum(step.speakers(first, end) for first, end in self._seats)
        return wire.Announce(run=self.run, round=number, broadcast=broadcast, speakers=speakers)

    def _gather(self, number: int, users: wire.Users, columns: Columns, nodes: Sequence[str]) -> None:
        """Fold replies into the tally and forget them; those outside the output space are left out and counted.

        `nodes`: who sent them, each as many as the others.
        """
        if number != self.round:
            raise RemoteProtocolError(f"analyst in round {self.round}: a reply for round {number}")
        step = self.protocol.rounds[self.round - 1]
        broadcast, tally = self._heard[-1]
        each = len(users) // len(nodes)
        try:
            check_arrays("replies", columns, step.reply, len(users))
        except RemoteProtocolError:
            for node in nodes:
                self.rejections[node] += each
            return
        columns = step.complete(broadcast, users, columns)
        good = step.check(broadcast, columns) & step.participates(users)
        if not good.all():
            for row in np.flatnonzero(~good).tolist():
                self.rejections[nodes[row // each]] += 1
            columns = {name: column[good] for name, column in columns.items()}
        self._heard[-1] = (broadcast, tally + step.tally(broadcast, columns))

    def _add(self, tally: wire.Tally) -> None:
        """Add the sums of a shard. Only a shard that took a seat may send some, and for no more users than it has."""
        if tally.round != self.round or tally.node not in self._shards:
            raise RemoteProtocolError(f"analyst in round {self.round}: a tally of {tally.node} for round {tally.round}")
        broadcast, before = self._heard[-1]
        for node, count in tally.rejected.items():
            self.rejections[node] += count
        note_silent(self._silent, tally.round, tally.node, tally.silent, self._users[tally.node])
        said = Tally(tally.replies, tally.sums)
        possible = self.protocol.rounds[self.round - 1].could_be(broadcast, said)
        if not possible or tally.replies > self._users[tally.node]:
            # A shard whose sums no replies can have counts for nothing.
            self.rejections[tally.node] += tally.replies
            return
        self._heard[-1] = (broadcast, before + said)

    def _conclude(self, close: wire.Close) -> wire.Message:
        if close.round != self.round:
            raise RemoteProtocolError(f"analyst in round {self.round}: round {close.round} was closed")
        self.replied += self._heard[-1][1].replies
        if self._heard[-1][1].replies == 0:
            return self._give_up(f"no usable reply in round {self.round}")
        lacking = self._chunks - len(self._held)
        if self.protocol.claim.trusts == "shuffler" and lacking:
            # Sums of shares mean nothing unless all shares are there, and a part of a crowd hides nobody.
            what = f"the shuffler's batch of round {self.round} is incomplete"
            return self._give_up(f"{what}: {lacking} frames are missing")
        # The same replies must give the same bits, here and when the record is replayed.
        with one_thread():
            conclusion = self._analysis.hear(*self._heard[-1])
        if not isinstance(conclusion, Estimate):
            return self._open(conclusion)
        # Whose replies were left out, and how many users were silent for their wallets: there for all to see. Who is
        # silent for that reason depends on past replies, so the interval does not cover it.
        rejected = {"rejected": dict(self.rejections)} if self.rejections else {}
        silent = {"silent_for_wallets": self._silent.total()} if self._silent.total() else {}
        return wire.Result(
            run=self.run,
            estimate=conclusion.value,
            predicted_rmse=conclusion.predicted_rmse,
            low=conclusion.interval95[0],
            high=conclusion.interval95[1],
            replied=self.replied,
            details={**conclusion.details, **rejected, **silent},
        )

    def _give_up(self, reason: str) -> wire.Abort:
        return wire.Abort(run=self.run, outcome="failed", reason=reason, nonce=self.nonce)
