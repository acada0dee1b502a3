"""Randomized response over k categories (Warner 1965; Kairouz et al. 2014), also called GRR."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from parley.emulator.randomizer import Alphabet, Coins, Columns, Floats, Integers, Shape
from parley.protocols.randomizers.categories.oracle import MOST_CATEGORIES, FrequencyOracle, check_categories
from parley.protocols.randomizers.exact import WHOLE, WORD_BYTES, Choice, TwoLevel, check_count, check_epsilon, words


@dataclass(frozen=True, kw_only=True)
class RandomizedResponse(Choice, FrequencyOracle):
    """Send the true category with probability e^eps/(e^eps + k - 1), any other one with 1/(e^eps + k - 1).

    Formal guarantee: a category's probabilities under two inputs are integers over 2^64 with a ratio of at most
    e^eps exactly (`TwoLevel`; leftover coins mean category 0 for every input, which biases its estimated frequency
    by at most (e^eps + k)/2^64).
    """

    categories: int
    epsilon: float
    # A reply supports one category, never two.
    own_and_other = two_others = 0.0
    coins = WORD_BYTES
    reply: ClassVar[Shape] = {"category": (np.dtype(np.uint32), ())}

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_count("categories", self.categories, 2, MOST_CATEGORIES)

    @cached_property
    def choice(self) -> TwoLevel:
        return TwoLevel(outcomes=self.categories, top=1, epsilon=self.epsilon)

    @property
    def own(self) -> float:
        """Probability of the true category, with the leftover coins' share averaged over categories."""
        return (self.choice.high + self.choice.leftover / self.categories) / WHOLE

    @property
    def other(self) -> float:
        """Probability of a false category, averaged alike."""
        return (self.choice.low + self.choice.leftover / self.categories) / WHOLE

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet(column="category", first=0, last=self.categories - 1)

    def sample(self, inputs: Floats, coins: Coins) -> Columns:
        """Rank 0 is the true category, rank r the r-th after it, around the end."""
        truth = check_categories(inputs, self.categories)
        rank = self.choice.rank(words(coins, 1)[:, 0])
        sent = np.where(rank == self.categories, 0, (truth + rank) % self.categories)
        return {"category": sent.astype(np.uint32)}

    def log_likelihood(self, reply: Columns, inputs: Floats) -> Floats:
        sent = reply["category"].astype(np.int64)[:, None]
        same = (sent == check_categories(inputs, self.categories)).astype(np.int64)
        return np.asarray(self.choice.log_table[same, (sent == 0).astype(np.int64)])

    def support(self, reply: Columns) -> Integers:
        return np.equal(reply["category"].astype(np.int64)[:, None], np.arange(self.categories)).astype(np.int64)

    def total(self, reply: Columns) -> Integers:
        return np.bincount(reply["category"].astype(np.int64), minlength=self.categories).astype(np.int64)
