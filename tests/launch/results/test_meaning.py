"""Intervals stay inside what is possible, and one that says little says what would help."""

from hypothesis import given
from hypothesis import strategies as st

import parley
from parley.launch.results.meaning import advice, advice_on_bins, inside, share
from parley.protocols.planning.target import rounded_up

NUMBERS = st.floats(-10, 10, allow_nan=False)


@given(NUMBERS, NUMBERS, st.floats(-1, 1))
def test_cutting_loses_no_coverage(one: float, other: float, truth: float) -> None:
    interval = (min(one, other), max(one, other))
    low, high = inside(interval, (-1.0, 1.0))
    assert -1 <= low <= high <= 1
    assert (low <= truth <= high) or not interval[0] <= truth <= interval[1]


def test_what_is_possible_may_be_unknown() -> None:
    assert inside((-7.0, 7.0), None) == (-7.0, 7.0)
    assert share((-7.0, 7.0), None) is None
    assert advice((-7.0, 7.0), None, rmse=3.0, users=10, epsilon=1.0) is None


def test_advice_halves_what_is_left_open() -> None:
    said = advice((-1.0, 1.0), (-1.0, 1.0), rmse=0.51, users=1000, epsilon=0.5)
    assert said is not None
    assert "says nothing" in said
    # 2 * 1.96 * 0.51 is four times a quarter of the range: sixteen times the users, four times the epsilon.
    assert "about 16,000 users at this epsilon, or epsilon 2 with these users" in said
    assert advice((-1.0, 1.0), (-1.0, 1.0), rmse=5.1, users=1000, epsilon=0.5) is not None
    assert advice((0.1, 0.5), (-1.0, 1.0), rmse=0.1, users=1000, epsilon=0.5) is None
    beside = advice((1.0, 1.0), (-1.0, 1.0), rmse=4.0, users=12, epsilon=4.0)
    assert beside is not None
    assert "no possible value lies in it" in beside
    assert advice((1.0, 1.0), (-1.0, 1.0), rmse=0.01, users=12, epsilon=4.0) is None


def test_round_numbers_of_users() -> None:
    assert [rounded_up(each) for each in (1.2, 15.2, 1234.0, 98765.0)] == [2, 16, 1300, 99000]


def test_a_run_of_few_users_says_that_its_interval_says_little() -> None:
    answer = parley.problem(statistic="kendall", levels="4x4", users=40, seed=1).simulate(epsilon=0.5, seed=1)
    assert answer.possible == (-1.0, 1.0)
    assert -1 <= answer.interval95[0] <= answer.interval95[1] <= 1
    assert answer.advice is not None
    assert "users at this epsilon" in str(answer)
    good = parley.problem(statistic="kendall", levels="4x4", users=20_000, seed=1).simulate(epsilon=2, seed=1)
    assert good.advice is None
    assert "note" not in str(good)


def test_an_interval_that_bins_make_wide_is_helped_by_other_bins() -> None:
    noise = (0.188, 0.194)
    assert advice_on_bins((0.19, 0.2), noise, found=False) is None
    assert advice_on_bins((0.19, 1.0), None, found=False) is None
    said = advice_on_bins((0.191, 1.0), noise, found=False)
    assert said is not None
    assert "135 times as wide" in said
    assert "--bins quantile --levels auto" in said
    assert "more bins or a finer resolution" in (advice_on_bins((0.191, 1.0), noise, found=True) or "")
