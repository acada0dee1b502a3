"""The conversation again: the analyst's words from the record alone, the users' replies from witness and broadcasts."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from parley.emulator.arithmetic import one_thread
from parley.emulator.coins import recorded_coins
from parley.emulator.errors import BadInput, ParleyError
from parley.emulator.protocol import Protocol
from parley.emulator.record.bags import bags, unmatched
from parley.emulator.record.conversation import Conversation, Progress, quiet
from parley.emulator.record.differences import Difference, compare_messages, compare_replies, reply_of
from parley.emulator.record.witness import Witness
from parley.emulator.roles.analyst import AnalystRole
from parley.emulator.roles.board import ANALYST_NAME
from parley.emulator.wire.messages import Announce, Message, Replies, Setup

Role = Literal["analyst", "users", "all"]


@dataclass(frozen=True, kw_only=True)
class Replay:
    """What came of it: how much was compared, and the first difference."""

    role: Role
    compared: int
    difference: Difference | None

    @property
    def identical(self) -> bool:
        """Not a byte differed."""
        return self.difference is None

    def record(self) -> dict[str, Any]:
        """As JSON."""
        first = None if self.difference is None else self.difference.record()
        return {"role": self.role, "identical": self.identical, "first_difference": first, "compared": self.compared}


class AnalystReplay:
    """A fresh analyst that hears the record and whose every word is compared with the recorded one."""

    def __init__(self, protocol: Protocol, setup: Setup, format: int) -> None:
        self.role = AnalystRole(protocol, setup.run, setup.domain, format=format)
        self.compared = 0

    def hear(self, sender: str, message: Message) -> Difference | None:
        """Take in one recorded message; where it is the analyst's own, it must be what the fresh one says."""
        if sender == ANALYST_NAME:
            self.compared += 1
            try:
                difference = compare_messages(message, self.role.expected(message))
            except ParleyError as error:
                difference = _unlike(message, error)
            if difference is not None:
                return difference
        try:
            with np.errstate(all="ignore"), one_thread():
                self.role.hear(message)
        except (ParleyError, ArithmeticError, ValueError) as error:
            return _unlike(message, error)
        return None


def _unlike(message: Message, error: Exception) -> Difference:
    """A recorded message at which a fresh analyst stops."""
    number = getattr(message, "round", None)
    return Difference(round=number, user=None, recorded={"kind": message.kind}, replayed={"error": str(error)})


def replay_analyst(conversation: Conversation) -> Replay:
    """The analyst's every word from the transcript alone, the estimate with them, bit for bit."""
    setup, protocol = speaking(conversation)
    analyst = AnalystReplay(protocol, setup, conversation.format)
    for record, message in conversation.messages():
        difference = analyst.hear(record.sender, message)
        if difference is not None:
            return Replay(role="analyst", compared=analyst.compared, difference=difference)
    unsaid = analyst.role.pending[0] if conversation.ending is not None and analyst.role.pending else None
    lost = None if unsaid is None else compare_messages(None, unsaid)
    return Replay(role="analyst", compared=analyst.compared, difference=lost)


def replay_users(conversation: Conversation, witness: Witness, progress: Progress = quiet) -> Replay:
    """Every recorded reply from inputs, coins and recorded broadcasts, byte for byte, one frame at a time."""
    setup, protocol = speaking(conversation)
    if witness.run != setup.run:
        raise BadInput(f"the witness belongs to the run {witness.run}, the transcript to {setup.run}")
    if protocol.claim.trusts == "shuffler":
        return _replay_bags(conversation, protocol, witness)
    announces = {announce.round: announce for announce in reversed(conversation.announces)}
    refused = conversation.refused(protocol)
    compared = 0
    for _, replies in conversation.replies("users", progress):
        with one_thread():
            wrong = refused.get(replies.round, f"round {replies.round} was not announced")
            difference = _replay_frame(setup, protocol, announces, wrong, witness, replies)
        compared += len(replies.users)
        if difference is not None:
            return Replay(role="users", compared=compared, difference=difference)
    return Replay(role="users", compared=compared, difference=None)


def _replay_bags(conversation: Conversation, protocol: Protocol, witness: Witness) -> Replay:
    """Behind a shuffler replies have no users: the bag of all messages must be the witness's."""
    compared = 0
    for number, recorded, replayed in bags(conversation, protocol, witness):
        sizes = [sum(len(each.whole(name)) for name in each.prints) for each in (recorded, replayed)]
        foreign = unmatched(recorded, replayed)
        compared += sizes[0]
        if foreign is None or foreign:
            said = {"messages": sizes[0], "not the witness's": "some" if foreign is None else foreign}
            difference = Difference(round=number, user=None, recorded=said, replayed={"messages": sizes[1]})
            return Replay(role="users", compared=compared, difference=difference)
    return Replay(role="users", compared=compared, difference=None)


def speaking(conversation: Conversation) -> tuple[Setup, Protocol]:
    """Setup and protocol, or BadInput: without them nobody can be replayed."""
    if conversation.setup is None or conversation.protocol is None:
        raise BadInput(f"{conversation.reader.path} cannot be replayed: {conversation.unbuilt}")
    return conversation.setup, conversation.protocol


def _replay_frame(
    setup: Setup,
    protocol: Protocol,
    announces: Mapping[int, Announce],
    wrong: str,
    witness: Witness,
    replies: Replies,
) -> Difference | None:
    """The same users again: coins are addressed, so it does not matter how a cohort was cut into frames."""
    if not len(replies.users):
        return None
    number, first, last = replies.round, int(replies.users[0]), int(replies.users[-1])
    if last >= len(witness.inputs):
        wrong = f"the witness knows {len(witness.inputs)} users"
    if wrong:
        return Difference(round=number, user=first, recorded=reply_of(replies, 0), replayed={"refusal": wrong})
    announce, step = announces[number], protocol.rounds[number - 1]
    flip = recorded_coins(setup, announce, witness.key)
    users, columns = step.draw(announce.broadcast, witness.inputs[first : last + 1], first, flip)
    return compare_replies(replies, replace(replies, users=users, columns=columns))
