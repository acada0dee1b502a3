"""A user node as a state machine: it answers for a cohort of users, defends each of them alone and trusts nobody.

Theory of operation. A node compares a setup with its consent, and from then on answers each round of that run once:

    Setup -> Seated on disk -> Announce 1 -> Answered on disk -> Replies -> Receipt 1 -> Announce 2 -> ...

What it yields as a `Commit` must be on disk before anything that follows it is sent. Coins are bound to the question,
so that drawing a reply again gives the same bytes. Before it answers a round it wants to see, for every round before,
either that its own frames are on record or that the board names it as missing under its signature (`Receipt`).

A fresh state does not know what an older one under its name has answered. So before its first word about a question a
node wants to be told under a signature which key holds the seat under its name (`Seating`): if it is another than its
own, it stops. A state that has answered knows already that the seat is its own.

Inputs are read in one place, `roles/replies.py`, after everything has been decided: what is visible of a node besides
the content of its replies is the same for every input.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from parley.emulator.coins import question_of, setup_digest, terms_of
from parley.emulator.errors import BadInput, LocalProtocolError, RemoteProtocolError
from parley.emulator.protocol import Builder, Inputs, Protocol, check_arrays
from parley.emulator.roles.consent import Consent
from parley.emulator.roles.node_memory import Answered, Commit, Evidence, Finished, Memory, OwnSeat, Receipts, Seated
from parley.emulator.roles.replies import Speakers, chunk_for
from parley.emulator.wire import messages as wire
from parley.emulator.wire.codec import decode, encode
from parley.emulator.wire.signatures import Signer

if TYPE_CHECKING:
    from parley.emulator.roles.shards.ties import Ties
    from parley.emulator.roles.wallet.entries import View
    from parley.emulator.roles.wallet.wallet import Wallet

Measure = Callable[[str, Mapping[str, Any]], int]

Cohort = Enum("Cohort", "WAITING SEATED LEAVING DONE")
WORDS = (wire.Roster, wire.Setup, wire.Announce, wire.Reminder, wire.Close, wire.Receipt, wire.Tie, wire.Result)
COHORT: Mapping[tuple[Cohort, type[wire.Message]], Cohort] = {
    **{(state, word): state for state in Cohort for word in WORDS},
    (Cohort.WAITING, wire.Setup): Cohort.SEATED,
    (Cohort.SEATED, wire.Result): Cohort.LEAVING,
    **{(state, wire.Abort): Cohort.DONE for state in Cohort},
    **{(state, aside): state for state in Cohort for aside in (wire.Pledge, wire.Seating, wire.Event, wire.Refusal)},
}


class Unheeded(RemoteProtocolError):
    """A setup that is neither accepted nor refused: it is about another run of this name, or no shuffler has pledged
    itself to it yet."""


Said = wire.Message | Commit | Evidence


class CohortRole:
    """Hears messages, yields what to write down and say."""

    def __init__(
        self,
        *,
        node: str,
        first: int,
        inputs: Inputs,
        key: bytes,
        consent: Consent,
        build: Builder,
        memory: Memory | None = None,
        signer: Signer | None = None,
        wallet: "Wallet | None" = None,
        view: "Callable[[wire.Setup], View] | None" = None,
        measure: Measure | None = None,
        chunk: int | None = None,
    ) -> None:
        """`wallet`: what these users may give away over many runs; `view` says what a run's inputs are to it.

        `measure` gives the number of inputs of a protocol before it is built, which may be a lot of work.
        """
        self.node, self.first, self.consent, self.signer = node, first, consent, signer
        self.memory = memory or Memory()
        self.state = Cohort.WAITING
        self.protocol: Protocol | None = None
        self.ending: wire.Result | wire.Abort | None = None
        self._build, self._measure = build, measure
        size = chunk or chunk_for(len(inputs))
        self._speakers = Speakers(node=node, first=first, inputs=inputs, key=key, chunk=size, wallet=wallet, view=view)
        self.chunks = self._speakers.chunks
        self._check_inputs()
        self._terms = self._pledged = b""
        self.seat = OwnSeat(node, self.public, given=not consent.wants_seating or bool(self.memory.answered))
        self._open: wire.Announce | None = None
        self._held: wire.Announce | None = None
        self._receipts = Receipts(node, consent.board, self.chunks, self.memory, self._frames)
        self._ties = self._make_ties() if consent.head else None

    def _check_inputs(self) -> None:
        """Coins are those of the question: with them another input would show how it differs from the one before."""
        for number, answered in self.memory.answered.items():
            if answered.inputs and answered.inputs != self._speakers.mark:
                what = f"round {number} was answered about other inputs than these"
                raise BadInput(f"node {self.node}: {what}; start it with the inputs it had then")

    def _make_ties(self) -> "Ties":
        # Only a shard's users need it.
        from parley.emulator.roles.shards.ties import Ties

        last = self.memory.answered.get(self.memory.round)
        known = (0, b"") if last is None else (last.whole_size, last.whole_root)
        return Ties(self.node, self.consent.shard, self.consent.board, self.consent.head, known)

    @property
    def run(self) -> str:
        """The run it takes part in, or the one it waits for; empty while it waits for any of a pattern."""
        if self.memory.seated is not None:
            return self.memory.seated.run
        return "" if self.consent.is_pattern else self.consent.run

    @property
    def nonce(self) -> bytes:
        return b"" if self.memory.seated is None else self.memory.seated.nonce

    @property
    def public(self) -> bytes:
        """The key that others know it by; empty where nobody signs."""
        return b"" if self.signer is None else self.signer.public

    def ready(self, pid: int) -> wire.Ready:
        users = len(self._speakers.inputs)
        return wire.Ready(node=self.node, first=self.first, users=users, pid=pid, run=self.run, key=self.public)

    @property
    def round(self) -> int:
        return self.memory.round

    def hear(self, message: wire.Message) -> Iterator[Said]:
        """Take in one authentic message; yield what to write down and say. Raise RemoteProtocolError to refuse."""
        following = COHORT.get((self.state, type(message)))
        if following is None:
            raise RemoteProtocolError(f"node {self.node} in {self.state.name}: a {message.kind} is not expected")
        said: Iterator[Said] = iter(())
        if self.state is not Cohort.DONE:
            if isinstance(message, wire.Setup):
                said = self._sit(message)
            elif isinstance(message, wire.Pledge):
                self._pledged = message.setup
            elif isinstance(message, wire.Seating):
                return self._told(message)
            elif isinstance(message, wire.Announce) and self.state is Cohort.SEATED:
                said = self._asked(message)
            elif isinstance(message, wire.Reminder) and self.state is not Cohort.WAITING:
                said = self._again(message)
            elif isinstance(message, wire.Tie):
                self._tied(message)
            elif isinstance(message, wire.Receipt) and self.state is not Cohort.WAITING and self.consent.wants_receipts:
                return self._believe(message)
            elif isinstance(message, wire.Result | wire.Abort) and following is not self.state:
                return self._end(message)
        self.state = following
        return said

    def inquiry(self) -> wire.Inquiry | None:
        """What to ask the board for: whose the seat is, or the receipt of the first round it has not shown yet."""
        if self._held is not None and not self.seat.taken:
            return wire.Inquiry(run=self.run, round=0, node=self.node)
        waiting = self._held is not None or self.state is Cohort.LEAVING
        if not waiting or not self.consent.wants_receipts:
            return None
        return wire.Inquiry(run=self.run, round=self._receipts.proven + 1, node=self.node)

    def frame(self, message: wire.Message) -> bytes:
        """A message of this node as it goes out, signed; of replies the digest is kept until they are on record."""
        frame = encode(message, self.signer, self.nonce)
        if isinstance(message, wire.Replies):
            self._receipts.note_sent(message, frame)
        return frame

    def _refuse(self, reason: str) -> RemoteProtocolError:
        return RemoteProtocolError(f"node {self.node}: {reason}")

    def _sit(self, setup: wire.Setup) -> Iterator[Said]:
        """Accept the terms of a run once; hear them again only if not a byte has changed."""
        digest, seated = setup_digest(setup), self.memory.seated
        if self.protocol is not None or seated is not None:
            if seated is None or digest != seated.digest:
                raise self._refuse(f"a second, different setup for run {setup.run}")
            if self.protocol is not None:
                return iter(())
        held = self.seat.nonce_of(setup.run)
        if seated is None and held and setup.nonce != held:
            raise Unheeded(f"node {self.node}: a setup for another run {setup.run} than the one it holds a seat in")
        if setup.run in self.memory.finished:
            raise self._refuse(f"the run {setup.run} is over, and nothing of it is answered again")
        self._check(self.consent.check_setup, setup)
        if self._measure is not None:
            self._check(self.consent.check_size, setup, self._measure(setup.protocol, setup.parameters))
        protocol = self._build(setup.protocol, setup.parameters)
        if setup.version != protocol.version:
            raise self._refuse(f"{setup.protocol} of version {setup.version}; this node speaks {protocol.version}")
        self._check(self.consent.check_claim, setup, protocol.claim, protocol.inputs)
        self._check(self.consent.check_columns, setup, protocol.column_levels)
        behind = protocol.claim.trusts == "shuffler" and self.consent.trusts == "shuffler"
        if behind and self.consent.shuffler and self._pledged != digest:
            raise Unheeded(f"node {self.node}: the shuffler these users trust has not pledged itself to this setup")
        self.seat.take(setup.run, setup.nonce)
        if not self._speakers.can_afford(setup, protocol, self.consent.trusts):
            raise self._refuse("none of its users can afford this run")
        self.protocol, self._terms = protocol, terms_of(setup)
        fresh = Seated(run=setup.run, digest=digest, nonce=setup.nonce)
        return iter(()) if seated is not None else iter((self._note(fresh),))

    def _told(self, seating: wire.Seating) -> Iterator[Said]:
        """Who holds the seat under its name. It may come before the setup, which says what the run's nonce is."""
        if not self.consent.wants_seating or seating.node != self.node or not self.consent.covers(seating.run):
            return
        self.seat.note(seating)
        if self.memory.seated is not None:
            self.seat.take(self.run, self.nonce)
        if self.seat.taken:
            yield from self._go_on()

    def _tied(self, tie: wire.Tie) -> None:
        """One after the other: each head of the whole run is held against the one before."""
        if self._ties is None or self.memory.seated is None:
            return
        if (tie.run, tie.round) == (self.run, self._receipts.proven + 1):
            self._ties.take(tie, self.nonce, self._frames_of)

    def _check(self, check: Callable[..., None], *given: Any) -> None:
        try:
            check(*given)
        except RemoteProtocolError as error:
            raise self._refuse(str(error)) from None

    def _note(self, commit: Commit) -> Commit:
        self.memory.note(commit)
        return commit

    def _asked(self, announce: wire.Announce) -> Iterator[Said]:
        """Check the broadcast, fix the answer, answer. The second time the same broadcast comes, say nothing."""
        protocol = self._seated()
        if announce.run != self.run:
            raise self._refuse(f"a broadcast of run {announce.run} in run {self.run}")
        if not 1 <= announce.round <= len(protocol.rounds):
            raise self._refuse(f"round {announce.round} of {len(protocol.rounds)}")
        step = protocol.rounds[announce.round - 1]
        check_arrays(f"broadcast of round {announce.round}", announce.broadcast, step.broadcast)
        question = question_of(self._terms, announce)
        known = self.memory.answered.get(announce.round)
        if known is None and announce.round <= self.round:
            raise self._refuse(f"round {announce.round} comes out of order")
        if known is not None and known.question != question:
            raise self._refuse(f"a second, different broadcast for round {announce.round}")
        if known is not None and self._open is not None and self._open.round == announce.round:
            return iter(())
        # A broadcast made to overflow is a matter for `check_broadcast` to judge, not for a warning.
        with np.errstate(all="ignore"):
            step.check_broadcast(announce.broadcast)
        if known is None and not (self._may_answer(announce) and self.seat.taken):
            # Answer when the receipts have come; ask for the first that is missing.
            fresh, self._held = self._held is None or self._held.round != announce.round, announce
            inquiry = self.inquiry()
            return iter([inquiry] if fresh and inquiry is not None else [])
        return self._answer(announce, question, fresh=known is None)

    def _may_answer(self, announce: wire.Announce) -> bool:
        """Whether every round before is accounted for; without receipts no round may be left out."""
        if self.consent.wants_receipts:
            return self._receipts.proven >= announce.round - 1
        if announce.round != self.round + 1:
            raise self._refuse(f"round {announce.round} comes after round {self.round}; none may be left out")
        return True

    def _go_on(self) -> Iterator[Said]:
        """Look again at the broadcast that is held, if there is one."""
        if self._held is not None:
            announce, self._held = self._held, None
            yield from self._asked(announce)

    def _answer(self, announce: wire.Announce, question: bytes, *, fresh: bool) -> Iterator[Said]:
        self._open, self._held = announce, None
        if fresh:
            whole = (0, b"") if self._ties is None else self._ties.known
            names = ("size", "root", "whole_size", "whole_root")
            heads: dict[str, Any] = dict(zip(names, (*self._receipts.head, *whole), strict=True))
            frame, mark = encode(announce), self._speakers.mark
            yield self._note(Answered(round=announce.round, question=question, announce=frame, inputs=mark, **heads))
        protocol = self._seated()
        # An answer that is not whole looks like a lie, so say how many are silent for good reason.
        if silent := self._speakers.silent(announce, protocol.rounds[announce.round - 1]):
            yield wire.wallet_event(self.node, announce.round, silent)
        yield from self._speakers.answer(protocol, announce, question, range(self.chunks))

    def _again(self, reminder: wire.Reminder) -> Iterator[Said]:
        """The same bytes once more: coins are addressed, so the reply is drawn again, not anew."""
        elsewhere = reminder.run != self.run or self.node not in reminder.missing
        if elsewhere or self._open is None or reminder.round != self._open.round:
            return iter(())
        wanted = [each for each in reminder.missing[self.node] if each < self.chunks] or range(self.chunks)
        return self._speakers.answer(self._seated(), self._open, question_of(self._terms, self._open), wanted)

    def _believe(self, receipt: wire.Receipt) -> Iterator[Said]:
        """The board shows our frames of a closed round on record, or that it declared them missing."""
        if (receipt.run, receipt.node, receipt.round) != (self.run, self.node, self._receipts.proven + 1):
            return
        if self._ties is not None and not self._ties.covers(receipt, self.nonce, self._frames_of):
            # The tie may have been lost on its way; whoever asks for the receipt again is shown both.
            return
        evidence = self._receipts.believe(receipt, self.nonce)
        if evidence is not None:
            yield evidence
        if self._held is not None:
            yield from self._go_on()
        elif self.state is Cohort.LEAVING and self._receipts.proven >= self.round:
            yield from self._leave()

    def _frames_of(self, number: int) -> tuple[bytes, ...]:
        return tuple(self._frames(number))

    def _frames(self, number: int) -> Iterator[bytes]:
        answered = self.memory.answered.get(number)
        announce = None if answered is None else decode(answered.announce)
        if answered is not None and isinstance(announce, wire.Announce):
            for replies in self._speakers.answer(self._seated(), announce, answered.question, range(self.chunks)):
                yield self.frame(replies)

    def _end(self, ending: wire.Result | wire.Abort) -> Iterator[Said]:
        """A result ends the run once the last reply is accounted for; an abort ends it at once."""
        over = ending.run in self.memory.finished
        if over or self.run not in ("", ending.run) or not self.consent.covers(ending.run):
            return
        nonce = self.nonce or self.seat.nonce_of(ending.run)
        if isinstance(ending, wire.Abort) and nonce and ending.nonce != nonce:
            # It was signed for another run of this name, or for this one before it had begun.
            return
        self.ending = ending
        if isinstance(ending, wire.Result) and self.consent.wants_receipts and self._receipts.proven < self.round:
            self.state = Cohort.LEAVING
            yield from filter(None, (self.inquiry(),))
            return
        yield from self._leave()
        if isinstance(ending, wire.Result) and not self.seat.taken:
            what = f"run {ending.run} is over, and nobody said that this node holds the seat; nothing was answered"
            raise LocalProtocolError(f"node {self.node}: {what}")

    def _leave(self) -> Iterator[Said]:
        if self.memory.seated is not None:
            yield self._note(Finished(run=self.memory.seated.run))
        self.state = Cohort.DONE

    def _seated(self) -> Protocol:
        if self.protocol is None:
            raise LocalProtocolError(f"node {self.node}: no setup was heard")
        return self.protocol
