"""From counts of replies to histograms: unbiased, and projected to the simplex.

q is the likelihood of every (seed, index), r = q / (q u) with u even. b = r'N / n has the mean H h with H = r'q / S. So
H^-1 b is unbiased for h, and argmin h'Hh/2 - b'h over the simplex is the histogram that explains the counts best.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Floats
from parley.protocols.projection.simplex_projection import nearest_probabilities
from parley.protocols.randomizers.channels.codebook_seeds import CodebookSeeds
from parley.protocols.randomizers.channels.folded_channel import FoldedChannel

STEPS = 150
# Enough for means and variances of many projections: they are right to 0.3%.
FEW_STEPS = 80
# Relative to the largest: below it a direction of histograms cannot be seen in the replies.
SINGULAR = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class Decoder:
    """The analyst's side of a codebook with a list of seeds.

    q has 16 MiB for a codebook of 256 inputs. Drafts that are compared do with H and a q in single precision, which one
    of them has at a time; q itself is kept from when an analyst decodes.
    """

    channel: CodebookSeeds | FoldedChannel = field(repr=False)

    @property
    def inputs(self) -> int:
        return self.channel.inputs

    @property
    def seeds(self) -> int:
        return self.channel.seeds

    @property
    def cells(self) -> int:
        """The rows of q."""
        return self.channel.cells

    @cached_property
    def likelihood(self) -> Floats:
        """q."""
        # First, because that takes another q for a moment.
        self._means  # noqa: B018
        return self.channel.likelihood(np.float64)

    @property
    def single(self) -> NDArray[np.float32]:
        """q in single precision, for predictions; kept for one decoder at a time."""
        return single_of(self)

    @property
    def even(self) -> Floats:
        """q u: how likely each index is when all inputs are equally common."""
        return self._means[0]

    @property
    def information(self) -> Floats:
        """H."""
        return self._means[1]

    @cached_property
    def _means(self) -> tuple[Floats, Floats]:
        """q u and H, from a q that is not kept."""
        scaled = self.channel.likelihood(np.float64)
        even = np.asarray(scaled.mean(axis=1))
        scaled /= np.sqrt(even * self.seeds)[:, None]
        return even, np.asarray(scaled.T @ scaled)

    @cached_property
    def inverse(self) -> Floats:
        """H^-1; BadInput where replies do not determine the histogram."""
        values, vectors = np.linalg.eigh(self.information)
        if values[0] <= SINGULAR * values[-1]:
            raise BadInput(
                f"{self.seeds} seeds are too few for {self.inputs} inputs: the replies do not determine the histogram"
            )
        return np.asarray((vectors / values) @ vectors.T)

    @cached_property
    def curvature(self) -> tuple[Floats, float]:
        """H - 11', which is H on differences of histograms, and its largest eigenvalue."""
        matrix = self.information - 1.0
        return matrix, max(float(np.linalg.eigvalsh(matrix)[-1]), 1e-12)

    def scores(self, counts: Floats) -> Floats:
        """b for every column of counts, each divided by its sum."""
        totals = np.maximum(counts.sum(axis=0), 1.0)
        return np.asarray(self.likelihood.T @ (counts / self.even[:, None]) / totals)

    def unbiased(self, scores: Floats) -> Floats:
        """H^-1 b."""
        return self.inverse @ scores

    def nearest(self, scores: Floats, steps: int = STEPS) -> Floats:
        """The histogram that explains each column of scores best: accelerated projected gradients with restarts."""
        matrix, largest = self.curvature
        found = ahead = np.full((self.inputs, scores.shape[1]), 1.0 / self.inputs)
        momentum = np.ones(scores.shape[1])
        for _ in range(steps):
            after = nearest_probabilities(ahead - (matrix @ ahead - scores) / largest)
            turned = ((ahead - after) * (after - found)).sum(axis=0) > 0
            momentum = np.where(turned, 1.0, momentum)
            following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            ahead = after + (momentum - 1) / following * (after - found)
            found, momentum = after, following
        return found

    def values(self, gradient: Floats) -> Floats:
        """What each (seed, index) is worth for <h, g>: r H^-1 g."""
        return np.asarray((self.likelihood @ (self.inverse @ gradient)).T / self.even).T

    def squares(self, apply: Callable[[Floats], Floats]) -> Floats:
        """phi'W phi for what each (seed, index) decodes to, phi = H^-1 r."""
        decoded = self.inverse @ (self.likelihood / self.even[:, None]).T
        return np.asarray((decoded * apply(decoded)).sum(axis=0))

    def variance(self, gradient: Floats, histogram: Floats) -> float:
        """V1: n times the variance of <h~, g>, the users being as they are."""
        chances = self.likelihood @ histogram / self.seeds
        return float(chances @ self.values(gradient) ** 2 - histogram @ gradient**2)

    def variances(self, gradients: Floats, histogram: Floats, own: Floats) -> tuple[Floats, Floats]:
        """V1 for every column of gradients: under one histogram, and under a histogram of its own for each."""
        squares = self.likelihood.T @ (self.values(gradients) ** 2) / self.seeds - gradients**2
        return np.asarray(histogram @ squares), np.asarray((own * squares).sum(axis=0))

    def covariance(self, histogram: Floats) -> Floats:
        """n times the covariance of h~, the users being as they are."""
        weights = np.sqrt(self.likelihood @ histogram / self.seeds) / self.even
        scaled = self.inverse @ (self.likelihood * weights[:, None]).T
        return np.asarray(scaled @ scaled.T - np.diag(histogram))

    def perturbed(self, histogram: Floats, users: float, draws: Floats) -> Floats:
        """Scores of so many users with this histogram, once for each column of standard normal draws."""
        spread = np.sqrt(self.likelihood @ histogram / self.seeds)
        centre = self.information @ histogram
        # Counts add up to the number of users, so their noise adds up to nothing.
        moved = self.likelihood.T @ ((spread / self.even)[:, None] * draws) - np.outer(centre, spread @ draws)
        return np.asarray(centre[:, None] + moved / np.sqrt(users))


@lru_cache(maxsize=1)
def single_of(decoder: Decoder) -> NDArray[np.float32]:
    return decoder.channel.likelihood(np.float32)


@lru_cache(maxsize=8)
def decoder_of(codebook: CodebookSeeds | FoldedChannel) -> Decoder:
    """The tables of a codebook or of a table of its own, made once."""
    return Decoder(channel=codebook)
