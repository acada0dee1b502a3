"""The conversation again: the analyst's words from the record alone, the users' replies from witness and broadcasts.

Behind a shuffler the messages of a round are compared as a bag, in any order.
"""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from parley.emulator.arithmetic import one_thread
from parley.emulator.coins import recorded_coins
from parley.emulator.errors import BadInput, ParleyError
from parley.emulator.protocol import Protocol
from parley.emulator.randomizer import Array, Columns
from parley.emulator.record.conversation import Conversation, answers
from parley.emulator.record.diff import Difference, compare_messages, compare_replies, reply_of
from parley.emulator.record.records import Record
from parley.emulator.record.witness import Witness
from parley.emulator.roles.analyst import AnalystRole
from parley.emulator.roles.board import ANALYST_NAME
from parley.emulator.roles.mixing import Mixing, coordinates, read_mixing
from parley.emulator.wire.messages import Event, Setup

Role = Literal["analyst", "users", "all"]
Words = NDArray[np.uint64]
BLOCK = 4096


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
        first = None if self.difference is None else vars(self.difference)
        return {"role": self.role, "identical": self.identical, "first_difference": first, "compared": self.compared}


def speaking(conversation: Conversation) -> tuple[Setup, Protocol]:
    """Setup and protocol, or BadInput: without them nobody can be replayed."""
    if conversation.setup is None or conversation.protocol is None:
        raise BadInput(f"{conversation.reader.path} cannot be replayed: {conversation.unbuilt}")
    return conversation.setup, conversation.protocol


def is_word(record: Record) -> bool:
    """Whether the analyst said it. What its link suffered is on record under its name, but it is not its word."""
    return record.sender == ANALYST_NAME and not isinstance(record.message, Event)


def replay_analyst(conversation: Conversation) -> Replay:
    """The analyst's every word from the transcript alone, the estimate with them, bit for bit."""
    setup, protocol = speaking(conversation)
    role, compared = AnalystRole(protocol, setup.run, setup.domain, format=conversation.format), 0
    for record, message in conversation.messages():
        difference = None
        try:
            if is_word(record):
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


@dataclass
class Bag:
    """Fingerprints of messages, one list a coordinate: equal bags are equal whatever the order."""

    seed: int
    prints: dict[str, list[Words]] = field(default_factory=dict)

    def add(self, columns: Columns, mixing: Mixing) -> None:
        together = [_words(columns[name]) for name in sorted(columns) if name not in mixing.axes]
        if together:
            self._put("rows", together)
        for name in sorted(set(columns) & set(mixing.axes)):
            for place, entries in enumerate(coordinates(columns[name], mixing.axes[name])):
                self._put(f"{name}[{place}]", [entries.reshape(-1, 1).astype(np.uint64)])

    def _put(self, name: str, parts: list[Words]) -> None:
        mixed = np.full(len(parts[0]), np.uint64(self.seed))
        for part in parts:
            for word in part.T:
                # The finaliser of SplitMix64, a bijection: with a secret seed, nobody makes equal sums by design.
                mixed = (mixed ^ word) + np.uint64(0x9E3779B97F4A7C15)
                mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
                mixed ^= mixed >> np.uint64(31)
        self.prints.setdefault(name, []).append(mixed)

    def whole(self, name: str) -> Words:
        """All fingerprints of a coordinate in the order they came."""
        return np.concatenate(self.prints.get(name, [np.empty(0, np.uint64)]))


def bags(conversation: Conversation, protocol: Protocol, witness: Witness) -> Iterator[tuple[int, Bag, Bag]]:
    """For each round what is on record, and what witness and coins give for all users."""
    assert conversation.setup is not None
    mixing, seed = read_mixing(conversation.setup), secrets.randbits(64)
    for announce in conversation.announces:
        number = announce.round
        recorded, replayed = Bag(seed), Bag(seed)
        for each in answers(conversation, protocol):
            if each.round == number:
                recorded.add(each.columns, mixing)
        step, flip = protocol.rounds[number - 1], recorded_coins(conversation.setup, announce, witness.key)
        for start in range(0, len(witness.inputs), BLOCK):
            inputs = witness.inputs[start : start + BLOCK]
            replayed.add(step.draw(announce.broadcast, inputs, start, flip)[1], mixing)
        yield number, recorded, replayed


def unmatched(recorded: Bag, replayed: Bag) -> int | None:
    """How many recorded messages the witness does not explain; None where that cannot be said."""
    if strange := set(recorded.prints) - set(replayed.prints):
        return sum(len(recorded.whole(name)) for name in strange)
    foreign = 0
    for name in recorded.prints:
        ours, theirs = np.sort(recorded.whole(name)), np.sort(replayed.whole(name))
        if name != "rows" and len(ours) != len(theirs):
            return None
        # Members of one bag that the other has not, counted as often as they are too many.
        values, counts = np.unique(ours, return_counts=True)
        low, high = np.searchsorted(theirs, values, side="left"), np.searchsorted(theirs, values, side="right")
        foreign += int(np.maximum(counts - (high - low), 0).sum())
    return foreign


def _words(column: Array) -> Words:
    """A row's bytes in 64-bit words."""
    rows = len(column)
    raw = np.ascontiguousarray(column).view(np.uint8).reshape(rows, -1)
    padded = np.zeros((rows, -(-raw.shape[1] // 8) * 8), np.uint8)
    padded[:, : raw.shape[1]] = raw
    return padded.view(np.uint64)
