"""Rounds: counted in the record, never taken from a field, with what is mere transport beside them."""

from collections import Counter
from typing import get_args

import numpy as np

from emulator.audit.conversation import Conversation
from emulator.audit.people import People
from emulator.audit.verdict import Verdict, failed, passed, unknown
from emulator.messages import Announce, Message, Replies, Result
from emulator.protocol import Interaction

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


def check_rounds(conversation: Conversation) -> Verdict:
    """Declared against observed: number of rounds and class of interaction."""
    seen = Alternations()
    for _, message in conversation.messages():
        seen.take(message)
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
    return passed(**evidence)
