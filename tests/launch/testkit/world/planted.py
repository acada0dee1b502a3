"""Processes with one fault each, for a small world to find."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from parley.emulator.protocol import Protocol
from parley.emulator.roles.analyst import AnalystRole
from parley.emulator.roles.board import Terms
from parley.emulator.roles.cohort import CohortRole
from parley.emulator.roles.relay import Passed, RelayRole
from parley.emulator.roles.replies import Speakers
from parley.emulator.roles.shuffler import Memory, ShufflerRole
from parley.emulator.wire import messages as wire
from parley.emulator.wire.codec import decode, open_envelope
from parley.launch.testkit.world.parties import Cast
from parley.nodes.board import BoardNode
from parley.nodes.state.user_state import Identity


class ForgetsItsJournal(Cast):
    """Whoever restarts a node that has answered makes it a new state, coins included."""

    def reopened(self, disk: bytes, identity: Identity, fresh: Callable[[Identity], bytes]) -> bytes:
        if b"answered" not in disk:
            return disk
        return fresh(replace(identity, coin_key=bytes(reversed(identity.coin_key))))


class ForgetsWhatItAnswered(Cast):
    """Whoever restarts a node gives it the state it began with: its keys, and nothing of what it answered."""

    def reopened(self, disk: bytes, identity: Identity, fresh: Callable[[Identity], bytes]) -> bytes:
        return fresh(identity)


class ForgetfulBoard(BoardNode):
    """Comes back without the last chunk of replies on its record."""

    def restore(self, now: float) -> None:
        super().restore(now)
        for seat in self.role.seats.values():
            if seat.held and self.role.announce is not None:
                chunk = max(seat.held)
                del seat.held[chunk]
                seat.spans.pop()
                seat.owes = {*(seat.owes or ()), chunk}
                self.role._unfinished.add(seat.node)
                return


class FreshSpeakers(Speakers):
    """Flips other coins whenever it is asked again, whatever the question."""

    flips: Iterator[int]

    def answer(
        self, protocol: Protocol, announce: wire.Announce, question: bytes, wanted: Iterable[int]
    ) -> Iterator[wire.Replies]:
        number = next(self.flips)
        bound = bytes((number,)) * len(question) if number else question
        for replies in super().answer(protocol, announce, bound, wanted):
            yield replace(replies, question=question)


class FreshCoins(CohortRole):
    """A node whose coins are not bound to the question."""

    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]
        own = FreshSpeakers(**{name: getattr(self._speakers, name) for name in Speakers.__dataclass_fields__})
        object.__setattr__(own, "flips", itertools.count())
        self._speakers = own


class TrustsItsLink(RelayRole):
    """A relay that takes for granted that what it passed on has reached the board."""

    def hear_board(self, sealed: bytes, now: float) -> Passed:
        answered = set(self._answered)
        passed = super().hear_board(sealed, now)
        if isinstance(decode(open_envelope(sealed)[2]), wire.Reminder):
            self._answered = answered
        return passed


class MixesAgain(ShufflerRole):
    """Knows from an earlier life which setup it serves, and not that it has posted a batch."""

    def __init__(self, terms: Terms, *, memory: Memory, **settings: Any) -> None:
        memory.batches.clear()
        super().__init__(terms, memory=memory, **settings)


class CountsTwice(AnalystRole):
    """Counts the replies that come after a reminder once more."""

    def _answer(self, message: wire.Message) -> list[wire.Message]:
        said = super()._answer(message)
        self._reminded = isinstance(message, wire.Reminder) or getattr(self, "_reminded", False)
        if isinstance(message, wire.Replies) and self._reminded:
            self._gather(message.round, message.users, message.columns, [message.node])
        return said
