"""Privacy: the exact loss that the recorded messages caused to every user, against the claim.

For one user and the recorded broadcasts, log p(message | x) is known for every input x. Summed over the user's
messages, its largest minus its smallest value over x is the loss this transcript really caused.
A `Ledger` keeps these sums for a block of users.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from parley.emulator.audit.verdict import Verdict, claims_otherwise, failed, passed, spoken, unknown
from parley.emulator.protocol import Protocol
from parley.emulator.randomizer import Floats, row_bytes
from parley.emulator.record.conversation import Answers, Conversation, fits, joined, malformed
from parley.emulator.record.user_sets import UserSet
from parley.emulator.wire.messages import Users

MOST_BYTES = 256 * 2**20
# Rows of likelihoods made at once: temporary arrays stay at a few times 16 MiB whatever a frame holds.
_MOST_NUMBERS = 2**21
NAMED = 20
BINS = 20
# Probabilities are exact to the last bit but their logarithms are not: a few ulp of numbers below 64, for each part.
ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class Offence:
    """One thing that no honest node does, and who did it."""

    user: int
    round: int
    record: int
    what: str

    def __str__(self) -> str:
        return f"user {self.user}, round {self.round} (record {self.record}): {self.what}"


class Ledger:
    """The exact log-likelihoods of some users' messages over all rounds: one row per user, one column per input."""

    def __init__(self, users: Users, inputs: int) -> None:
        self.users = users
        self.sums: Floats = np.zeros((len(users), inputs))
        self.offences: list[Offence] = []
        self.offended = 0
        self._said: dict[int, NDArray[np.uint8]] = {}
        self._spoke: dict[int, NDArray[np.bool_]] = {}

    @property
    def losses(self) -> Floats:
        """max over x, x' of log p(messages | x) - log p(messages | x'), for each user."""
        high, low = self.sums.max(axis=1), self.sums.min(axis=1)
        # Messages that are impossible under every input were noted as offences; they say nothing about the input.
        losses: Floats = np.where(np.isneginf(high), 0.0, high - np.where(np.isneginf(high), 0.0, low))
        return losses

    def take(self, answers: Answers) -> None:
        """Add those answers that belong to this block. Arrays are as declared, nobody is there twice."""
        place = np.minimum(np.searchsorted(self.users, answers.users), len(self.users) - 1)
        row = np.flatnonzero(self.users[place] == answers.users)
        for start in range(0, len(row), max(1, _MOST_NUMBERS // self.sums.shape[1])):
            part = row[start : start + max(1, _MOST_NUMBERS // self.sums.shape[1])]
            self._add(answers.take(part), place[part])

    def _add(self, answers: Answers, place: NDArray[np.intp]) -> None:
        good = answers.step.check(answers.public, answers.columns)
        self._note(answers, ~good, "a reply outside the output space")
        self._note(answers, ~answers.step.participates(answers.users), "it was not this user's turn")
        # What adds something is the first reply of a user in a round, and any other one with other bytes.
        number, said = answers.round, row_bytes(answers.columns, len(place))
        if number not in self._said:
            self._said[number] = np.zeros((len(self.users), said.shape[1]), np.uint8)
            self._spoke[number] = np.zeros(len(self.users), np.bool_)
        again = self._spoke[number][place]
        other = again & (self._said[number][place] != said).any(axis=1)
        self._note(answers, other, "a second answer with other bytes")
        self._said[number][place[~again]] = said[~again]
        self._spoke[number][place] = True
        counted = good & (~again | other)
        if not counted.any():
            return
        with np.errstate(all="ignore"):
            rows = answers.step.log_likelihood(answers.public, answers.take(counted).columns)
        rows = np.where(np.isnan(rows), -np.inf, rows)
        impossible = np.flatnonzero(counted)[np.isneginf(rows).all(axis=1)]
        self._note(answers, impossible, "a reply no input could have caused")
        self.sums[place[counted]] += rows

    def _note(self, answers: Answers, which: NDArray[np.bool_] | NDArray[np.intp], what: str) -> None:
        users, records = answers.users[which], answers.records[which]
        self.offended += len(users)
        for user, record in zip(users, records, strict=True):
            if len(self.offences) == NAMED:
                return
            self.offences.append(Offence(user=int(user), round=answers.round, record=int(record), what=what))


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
        self.offended += count
        self.offences += offences[: NAMED - len(self.offences)]

    def evidence(self) -> dict[str, object]:
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
    conversation: Conversation, *, sample: int | None = None, generator: np.random.Generator | None = None
) -> Verdict:
    """Every user's exact loss is within the claim and every reply is one the protocol allows.

    Users are taken in blocks whose ledgers fit MOST_BYTES, with one reading of the record a block. `sample` looks
    at so many users at random instead of all of them.
    """
    setup, protocol = spoken(conversation, exact=True)
    losses = Losses(claim=setup.epsilon)
    answering = _answering(conversation, protocol, losses)
    each = 8 * protocol.inputs + sum(
        1 + sum(dtype.itemsize * int(np.prod(shape, dtype=np.int64)) for dtype, shape in step.reply.values())
        for step in protocol.rounds
    )
    size = max(1, MOST_BYTES // each)
    blocks = answering.blocks(size)
    if sample is not None:
        chosen = answering.choose(sample, generator or np.random.default_rng())
        blocks = (chosen[start : start + size] for start in range(0, len(chosen), size))
    total = min(len(answering), sample or len(answering))
    for users in blocks:
        ledger = Ledger(users, protocol.inputs)
        for part in joined(conversation, protocol):
            ledger.take(part)
        losses.note(ledger.offences, ledger.offended)
        losses.take(users, ledger.losses)
        conversation.progress("privacy", losses.users, total)
    evidence = {**losses.evidence(), "delta": setup.delta, "population": len(answering)}
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
