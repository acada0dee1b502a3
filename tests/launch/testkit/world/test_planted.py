"""Planted faults are found, each with the shortest schedule that shows it."""

from collections.abc import Sequence
from typing import Any

import pytest

from parley.launch.testkit.small_world import Report, explore
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


def found(name: str) -> Report:
    cast, settings, _, _ = FOUND[name]
    return explore(small(1), cast=cast, **settings)


@pytest.mark.parametrize("name", FOUND)
def test_a_planted_fault_is_found(name: str) -> None:
    report = found(name)
    _, _, what, steps = FOUND[name]
    assert report.violation is not None
    print(name, report.violation)
    assert what in report.violation.what
    for step in steps:
        assert any(step in each for each in report.violation.schedule), str(report.violation)
