"""From the means of the folds to the question of the last round (mathematics.md, "Three rounds, tuned", items 1 and 3).

Every fold's mean Y_j is paired with mu_j, the projection of the mean of all the other folds onto {A h : h a histogram}:
the two are independent, so B(Ah, mu_j + Y_j) - B(Y_j, mu_j) has the mean h'Mh whatever the projection did.
"""

from dataclasses import dataclass

import numpy as np

from emulator.randomizer import Floats, Integers
from protocols.nearest import simplex_weights
from protocols.target import Guess, Target


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """D (mu + Y) averaged over folds, the pivot sum_j q_j B(Y_j, mu_j), and a histogram that explains the vectors."""

    direction: Floats
    pivot: float
    guess: Guess
    histogram: Floats


def fit(target: Target, means: Floats, sizes: Integers | Floats) -> list[Fit]:
    """One fit for each of a stack of runs: `means` is (runs, folds, rows), `sizes` the users of each fold."""
    runs, folds, rows = means.shape
    users = max(1.0, float(sizes.sum()))
    total = np.einsum("f,rfl->rl", sizes, means)
    others = np.maximum(users - sizes, 1.0)
    without = (total[:, None] - sizes[:, None] * means) / others[:, None]
    weights = simplex_weights(target.operator, without.reshape(runs * folds, rows))
    points = target.operator.apply(weights).T.reshape(runs, folds, rows)
    shares = sizes / users
    histograms = np.einsum("f,krf->rk", shares, weights.reshape(-1, runs, folds))
    return [_one(target, *each, shares) for each in zip(means, points, histograms, strict=True)]


def _one(target: Target, means: Floats, points: Floats, histogram: Floats, shares: Floats) -> Fit:
    guess = target.guess(histogram)
    signs = target.signs(guess)
    return Fit(
        direction=signs * (shares @ (means + points)),
        pivot=float(shares @ ((means * points) @ signs)),
        guess=guess,
        histogram=histogram,
    )
