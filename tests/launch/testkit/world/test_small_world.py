"""Every schedule of the smallest worlds: nothing is wrong in any state, and leaving states out loses no outcome."""

from collections.abc import Mapping
from typing import Any

import pytest

from benchmarks import small_world as benchmark
from parley.launch.testkit.world.explore import Report, explore
from tests.launch.testkit.world.worlds import behind_a_shuffler, small

QUIET = "the quiet result"


def good(report: Report) -> Report:
    assert report.violation is None, str(report.violation)
    assert report.ok
    return report


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_without_faults_every_order_gives_the_quiet_result(rounds: int, signed: bool) -> None:
    assert set(good(explore(small(rounds), faults=0, signed=signed)).outcomes) == {QUIET}


@pytest.mark.parametrize(("rounds", "signed"), [(1, True), (3, False)])
def test_with_any_one_fault_the_result_is_the_quiet_one_or_the_end_is_clean(rounds: int, signed: bool) -> None:
    report = good(explore(small(rounds), faults=1, signed=signed))
    assert QUIET in report.outcomes
    assert {each.split(":")[0].split(",")[0] for each in report.outcomes} == {QUIET, "a clean end"}


@pytest.mark.parametrize("rounds", [1, 3])
def test_any_two_faults_around_one_node(rounds: int) -> None:
    good(explore(small(rounds), nodes=1, faults=2))


def test_three_users_on_two_nodes_in_chunks_of_one() -> None:
    good(explore(small(1, 3), (0, 1, 1), nodes=2, faults=1, chunk=1, signed=False))


def test_three_nodes() -> None:
    good(explore(small(1, 3), (0, 1, 1), faults=0))


@pytest.mark.parametrize(
    ("rounds", "settings"),
    [(1, {"faults": 0}), (1, {"faults": 1, "nodes": 1}), (3, {"faults": 1, "nodes": 1, "signed": False})],
    ids=["two nodes", "one node and a fault", "three rounds and a fault"],
)
def test_a_relay_between_nodes_and_board(rounds: int, settings: Mapping[str, Any]) -> None:
    """The relay may crash too, and forgets everything when it does."""
    report = good(explore(small(rounds), relayed=True, **settings))
    assert QUIET in report.outcomes
    assert {each.split(":")[0].split(",")[0] for each in report.outcomes} <= {QUIET, "a clean end"}


@pytest.mark.parametrize(
    "settings",
    [{"faults": 0, "signed": False}, {"faults": 1, "nodes": 1}],
    ids=["two nodes", "one node and a fault"],
)
def test_a_shuffler_between_nodes_and_board(settings: Mapping[str, Any]) -> None:
    """It may crash too, in the middle of a file or between pledge and batch, and draws another order when it does."""
    report = good(explore(behind_a_shuffler(), **settings))
    assert {each.split(":")[0].split(",")[0] for each in report.outcomes} <= {QUIET, "a clean end"}


@pytest.mark.parametrize(
    ("faults", "settings"),
    [
        (0, {"signed": False}),
        (0, {"nodes": 1}),
        (1, {"nodes": 1, "signed": False}),
        (0, {"nodes": 1, "signed": False, "relayed": True}),
        (0, {"nodes": 1, "signed": False, "protocol": behind_a_shuffler()}),
    ],
    ids=["two nodes", "one node", "one node and a fault", "behind a relay", "behind a shuffler"],
)
def test_what_is_left_out_loses_no_outcome(faults: int, settings: Mapping[str, Any]) -> None:
    every, some = (
        good(explore(**{"protocol": small(1), **settings}, faults=faults, reduced=reduced)) for reduced in (False, True)
    )
    assert set(some.outcomes) == set(every.outcomes)
    assert some.states < every.states


def test_timers_that_fire_early_do_no_harm() -> None:
    good(explore(small(1), faults=1, signed=False, early=True))


@pytest.mark.parametrize(("rounds", "signed"), [(1, True), (2, False)])
def test_a_restart_and_a_lie(rounds: int, signed: bool) -> None:
    """One node, told another run or another question before or after it was killed, gives one draw for each round."""
    report = good(explore(small(rounds), nodes=1, faults=2, lies=True, signed=signed))
    assert any(each.startswith("a clean end") for each in report.outcomes)


def test_a_search_that_is_cut_short_does_not_pass() -> None:
    report = explore(small(1), faults=1, most_states=100)
    assert report.violation is None
    assert not report.complete
    assert not report.ok


def test_the_table_of_the_benchmark() -> None:
    rows = benchmark.rows({1: "one-round"}, faults=0)
    assert len(rows) == 1
    assert "one-round" in benchmark.table_of(rows)
