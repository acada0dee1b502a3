"""The planner ranks by predicted error, never looks at private data, and knows the limits."""

import math
from typing import Any

import numpy as np
import pytest

from parley.emulator.errors import BadInput
from parley.protocols import registry
from parley.protocols.planning import plan
from parley.protocols.tuned.two_round_tuned import TwoRoundTuned
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.gini import GiniDiversity, GiniMeanDifference
from parley.protocols.workloads.kendall import Kendall
from parley.protocols.workloads.synthetic import draw
from parley.protocols.workloads.workload import Workload

PROBLEMS: list[tuple[Workload, str]] = [
    (Kendall(levels=(4, 4)), "correlated"),
    (AreaUnderCurve(levels=8), "scores"),
    (GiniMeanDifference(levels=16), "normal"),
    (GiniDiversity(levels=16), "normal"),
]


def test_options_come_best_first_with_their_cost() -> None:
    options = plan.rank_protocols(Kendall(levels=(4, 4)), 1.0, 20_000)
    errors = [option.predicted_rmse for option in options]
    assert errors == sorted(errors)
    assert {option.name for option in options} <= set(registry.names())
    assert {"one-round", "two-round", "three-round", "two-round-tuned", "frequency-subset"} <= {
        option.name for option in options
    }
    for option in options:
        assert option.worst_rmse >= option.predicted_rmse * (1 - 1e-9)
        assert (option.bytes_down > 0) == (option.rounds > 1)
        assert option.bytes_up > 0


@pytest.mark.parametrize(("workload", "data"), PROBLEMS, ids=[workload.name for workload, _ in PROBLEMS])
@pytest.mark.parametrize("users", [3_000, 300_000])
def test_auto_is_hardly_worse_than_the_best_for_data_it_does_not_know(
    workload: Workload, data: str, users: int
) -> None:
    histogram = workload.histogram(draw(data, workload, 50_000, np.random.default_rng(3)))
    chosen = registry.design("auto", workload, epsilon=1.0, users=users)
    every: dict[str, Any] = {option.name: option.protocol for option in plan.rank_protocols(workload, 1.0, users)}
    errors = {name: protocol.predicted_rmse(histogram) for name, protocol in every.items()}
    best = min(errors, key=errors.__getitem__)
    assert errors[chosen.name] <= 1.05 * errors[best], f"{chosen.name} {errors[chosen.name]}, {best} {errors[best]}"


def test_a_public_guess_changes_the_plan() -> None:
    workload = GiniDiversity(levels=16)
    guess = np.zeros(16)
    guess[3] = 5.0
    alike = plan.rank_protocols(workload, 1.0, 10_000, guess)
    spread = plan.rank_protocols(workload, 1.0, 10_000, np.ones(16))
    assert {option.name: option.predicted_rmse for option in alike} != {
        option.name: option.predicted_rmse for option in spread
    }


def test_tuned_shares_follow_the_number_of_users() -> None:
    few, many = (
        registry.design("two-round-tuned", Kendall(levels=(4, 4)), epsilon=1.0, users=users)
        for users in (2_000, 10_000_000)
    )
    assert isinstance(few, TwoRoundTuned)
    assert isinstance(many, TwoRoundTuned)
    assert many.share < few.share


def test_the_floor_is_that_of_one_optimal_scalar() -> None:
    workload = Kendall(levels=(8, 8))
    histogram = np.full(64, 1 / 64)
    widest = np.ptp(2 * workload.matrix() @ histogram)
    expected = widest / 2 * (math.e + 1) / (math.e - 1) / math.sqrt(10_000)
    assert plan.floor(workload, histogram, 1.0, 10_000) == pytest.approx(expected * 10_000 / 9_999)


def test_bounds_enclose_gamma_2() -> None:
    limits = plan.bounds(Kendall(levels=(8, 8)), 1.0, 10_000)
    assert limits.gamma_lower <= limits.gamma_upper == pytest.approx(1.8478**2, rel=1e-4)
    assert 0 < limits.lower_bound < limits.floor


@pytest.mark.parametrize("wrong", [np.ones(3), -np.ones(16), np.full(16, np.nan), np.zeros(16)])
def test_a_wrong_guess_is_refused(wrong: np.ndarray) -> None:
    with pytest.raises(BadInput):
        plan.rank_protocols(GiniDiversity(levels=16), 1.0, 1000, wrong)
