"""Rounds: counted in the record, never taken from a field, with what is mere transport beside them.

Whoever answers, answers for all of its users who are to speak: a node whose frames are all there, and who claims more
users than it speaks for, is named.
"""

from collections import Counter
from typing import get_args

import numpy as np

from parley.emulator.audit.evidence.conversation import Conversation
from parley.emulator.audit.evidence.user_sets import People
from parley.emulator.audit.verdict import Verdict, failed, passed, unknown
from parley.emulator.protocol import Interaction, Protocol
from parley.emulator.roles.analyst import BLOCK, MOST_USERS
from parley.emulator.roles.shuffler import SHUFFLER_NAME
from parley.emulator.wire.messages import Announce, Event, Message, Replies, Result, silent_users

CLASSES: tuple[Interaction, ...] = get_args(Interaction)
PROTOCOL_KINDS = ("announce", "replies", "close", "result")


class Alternations:
    """A round is a broadcast followed by replies. Who speaks in two rounds makes a protocol fully interactive."""

    def __init__(self) -> None:
        self.observed = 0
        self.unanswered = 0
        self.again = 0
        self.transport: Counter[str] = Counter()
        self._waiting = False
        self._before = People()
        self._now = People()

    def take(self, message: Message) -> None:
        """Count one recorded message."""
        if isinstance(message, Announce):
            self.unanswered += self._waiting
            self._waiting = True
        elif isinstance(message, Replies) and len(message.users):
            self._answer(message)
        elif message.kind not in PROTOCOL_KINDS:
            self.transport[message.kind] += 1

    def _answer(self, replies: Replies) -> None:
        if self._waiting:
            self.observed += 1
            self._waiting = False
            for block in self._now.blocks(2**20):
                self._before.add(block)
            self._now = People()
        self.again += int(np.count_nonzero(self._before.holds(replies.users)))
        self._now.add(replies.users)

    @property
    def interaction(self) -> Interaction:
        """The smallest class that holds what was seen."""
        if self.observed <= 1:
            return "non-interactive"
        return "fully interactive" if self.again else "sequentially interactive"


class Turnout:
    """How many users each node answered for, round by round, and whether all of its frames are there."""

    def __init__(self) -> None:
        self._answered: Counter[tuple[int, str]] = Counter()
        self._chunks: dict[tuple[int, str], tuple[int, set[int]]] = {}
        self._silent: dict[tuple[int, str], int] = {}

    def take(self, message: Message) -> None:
        """Count the users of one frame."""
        if isinstance(message, Replies):
            place = message.round, message.node
            self._answered[place] += len(message.users)
            self._chunks.setdefault(place, (message.chunks, set()))[1].add(message.chunk)
        elif isinstance(message, Event) and (silent := silent_users(message)):
            self._silent[message.round, message.node] = silent

    def wrong(self, conversation: Conversation, protocol: Protocol) -> str:
        """Which node answered whole, and yet not for all of its users but those whose wallets refuse.

        A shuffler speaks for those who came to it.
        """
        seats = {seat.node: seat for seat in conversation.seats if seat.node != SHUFFLER_NAME}
        for (number, node), answered in self._answered.items():
            chunks, held = self._chunks[number, node]
            if node not in seats or len(held) < chunks or not 1 <= number <= len(protocol.rounds):
                continue
            first, end = seats[node].first, seats[node].first + seats[node].users
            if end - first > MOST_USERS:
                return f"{node} claims {end - first} users, more than a run has"
            step = protocol.rounds[number - 1]
            speakers = sum(
                int(step.participates(np.arange(start, min(start + BLOCK, end))).sum())
                for start in range(first, end, BLOCK)
            )
            if answered + self._silent.get((number, node), 0) != speakers:
                return f"{node} answered round {number} for {answered} of its {speakers} users who were to speak"
        return ""


def check_rounds(conversation: Conversation) -> Verdict:
    """Declared against observed: number of rounds and class of interaction."""
    seen, turnout = Alternations(), Turnout()
    for _, message in conversation.messages():
        seen.take(message)
        turnout.take(message)
    setup, protocol = conversation.setup, conversation.protocol
    evidence = {
        "declared": None if setup is None else setup.rounds,
        "observed": seen.observed,
        "interaction": {
            "declared": None if protocol is None else protocol.claim.interaction,
            "observed": seen.interaction,
        },
        "transport": dict(seen.transport),
    }
    if setup is None or protocol is None:
        return unknown(conversation.problem, **evidence)
    claim = protocol.claim
    if setup.rounds != claim.rounds:
        return failed(f"the setup declares {setup.rounds} rounds, its protocol has {claim.rounds}", **evidence)
    if seen.observed > setup.rounds:
        return failed(f"{seen.observed} rounds took place, {setup.rounds} were declared", **evidence)
    if CLASSES.index(seen.interaction) > CLASSES.index(claim.interaction):
        return failed(f"{seen.again} replies came from users who had spoken before: {seen.interaction}", **evidence)
    if isinstance(conversation.ending, Result) and seen.observed != setup.rounds:
        return failed(f"{seen.observed} rounds led to a result, {setup.rounds} were declared", **evidence)
    wrong = turnout.wrong(conversation, protocol)
    if wrong:
        return failed(wrong, **evidence)
    return passed(**evidence)
