"""The projection of Theorem proj for many points at once: what a tuned analyst and its predictions need.

The tuned protocols take any point near the projection (it only has to be independent of the vectors it is paired
with), so a duality gap of 3e-5 of |A|^2 is plenty, and all points share each pass over A.
"""

from functools import lru_cache

import numpy as np

from parley.emulator.randomizer import Floats
from parley.protocols.convergence import stopped_short
from parley.protocols.factorization.operator import Dense, Factor

TOLERANCE = 3e-5
PASSES = 2000
LARGEST_DENSE = 1 << 21


def densified(factor: Factor) -> Factor:
    """The same operator entry by entry where that is small, because a product is then one call."""
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


@lru_cache(maxsize=8)
def curvature(factor: Factor) -> float:
    """An upper estimate of the largest eigenvalue of A'A, by thirty powers and a margin."""
    return max(1.05 * largest_eigenvalue(factor, 30), factor.radius**2, np.finfo(float).tiny)


def largest_eigenvalue(factor: Factor, powers: int) -> float:
    """Of A'A, estimated by so many of its powers: never too large."""
    vector = 1.0 + np.cos(np.arange(factor.inputs))
    value = 0.0
    for _ in range(powers):
        vector = factor.transpose_apply(factor.apply(vector / np.linalg.norm(vector)))
        value = float(np.linalg.norm(vector))
        if value == 0:
            break
    return value


def simplex_weights(factor: Factor, points: Floats, tolerance: float = TOLERANCE, passes: int = PASSES) -> Floats:
    """For each row y of `points`, weights h in the simplex with A h nearest to y: an (inputs, points) matrix."""
    targets = np.ascontiguousarray(points.T)
    steepest = curvature(factor)
    found = np.full((factor.inputs, targets.shape[1]), 1.0 / factor.inputs)
    weights = ahead = found.copy()
    momentum, left = np.ones(targets.shape[1]), np.arange(targets.shape[1])
    goal = tolerance * factor.radius**2
    for count in range(passes):
        # Points that are near enough leave; the others go on without them.
        if count % 10 == 9 and (near := _gaps(factor, targets, weights) <= goal).any():
            found[:, left[near]] = weights[:, near]
            if near.all():
                return found
            left, momentum = left[~near], momentum[~near]
            targets, weights, ahead = targets[:, ~near], weights[:, ~near], ahead[:, ~near]
        gradient = factor.transpose_apply(factor.apply(ahead) - targets)
        following = nearest_probabilities(ahead - gradient / steepest)
        # Momentum restarts where it points uphill, column by column.
        uphill = np.einsum("kp,kp->p", ahead - following, following - weights) > 0
        momentum = np.where(uphill, 1.0, momentum)
        after = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = following + (momentum - 1) / after * (following - weights)
        weights, momentum = following, after
    found[:, left] = weights
    short = _gaps(factor, targets, weights)
    if len(short) and float(short.max()) > goal:
        stopped_short(
            f"the projection of {len(left)} of {len(points)} points onto the simplex",
            float(short.max()),
            goal,
            "the histograms found explain their points less well",
        )
    return found


def shrunk_to_norm(factor: Factor, weights: Floats, energy: float) -> Floats:
    """The mix of `weights` and equal shares with |A h|^2 = `energy`, or as near to it as there is.

    A histogram explained from a noisy mean is as uneven as its noise, so |A h|^2 is too large; an estimate of |A h|^2
    itself has no such bias.
    """
    even = np.full(len(weights), 1.0 / len(weights))
    image, step = factor.apply(weights), factor.apply(even - weights)
    square, slope, excess = float(step @ step), float(image @ step), float(image @ image) - energy
    if excess <= 0 or slope >= 0 or square == 0:
        return weights
    # The smaller root of |image + s step|^2 = energy; the lowest point where there is none.
    share = (-slope - np.sqrt(max(slope**2 - square * excess, 0.0))) / square
    return np.asarray(weights + min(share, 1.0) * (even - weights))


def _gaps(factor: Factor, targets: Floats, weights: Floats) -> Floats:
    """How far each point may be from the nearest one: a duality gap."""
    gradient = factor.transpose_apply(factor.apply(weights) - targets)
    return np.asarray(np.einsum("kp,kp->p", gradient, weights) - gradient.min(axis=0))
