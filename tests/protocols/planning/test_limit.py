"""The limit against closed cases and one bit."""

import math

import numpy as np
import pytest

from parley.protocols.planning.limit import (
    LARGEST_EPSILON,
    LEAST_EPSILON,
    MOST_INPUTS,
    hardest_limit,
    least_variance,
    limit,
)
from parley.protocols.planning.plan import floor
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.gini import GiniDiversity, GiniMeanDifference
from parley.protocols.workloads.kendall import Kendall
from parley.protocols.workloads.workload import Workload


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("share", [0.5, 0.2])
def test_with_two_inputs_it_is_randomized_response(epsilon: float, share: float) -> None:
    """A bit's best channel is randomized response: V = e^eps / (e^eps - 1)^2 for g in {0, 1}, whatever the shares."""
    exact = math.exp(epsilon) / math.expm1(epsilon) ** 2
    found = least_variance(np.array([0.0, 1.0]), np.array([1 - share, share]), epsilon)
    assert exact * (1 - 1e-6) <= found <= exact * 1.02


def test_it_is_scaled_and_shifted_with_the_gradient() -> None:
    histogram, gradient = np.array([0.2, 0.5, 0.3]), np.array([0.0, 0.3, 1.0])
    one = least_variance(gradient, histogram, 1.0)
    assert least_variance(7 - 3 * gradient, histogram, 1.0) == pytest.approx(9 * one, rel=1e-6)


def test_without_a_slope_it_is_zero() -> None:
    assert limit(GiniDiversity(levels=8), np.full(8, 1 / 8), 1.0, 100) == 0.0


WORKLOADS = [Kendall(levels=(8, 8)), AreaUnderCurve(levels=16), GiniMeanDifference(levels=32)]


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_it_lies_below_one_bit_and_falls_faster(workload: Workload) -> None:
    weights = 1.5 + np.sin(np.arange(workload.size))
    histogram = weights / weights.sum()
    ratios = [
        limit(workload, histogram, epsilon, 10**6) / floor(workload, histogram, epsilon, 10**6)
        for epsilon in (0.5, 1.0, 2.0, 4.0)
    ]
    assert ratios == sorted(ratios, reverse=True)
    assert 0.9 < ratios[0] <= 1.001
    assert ratios[-1] < 0.6
    few, many = (limit(workload, histogram, 1.0, users) for users in (100, 10_000))
    assert few == pytest.approx(10 * many)


def test_the_hardest_of_several_histograms_counts() -> None:
    workload = GiniMeanDifference(levels=8)
    guesses = [np.full(8, 1 / 8), np.eye(8)[0]]
    each = [limit(workload, guess, 1.0, 1000) for guess in guesses]
    assert hardest_limit(workload, guesses, 1.0, 1000) == max(each) > min(each)


def test_it_is_left_out_where_the_grid_would_decide_or_it_would_take_long() -> None:
    small, large = GiniMeanDifference(levels=4), GiniMeanDifference(levels=MOST_INPUTS + 1)
    assert hardest_limit(small, [np.full(4, 0.25)], LARGEST_EPSILON, 100) is not None
    assert hardest_limit(small, [np.full(4, 0.25)], LARGEST_EPSILON + 1, 100) is None
    # Nobody looks at the histogram.
    assert hardest_limit(large, [], 1.0, 100) is None


def test_it_has_no_step_where_one_bit_takes_over() -> None:
    histogram, gradient = np.array([0.2, 0.5, 0.3]), np.array([0.0, 0.3, 1.0])
    scaled = [
        least_variance(gradient, histogram, epsilon) * epsilon**2
        for epsilon in (1e-6, LEAST_EPSILON / 1.001, LEAST_EPSILON * 1.001)
    ]
    assert scaled == pytest.approx([1.0, 1.0, 1.0], rel=1e-4)
