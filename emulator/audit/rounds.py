"""Rounds: counted in the record, never taken from a field, with what is mere transport beside them.

Whoever answers, answers for all of its users who are to speak: a node whose frames are all there, and who claims more
users than it speaks for, is named.
"""

from typing import get_args

from parley.emulator.audit.verdict import Verdict, failed, passed, unknown
from parley.emulator.protocol import Interaction
from parley.emulator.record.conversation import Conversation
from parley.emulator.roles.analyst import MOST_USERS
from parley.emulator.roles.shuffler import SHUFFLER_NAME
from parley.emulator.wire.messages import Result

CLASSES: tuple[Interaction, ...] = get_args(Interaction)
PROTOCOL_KINDS = ("announce", "replies", "close", "result")


def check_rounds(conversation: Conversation) -> Verdict:
    """Declared against observed: number of rounds and class of interaction."""
    setup, protocol = conversation.setup, conversation.protocol
    observed, interaction = conversation.observed, conversation.interaction
    evidence = {
        "declared": None if setup is None else setup.rounds,
        "observed": observed,
        "interaction": {"declared": None if protocol is None else protocol.claim.interaction, "observed": interaction},
        "transport": {kind: count for kind, count in conversation.kinds.items() if kind not in PROTOCOL_KINDS},
    }
    if setup is None or protocol is None:
        return unknown(conversation.unbuilt, **evidence)
    claim = protocol.claim
    if setup.rounds != claim.rounds:
        return failed(f"the setup declares {setup.rounds} rounds, its protocol has {claim.rounds}", **evidence)
    if observed > setup.rounds:
        return failed(f"{observed} rounds took place, {setup.rounds} were declared", **evidence)
    if CLASSES.index(interaction) > CLASSES.index(claim.interaction):
        return failed(f"{conversation.again} replies came from users who had spoken before: {interaction}", **evidence)
    if isinstance(conversation.ending, Result) and observed != setup.rounds:
        return failed(f"{observed} rounds led to a result, {setup.rounds} were declared", **evidence)
    wrong = _half_hearted(conversation)
    return failed(wrong, **evidence) if wrong else passed(**evidence)


def _half_hearted(conversation: Conversation) -> str:
    """Which node answered whole, and yet not for all of its users but those whose wallets refuse.

    A shuffler speaks for those who came to it.
    """
    seats = {seat.node: seat for seat in conversation.seats if seat.node != SHUFFLER_NAME}
    # Together: who is to speak is counted user by user, and a name costs a record a few bytes.
    if (claimed := sum(seat.users for seat in seats.values())) > MOST_USERS:
        return f"nodes claim {claimed} users, more than a run has"
    for each in conversation.rounds:
        step = conversation.step(each.number)
        for node, turnout in each.nodes.items():
            if step is None or node not in seats or not turnout.whole:
                continue
            first, users = seats[node].first, seats[node].users
            speakers = step.speakers(first, first + users)
            if turnout.replies + conversation.silent.get((each.number, node), 0) != speakers:
                said = f"{node} answered round {each.number} for {turnout.replies} of its {speakers} users"
                return f"{said} who were to speak"
    return ""
