"""Subset selection (Ye and Barg 2018; Wang et al. 2016), with the subset sent as (seed, shift).

A public seed orders the k categories around a circle; the k arcs of length w are the subsets on offer, and every
category lies in exactly w of them. The user sends one arc, e^eps likelier to be any one that holds the input
than any one that does not. For a uniformly random order this is exactly the law of subset selection, while the
choice is one among k with two integer weights.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from parley.emulator.randomizer import Alphabet, Coins, Columns, Floats, Integers, Shape
from parley.protocols.randomizers import exact
from parley.protocols.randomizers.categories.oracle import MOST_CATEGORIES, FrequencyOracle, check_categories
from parley.protocols.randomizers.vectors.directional import blocks
from parley.protocols.randomizers.vectors.expansion import expand_words


@dataclass(frozen=True, kw_only=True)
class SubsetSelection(exact.Choice, FrequencyOracle):
    """Send a subset of w of the k categories that holds the input with probability w e^eps/(w e^eps + k - w).

    Formal guarantee: the seed has the same law for every input, and given the seed the arc is chosen by `TwoLevel`
    with integer weights, so a reply's probabilities under two inputs differ by at most e^eps exactly, whatever
    order the seed yields.

    `size=None` takes w = k/(e^eps + 1) rounded, at least 1, the choice of the literature.
    """

    categories: int
    epsilon: float
    size: int | None = None
    # One word for the seed of the order, one for the choice of where the arc begins.
    coins = 2 * exact.WORD_BYTES
    reply: ClassVar[Shape] = {"seed": (np.dtype(np.uint64), ()), "shift": (np.dtype(np.uint32), ())}

    def __post_init__(self) -> None:
        exact.check_epsilon(self.epsilon)
        exact.check_count("categories", self.categories, 2, MOST_CATEGORIES)
        if self.size is None:
            wanted = self.categories / (1 + exact.exponential_lower(exact.check_epsilon(self.epsilon)))
            object.__setattr__(self, "size", max(1, round(wanted)))
        exact.check_count("size", self.width, 1, self.categories - 1)

    @property
    def width(self) -> int:
        """w, the categories of a subset."""
        assert self.size is not None
        return self.size

    @cached_property
    def choice(self) -> exact.TwoLevel:
        """The w arcs that hold the input are favoured."""
        return exact.TwoLevel(outcomes=self.categories, top=self.width, epsilon=self.epsilon)

    @property
    def own(self) -> float:
        """w high + leftover w/k: arc 0, which leftover coins mean, holds any category with probability w/k."""
        leftover = self.choice.leftover * self.width / self.categories
        return (self.width * self.choice.high + leftover) / exact.WHOLE

    @property
    def other(self) -> float:
        """Of a category's w arcs, w(w-1)/(k-1) also hold the input, in the mean over orders."""
        both = self.width * (self.width - 1) / (self.categories - 1)
        leftover = self.choice.leftover * self.width / self.categories
        return (both * self.choice.high + (self.width - both) * self.choice.low + leftover) / exact.WHOLE

    @property
    def own_and_other(self) -> float:
        """Given that it holds the input, a subset is uniform among those that do."""
        return self.own * (self.width - 1) / (self.categories - 1)

    @property
    def two_others(self) -> float:
        """Either way a subset is uniform among those that hold the input, or among those that do not."""
        size, width = self.categories, self.width
        pairs = self.own * (width - 1) * (width - 2) + (1 - self.own) * width * (width - 1)
        return pairs / ((size - 1) * max(1, size - 2))

    @property
    def work(self) -> int:
        return self.categories

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet(column="shift", first=0, last=self.categories - 1)

    def _keys(self, seeds: exact.Words) -> exact.Words:
        return expand_words(seeds, np.arange(self.categories, dtype=np.uint64))

    def sample(self, inputs: Floats, coins: Coins) -> Columns:
        """Ranks below w are the arcs that end at the input's place or up to w-1 later, the others follow."""
        coin = exact.words(coins, 2)
        truth = check_categories(inputs, self.categories)
        seeds = np.ascontiguousarray(coin[:, 0])
        rank = self.choice.rank(coin[:, 1])
        place = self._places(seeds, truth)
        # Arc j holds the places j .. j+w-1, so the arcs with the input are place, place-1, ..., place-w+1.
        shift = np.where(rank == self.categories, 0, (place - rank) % self.categories)
        return {"seed": seeds, "shift": shift.astype(np.uint32)}

    def _places(self, seeds: exact.Words, truth: Integers) -> Integers:
        """The place of one category in the order of each seed, by counting the words before its own."""
        place = np.empty(len(truth), dtype=np.int64)
        for block in blocks(len(truth), self.categories):
            keys, column = self._keys(seeds[block]), truth[block, None]
            own = np.take_along_axis(keys, column, axis=1)
            before = (keys < own) | ((keys == own) & (np.arange(self.categories) < column))
            place[block] = before.sum(axis=1)
        return place

    def log_law(self, reply: Columns, value: Floats) -> Floats:
        """log P(shift | seed, x) of every shift: only the place of x in the seed's order matters."""
        seeds, shifts = reply["seed"].astype(np.uint64), np.arange(self.categories)
        truth = np.repeat(check_categories(value, self.categories), len(seeds))
        low, high = self.choice.log_table[:, (shifts == 0).astype(np.int64)]
        holds = (self._places(seeds, truth)[:, None] - shifts) % self.categories < self.width
        return np.asarray(np.where(holds, high, low))

    def support(self, reply: Columns) -> Integers:
        return self._holds(reply).astype(np.int64)

    def _holds(self, reply: Columns) -> NDArray[np.bool_]:
        """Which categories stand at the places shift .. shift + w - 1 in the order of their words, round the end."""
        keys, shift = self._keys(reply["seed"].astype(np.uint64)), reply["shift"].astype(np.int64) % self.categories
        ordered = np.sort(keys, axis=1)
        last = (shift + self.width - 1) % self.categories
        after = keys >= np.take_along_axis(ordered, shift[:, None], axis=1)
        before = keys <= np.take_along_axis(ordered, last[:, None], axis=1)
        held = np.where((shift <= last)[:, None], after & before, after | before)
        # Of equal words the first comes first, which takes the places themselves.
        for row in np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1)):
            places = np.argsort(np.argsort(keys[row], kind="stable"), kind="stable")
            held[row] = (places - shift[row]) % self.categories < self.width
        return held

    def log_likelihood(self, reply: Columns, inputs: Floats) -> Floats:
        """log P(shift | seed, x); the seed's own 2^-64 is left out."""
        truth = check_categories(inputs, self.categories)
        result = np.empty((len(reply["seed"]), len(truth)))
        for block in blocks(len(result), self.categories):
            part = {name: column[block] for name, column in reply.items()}
            fixed = (part["shift"] == 0).astype(np.int64)
            low, high = self.choice.log_table[:, fixed][:, :, None]
            result[block] = np.where(self._holds(part)[:, truth], high, low)
        return result
