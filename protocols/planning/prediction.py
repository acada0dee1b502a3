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

from parley.emulator.randomizer import Floats
from parley.protocols.legacy_pairwise import BALANCED
from parley.protocols.projection.l1_projection import projection_error
from parley.protocols.tuned.crossfit import Fit, fit
from parley.protocols.tuned.scalar_round import exact_range

if TYPE_CHECKING:
    from parley.protocols.tuned.encoding import Encoding
    from parley.protocols.tuned.split_users import Tuned

RUNS = 24
# With more inputs than this a run costs more and says more, so fewer are made.
THRIFTY = 256
SEED = 20
# mu_j is made of the other folds' noise, so the folds' shares of the doubt are alike: were the projection linear, the
# variance of their sum would be twice that of independent shares. Measured over 600 to 1500 runs each, on five
# workloads, three epsilons and three numbers of users, the factor is 1.55 to 2.05 for the encoding that is chosen.
ALIKE = 1.85
# Beyond chance: then it is the error of a ratio's denominator that matters, and the runs' own squares are taken.
UNLIKELY = 4.0


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The two parts of the MSE: scalars with the sampling of their users, and the doubt B(Y - Ah, Ah - mu)."""

    scalars: float
    doubt: float

    @property
    def total(self) -> float:
        return self.scalars + self.doubt


def simulated(protocol: "Tuned", histogram: Floats, replies: Sequence[int], runs: int = RUNS) -> Prediction:
    """The MSE of the statistic for users with this histogram, so many of whom reply in each round."""
    each = protocol.folds // protocol.vector_rounds
    sizes = np.repeat(np.asarray(replies[:-1], dtype=np.float64) / each, each)
    sampled = np.maximum(0.0, 1 - sizes / protocol.users)
    encodings = [protocol.encoding_of(index // each) for index in range(len(sizes))]
    draws = [way.simulator(histogram, *of) for way, *of in zip(encodings, sizes, sampled, strict=True)]
    generator = np.random.default_rng(SEED)
    runs = max(2, runs * encodings[0].patience * THRIFTY // max(THRIFTY, protocol.inputs))
    means = np.stack([np.stack([draw(generator) for draw in draws]) for _ in range(runs)])
    fits = fit(encodings[0], means, sizes)
    scalars, squared = np.mean([_errors(protocol, found, histogram, replies[-1]) for found in fits], axis=0)
    alone = float(np.mean([_alone(encodings, found, histogram, sizes, sampled) for found in fits]))
    unlike = float(squared) / alone > UNLIKELY
    return Prediction(scalars=float(scalars), doubt=float(squared) if unlike else alone * ALIKE)


def _alone(encodings: Sequence["Encoding"], found: Fit, histogram: Floats, sizes: Floats, sampled: Floats) -> float:
    """The doubt's variance if the folds' shares of it were independent: exact given mu_j, so few runs pin it down."""
    target = encodings[0].target
    signs, centre = target.signs(found.guess), target.operator.apply(histogram)
    shares = sizes / sizes.sum()
    terms = [
        share**2 * way.along(signs * (point - centre), histogram, varied) / size
        for share, way, point, varied, size in zip(shares, encodings, found.points, sampled, sizes, strict=True)
    ]
    return float(sum(terms) / found.guess.denominator**2 + np.finfo(float).tiny)


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
    variance = max(protocol.encoding_of(group).variance for group in range(protocol.vector_rounds))
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
