"""Randomized response over k categories (Warner 1965; Kairouz et al. 2014), also called GRR."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from parley.emulator.randomizer import MOST_OUTCOMES, Alphabet, Coins, Columns, Floats, Integers, Shape
from parley.protocols.randomizers.categories.oracle import MOST_CATEGORIES, FrequencyOracle, check_categories
from parley.protocols.randomizers.exact import WHOLE, WORD_BYTES, TwoLevel, check_count, check_epsilon, words


@dataclass(frozen=True, kw_only=True)
class RandomizedResponse(FrequencyOracle):
    """Send the true category with probability e^eps/(e^eps + k - 1), any other one with 1/(e^eps + k - 1).

    Formal guarantee: a category's probabilities under two inputs are integers over 2^64 with a ratio of at most
    e^eps exactly (`TwoLevel`; leftover coins mean category 0 for every input, which biases its estimated frequency
    by at most (e^eps + k)/2^64).

    Attacks. The reply is a category and its probabilities are integers, so Mironov's and precision-based attacks
    have nothing to read. Every input takes the same arithmetic; timing below that level is not defended against.
    """

    categories: int
    epsilon: float

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_count("categories", self.categories, 2, MOST_CATEGORIES)

    @cached_property
    def choice(self) -> TwoLevel:
        """The true category is favoured."""
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
    def own_and_other(self) -> float:
        """A reply supports one category, never two."""
        return 0.0

    @property
    def two_others(self) -> float:
        """A reply supports one category, never two."""
        return 0.0

    @property
    def coins(self) -> int:
        """One word."""
        return WORD_BYTES

    @property
    def reply(self) -> Shape:
        """A category."""
        return {"category": (np.dtype(np.uint32), ())}

    @property
    def alphabet(self) -> Alphabet:
        """The categories."""
        return Alphabet(column="category", first=0, last=self.categories - 1)

    def sample(self, inputs: Floats, coins: Coins) -> Columns:
        """Rank 0 is the true category, rank r the r-th after it, around the end."""
        truth = check_categories(inputs, self.categories)
        rank = self.choice.rank(words(coins, 1)[:, 0])
        sent = np.where(rank == self.categories, 0, (truth + rank) % self.categories)
        return {"category": sent.astype(np.uint32)}

    def check(self, reply: Columns) -> NDArray[np.bool_]:
        """A category below k."""
        accepted: NDArray[np.bool_] = reply["category"].astype(np.int64) < self.categories
        return accepted

    def log_likelihood(self, reply: Columns, inputs: Floats) -> Floats:
        """log of the integer weight over 2^64."""
        sent = reply["category"].astype(np.int64)[:, None]
        same = (sent == check_categories(inputs, self.categories)).astype(np.int64)
        result: Floats = self.choice.log_table[same, (sent == 0).astype(np.int64)]
        return result

    def every_reply(self) -> Columns | None:
        """The categories."""
        if self.categories > MOST_OUTCOMES:
            return None
        return {"category": np.arange(self.categories, dtype=np.uint32)}

    def support(self, reply: Columns) -> Integers:
        """The category sent."""
        sent = reply["category"].astype(np.int64)[:, None]
        support: Integers = (sent == np.arange(self.categories)).astype(np.int64)
        return support

    def total(self, reply: Columns) -> Integers:
        """How many replies name each category."""
        return np.bincount(reply["category"].astype(np.int64), minlength=self.categories).astype(np.int64)
