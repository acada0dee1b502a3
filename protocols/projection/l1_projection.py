"""Projection mechanism (Theorem "proj"): the point of A^Delta = {A x : |x|_1 <= 1} nearest to the noisy mean Y.

It is found by accelerated projected gradient descent with restarts, which touches A only through A x and A'y, and
comes with a Frank-Wolfe duality gap:

Formal guarantee: the returned weights have |weights|_1 <= 1, point = A weights, and with mu* the exact projection
|point - mu*|^2 / 2 <= |point - Y|^2 / 2 - |mu* - Y|^2 / 2 <= gap.
"""

import math
from dataclasses import dataclass

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Floats
from parley.protocols.convergence import stopped_short
from parley.protocols.factorization.operator import Factor
from parley.protocols.projection.simplex_projection import largest_eigenvalue, nearest_probabilities

TOLERANCE = 1e-8
ITERATIONS = 50_000
_ROUNDING = 1e-14


@dataclass(frozen=True, kw_only=True, eq=False)
class Projection:
    """A feasible point, the weights that make it, and how much its squared distance may exceed the least one."""

    point: Floats
    weights: Floats
    gap: float
    tolerance: float
    iterations: int


def nearest_in_l1_ball(values: Floats) -> Floats:
    """The vector with |x|_1 <= 1 nearest to `values`."""
    sizes = np.abs(values)
    if sizes.sum() <= 1:
        return values
    # A common shift changes nothing, and keeps the sum of one visible beside large values.
    return np.asarray(np.sign(values) * nearest_probabilities((sizes - sizes.max())[:, None])[:, 0])


def _in_l1_ball(weights: Floats) -> Floats:
    # Rounding may leave a norm of one plus a few units in the last place; the set is closed at one.
    return np.asarray(weights / max(1.0, float(np.abs(weights).sum()) * (1 + 1e-15)))


def projection_error(factor: Factor, variance: float) -> float:
    """Theorem proj in numbers: E|mu - Ah|^2 is at most l v, and at most E max_j |<A_j, Z>| for Z of variance v."""
    unprojected = factor.rows * variance
    vertices = factor.radius * math.sqrt(variance) * math.sqrt(2 * math.log(2 * factor.inputs))
    return min(unprojected, vertices, (2 * factor.radius) ** 2)


def project_l1(factor: Factor, point: Floats, tolerance: float = TOLERANCE, iterations: int = ITERATIONS) -> Projection:
    """The nearest point of A^Delta; the gap aimed at is tolerance * |A|_{1->2}^2."""
    target = np.asarray(point, dtype=np.float64)
    if target.shape != (factor.rows,):
        raise BadInput(f"the point to project should have {factor.rows} coordinates, got shape {target.shape}")
    if not np.isfinite(target).all():
        raise BadInput("the point to project holds a value that is not finite")
    if not 0 < tolerance < np.inf:
        raise BadInput(f"the tolerance should be positive, got {tolerance}")
    # Below this a difference of inner products is rounding error.
    reach = factor.radius + float(np.linalg.norm(target))
    goal = max(tolerance * factor.radius**2, _ROUNDING * factor.radius * reach)
    weights, count = _descend(factor, target, goal, iterations)
    gap = _gap(factor, target, weights)
    if gap > goal:
        stopped_short("the projection onto R^Delta", gap, goal, "mu is farther from Rh, and the error larger")
    return Projection(point=factor.apply(weights), weights=weights, gap=gap, tolerance=goal, iterations=count)


def _gap(factor: Factor, target: Floats, weights: Floats) -> float:
    """max over |w|_1 <= 1 of <gradient, weights - w>, which bounds the excess of the objective."""
    gradient = factor.transpose_apply(factor.apply(weights) - target)
    return max(0.0, float(gradient @ weights) + float(np.abs(gradient).max()))


def _descend(factor: Factor, target: Floats, goal: float, iterations: int) -> tuple[Floats, int]:
    """Accelerated projected gradient on |A x - Y|^2 / 2; momentum restarts when it points uphill."""
    weights = np.zeros(factor.inputs)
    image = factor.apply(weights)
    ahead, image_ahead = weights, image
    # Raised below where it turns out too small.
    curvature, momentum = max(largest_eigenvalue(factor, 10), factor.radius**2), 1.0
    noise = (_ROUNDING * factor.radius) ** 2
    for count in range(iterations):
        if count % 10 == 0:
            candidate = _in_l1_ball(weights)
            if factor.radius == 0 or _gap(factor, target, candidate) <= goal:
                return candidate, count
        gradient = factor.transpose_apply(image_ahead - target)
        while True:
            following = nearest_in_l1_ball(ahead - gradient / curvature)
            image_following = factor.apply(following)
            step, moved = following - ahead, image_following - image_ahead
            if float(moved @ moved) <= curvature * float(step @ step) * (1 + 1e-9) + noise:
                break
            curvature *= 1.5
        if float((ahead - following) @ (following - weights)) > 0:
            momentum = 1.0
        next_momentum = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        push = (momentum - 1) / next_momentum
        ahead = following + push * (following - weights)
        image_ahead = image_following + push * (image_following - image)
        weights, image, momentum = following, image_following, next_momentum
    return _in_l1_ball(weights), iterations
