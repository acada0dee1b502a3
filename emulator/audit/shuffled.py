"""Audits of runs through a shuffler: what the transcript shows is anonymous, so the checks are about the whole batch.

Privacy is the (epsilon, delta) that the protocol's own bound shows for as many replies as the record holds. Fidelity
compares the bag of recorded messages with the bag that witness and coins give: the same messages in another order, and
an order that says nothing about who sent them.
"""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from parley.emulator.audit.evidence.answers import answers
from parley.emulator.audit.evidence.conversation import Conversation, fits
from parley.emulator.audit.evidence.statistics import Family
from parley.emulator.audit.privacy import MOST_INPUTS, ROUNDING
from parley.emulator.audit.verdict import Progress, Verdict, failed, passed, quiet, unknown
from parley.emulator.protocol import Protocol
from parley.emulator.randomizer import Array, Columns
from parley.emulator.record.witness import Witness
from parley.emulator.roles.cohort import draw_replies, recorded_coins
from parley.emulator.roles.mixing import Mixing, read_mixing
from parley.emulator.roles.shuffler import SHUFFLER_NAME
from parley.emulator.round import Round
from parley.emulator.wire.messages import Announce, Setup

Words = NDArray[np.uint64]
BLOCK = 4096
ANONYMOUS = "replies are anonymous: whose they are, and when they were sent, only the shuffler saw"


@dataclass
class Bag:
    """Fingerprints of messages, one list a coordinate: equal bags are equal whatever the order."""

    seed: int
    prints: dict[str, list[Words]] = field(default_factory=dict)

    def add(self, columns: Columns, mixing: Mixing) -> None:
        """Take in the messages of some rows."""
        together = [columns[name] for name in sorted(columns) if name not in mixing.axes]
        if together:
            self._put("rows", [_words(column) for column in together])
        for name in sorted(set(columns) & set(mixing.axes)):
            for place, entries in enumerate(_coordinates(columns[name], mixing.axes[name])):
                self._put(f"{name}[{place}]", [entries.reshape(-1, 1).astype(np.uint64)])

    def _put(self, name: str, parts: list[Words]) -> None:
        mixed = np.full(len(parts[0]), np.uint64(self.seed))
        for part in parts:
            for word in part.T:
                mixed = _scramble(mixed ^ word)
        self.prints.setdefault(name, []).append(mixed)

    def whole(self, name: str) -> Words:
        """All fingerprints of a coordinate in the order they came."""
        return np.concatenate(self.prints.get(name, [np.empty(0, np.uint64)]))


def check_shuffled_privacy(conversation: Conversation, progress: Progress = quiet) -> Verdict:
    """Replies came through the shuffler, in a crowd large enough for what is claimed, each within the local bound."""
    setup, protocol = conversation.setup, conversation.protocol
    if setup is None or protocol is None:
        return unknown(conversation.problem)
    claim = protocol.claim
    evidence = {"claim": claim.epsilon, "delta": claim.delta, "local_epsilon": claim.local_epsilon, "max_loss": None}
    wrong = _wrong(conversation, setup, protocol)
    if wrong:
        return failed(wrong, users=0, population=0, **evidence)
    local, counts = _losses(conversation, protocol, progress)
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
    claim = protocol.claim
    if (setup.epsilon, setup.delta) != (claim.epsilon, claim.delta):
        claimed = f"epsilon {setup.epsilon:g} and delta {setup.delta:g}"
        return f"the setup claims {claimed}, but its protocol gives {claim.epsilon:g} and {claim.delta:g}"
    strangers = {seat.node for seat in conversation.seats} - {SHUFFLER_NAME}
    strangers |= {replies.node for _, replies in conversation.replies()} - {SHUFFLER_NAME}
    if strangers:
        return f"{sorted(strangers)[0]} spoke to the board past the shuffler, so its users were not anonymous"
    for announce in conversation.announces:
        wrong = fits(protocol, announce)
        if wrong:
            return f"a broadcast that users should have refused: {wrong}"
    good = 0
    for _, replies, step, public in answers(conversation, protocol):
        good += len(replies.users)
        if not step.check(public, replies.columns).all():
            return f"round {replies.round}: replies that no honest user sends"
    everything = sum(len(replies.users) for _, replies in conversation.replies())
    return "" if good == everything else f"{everything - good} replies are not of the declared types and shapes"


def _losses(conversation: Conversation, protocol: Protocol, progress: Progress) -> tuple[float | None, dict[int, int]]:
    """The largest loss of one whole message, where messages are whole, and how many replies each round has."""
    assert conversation.setup is not None
    whole = not read_mixing(conversation.setup).axes and protocol.inputs <= MOST_INPUTS
    size = conversation.reader.path.stat().st_size
    largest, counts = 0.0, dict[int, int]()
    for record, replies, step, public in answers(conversation, protocol):
        counts[replies.round] = counts.get(replies.round, 0) + len(replies.users)
        for start in range(0, len(replies.users) if whole else 0, BLOCK):
            columns = {name: column[start : start + BLOCK] for name, column in replies.columns.items()}
            logs = step.log_likelihood(public, columns)
            largest = max(largest, float((logs.max(axis=1) - logs.min(axis=1)).max(initial=0.0)))
        progress("privacy", record.offset, size)
    return (largest if whole else None), counts


def check_shuffled_fidelity(conversation: Conversation, witness: Witness, progress: Progress = quiet) -> Verdict:
    """The recorded bag is the witness's, and the order tells nothing."""
    if conversation.setup is None or conversation.protocol is None:
        return unknown(conversation.problem)
    if witness.run != conversation.setup.run:
        return unknown(f"the witness belongs to the run {witness.run}, the transcript to {conversation.setup.run}")
    family, compared = Family(), 0
    for number, recorded, replayed in bags(conversation, conversation.protocol, witness):
        missing = unmatched(recorded, replayed)
        if missing is None:
            return unknown(f"round {number}: users are missing, and the shares of only some users cannot be told apart")
        if missing:
            return failed(f"round {number}: {missing} messages are not those of the witness", tests=1, p_value=0.0)
        compared += any(len(recorded.whole(name)) for name in recorded.prints)
        _order(family, number, recorded, replayed)
        progress("fidelity", number, len(conversation.protocol.rounds))
    if compared and not family.tests:
        return passed(tests=compared, p_value=1.0, order="not tested: too few messages occur once")
    return family.judge("the order of the batch depends on the users")


def bags(conversation: Conversation, protocol: Protocol, witness: Witness) -> Iterator[tuple[int, Bag, Bag]]:
    """For each round what is on record, and what witness and coins give for all users."""
    assert conversation.setup is not None
    mixing, seed = read_mixing(conversation.setup), secrets.randbits(64)
    for announce in conversation.announces:
        number = announce.round
        recorded, replayed = Bag(seed), Bag(seed)
        for _, replies, _, _ in answers(conversation, protocol):
            if replies.round == number:
                recorded.add(replies.columns, mixing)
        for columns in _replies(conversation.setup, protocol.rounds[number - 1], announce, witness):
            replayed.add(columns, mixing)
        yield number, recorded, replayed


def _replies(setup: Setup, step: Round, announce: Announce, witness: Witness) -> Iterator[Columns]:
    flip = recorded_coins(setup, announce, witness.key)
    for start in range(0, len(witness.inputs), BLOCK):
        inputs = witness.inputs[start : start + BLOCK]
        yield draw_replies(step, announce.broadcast, inputs, start, flip)[1]


def unmatched(recorded: Bag, replayed: Bag) -> int | None:
    """How many recorded messages the witness does not explain; None where that cannot be said."""
    if set(recorded.prints) - set(replayed.prints):
        return sum(len(recorded.whole(name)) for name in set(recorded.prints) - set(replayed.prints))
    foreign = 0
    for name in recorded.prints:
        ours, theirs = np.sort(recorded.whole(name)), np.sort(replayed.whole(name))
        if name != "rows" and len(ours) != len(theirs):
            return None
        foreign += _foreign(ours, theirs)
    return foreign


def _foreign(ours: Words, theirs: Words) -> int:
    """Members of one sorted bag that the other has not, counted as often as they are too many."""
    values, counts = np.unique(ours, return_counts=True)
    low, high = np.searchsorted(theirs, values, side="left"), np.searchsorted(theirs, values, side="right")
    return int(np.maximum(counts - (high - low), 0).sum())


def _order(family: Family, number: int, recorded: Bag, replayed: Bag) -> None:
    """Rank correlation of place in the batch and user number, for messages that occur once."""
    from scipy.stats import spearmanr

    for name in list(recorded.prints)[:1]:
        ours, theirs = recorded.whole(name), replayed.whole(name)
        values, first, counts = np.unique(theirs, return_index=True, return_counts=True)
        place = np.searchsorted(values, ours)
        place = np.minimum(place, len(values) - 1)
        once = (values[place] == ours) & (counts[place] == 1)
        if once.sum() >= 20:
            found = spearmanr(np.flatnonzero(once), first[place[once]])
            family.add(f"round {number}, order of {name}", int(once.sum()), float(found[0]), float(found[1]))


def _words(column: Array) -> Words:
    """A row's bytes in 64-bit words."""
    rows = len(column)
    raw = np.ascontiguousarray(column).view(np.uint8).reshape(rows, -1)
    padded = np.zeros((rows, -(-raw.shape[1] // 8) * 8), np.uint8)
    padded[:, : raw.shape[1]] = raw
    return padded.view(np.uint64)


def _coordinates(column: Array, axes: int) -> Array:
    shape = column.shape
    return np.moveaxis(column.reshape(shape[0], int(np.prod(shape[1 : axes + 1])), -1), 1, 0)


def _scramble(words: Words) -> Words:
    """The finaliser of SplitMix64, a bijection: with a secret seed, equal sums of messages do not happen by design."""
    mixed = words + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
