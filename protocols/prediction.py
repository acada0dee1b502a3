"""How far off the tuned protocols will be, for a histogram: their analyst's own steps on simulated means.

What is hard to know is the projection's error E|Ah - mu|^2 and the range of g, which grows with the noise of Y. Both
are public functions of (A, eps, n, h), so they are simulated: means of many randomised vectors are normal with a known
covariance. The generator's seed is fixed, so a prediction is a number, the same for everybody.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from emulator.randomizer import Floats
from protocols.crossfit import Fit, fit
from protocols.noise import noise_of
from protocols.pairwise import BALANCED
from protocols.projection import projection_error
from protocols.scalar_round import exact_range

if TYPE_CHECKING:
    from protocols.tuned import Tuned

RUNS = 48
SEED = 20


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The two parts of the MSE: scalars with the sampling of their users, and the doubt B(Y - Ah, Ah - mu)."""

    scalars: float
    doubt: float

    @property
    def total(self) -> float:
        return self.scalars + self.doubt


def public_guesses(inputs: int) -> list[Floats]:
    """Histograms to plan with when nobody has a better guess: nobody special, and falling shares."""
    falling = 1 / np.arange(1, inputs + 1)
    return [np.full(inputs, 1 / inputs), falling / falling.sum()]


def simulated(protocol: "Tuned", histogram: Floats, replies: Sequence[int], runs: int = RUNS) -> Prediction:
    """The MSE of the statistic for users with this histogram, so many of whom reply in each round."""
    each = protocol.folds // protocol.vector_rounds
    sizes = np.repeat(np.asarray(replies[:-1], dtype=np.float64) / each, each)
    generator = np.random.default_rng(SEED)
    means = np.stack([simulated_means(protocol, histogram, sizes, generator) for _ in range(runs)])
    fits = fit(protocol.target, means, sizes)
    parts = [_errors(protocol, each, histogram, replies[-1]) for each in fits]
    scalars, doubt = np.mean(parts, axis=0)
    return Prediction(scalars=float(scalars), doubt=float(doubt))


def simulated_means(protocol: "Tuned", histogram: Floats, sizes: Floats, generator: np.random.Generator) -> Floats:
    """The means of the folds: A h, the randomizer's noise, and the sampling of the fold's users."""
    operator = protocol.target.operator
    noises = [noise_of(protocol.vector(group)) for group in range(protocol.vector_rounds)]
    rows = []
    for index, size in enumerate(sizes):
        noise = noises[index * protocol.vector_rounds // len(sizes)]
        drawn = max(0.0, 1 - size / protocol.users)
        leaning = np.sqrt(max(0.0, noise.lean + drawn) * histogram) * generator.standard_normal(len(histogram))
        isotropic = math.sqrt(noise.isotropic) * generator.standard_normal(operator.rows)
        rows.append(operator.apply(histogram) + (isotropic + operator.apply(leaning)) / math.sqrt(max(size, 1.0)))
    return np.stack(rows)


def _errors(protocol: "Tuned", found: Fit, histogram: Floats, replies: int) -> tuple[float, float]:
    """MSE by scalars and squared doubt of one simulated run."""
    target, scalars = protocol.target, protocol.scalars
    public = scalars.question(found)
    values = scalars.values(public)
    mean = float(histogram @ values)
    spread = float(histogram @ (values - mean) ** 2)
    low, high = exact_range(values)
    noise = scalars.parts[0].randomizer.variance * (high - low) ** 2
    if scalars.one_bit:
        noise -= float(histogram @ (values - (low + high) / 2) ** 2)
    drawn = max(0.0, 1 - replies / protocol.users)
    value = target.value(scalars.complete(mean - found.pivot), found.guess)
    return (noise + spread * drawn) / replies / found.guess.denominator**2, (value - target.truth(histogram)) ** 2


def bounded(protocol: "Tuned", replies: Sequence[int]) -> float:
    """An MSE that no histogram exceeds by much: the widest g there is, its noise added, and Theorem proj's error."""
    factor, low, high = protocol.target.factor, *_entries(protocol)
    vectors = max(1, sum(replies[:-1]))
    variance = max(protocol.vector(group).variance for group in range(protocol.vector_rounds))
    blur = factor.radius * math.sqrt(2 * variance / vectors * math.log(2 * factor.inputs))
    width = 2 * (high - low) + 2 * blur
    scalars = (protocol.scalars.parts[0].randomizer.variance + 0.25) * width**2 / replies[-1]
    lost = 2 * projection_error(factor, variance / vectors * protocol.folds / (protocol.folds - 1))
    slope = 1 / (4 * BALANCED * (1 - BALANCED)) if protocol.target.is_ratio else 1.0
    return (scalars + 2 * variance / vectors * lost) * slope**2


def _entries(protocol: "Tuned") -> tuple[float, float]:
    """The least and the greatest entry of the matrix whose form is measured."""
    low, high = protocol.workload.bounds
    # AUC: S_m (x) S_2 lies in [-1, 1], and the label adds r in [-1/2, 1/2].
    return (-1.5, 1.5) if protocol.target.is_ratio else (low, high)
