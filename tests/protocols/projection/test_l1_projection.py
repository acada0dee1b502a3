"""Projections: feasible, certified, equal to cvxpy's on small problems."""

import cvxpy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.emulator.errors import BadInput
from parley.protocols.factorization.closed_forms import gini_mean_difference, kendall
from parley.protocols.factorization.operator import Dense, Factor
from parley.protocols.projection.l1_projection import Projection, nearest_in_l1_ball, project_l1
from parley.protocols.projection.simplex_projection import nearest_probabilities, shrunk_to_norm

GENERATOR = np.random.Generator(np.random.PCG64(51))
FACTORS: dict[str, Factor] = {
    "kendall": kendall(4, 5).left,
    "auc": kendall(6, 2).left,
    "thresholds": gini_mean_difference(12).left,
    "wide": Dense(GENERATOR.standard_normal((3, 20))),
    "tall": Dense(GENERATOR.standard_normal((20, 3))),
    "unequal": Dense(GENERATOR.standard_normal((6, 8)) * 10.0 ** np.arange(-4, 4)),
}


def _check(found: Projection, factor: Factor) -> None:
    assert np.abs(found.weights).sum() <= 1
    np.testing.assert_array_equal(found.point, factor.apply(found.weights))
    assert found.gap <= found.tolerance


def _cvxpy_distance(factor: Factor, point: np.ndarray) -> float:
    weights = cvxpy.Variable(factor.inputs)
    limits = [cvxpy.norm1(weights) <= 1]
    objective = cvxpy.sum_squares(factor.dense() @ weights - point)
    cvxpy.Problem(cvxpy.Minimize(objective), limits).solve(solver=cvxpy.CLARABEL)
    return float(objective.value)


@pytest.mark.parametrize("which", FACTORS)
@pytest.mark.parametrize("size", [0.1, 1.0, 10.0])
def test_the_distance_is_the_least(which: str, size: float) -> None:
    factor = FACTORS[which]
    generator = np.random.Generator(np.random.PCG64(52))
    point = size * factor.radius / np.sqrt(factor.rows) * generator.standard_normal(factor.rows)
    found = project_l1(factor, point, 1e-9)
    _check(found, factor)
    distance = float(np.sum((found.point - point) ** 2))
    scale = factor.radius**2 * max(1.0, size)
    assert distance / 2 - found.gap <= _cvxpy_distance(factor, point) / 2 + 1e-6 * scale
    assert distance <= _cvxpy_distance(factor, point) + 2 * found.gap + 1e-6 * scale


def test_the_gap_bounds_the_distance_to_the_projection() -> None:
    """A loose answer is within sqrt(2 gap) of a tight one."""
    factor = FACTORS["kendall"]
    point = np.random.Generator(np.random.PCG64(53)).standard_normal(factor.rows)
    tight = project_l1(factor, point, 1e-12)
    for iterations in (1, 11, 41):
        loose = project_l1(factor, point, 1e-12, iterations)
        excess = np.sum((loose.point - point) ** 2) / 2 - np.sum((tight.point - point) ** 2) / 2
        assert -1e-9 <= excess <= loose.gap + 1e-9
        assert np.linalg.norm(loose.point - tight.point) <= np.sqrt(2 * loose.gap) + 1e-5


def test_points_inside_stay() -> None:
    factor = FACTORS["kendall"]
    histogram = np.random.Generator(np.random.PCG64(54)).dirichlet(np.ones(factor.inputs))
    found = project_l1(factor, factor.apply(histogram), 1e-10)
    _check(found, factor)
    assert np.linalg.norm(found.point - factor.apply(histogram)) <= 1e-4 * factor.radius


def test_large_domains_converge() -> None:
    """Kendall 32 x 32 with the noise of 50,000 users at eps = 1: k = 1024 without a dense matrix."""
    factor = kendall(32, 32).left
    generator = np.random.Generator(np.random.PCG64(55))
    noise = factor.radius * np.sqrt(6.3 / 50_000) * generator.standard_normal(factor.rows)
    truth = factor.apply(generator.dirichlet(np.full(factor.inputs, 0.1)))
    found = project_l1(factor, truth + noise)
    _check(found, factor)
    # The proof of Theorem "proj": <mu - w, mu - Y> <= 0 for every w of the set, up to the gap.
    error = float(np.sum((found.point - truth) ** 2))
    assert error <= (found.point - truth) @ noise + found.gap + 1e-12
    assert error <= 2 * np.max(np.abs(factor.transpose_apply(noise))) + found.gap
    assert error <= 0.1 * noise @ noise


def test_projections_are_deterministic() -> None:
    point = np.random.Generator(np.random.PCG64(56)).standard_normal(FACTORS["wide"].rows)
    first, second = (project_l1(FACTORS["wide"], point) for _ in range(2))
    assert first.weights.tobytes() == second.weights.tobytes()


@settings(deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30))
def test_nearest_weights_satisfy_the_optimality_conditions(values: list[float]) -> None:
    target = np.array(values)
    scale = 1e-12 * (1 + np.max(np.abs(target)))
    weights = nearest_probabilities(target[:, None])[:, 0]
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1, abs=1e3 * scale)
    residual = target - weights
    assert residual @ weights >= np.max(residual) - 1e3 * scale * (1 + np.abs(residual).max())
    inside = nearest_in_l1_ball(target)
    assert np.abs(inside).sum() <= 1 + 1e3 * scale
    residual = target - inside
    assert residual @ inside >= np.max(np.abs(residual)) - 1e3 * scale * (1 + np.abs(residual).max())


def test_a_zero_factor_projects_to_zero() -> None:
    found = project_l1(Dense(np.zeros((2, 3))), np.ones(2))
    np.testing.assert_array_equal(found.point, np.zeros(2))


def test_bad_points_are_refused() -> None:
    factor = FACTORS["wide"]
    with pytest.raises(BadInput, match="3 coordinates"):
        project_l1(factor, np.ones(4))
    with pytest.raises(BadInput, match="not finite"):
        project_l1(factor, np.array([1.0, np.nan, 0.0]))
    with pytest.raises(BadInput, match="tolerance"):
        project_l1(factor, np.ones(3), 0.0)


@pytest.mark.parametrize("energy", [0.0, 0.2, 0.5, 2.0])
def test_shrunk_weights_have_the_energy_asked_for(energy: float) -> None:
    factor = Dense(np.random.default_rng(2).standard_normal((6, 5)))
    weights = np.array([0.7, 0.3, 0.0, 0.0, 0.0])
    own = float(np.sum(factor.apply(weights) ** 2))
    found = shrunk_to_norm(factor, weights, energy * own)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1)
    reached = float(np.sum(factor.apply(found) ** 2))
    path = [np.sum(factor.apply(weights + share * (0.2 - weights)) ** 2) for share in np.linspace(0, 1, 2001)]
    assert reached == pytest.approx(min(max(energy * own, min(path)), own), rel=1e-4)
