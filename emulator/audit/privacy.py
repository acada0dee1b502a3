"""Privacy: the exact loss that the recorded messages caused to every user, against the claim.

For one user and the recorded broadcasts, log p(message | x) is known for every input x. Summed over the user's
messages, its largest minus its smallest value over x is the loss this transcript really caused.
A `Ledger` keeps these sums for a block of users. Who spoke once needs none: what the one reply gives away is the loss.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from parley.emulator.audit.verdict import Verdict, claims_otherwise, failed, passed, spoken, stand_ins, unknown
from parley.emulator.cores import in_order
from parley.emulator.protocol import Protocol
from parley.emulator.randomizer import Floats, row_bytes
from parley.emulator.record.conversation import Answers, Conversation, fits, joined, malformed
from parley.emulator.record.likelihoods import Likelihoods
from parley.emulator.record.summary import form_of
from parley.emulator.record.user_sets import UserSet
from parley.emulator.wire.messages import Users

MOST_BYTES = 256 * 2**20
# Rows of likelihoods made at once: temporary arrays stay at a few times 16 MiB whatever a frame holds.
_MOST_NUMBERS = 2**21
# Users of one piece of work: enough to be worth a thread's while, few enough that all cores have some.
MOST_ROWS = 4096
WAITING_USERS = 2**15
OUTSIDE = "a reply outside the output space"
NOT_THEIR_TURN = "it was not this user's turn"
IMPOSSIBLE = "a reply no input could have caused"
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


Rows = slice | NDArray[np.intp]


@dataclass(frozen=True, kw_only=True, eq=False)
class Note:
    """The first of some replies with which something is wrong, and how many they are."""

    first: Sequence[Offence]
    count: int

    @classmethod
    def of(cls, answers: Answers, what: str) -> "Note":
        return cls(first=_offences(answers, what), count=len(answers.users))


@dataclass(frozen=True, kw_only=True, eq=False)
class Entry:
    """Answers that add something to a ledger, their rows there, and what is to be noted beside them."""

    answers: Answers
    place: NDArray[np.intp]
    notes: Sequence["Note"]

    def blocks(self, size: int) -> Iterator[tuple[int, Rows]]:
        """Which of its rows are in which block of so many users; users may have spoken in any order."""
        block = self.place // size
        order = np.argsort(block, kind="stable")
        ends = np.flatnonzero(np.diff(block[order])) + 1
        for part in np.split(order, ends) if len(order) else []:
            yield int(block[part[0]]), _as_slice(part)


class Ledger:
    """What some users said over all rounds, and its exact log-likelihood: one row per user, one column per input.

    It holds replies. Their likelihoods take many times as much, and are made for a block of users at a time.
    """

    def __init__(self, users: Users, inputs: int, likelihoods: Likelihoods | None = None) -> None:
        self.users = users
        self.offences: list[Offence] = []
        self.offended = 0
        self._inputs = inputs
        self._likelihoods = likelihoods or Likelihoods()
        self._size = max(1, min(MOST_ROWS, _MOST_NUMBERS // inputs))
        self._entries: list[Entry] = []
        self._said: dict[int, NDArray[np.uint8]] = {}
        self._spoke: dict[int, NDArray[np.bool_]] = {}

    def take(self, answers: Answers) -> None:
        """Keep those answers that belong to these users. Arrays are as declared, nobody is there twice."""
        place = np.minimum(np.searchsorted(self.users, answers.users), len(self.users) - 1)
        row = np.flatnonzero(self.users[place] == answers.users)
        if not len(row):
            return
        for start in range(0, len(row), self._size):
            part = row[start : start + self._size]
            self._entries.append(self._entry(answers.take(_as_slice(part)), place[part]))

    @property
    def sums(self) -> Floats:
        """log p(messages | x), a row for each user."""
        return np.concatenate([np.empty((0, self._inputs)), *(sums for _, sums in self._settled(lambda sums: sums))])

    @property
    def losses(self) -> Floats:
        """What the messages of each user gave away."""
        return np.concatenate([np.empty(0), *(lost for _, lost in self.settled())])

    def settled(self) -> Iterator[tuple[slice, Floats]]:
        """The losses of a block of users after the other, on all cores; after the last, offences are complete."""
        return self._settled(_loss)

    def _settled(self, outcome: Callable[[Floats], Floats]) -> Iterator[tuple[slice, Floats]]:
        """What becomes of the sums of each block, to which replies are added in the order of the record."""
        pieces: dict[int, list[tuple[int, Rows]]] = {}
        for number, entry in enumerate(self._entries):
            for block, rows in entry.blocks(self._size):
                pieces.setdefault(block, []).append((number, rows))
        impossible: dict[int, list[int]] = {}

        def add(block: int) -> Floats:
            sums = np.zeros((min(self._size, len(self.users) - block * self._size), self._inputs))
            for number, rows in pieces.get(block, ()):
                entry = self._entries[number]
                added = _likelihoods_of(self._likelihoods, entry.answers.take(rows))
                wrong = np.isneginf(added.max(axis=1))
                if wrong.any():
                    impossible.setdefault(number, []).extend(np.arange(len(entry.place))[rows][wrong].tolist())
                sums[_as_slice(entry.place[rows] - block * self._size)] += added
            return outcome(sums)

        for block, found in in_order(add, range(-(-len(self.users) // self._size))):
            yield slice(block * self._size, block * self._size + len(found)), found
        self.offences, self.offended = [], 0
        for number, entry in enumerate(self._entries):
            wrong = np.array(sorted(impossible.get(number, [])), dtype=np.intp)
            for note in (*entry.notes, *([Note.of(entry.answers.take(wrong), IMPOSSIBLE)] if len(wrong) else [])):
                self.offended += note.count
                self.offences += note.first[: NAMED - len(self.offences)]

    def _entry(self, answers: Answers, place: NDArray[np.intp]) -> Entry:
        """What of these answers counts. Who has said what so far is known; how likely it was is not needed here."""
        notes: list[Note] = []

        def note(which: NDArray[np.bool_], what: str) -> None:
            if which.any():
                notes.append(Note.of(answers.take(which), what))

        good = answers.step.check(answers.public, answers.columns)
        note(~good, OUTSIDE)
        note(~answers.step.participates(answers.users), NOT_THEIR_TURN)
        # What adds something is the first reply of a user in a round, and any other one with other bytes.
        number, said = answers.round, row_bytes(answers.columns, len(place))
        if number not in self._said:
            self._said[number] = np.zeros((len(self.users), said.shape[1]), np.uint8)
            self._spoke[number] = np.zeros(len(self.users), np.bool_)
        rows = _as_slice(place)
        again = self._spoke[number][rows].copy()
        other = again.copy()
        if again.any():
            other[again] = (self._said[number][place[again]] != said[again]).any(axis=1)
            note(other, "a second answer with other bytes")
            self._said[number][place[~again]] = said[~again]
        else:
            self._said[number][rows] = said
        self._spoke[number][rows] = True
        counted = good & (~again | other)
        if not counted.all():
            answers, place = answers.take(counted), place[counted]
        return Entry(answers=answers, place=place, notes=notes)


def _as_slice(rows: NDArray[np.intp]) -> Rows:
    """The same rows, where they follow each other as a slice: it copies nothing."""
    following = int(rows[-1]) - int(rows[0]) == len(rows) - 1 and bool((np.diff(rows) == 1).all())
    return slice(int(rows[0]), int(rows[-1]) + 1) if following else rows


def _likelihoods_of(likelihoods: Likelihoods, answers: Answers) -> Floats:
    """What is not a number is not possible either."""
    with np.errstate(all="ignore"):
        rows = likelihoods.of(answers)
    wrong = np.isnan(rows)
    return np.where(wrong, -np.inf, rows) if wrong.any() else rows


def _loss(sums: Floats) -> Floats:
    """max over x, x' of log p(messages | x) - log p(messages | x'), for each user."""
    high, low = sums.max(axis=1), sums.min(axis=1)
    # Messages that are impossible under every input were noted as offences; they say nothing about the input.
    losses: Floats = np.where(np.isneginf(high), 0.0, high - np.where(np.isneginf(high), 0.0, low))
    return losses


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
        if not len(users):
            return
        # Of users who lost the same the first, in whichever order they come.
        most = float(losses.max())
        first = int(users[losses == most].min())
        if most > self.largest or (most == self.largest and (self.largest_user is None or first < self.largest_user)):
            self.largest, self.largest_user = most, first
        over = np.flatnonzero(losses > self.claim + ROUNDING)
        self.above += len(over)
        if len(over):
            over = over[np.argsort(users[over])[:NAMED]]
            self.named += [{"user": int(users[place]), "loss": float(losses[place])} for place in over]
            self.named = sorted(self.named, key=lambda each: each["user"])[:NAMED]
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

    Users who spoke once are taken as they come. The others are taken in blocks whose ledgers fit MOST_BYTES, with one
    reading of the record a block. `sample` looks at so many users at random instead of all of them.
    """
    setup, protocol = spoken(conversation, exact=True)
    losses = Losses(claim=setup.epsilon)
    known = None if sample is None else _answering_as_heard(conversation)
    answering, several = (known, UserSet()) if known is not None else _answering(conversation, protocol, losses)
    inputs = stand_ins(conversation, protocol)
    each = 16 + sum(
        18 + 2 * sum(dtype.itemsize * int(np.prod(shape, dtype=np.int64)) for dtype, shape in step.reply.values())
        for step in protocol.rounds
    )
    size = max(1, MOST_BYTES // each)
    likelihoods = Likelihoods(inputs)
    if sample is None and len(several) < len(answering):
        _take_singles(conversation, protocol, losses, likelihoods, several)
    blocks = several.blocks(size)
    if sample is not None:
        chosen = answering.choose(sample, generator or np.random.default_rng())
        blocks = (chosen[start : start + size] for start in range(0, len(chosen), size))
    total = min(len(answering), sample or len(answering))

    def parts(users: Users) -> Iterator[Answers]:
        if sample is None:
            return joined(conversation, protocol)
        return _heard(conversation, protocol, users, total)

    for users in blocks:
        ledger = Ledger(users, len(inputs), likelihoods)
        for part in parts(users):
            ledger.take(part)
        lost = np.zeros(len(users))
        for block, some in ledger.settled():
            lost[block] = some
            conversation.progress("privacy", min(total, losses.users + block.stop), total)
        losses.note(ledger.offences, ledger.offended)
        losses.take(users, lost)
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


def _heard(conversation: Conversation, protocol: Protocol, users: Users, total: int) -> Iterator[Answers]:
    """What a sample of the users said, while progress hears of it: to find it takes longer than to judge it."""
    replies, heard = max(1, len(users) * len(protocol.rounds)), 0
    for part in joined(conversation, protocol, dict.fromkeys((step.number for step in protocol.rounds), users)):
        yield part
        heard += len(part.users)
        conversation.progress("privacy", min(total, len(users) * heard // replies), total)


def _take_singles(
    conversation: Conversation, protocol: Protocol, losses: Losses, likelihoods: Likelihoods, several: UserSet
) -> None:
    """The losses of all users with one reply on record, in one reading, on all cores."""
    total = conversation.sent.total()

    def look(part: Answers) -> tuple[Answers, Sequence[tuple[Answers, str]], Floats]:
        if len(several) and (again := several.holds(part.users)).any():
            part = part.take(~again)
        good, turn = part.step.check(part.public, part.columns), part.step.participates(part.users)
        notes = [] if good.all() else [(part.take(~good), OUTSIDE)]
        if not turn.all():
            notes.append((part.take(~turn), NOT_THEIR_TURN))
        lost = np.zeros(len(part.users))
        with np.errstate(all="ignore"):
            lost[good] = likelihoods.losses(part if good.all() else part.take(good))
        impossible = np.isnan(lost)
        if impossible.any():
            notes.append((part.take(impossible), IMPOSSIBLE))
            lost[impossible] = 0.0
        return part, notes, lost

    # `several` is asked by threads: it is put in order before.
    len(several)
    for _, (part, notes, lost) in in_order(look, joined(conversation, protocol)):
        for answers, what in notes:
            losses.note(_offences(answers, what), len(answers.users))
        losses.take(part.users, lost)
        conversation.progress("privacy", min(total, losses.users), total)


def _offences(answers: Answers, what: str) -> list[Offence]:
    first = zip(answers.users[:NAMED].tolist(), answers.records[:NAMED].tolist(), strict=True)
    return [Offence(user=user, round=answers.round, record=record, what=what) for user, record in first]


def _answering_as_heard(conversation: Conversation) -> UserSet | None:
    """Who answered, from what was heard; None where a question or a frame is not as declared, so that each is read."""
    users = UserSet()
    for each in conversation.rounds:
        step = conversation.step(each.number)
        if step is None or fits(step.protocol, each.announce) or each.forms - {(each.number, form_of(step.reply))}:
            return None
        users.join(each.users)
    early = conversation.sent.total() - sum(each.replies for each in conversation.rounds)
    return None if early else users


def _answering(conversation: Conversation, protocol: Protocol, losses: Losses) -> tuple[UserSet, UserSet]:
    """Who answered, and who of them more than once.

    Replies without a likelihood and broadcasts that should have been refused are noted.
    """
    users, several, refused = UserSet(), UserSet(), conversation.refused(protocol)
    # Small frames wait for others: a set is put in order before it is asked, which is not to happen for every user.
    waiting, many = list[Users](), 0
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
            waiting.append(replies.users)
            many += len(replies.users)
        if many >= WAITING_USERS or len(replies.users) >= MOST_ROWS:
            _add(users, several, waiting)
            waiting, many = [], 0
    _add(users, several, waiting)
    return users, several


def _add(users: UserSet, several: UserSet, frames: Sequence[Users]) -> None:
    """Add frames of users; those who are there already, or twice in these frames, are several."""
    listed = frames[0] if len(frames) == 1 else np.concatenate([np.empty(0, np.int64), *frames])
    if len(frames) > 1:
        listed, many = np.unique(listed, return_counts=True)
        several.add(listed[many > 1])
    several.add(listed[users.holds(listed)])
    users.add(listed)
