"""Privacy: the exact loss that the recorded messages caused to every user, against the claim.

For one user and the recorded broadcasts, log p(message | x) is known for every input x. Summed over the user's
messages, its largest minus its smallest value over x is the loss this transcript really caused.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from parley.emulator.audit.evidence.ledger import NAMED, Ledger, Offence, reply_bytes
from parley.emulator.audit.evidence.preconditions import claims_otherwise, few_enough, spoken
from parley.emulator.audit.verdict import Verdict, failed, passed, unknown
from parley.emulator.protocol import Protocol
from parley.emulator.randomizer import Floats
from parley.emulator.record.answers import joined, malformed
from parley.emulator.record.conversation import Conversation, Progress, fits, quiet
from parley.emulator.record.user_sets import UserSet
from parley.emulator.wire.messages import Setup, Users

MOST_BYTES = 256 * 2**20
BINS = 20
# Probabilities are exact to the last bit but their logarithms are not: a few ulp of numbers below 64, for each part.
ROUNDING = 1e-9


@dataclass
class Losses:
    """What is kept of the users' losses: counts, the largest, those above the claim. It does not grow with users."""

    claim: float
    users: int = 0
    largest: float = 0.0
    largest_user: int | None = None
    above: int = 0
    named: list[dict[str, float]] = field(default_factory=list)
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(BINS + 1, np.int64))
    offences: list[Offence] = field(default_factory=list)
    offended: int = 0

    def take(self, users: Users, losses: Floats) -> None:
        """Count one block of users."""
        self.users += len(users)
        worst = int(losses.argmax())
        if self.largest_user is None or losses[worst] > self.largest:
            self.largest, self.largest_user = float(losses[worst]), int(users[worst])
        over = np.flatnonzero(losses > self.claim + ROUNDING)
        self.above += len(over)
        for place in over[: NAMED - len(self.named)]:
            self.named.append({"user": int(users[place]), "loss": float(losses[place])})
        within = np.clip(losses / (self.claim or 1.0) * BINS, 0, BINS - 1)
        bins = np.where(losses > self.claim + ROUNDING, BINS, within).astype(np.int64)
        self.counts += np.bincount(bins, minlength=BINS + 1)

    def note(self, offences: list[Offence], count: int) -> None:
        """Remember the first offences and count all."""
        self.offended += count
        self.offences += offences[: NAMED - len(self.offences)]

    def evidence(self) -> dict[str, object]:
        """For the report."""
        edges = [self.claim * number / BINS for number in range(BINS + 1)]
        return {
            "claim": self.claim,
            "max_loss": self.largest,
            "users": self.users,
            "max_loss_user": self.largest_user,
            "above_claim": self.above,
            "users_above": self.named,
            "offences": [vars(each) for each in self.offences],
            "histogram": {"edges": edges, "counts": self.counts[:BINS].tolist(), "above": int(self.counts[BINS])},
        }


def check_privacy(
    conversation: Conversation,
    *,
    sample: int | None = None,
    generator: np.random.Generator | None = None,
    progress: Progress = quiet,
    most_bytes: int = MOST_BYTES,
) -> Verdict:
    """Every user's exact loss is within the claim and every reply is one the protocol allows.

    Users are taken in blocks whose ledgers fit `most_bytes`, with one reading of the record a block. `sample` looks
    at so many users at random instead of all of them.
    """
    setup, protocol = spoken(conversation)
    few_enough(protocol)
    losses = Losses(claim=setup.epsilon)
    answering = _answering(conversation, protocol, losses)
    blocks = _blocks(answering, protocol, sample, generator or np.random.default_rng(), most_bytes)
    total = min(len(answering), sample or len(answering))
    for users in blocks:
        ledger = Ledger(users, protocol.inputs)
        for part in joined(conversation, protocol):
            ledger.take(part)
        losses.note(ledger.offences, ledger.offended)
        losses.take(users, ledger.losses)
        progress("privacy", losses.users, total)
    return _judge(setup, protocol, losses, len(answering))


def _answering(conversation: Conversation, protocol: Protocol, losses: Losses) -> UserSet:
    """Who answered; replies without a likelihood and broadcasts that should have been refused are noted."""
    users, refused = UserSet(), conversation.refused(protocol)
    # A round may have been announced again, with another broadcast.
    again = {each.round: wrong for each in conversation.announces if (wrong := fits(protocol, each))}
    for record, replies in conversation.replies():
        if not len(replies.users):
            continue
        unlike = malformed(protocol, replies, refused)
        wrong = unlike or again.get(replies.round, "")
        if wrong:
            first = Offence(user=int(replies.users[0]), round=replies.round, record=record.sequence, what=wrong)
            losses.note([first], len(replies.users))
        if not unlike:
            users.add(replies.users)
    return users


def _blocks(
    users: UserSet, protocol: Protocol, sample: int | None, generator: np.random.Generator, most_bytes: int
) -> Iterator[Users]:
    each = 8 * protocol.inputs + sum(reply_bytes(step) + 1 for step in protocol.rounds)
    size = max(1, most_bytes // each)
    if sample is None:
        yield from users.blocks(size)
        return
    chosen = users.choose(sample, generator)
    for start in range(0, len(chosen), size):
        yield chosen[start : start + size]


def _judge(setup: Setup, protocol: Protocol, losses: Losses, population: int) -> Verdict:
    evidence = {**losses.evidence(), "delta": setup.delta, "population": population}
    wrong = claims_otherwise(setup, protocol.claim)
    if wrong:
        return failed(wrong, **evidence)
    if losses.offences:
        return failed(f"{losses.offended} offences, first {losses.offences[0]}", **evidence)
    if losses.above and setup.delta == 0:
        worst = f"user {losses.largest_user} lost {losses.largest:.6g}"
        return failed(f"{losses.above} users lost more than epsilon {setup.epsilon:g}: {worst}", **evidence)
    if losses.above:
        reason = f"{losses.above} users lost more than epsilon, which a delta of {setup.delta:g} sometimes allows"
        return unknown(reason, **evidence)
    if not losses.users:
        return unknown("nobody replied", **evidence)
    return passed(**evidence)
