"""What counts of replies say about the inputs: the best linear unbiased decoding of an explicit channel.

For a channel P (inputs x outputs) and a guess m of how likely each output is, r_y(x) = P(y|x) / m_y scores an output y.
With H = sum_y P(y|.) r_y the mean score is H h, so <H^-1 r_y, g> is unbiased for <h, g>, and among all unbiased values
it has the least variance where outputs follow m (Gauss-Markov).
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Floats

# Relative to the largest: a smaller eigenvalue of H is none.
SINGULAR = 1e-10


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearDecoding:
    """Decoding for outputs that are drawn from `likelihood` (outputs x inputs) and are about as likely as `mean`."""

    likelihood: Floats = field(repr=False)
    guess: Floats | None = field(default=None, repr=False)

    @cached_property
    def mean(self) -> Floats:
        """m: how likely each output is at the guess, which is even unless somebody knows better."""
        inputs = self.likelihood.shape[1]
        histogram = np.full(inputs, 1 / inputs) if self.guess is None else self.guess
        return np.asarray(self.likelihood @ histogram)

    @cached_property
    def information(self) -> Floats:
        """H = P' diag(1/m) P."""
        scaled = self.likelihood / np.sqrt(self.mean)[:, None]
        return np.asarray(scaled.T @ scaled)

    def scores(self, counts: Floats) -> Floats:
        """Sums of r_y over replies with these counts: a vector, or one per column."""
        weighted = counts / (self.mean if counts.ndim == 1 else self.mean[:, None])
        return np.asarray(self.likelihood.T @ weighted)

    @cached_property
    def _inverse(self) -> tuple[Floats, Floats]:
        """H^-1 where it has one, and the projection onto what the channel cannot see."""
        values, vectors = np.linalg.eigh(self.information)
        seen = values > SINGULAR * values[-1]
        blind = vectors[:, ~seen]
        return (vectors[:, seen] / values[seen]) @ vectors[:, seen].T, blind @ blind.T

    def solve(self, target: Floats) -> Floats:
        """H^-1 g, for functionals g that the channel determines; BadInput for others."""
        inverse, blind = self._inverse
        if np.abs(blind @ target).max(initial=0.0) > 1e-6 * max(1.0, float(np.abs(target).max())):
            entry = int(np.argmax(np.abs(blind @ target if target.ndim == 1 else (blind @ target).sum(axis=1))))
            raise BadInput(f"the channel does not determine what is asked: it cannot tell input {entry} from others")
        return np.asarray(inverse @ target)

    def values(self, target: Floats) -> Floats:
        """What each output is worth for <h, g>: unbiased for every h."""
        return np.asarray((self.likelihood @ self.solve(target)) / self.mean)

    def histogram(self, counts: Floats) -> Floats:
        """The unbiased estimate of h from counts that add up to one."""
        return self.solve(self.scores(counts))

    def variance(self, target: Floats, histogram: Floats) -> float:
        """n times the variance of the decoded <h, g> of n users with this histogram, by formula."""
        values = self.values(target)
        return float((self.likelihood @ histogram) @ values**2 - histogram @ target**2)

    def covariance(self, histogram: Floats) -> Floats:
        """n times the covariance of the decoded histogram, exactly: users are as they are, replies are random."""
        inverse = self.solve(np.eye(len(histogram)))
        weights = (self.likelihood @ histogram) / self.mean**2
        second = (self.likelihood * weights[:, None]).T @ self.likelihood
        return np.asarray(inverse @ second @ inverse - np.diag(histogram))
