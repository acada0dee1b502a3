"""The projection of Theorem proj for many points at once: what a tuned analyst and its predictions need.

The tuned protocols take any point near the projection (it only has to be independent of the vectors it is paired
with), so a duality gap of 3e-5 of |A|^2 is plenty, and all points share each pass over A.
"""

import numpy as np

from emulator.randomizer import Floats
from protocols.factorization.operator import Dense, Factor

TOLERANCE = 3e-5
PASSES = 2000
LARGEST_DENSE = 1 << 21


def quick(factor: Factor) -> Factor:
    """The same operator entry by entry where that is small, for then a product is one call."""
    rows, columns = factor.shape
    if isinstance(factor, Dense) or rows * columns > LARGEST_DENSE:
        return factor
    return Dense(factor.dense())


def nearest_probabilities(values: Floats) -> Floats:
    """The probability vector nearest to each column."""
    descending = -np.sort(-values, axis=0)
    excess = np.cumsum(descending, axis=0) - 1
    numbers = np.arange(1, len(values) + 1)[:, None]
    kept = np.count_nonzero(descending * numbers > excess, axis=0)
    threshold = np.take_along_axis(excess, kept[None] - 1, axis=0) / kept
    return np.asarray(np.maximum(values - threshold, 0.0))


def curvature(factor: Factor) -> float:
    """An upper estimate of the largest eigenvalue of A'A, by thirty powers and a margin."""
    vector = 1.0 + np.cos(np.arange(factor.inputs))
    value = 0.0
    for _ in range(30):
        vector = factor.transpose_apply(factor.apply(vector / np.linalg.norm(vector)))
        value = float(np.linalg.norm(vector))
        if value == 0:
            break
    return max(1.05 * value, factor.radius**2, np.finfo(float).tiny)


def simplex_weights(factor: Factor, points: Floats, tolerance: float = TOLERANCE, passes: int = PASSES) -> Floats:
    """For each row y of `points`, weights h in the simplex with A h nearest to y: an (inputs, points) matrix."""
    targets = np.ascontiguousarray(points.T)
    steepest = curvature(factor)
    weights = np.full((factor.inputs, targets.shape[1]), 1.0 / factor.inputs)
    ahead, momentum = weights, np.ones(targets.shape[1])
    goal = tolerance * factor.radius**2
    for count in range(passes):
        gradient = factor.transpose_apply(factor.apply(ahead) - targets)
        if count % 10 == 9 and _largest_gap(factor, targets, weights) <= goal:
            break
        following = nearest_probabilities(ahead - gradient / steepest)
        # Momentum restarts where it points uphill, column by column.
        uphill = np.einsum("kp,kp->p", ahead - following, following - weights) > 0
        momentum = np.where(uphill, 1.0, momentum)
        after = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = following + (momentum - 1) / after * (following - weights)
        weights, momentum = following, after
    return weights


def _largest_gap(factor: Factor, targets: Floats, weights: Floats) -> float:
    gradient = factor.transpose_apply(factor.apply(weights) - targets)
    gaps = np.einsum("kp,kp->p", gradient, weights) - gradient.min(axis=0)
    return float(gaps.max(initial=0.0))
