"""The messages of a shuffled round as a bag: what is on record against what witness and coins give, in any order."""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from parley.emulator.coins import recorded_coins
from parley.emulator.protocol import Protocol
from parley.emulator.randomizer import Array, Columns
from parley.emulator.record.conversation import Conversation, answers
from parley.emulator.record.witness import Witness
from parley.emulator.roles.mixing import Mixing, coordinates, read_mixing

Words = NDArray[np.uint64]
BLOCK = 4096


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
