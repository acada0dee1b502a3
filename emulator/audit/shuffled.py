"""Privacy and fidelity through a shuffler: what the transcript shows is anonymous, so checks are about whole batches.

Privacy is the (epsilon, delta) that the protocol's own bound shows for as many replies as the record holds. Fidelity:
the bag of recorded messages is the one that witness and coins give, in an order that says nothing about who sent them.
"""

from collections import Counter

import numpy as np

from parley.emulator.audit.privacy import ROUNDING
from parley.emulator.audit.statistics import Family
from parley.emulator.audit.verdict import Verdict, claims_otherwise, failed, passed, spoken, unknown, witnessed
from parley.emulator.protocol import Protocol
from parley.emulator.record.conversation import MOST_INPUTS, Conversation, answers, fits
from parley.emulator.record.replay import bags, unmatched
from parley.emulator.record.witness import Witness
from parley.emulator.roles.mixing import read_mixing
from parley.emulator.roles.shuffler import SHUFFLER_NAME
from parley.emulator.wire.messages import Setup

BLOCK = 4096


def check_shuffled_privacy(conversation: Conversation) -> Verdict:
    """Replies came through the shuffler, in a crowd large enough for what is claimed, each within the local bound."""
    setup, protocol = spoken(conversation)
    claim = protocol.claim
    evidence = {"claim": claim.epsilon, "delta": claim.delta, "local_epsilon": claim.local_epsilon, "max_loss": None}
    wrong = _wrong(conversation, setup, protocol)
    if wrong:
        return failed(wrong, users=0, population=0, **evidence)
    # The largest loss of one whole message, where messages are whole.
    whole = not read_mixing(setup).axes and protocol.inputs <= MOST_INPUTS
    local, counts = 0.0 if whole else None, Counter[int]()
    for each in answers(conversation, protocol):
        counts[each.round] += len(each.users)
        conversation.progress("privacy", counts.total(), conversation.sent.total())
        for start in range(0, len(each.users) if whole else 0, BLOCK):
            columns = {name: column[start : start + BLOCK] for name, column in each.columns.items()}
            logs = each.step.log_likelihood(each.public, columns)
            local = max(local or 0.0, float((logs.max(axis=1) - logs.min(axis=1)).max(initial=0.0)))
    users = min(counts.values(), default=0)
    evidence |= {"local_loss": local, "users": users, "population": users}
    if not users:
        return unknown("nobody replied", **evidence)
    shown = protocol.delta_shown(users)
    evidence |= {"delta_shown": shown, "max_loss": claim.epsilon}
    if shown > claim.delta:
        return failed(f"{users} replies give only delta {shown:.3g}; the claim is {claim.delta:g}", **evidence)
    if local is not None and claim.local_epsilon is not None and local > claim.local_epsilon + ROUNDING:
        return failed(f"a single reply loses {local:.6g}; its bound is {claim.local_epsilon:g}", **evidence)
    return passed(**evidence)


def _wrong(conversation: Conversation, setup: Setup, protocol: Protocol) -> str:
    """What breaks the promise whatever the replies say."""
    wrong = claims_otherwise(setup, protocol.claim)
    if wrong:
        return wrong
    strangers = {*conversation.sent, *(seat.node for seat in conversation.seats)} - {SHUFFLER_NAME}
    if strangers:
        return f"{min(strangers)} spoke to the board past the shuffler, so its users were not anonymous"
    for announce in conversation.announces:
        wrong = fits(protocol, announce)
        if wrong:
            return f"a broadcast that users should have refused: {wrong}"
    good = 0
    for each in answers(conversation, protocol):
        good += len(each.users)
        if not each.step.check(each.public, each.columns).all():
            return f"round {each.round}: replies that no honest user sends"
    everything = conversation.sent.total()
    return "" if good == everything else f"{everything - good} replies are not of the declared types and shapes"


def check_shuffled_fidelity(conversation: Conversation, witness: Witness | None) -> Verdict:
    """The recorded bag is the witness's, and the order tells nothing."""
    from scipy.stats import spearmanr

    protocol, witness = witnessed(witness, conversation)
    family, compared = Family(), 0
    for number, recorded, replayed in bags(conversation, protocol, witness):
        missing = unmatched(recorded, replayed)
        if missing is None:
            return unknown(f"round {number}: users are missing, and the shares of only some users cannot be told apart")
        if missing:
            return failed(f"round {number}: {missing} messages are not those of the witness", tests=1, p_value=0.0)
        compared += any(len(recorded.whole(name)) for name in recorded.prints)
        for name in list(recorded.prints)[:1]:
            # Rank correlation of place in the batch and user number, for messages that occur once.
            ours, theirs = recorded.whole(name), replayed.whole(name)
            values, first, counts = np.unique(theirs, return_index=True, return_counts=True)
            place = np.minimum(np.searchsorted(values, ours), len(values) - 1)
            once = (values[place] == ours) & (counts[place] == 1)
            if once.sum() >= 20:
                found = spearmanr(np.flatnonzero(once), first[place[once]])
                family.add(f"round {number}, order of {name}", int(once.sum()), float(found[0]), float(found[1]))
        conversation.progress("fidelity", number, len(protocol.rounds))
    if compared and not family.tests:
        return passed(tests=compared, p_value=1.0, order="not tested: too few messages occur once")
    return family.judge("the order of the batch depends on the users")
