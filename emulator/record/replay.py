"""The conversation again: the analyst's words from the record alone, the users' replies from witness and broadcasts."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from parley.emulator.arithmetic import one_thread
from parley.emulator.coins import recorded_coins
from parley.emulator.errors import BadInput, ParleyError
from parley.emulator.protocol import Protocol
from parley.emulator.record.bags import bags, unmatched
from parley.emulator.record.conversation import Conversation
from parley.emulator.record.diff import Difference, compare_messages, compare_replies, reply_of
from parley.emulator.record.witness import Witness
from parley.emulator.roles.analyst import AnalystRole
from parley.emulator.roles.board import ANALYST_NAME
from parley.emulator.wire.messages import Setup

Role = Literal["analyst", "users", "all"]


@dataclass(frozen=True, kw_only=True)
class Replay:
    """What came of it: how much was compared, and the first difference."""

    role: Role
    compared: int
    difference: Difference | None

    @property
    def identical(self) -> bool:
        return self.difference is None

    def record(self) -> dict[str, Any]:
        first = None if self.difference is None else self.difference.record()
        return {"role": self.role, "identical": self.identical, "first_difference": first, "compared": self.compared}


def speaking(conversation: Conversation) -> tuple[Setup, Protocol]:
    """Setup and protocol, or BadInput: without them nobody can be replayed."""
    if conversation.setup is None or conversation.protocol is None:
        raise BadInput(f"{conversation.reader.path} cannot be replayed: {conversation.unbuilt}")
    return conversation.setup, conversation.protocol


def replay_analyst(conversation: Conversation) -> Replay:
    """The analyst's every word from the transcript alone, the estimate with them, bit for bit."""
    setup, protocol = speaking(conversation)
    role, compared = AnalystRole(protocol, setup.run, setup.domain, format=conversation.format), 0
    for record, message in conversation.messages():
        difference = None
        try:
            if record.sender == ANALYST_NAME:
                compared += 1
                difference = compare_messages(message, role.expected(message))
            if difference is None:
                with np.errstate(all="ignore"), one_thread():
                    role.hear(message)
        except (ParleyError, ArithmeticError, ValueError) as error:
            number, said = getattr(message, "round", None), {"kind": message.kind}
            difference = Difference(round=number, user=None, recorded=said, replayed={"error": str(error)})
        if difference is not None:
            return Replay(role="analyst", compared=compared, difference=difference)
    unsaid = role.pending[0] if conversation.ending is not None and role.pending else None
    lost = None if unsaid is None else compare_messages(None, unsaid)
    return Replay(role="analyst", compared=compared, difference=lost)


def replay_users(conversation: Conversation, witness: Witness) -> Replay:
    """Every recorded reply from inputs, coins and recorded broadcasts, byte for byte, one frame at a time.

    Coins are addressed, so it does not matter how a cohort was cut into frames.
    """
    setup, protocol = speaking(conversation)
    if witness.run != setup.run:
        raise BadInput(f"the witness belongs to the run {witness.run}, the transcript to {setup.run}")
    if protocol.claim.trusts == "shuffler":
        return _replay_bags(conversation, protocol, witness)
    questions, refused = conversation.questions, conversation.refused(protocol)
    compared, difference = 0, None
    for _, replies in conversation.replies():
        if not len(replies.users):
            continue
        compared += len(replies.users)
        number, first, last = replies.round, int(replies.users[0]), int(replies.users[-1])
        wrong = refused.get(number, f"round {number} was not announced")
        if last >= len(witness.inputs):
            wrong = f"the witness knows {len(witness.inputs)} users"
        if wrong:
            said = reply_of(replies, first)
            difference = Difference(round=number, user=first, recorded=said, replayed={"refusal": wrong})
        else:
            announce, inputs = questions[number], witness.inputs[first : last + 1]
            flip = recorded_coins(setup, announce, witness.key)
            with one_thread():
                users, columns = protocol.rounds[number - 1].draw(announce.broadcast, inputs, first, flip)
            difference = compare_replies(replies, replace(replies, users=users, columns=columns))
        if difference is not None:
            break
    return Replay(role="users", compared=compared, difference=difference)


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
