"""Lower bounds as numbers: the formula, its monotonicity, and zeta's elementary bound against the SDP."""

import numpy as np
import pytest

from benchmarks.reference import sdp
from parley.emulator.errors import BadInput
from parley.protocols.factorization.closed_forms import kendall
from parley.protocols.factorization.fixed_point import fixed_point
from parley.protocols.planning.lower_bounds import (
    linear_query_bound,
    non_interactive_bound,
    quadratic_form_bound,
    zeta_bound,
)


def test_linear_queries_follow_the_theorem() -> None:
    bound = linear_query_bound(zeta=5.0, largest=1.0, users=10_000, epsilon=0.5)
    spread = 0.25 * 10_000 / 25
    assert bound == pytest.approx(1 / spread / np.log(spread) ** 2)


def test_the_reduction_costs_its_explicit_constant() -> None:
    linear = linear_query_bound(zeta=5.0, largest=1.0, users=10_000, epsilon=1.0)
    form = quadratic_form_bound(zeta=5.0, largest=1.0, users=10_000, epsilon=0.5)
    assert form == pytest.approx(linear / 6.25)


def test_the_reduction_constant_is_the_worst_case_of_the_estimator() -> None:
    """2 a + b/2 with E a^2, E b^2 <= alpha is worst when a and b agree; that case attains 6.25 alpha."""
    generator = np.random.Generator(np.random.PCG64(41))
    first = generator.standard_normal(1000)
    for second in (first, -first, generator.standard_normal(1000)):
        worst = max(np.mean(first**2), np.mean(second**2))
        assert np.mean((2 * first + second / 2) ** 2) <= 6.25 * worst * (1 + 1e-12)


def test_bounds_fall_with_users_and_rise_with_zeta() -> None:
    found = [non_interactive_bound(kendall(8, 8), 1.0, users, 0.5) for users in (100, 10**4, 10**6)]
    assert found == sorted(found, reverse=True)
    few, many = (linear_query_bound(zeta, 1.0, 10_000, 0.5) for zeta in (2.0, 4.0))
    assert few < many


@pytest.mark.parametrize("users", [2, 30, 2000])
def test_the_elementary_bound_holds_for_zeta(users: int) -> None:
    workload = np.sign(np.random.Generator(np.random.PCG64(42)).standard_normal((10, 10)))
    assert zeta_bound(fixed_point(workload), users, 0.5) <= sdp.zeta(workload, users, 0.5).upper


def test_nothing_to_estimate_has_no_lower_bound() -> None:
    assert linear_query_bound(0.0, 1.0, 100, 1.0) == 0.0


@pytest.mark.parametrize(("users", "epsilon"), [(0, 1.0), (5, 0.0), (5, float("nan"))])
def test_bad_arguments_are_refused(users: int, epsilon: float) -> None:
    with pytest.raises(BadInput, match="at least one user"):
        linear_query_bound(1.0, 1.0, users, epsilon)
