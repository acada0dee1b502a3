"""Predictions turned around: the least users and epsilon for an error, exactly where the error is a formula."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.emulator.errors import BadInput
from parley.protocols.planning.plan import rank_protocols
from parley.protocols.planning.planning import assumed_histograms
from parley.protocols.planning.target import MOST_EPSILON, needed_epsilon, needed_users, rounded_up
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.gini import GiniDiversity
from parley.protocols.workloads.kendall import Kendall


@given(st.floats(0.01, 100.0), st.floats(1e-3, 1.0), st.integers(2, 10**7))
def test_users_reach_the_target_and_a_tenth_fewer_do_not(constant: float, target: float, start: int) -> None:
    def rmse(users: int) -> float:
        return constant / math.sqrt(users)

    users = needed_users(rmse, target, start)
    exact = (constant / target) ** 2
    if users is None:
        assert exact > 10**10 / 1.03
        return
    assert users == rounded_up(users)
    assert rmse(users) <= target
    assert users <= max(2, 1.15 * exact + 1)


@given(st.floats(0.01, 10.0), st.floats(1e-3, 1.0))
def test_epsilon_reaches_the_target_and_a_tenth_less_does_not(constant: float, target: float) -> None:
    def rmse(epsilon: float) -> float:
        return constant / math.tanh(epsilon / 2) - 0.99 * constant

    epsilon = needed_epsilon(rmse, target)
    if epsilon is None:
        assert rmse(MOST_EPSILON) > target
        return
    assert rmse(epsilon) <= target
    assert epsilon <= 2e-3 or rmse(epsilon / 1.15) > target


@pytest.mark.parametrize("target", [0.0, -1.0, math.inf, math.nan])
def test_errors_that_make_no_target(target: float) -> None:
    for search in (lambda: needed_users(lambda users: 1.0, target), lambda: needed_epsilon(lambda each: 1.0, target)):
        with pytest.raises(BadInput, match="--target"):
            search()


def test_an_error_that_never_falls_is_never_reached() -> None:
    assert needed_users(lambda users: 1.0, 0.5) is None
    assert needed_epsilon(lambda epsilon: 1.0, 0.5) is None


def test_the_area_is_planned_for_labels_that_are_not_balanced() -> None:
    """Equal labels made its plan twice too good."""
    guesses = assumed_histograms(AreaUnderCurve(levels=8))
    positives = [float(each.reshape(-1, 2).sum(axis=0)[1]) for each in guesses.values()]
    assert min(positives) == pytest.approx(0.25)
    shares = guesses["one positive in four, likelier the higher the score"].reshape(-1, 2)
    assert shares.sum(axis=0) == pytest.approx([0.75, 0.25])
    assert (np.diff(shares[:, 1] / shares.sum(axis=1)) > 0).all()
    assert len(assumed_histograms(Kendall(levels=(4, 4)))) == 2


def test_the_diversity_is_planned_for_shares_that_are_not_gentle() -> None:
    """Where they are, it has hardly a slope: of users on four of 40 levels the plan promised a tenth of the error."""
    workload = GiniDiversity(levels=40)
    planned, *_ = rank_protocols(workload, 5.5, 2600, names=["frequency-subset"])
    uneven = np.eye(4, 40).sum(axis=0) * [*range(4, 0, -1), *[0] * 36]
    assert planned.predicted_rmse > 0.8 * planned.protocol.predicted_rmse(uneven / uneven.sum())  # type: ignore[attr-defined]
