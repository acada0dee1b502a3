"""Privacy through a shuffler: what the transcript shows is anonymous, so the check is about the whole batch.

It is the (epsilon, delta) that the protocol's own bound shows for as many replies as the record holds.
"""

from collections import Counter

from parley.emulator.audit.evidence.preconditions import MOST_INPUTS, claims_otherwise, spoken
from parley.emulator.audit.privacy import ROUNDING
from parley.emulator.audit.verdict import Verdict, failed, passed, unknown
from parley.emulator.protocol import Protocol
from parley.emulator.record.answers import answers
from parley.emulator.record.conversation import Conversation, Progress, fits, quiet
from parley.emulator.roles.mixing import read_mixing
from parley.emulator.roles.shuffler import SHUFFLER_NAME
from parley.emulator.wire.messages import Setup

BLOCK = 4096


def check_shuffled_privacy(conversation: Conversation, progress: Progress = quiet) -> Verdict:
    """Replies came through the shuffler, in a crowd large enough for what is claimed, each within the local bound."""
    setup, protocol = spoken(conversation)
    claim = protocol.claim
    evidence = {"claim": claim.epsilon, "delta": claim.delta, "local_epsilon": claim.local_epsilon, "max_loss": None}
    wrong = _wrong(conversation, setup, protocol)
    if wrong:
        return failed(wrong, users=0, population=0, **evidence)
    local, counts = _losses(conversation, setup, protocol, progress)
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
    for _, replies, step, public in answers(conversation, protocol):
        good += len(replies.users)
        if not step.check(public, replies.columns).all():
            return f"round {replies.round}: replies that no honest user sends"
    everything = conversation.sent.total()
    return "" if good == everything else f"{everything - good} replies are not of the declared types and shapes"


def _losses(
    conversation: Conversation, setup: Setup, protocol: Protocol, progress: Progress
) -> tuple[float | None, Counter[int]]:
    """The largest loss of one whole message, where messages are whole, and how many replies each round has."""
    whole = not read_mixing(setup).axes and protocol.inputs <= MOST_INPUTS
    largest, counts = 0.0, Counter[int]()
    for _, replies, step, public in answers(conversation, protocol, "privacy", progress):
        counts[replies.round] += len(replies.users)
        for start in range(0, len(replies.users) if whole else 0, BLOCK):
            columns = {name: column[start : start + BLOCK] for name, column in replies.columns.items()}
            logs = step.log_likelihood(public, columns)
            largest = max(largest, float((logs.max(axis=1) - logs.min(axis=1)).max(initial=0.0)))
    return (largest if whole else None), counts
