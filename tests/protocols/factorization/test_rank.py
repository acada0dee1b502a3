"""Rank reduction: measured error, fewest rows of each family, determinism."""

import numpy as np
import pytest

from parley.emulator.errors import BadInput
from parley.protocols.factorization.closed_forms import gini_diversity, gini_mean_difference, kendall
from parley.protocols.factorization.fixed_point import fixed_point
from parley.protocols.factorization.model import Factorization
from parley.protocols.factorization.truncation import reduce_rank

LEVELS = np.abs(np.subtract.outer(np.arange(64), np.arange(64))) / 63
CASES: dict[str, Factorization] = {
    "kendall": kendall(8, 8),
    "thresholds": gini_mean_difference(64),
    "exponential": fixed_point(np.exp(-4 * LEVELS)),
    "signs": fixed_point(np.sign(np.random.Generator(np.random.PCG64(31)).standard_normal((64, 64)))),
}


def shortened(factorization: Factorization, alpha: float, seed: int) -> Factorization:
    """With fewer rows, or as it was where they do not suffice."""
    return reduce_rank(factorization, alpha, seed) or factorization


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("alpha", [0.02, 0.2, 0.6])
def test_the_error_is_within_alpha(name: str, alpha: float) -> None:
    factorization = CASES[name]
    reduced = shortened(factorization, alpha, seed=7)
    assert np.max(np.abs(reduced.dense() - factorization.dense())) <= alpha + 1e-9
    assert reduced.rows <= factorization.rows
    assert reduced.upper <= 1.5 * factorization.upper
    again = shortened(factorization, alpha, seed=7)
    assert again.left.dense().tobytes() == reduced.left.dense().tobytes()


def test_fewer_rows_for_larger_errors() -> None:
    factorization = CASES["thresholds"]
    rows = [shortened(factorization, alpha, seed=1).rows for alpha in (0.001, 0.01, 0.1, 0.5)]
    assert rows == sorted(rows, reverse=True)
    assert rows[2] <= 4


def test_one_row_less_would_not_do() -> None:
    """For truncation the smallest l can be checked against the singular values directly."""
    factorization = CASES["exponential"]
    reduction = shortened(factorization, 0.1, seed=1)
    left, values, right = np.linalg.svd(factorization.dense())
    fewer = reduction.rows - 1
    truncated = (left[:, :fewer] * values[:fewer]) @ right[:fewer]
    assert np.max(np.abs(truncated - factorization.dense())) > 0.1


def test_random_projection_wins_where_no_direction_stands_out() -> None:
    """The identity has no principal directions: truncation leaves an error of 1 until the last row."""
    assert shortened(gini_diversity(300), 0.6, seed=3).rows < 200


def test_what_cannot_be_reduced_stays() -> None:
    assert reduce_rank(gini_diversity(8), 0.0, seed=0) is None


@pytest.mark.parametrize("alpha", [-1.0, float("nan")])
def test_bad_arguments_are_refused(alpha: float) -> None:
    with pytest.raises(BadInput, match="rank reduction"):
        reduce_rank(gini_diversity(4), alpha, seed=0)
