"""Planted faults are found, each with the shortest schedule that shows it."""

from collections.abc import Sequence
from typing import Any

import pytest

from parley.launch.testkit.small_world import explore
from parley.launch.testkit.world.processes import Cast
from tests.launch.testkit.world.planted import (
    CountsTwice,
    ForgetfulBoard,
    ForgetsItsJournal,
    ForgetsWhatItAnswered,
    FreshCoins,
)
from tests.launch.testkit.world.worlds import small

FOUND: dict[str, tuple[Cast, dict[str, Any], str, Sequence[str]]] = {
    "a node that forgets its journal": (
        ForgetsItsJournal(),
        {"signed": False},
        "gave two different replies to one question in round 1",
        ("crashes", "arrives at node"),
    ),
    "a node that forgets what it answered, and an analyst that asks something else": (
        ForgetsWhatItAnswered(),
        {"lies": True},
        "answered two questions in round 1",
        ("crashes", "lies"),
    ),
    "a board that forgets a chunk": (
        Cast(board_node=ForgetfulBoard),
        {"signed": False},
        "the record holds replies 1 of node-0 twice",
        ("board crashes", "again"),
    ),
    "coins that are not bound to the question": (
        Cast(cohort=FreshCoins),
        {},
        "gave two different replies to one question in round 1",
        ("again",),
    ),
    "an analyst that counts twice": (
        Cast(analyst=CountsTwice),
        {"signed": False},
        "the result is",
        ("the timer of board fires",),
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_a_planted_fault_is_found_with_the_fewest_faults(name: str) -> None:
    cast, settings, what, steps = FOUND[name]
    report = explore(small(1), cast=cast, **settings)
    assert report.violation is not None
    assert what in report.violation.what
    for step in steps:
        assert any(step in each for each in report.violation.schedule), str(report.violation)
    # One fault less shows nothing.
    if report.violation.faults:
        assert explore(small(1), cast=cast, **settings, faults=report.violation.faults - 1).ok


def test_a_schedule_reads_as_a_list_of_steps() -> None:
    cast, settings, _, _ = FOUND["a board that forgets a chunk"]
    report = explore(small(1), cast=cast, **settings)
    assert report.violation is not None
    first, *steps = str(report.violation).splitlines()
    assert first == report.violation.what
    assert steps[0] == "  1. ready of node-0 arrives at board"
    assert len(steps) == len(report.violation.schedule) < 15
