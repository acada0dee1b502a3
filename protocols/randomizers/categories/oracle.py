"""What frequency oracles have in common: inputs are categories 0 .. k-1 and replies support some of them.

A reply supports a set of categories: its own with probability p, another one with probability q. The indicator
of category v is estimated by (supported - q)/(p - q): decode = offset + unit * supported, so the analyst keeps
integer counts.
"""

from abc import abstractmethod

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Array, Columns, Floats, Integers, Randomizer

MOST_CATEGORIES = 1 << 20


def check_categories(inputs: Array, categories: int) -> Integers:
    """Category numbers as integers; anything else is refused with its row."""
    if inputs.ndim != 1:
        raise BadInput(f"inputs have shape {inputs.shape}; give one category a user")
    if inputs.dtype.kind in "iu" and (len(inputs) == 0 or (inputs.min() >= 0 and inputs.max() < categories)):
        return inputs.astype(np.int64, copy=False)
    numbers = inputs.astype(np.float64)
    wrong = ~((numbers >= 0) & (numbers < categories) & (numbers == np.floor(numbers)))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise BadInput(f"input row {row} is {inputs[row]}; give a category from 0 to {categories - 1}")
    return inputs.astype(np.int64)


class FrequencyOracle(Randomizer):
    categories: int
    reach = (0, 1)

    @property
    @abstractmethod
    def own(self) -> float:
        """p: the probability that a reply supports a category when that is the input."""

    @property
    @abstractmethod
    def other(self) -> float:
        """q: the probability that a reply supports a category when another one is the input."""

    @property
    @abstractmethod
    def own_and_other(self) -> float:
        """The probability that a reply supports both the input and one given other category."""

    @property
    @abstractmethod
    def two_others(self) -> float:
        """The probability that a reply supports both of two given categories, neither of them the input."""

    @abstractmethod
    def support(self, reply: Columns) -> Integers:
        """Which categories each reply supports: an n x k matrix of 0 and 1."""

    @property
    def unit(self) -> float:
        return 1.0 / (self.own - self.other)

    @property
    def offset(self) -> float:
        return -self.other * self.unit

    def decode(self, reply: Columns) -> Floats:
        """Unbiased estimates of the indicators: an n x k matrix."""
        return np.asarray(self.offset + self.unit * self.support(reply).astype(np.float64))

    def total(self, reply: Columns) -> Integers:
        """How many replies support each category; `offset` is to be added once a reply."""
        total = np.zeros(self.categories, dtype=np.int64)
        step = max(1, (1 << 20) // self.categories)
        for start in range(0, len(next(iter(reply.values()))), step):
            part = {name: column[start : start + step] for name, column in reply.items()}
            total += self.support(part).sum(axis=0)
        return total

    def variance_at(self, frequency: float) -> float:
        """n times the variance of an estimated frequency when a share `frequency` of the users have the category."""
        noise = frequency * self.own * (1.0 - self.own) + (1.0 - frequency) * self.other * (1.0 - self.other)
        return self.unit**2 * noise

    @property
    def variance(self) -> float:
        """The variance that matters with many categories: that of a category nobody has, q(1-q)/(p-q)^2."""
        return self.variance_at(0.0)
