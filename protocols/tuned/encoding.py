"""How the tuned protocols' first users tell where they stand: the vector A e_x, or the input itself as a category.

A codebook's noise is the same in all directions of A's space; a frequency oracle's in all directions of the histogram.
Where W mixes its inputs evenly (diversity, random signs) the second is smaller, where it does not (Kendall) the first.
Either way the analyst gets an unbiased mean and projects it to the nearest histogram in the metric of its noise.

A reply's fold is read off its seed, which is uniform and independent of the input: nothing but the seed and the choice
travels, and the analyst keeps one sum per fold.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from parley.emulator.protocol import Vectors
from parley.emulator.randomizer import Array, Columns, Floats, Integers, Randomizer
from parley.protocols.projection.simplex_projection import nearest_probabilities, simplex_weights
from parley.protocols.randomizers.categories.subset_selection import SubsetSelection
from parley.protocols.randomizers.vectors.codebook import Codebook
from parley.protocols.tuned.ratio_form import RatioForm


@dataclass(frozen=True, kw_only=True, eq=False)
class Encoding(ABC):
    """What a user randomises, and what the analyst makes of the mean of the replies."""

    kind: ClassVar[str]
    ratio_form: RatioForm
    epsilon: float

    @property
    @abstractmethod
    def randomizer(self) -> Randomizer: ...

    @property
    @abstractmethod
    def value(self) -> Array | Vectors:
        """What the randomizer hides, for every input."""

    @abstractmethod
    def image(self, means: Floats) -> Floats:
        """Means of replies, one per row, as unbiased estimates of A h."""

    @abstractmethod
    def explain(self, means: Floats) -> Floats:
        """The histogram that explains each row best, one per column."""

    def mean(self, total: Integers, replies: Integers) -> Floats:
        """The mean of the decoded replies of each fold; nothing where nobody spoke."""
        each = total * self.randomizer.unit / np.maximum(replies, 1)[:, None] + self.randomizer.offset
        return np.asarray(each * (replies > 0)[:, None])


@dataclass(frozen=True, kw_only=True, eq=False)
class ByVector(Encoding):
    """VRand(A 1_x) from a codebook."""

    kind: ClassVar[str] = "codebook"
    candidates: int
    top: int

    @cached_property
    def randomizer(self) -> Codebook:
        return Codebook(
            dimension=self.ratio_form.factor.rows,
            radius=self.ratio_form.factor.radius,
            epsilon=self.epsilon,
            candidates=self.candidates,
            top=self.top,
        )

    @property
    def value(self) -> Vectors:
        return self.ratio_form.factor

    def image(self, means: Floats) -> Floats:
        return means

    def explain(self, means: Floats) -> Floats:
        return simplex_weights(self.ratio_form.operator, means)


@dataclass(frozen=True, kw_only=True, eq=False)
class ByCategory(Encoding):
    """The input by subset selection."""

    kind: ClassVar[str] = "subset"

    @cached_property
    def randomizer(self) -> SubsetSelection:
        return SubsetSelection(categories=self.ratio_form.factor.inputs, epsilon=self.epsilon)

    @property
    def value(self) -> Array:
        return np.arange(float(self.ratio_form.factor.inputs))

    def image(self, means: Floats) -> Floats:
        return np.ascontiguousarray(self.ratio_form.operator.apply(means.T).T)

    def explain(self, means: Floats) -> Floats:
        return nearest_probabilities(means.T)


def folds_of(reply: Columns, folds: int) -> Integers:
    """The fold of each reply: the highest 16 bits of its seed, cut into as many equal parts."""
    highest = (reply["seed"].astype(np.uint64) >> np.uint64(48)).astype(np.int64)
    fold: Integers = highest * folds >> 16
    return fold


@dataclass(frozen=True)
class FoldSums:
    """A tally: the sum of the replies of each fold, (folds, length)."""

    randomizer: Randomizer
    folds: int

    def __call__(self, reply: Columns) -> Integers:
        fold = folds_of(reply, self.folds)
        own = [{name: column[fold == each] for name, column in reply.items()} for each in range(self.folds)]
        return np.stack([self.randomizer.total(each) for each in own])


@dataclass(frozen=True)
class FoldSizes:
    """A tally: how many replies each fold has."""

    folds: int

    def __call__(self, reply: Columns) -> Integers:
        return np.bincount(folds_of(reply, self.folds), minlength=self.folds).astype(np.int64)
