"""Planted faults are found, each with the shortest schedule that shows it."""

from typing import Any

import pytest

from parley.launch.testkit.world.explore import explore
from parley.launch.testkit.world.parties import Cast
from tests.launch.testkit.world.planted import (
    CountsTwice,
    ForgetfulBoard,
    ForgetsItsJournal,
    ForgetsWhatItAnswered,
    FreshCoins,
    MixesAgain,
    TrustsItsLink,
)
from tests.launch.testkit.world.worlds import behind_a_shuffler, small

FOUND: dict[str, tuple[Cast, dict[str, Any], int, str]] = {
    "a node that forgets its journal": (
        ForgetsItsJournal(),
        {"signed": False},
        1,
        "gave two different replies to one question in round 1",
    ),
    "a node that forgets what it answered, and an analyst that asks something else": (
        ForgetsWhatItAnswered(),
        {"lies": True},
        2,
        "answered two questions in round 1",
    ),
    "a board that forgets a chunk": (
        Cast(board_node=ForgetfulBoard),
        {"chunk": 1},
        1,
        "the record holds replies 1 of node-0 twice",
    ),
    "coins that are not bound to the question": (
        Cast(cohort=FreshCoins),
        {},
        0,
        "gave two different replies to one question in round 1",
    ),
    "a relay that trusts its link to the board": (
        Cast(relay=TrustsItsLink),
        {"relayed": True, "signed": False},
        2,
        "without further faults the run never ends",
    ),
    "a shuffler that forgets that it posted its batch": (
        Cast(shuffler=MixesAgain),
        {"protocol": behind_a_shuffler(), "signed": False},
        2,
        # Its disk keeps it from saying so: a batch that is there is never written again.
        "batch-1.parley already exists; nothing was sent",
    ),
    "an analyst that counts twice": (Cast(analyst=CountsTwice), {}, 0, "the result is"),
}
"""Who plays, in which world, with how many faults it is found, and what is found."""


@pytest.mark.parametrize("name", FOUND)
def test_a_planted_fault_is_found_with_the_fewest_faults(name: str) -> None:
    cast, settings, faults, what = FOUND[name]
    violation = explore(**{"protocol": small(1), "nodes": 1, "cast": cast, **settings}).violation
    assert violation is not None
    assert what in violation.what
    assert violation.faults == faults, str(violation)


def test_a_schedule_reads_as_a_list_of_steps() -> None:
    cast, settings, *_ = FOUND["a board that forgets a chunk"]
    report = explore(small(1), nodes=1, cast=cast, **settings)
    assert report.violation is not None
    first, *steps = str(report.violation).splitlines()
    assert first == report.violation.what
    assert steps[0] == "  1. ready of node-0 arrives at board"
    assert len(steps) == len(report.violation.schedule) < 15
