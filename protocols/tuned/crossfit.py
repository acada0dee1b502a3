"""From the means of the folds to the question of the last round (mathematics.md, "Three rounds, tuned", items 1 and 3).

Every fold's mean Y_j is paired with mu_j, the projection of the mean of all the other folds onto {A h : h a histogram}:
the two are independent, so B(Ah, mu_j + Y_j) - B(Y_j, mu_j) has the mean h'Mh whatever the projection did.
"""

from dataclasses import dataclass

import numpy as np

from parley.emulator.randomizer import Floats, Integers
from parley.protocols.tuned.encoding import Encoding
from parley.protocols.tuned.ratio_form import Guess, RatioForm


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """D (mu + Y) averaged over folds, the pivot sum_j q_j B(Y_j, mu_j), and the histogram and mu_j behind them."""

    direction: Floats
    pivot: float
    guess: Guess
    histogram: Floats
    points: Floats


def crossfit(encoding: Encoding, means: Floats, sizes: Integers | Floats) -> list[Fit]:
    """One fit for each of a stack of runs: `means` is (runs, folds, length), `sizes` the users of each fold and run."""
    runs, folds, length = means.shape
    each = np.broadcast_to(np.asarray(sizes, dtype=np.float64), (runs, folds))
    users = np.maximum(1.0, each.sum(axis=1, keepdims=True))
    total = np.einsum("rf,rfl->rl", each, means)
    others = np.maximum(users - each, 1.0)
    without = (total[:, None] - each[:, :, None] * means) / others[:, :, None]
    weights = encoding.explain(without.reshape(runs * folds, length))
    points = encoding.ratio_form.operator.apply(weights).T.reshape(runs, folds, -1)
    images = encoding.image(means.reshape(runs * folds, length)).reshape(runs, folds, -1)
    shares = each / users
    histograms = np.einsum("rf,krf->rk", shares, weights.reshape(-1, runs, folds))
    return [_one(encoding.ratio_form, *run) for run in zip(images, points, histograms, shares, strict=True)]


def _one(ratio_form: RatioForm, means: Floats, points: Floats, histogram: Floats, shares: Floats) -> Fit:
    guess = ratio_form.guess(histogram)
    signs = ratio_form.signs(guess)
    return Fit(
        direction=signs * (shares @ (means + points)),
        pivot=float(shares @ ((means * points) @ signs)),
        guess=guess,
        histogram=histogram,
        points=points,
    )
