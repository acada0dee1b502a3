"""zeta(W, n): programs of half the size for a symmetric W, and none where approximation is of no use."""

import numpy as np
import pytest

from parley.protocols import registry
from parley.protocols.factorization import zeta as program
from parley.protocols.factorization.factors import shifted
from parley.protocols.factorization.fixed_point import fixed_point
from parley.protocols.workloads.kendall import Kendall

GENERATOR = np.random.default_rng(4)
SIGNS = np.sign(GENERATOR.standard_normal((9, 9)))
SYMMETRIC = np.triu(SIGNS) + np.triu(SIGNS, 1).T


@pytest.mark.parametrize("slope", [1.2, 1.8, 2.6])
def test_a_symmetric_matrix_has_the_zeta_of_its_permuted_rows(slope: float) -> None:
    """Neither gamma_2 nor |W|_inf notices the order of the rows, which makes the other program solve it."""
    values = []
    for matrix in (SYMMETRIC, SYMMETRIC[GENERATOR.permutation(9)]):
        found = program.zeta(matrix, slope)
        assert found is not None
        alpha, factors = found
        assert np.abs(factors.dense() - matrix).max() <= alpha + 1e-9
        values.append(factors.upper + slope * alpha)
    assert values[0] == pytest.approx(values[1], rel=2 * program.TOLERANCE)


@pytest.mark.parametrize("slope", [0.5, 1.5, 2.2, 2.5, 2.9])
def test_where_approximation_is_called_useless_zeta_is_gamma(slope: float) -> None:
    found = program.zeta(SYMMETRIC, slope)
    assert found is not None
    least = found[1].upper + slope * found[0]
    gamma = fixed_point(SYMMETRIC).upper
    if program.approximation_is_useless(SYMMETRIC, slope):
        assert least == pytest.approx(min(gamma, slope), rel=3 * program.TOLERANCE)
    else:
        assert slope < 3


def test_some_slopes_are_useless_and_some_are_not() -> None:
    assert program.approximation_is_useless(SYMMETRIC, 2.9)
    strong = np.outer(SIGNS[0], SIGNS[0]) + 0.2 * SYMMETRIC
    assert not program.approximation_is_useless(strong, 1.5)
    assert not program.approximation_is_useless(np.zeros((2, 2)), 1.0)


def test_designing_for_few_users_solves_no_program_that_cannot_help(monkeypatch: pytest.MonkeyPatch) -> None:
    """A semidefinite program for k = 128 takes up to a minute. Here it would return W itself."""

    def refuse(*_: object) -> None:
        raise AssertionError("a program was solved")

    monkeypatch.setattr(program, "zeta", refuse)
    workload = Kendall(levels=(8, 16))
    assert program.approximation_is_useless(shifted(workload), np.sqrt(60), 0.02)
    for users in (4, 60):
        protocol = registry.design("one-round", workload, epsilon=1.0, users=users)
        # Lemma fac-vs-apx-fac: answering a constant costs |W| at most, and so does the design.
        assert protocol.predicted_rmse() <= 1.01 * users / (users - 1)
