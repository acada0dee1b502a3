"""Rank reduction: measured error, fewest rows of each family, determinism."""

import numpy as np
import pytest

from parley.emulator.errors import BadInput
from parley.protocols.factorization.closed_forms import gini_mean_difference, identity, kendall
from parley.protocols.factorization.fixed_point import fixed_point
from parley.protocols.factorization.model import Factorization
from parley.protocols.factorization.reference.rank import reduce_rank

LEVELS = np.abs(np.subtract.outer(np.arange(64), np.arange(64))) / 63
CASES: dict[str, Factorization] = {
    "kendall": kendall(8, 8),
    "thresholds": gini_mean_difference(64)[1],
    "exponential": fixed_point(np.exp(-4 * LEVELS)),
    "signs": fixed_point(np.sign(np.random.Generator(np.random.PCG64(31)).standard_normal((64, 64)))),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("alpha", [0.02, 0.2, 0.6])
def test_the_error_is_measured_and_within_alpha(name: str, alpha: float) -> None:
    factorization = CASES[name]
    reduction = reduce_rank(factorization, alpha, seed=7)
    error = np.max(np.abs(reduction.factorization.dense() - factorization.dense()))
    assert error == pytest.approx(reduction.error, abs=1e-9)
    assert error <= alpha + 1e-9
    assert reduction.rows <= factorization.rows
    assert reduction.factorization.upper <= 1.5 * factorization.upper
    again = reduce_rank(factorization, alpha, seed=7)
    assert again.factorization.left.dense().tobytes() == reduction.factorization.left.dense().tobytes()


def test_fewer_rows_for_larger_errors() -> None:
    factorization = CASES["thresholds"]
    rows = [reduce_rank(factorization, alpha, seed=1).rows for alpha in (0.001, 0.01, 0.1, 0.5)]
    assert rows == sorted(rows, reverse=True)
    assert rows[2] <= 4


def test_one_row_less_would_not_do() -> None:
    """For truncation the smallest l can be checked against the singular values directly."""
    factorization = CASES["exponential"]
    reduction = reduce_rank(factorization, 0.1, seed=1)
    left, values, right = np.linalg.svd(factorization.dense())
    fewer = reduction.rows - 1
    truncated = (left[:, :fewer] * values[:fewer]) @ right[:fewer]
    assert np.max(np.abs(truncated - factorization.dense())) > 0.1


def test_random_projection_wins_where_no_direction_stands_out() -> None:
    """The identity has no principal directions: truncation leaves an error of 1 until the last row."""
    reduction = reduce_rank(identity(300), 0.6, seed=3)
    assert reduction.method == "johnson-lindenstrauss"
    assert reduction.rows < 200


def test_what_cannot_be_reduced_stays() -> None:
    reduction = reduce_rank(identity(8), 0.0, seed=0)
    assert (reduction.method, reduction.rows, reduction.error) == ("unchanged", 8, 0.0)


def test_bad_arguments_are_refused() -> None:
    for alpha, stretch in ((-1.0, 2.0), (float("nan"), 2.0), (0.1, 0.5)):
        with pytest.raises(BadInput, match="rank reduction"):
            reduce_rank(identity(4), alpha, seed=0, stretch=stretch)
