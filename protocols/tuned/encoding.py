"""How the tuned protocols' first users tell where they stand: the vector A e_x, or the input itself as a category.

A codebook's noise is the same in all directions of A's space; a frequency oracle's in all directions of the histogram.
Where W mixes its inputs evenly (diversity, random signs) the second is smaller, where it does not (Kendall) the first.
Either way the analyst gets an unbiased mean and projects it to the nearest histogram in the metric of its noise.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from parley.emulator.protocol import Inputs
from parley.emulator.randomizer import Floats, Integers, Randomizer
from parley.protocols.baselines.oracle_moments import OracleMoments
from parley.protocols.planning.noise import noise_of
from parley.protocols.projection.simplex_projection import curvature, nearest_probabilities, simplex_weights
from parley.protocols.randomizers.categories.subset_selection import SubsetSelection
from parley.protocols.randomizers.vectors.codebook import Codebook
from parley.protocols.tuned.ratio_form import Target

Draw = Callable[[np.random.Generator], Floats]


@dataclass(frozen=True, kw_only=True, eq=False)
class Encoding(ABC):
    """What a user randomises, and what the analyst makes of the mean of the replies."""

    kind: ClassVar[str]
    # How many times as many runs a prediction makes of it: those are cheap whose projection has a closed form.
    patience: ClassVar[int] = 1
    target: Target
    epsilon: float

    @property
    @abstractmethod
    def randomizer(self) -> Randomizer: ...

    @property
    @abstractmethod
    def length(self) -> int:
        """Numbers in the sum of the replies."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """The largest variance of one reply's image in a direction of A's space."""

    @abstractmethod
    def values(self, inputs: Inputs) -> Floats:
        """What the randomizer is given."""

    @abstractmethod
    def image(self, means: Floats) -> Floats:
        """Means of replies, one a row, as unbiased estimates of A h."""

    @abstractmethod
    def explain(self, means: Floats) -> Floats:
        """The histogram that explains each row best, one a column."""

    @abstractmethod
    def along(self, direction: Floats, histogram: Floats, sampled: float) -> float:
        """The variance of <image of one reply, direction> for a user drawn from the histogram."""

    @abstractmethod
    def simulator(self, histogram: Floats, size: float, sampled: float) -> Draw:
        """Draws the mean of `size` replies; `sampled` is the share of the users' own variation that it has too."""

    def mean(self, total: Integers, replies: Integers) -> Floats:
        """The mean of the decoded replies of each fold; nothing where nobody spoke."""
        each = total * self.randomizer.unit / np.maximum(replies, 1)[:, None] + self.randomizer.offset
        return np.asarray(each * (replies > 0)[:, None])


@dataclass(frozen=True, kw_only=True, eq=False)
class ByVector(Encoding):
    """VRand(A 1_x) from a codebook."""

    kind: ClassVar[str] = "codebook"
    candidates: int
    best: int

    @cached_property
    def randomizer(self) -> Codebook:
        return Codebook(
            dimension=self.target.factor.rows,
            radius=self.target.factor.radius,
            epsilon=self.epsilon,
            candidates=self.candidates,
            best=self.best,
        )

    @property
    def length(self) -> int:
        return self.target.factor.rows

    @property
    def variance(self) -> float:
        return self.randomizer.variance

    def values(self, inputs: Inputs) -> Floats:
        return self.target.factor.columns(inputs)

    def image(self, means: Floats) -> Floats:
        return means

    def explain(self, means: Floats) -> Floats:
        return simplex_weights(self.target.operator, means)

    def along(self, direction: Floats, histogram: Floats, sampled: float) -> float:
        noise, products = noise_of(self.randomizer), self.target.operator.transpose_apply(direction)
        varied = float(histogram @ products**2) - float(histogram @ products) ** 2
        return noise.along(direction, products, histogram) + sampled * varied

    def simulator(self, histogram: Floats, size: float, sampled: float) -> Draw:
        operator, noise = self.target.operator, noise_of(self.randomizer)
        centre, scale = operator.apply(histogram), 1 / math.sqrt(max(size, 1.0))
        lean = np.sqrt(max(0.0, noise.lean + sampled) * histogram)

        def draw(generator: np.random.Generator) -> Floats:
            isotropic = math.sqrt(noise.isotropic) * generator.standard_normal(operator.rows)
            leaning = operator.apply(lean * generator.standard_normal(len(histogram)))
            return np.asarray(centre + scale * (isotropic + leaning))

        return draw


@dataclass(frozen=True, kw_only=True, eq=False)
class ByCategory(Encoding):
    """The input by subset selection."""

    kind: ClassVar[str] = "subset"
    patience: ClassVar[int] = 8

    @cached_property
    def randomizer(self) -> SubsetSelection:
        return SubsetSelection(categories=self.target.factor.inputs, epsilon=self.epsilon)

    @property
    def length(self) -> int:
        return self.target.factor.inputs

    @cached_property
    def variance(self) -> float:
        return self.randomizer.variance * curvature(self.target.operator)

    def values(self, inputs: Inputs) -> Floats:
        return inputs.astype(np.float64)

    def image(self, means: Floats) -> Floats:
        return np.ascontiguousarray(self.target.operator.apply(means.T).T)

    def explain(self, means: Floats) -> Floats:
        return nearest_probabilities(means.T)

    def along(self, direction: Floats, histogram: Floats, sampled: float) -> float:
        products = self.target.operator.transpose_apply(direction)
        varied = float(histogram @ products**2) - float(histogram @ products) ** 2
        return OracleMoments(self.randomizer).along(products, histogram) + sampled * varied

    def simulator(self, histogram: Floats, size: float, sampled: float) -> Draw:
        diagonal, mixing = OracleMoments(self.randomizer).covariance(histogram)
        basis = np.stack([np.ones(len(histogram)), histogram], axis=1)
        mixing = mixing - sampled * np.diag([0.0, 1.0])
        root, turn, stretch = _root(diagonal + sampled * histogram, basis, mixing)
        scale = 1 / math.sqrt(max(size, 1.0))

        def draw(generator: np.random.Generator) -> Floats:
            flat = generator.standard_normal(len(histogram))
            return np.asarray(histogram + scale * root * (flat + turn @ (stretch * (turn.T @ flat))))

        return draw


def _root(diagonal: Floats, basis: Floats, mixing: Floats) -> tuple[Floats, Floats, Floats]:
    """r, Q, s with diag(d) + B K B' = diag(r) (I + Q diag(s) Q')^2 diag(r): a square root without a k x k matrix."""
    root = np.sqrt(np.maximum(diagonal, np.finfo(float).tiny))
    frame, shape = np.linalg.qr(basis / root[:, None])
    values, vectors = np.linalg.eigh(shape @ mixing @ shape.T)
    return root, frame @ vectors, np.sqrt(np.maximum(1 + values, 0.0)) - 1
