"""The stages in virtual time: good protocols pass, and an analyst that counts twice is found with its schedule."""

from functools import partial

import pytest

from parley.launch.testkit import target as targets
from parley.launch.testkit import virtual
from parley.launch.testkit.schedules.plans import World
from parley.launch.testkit.target import find_target
from parley.launch.testkit.verdicts import Verdict
from parley.launch.testkit.world.explore import explore
from tests.launch.conftest import ROOT, Parley
from tests.launch.conftest import parley as command
from tests.launch.testkit.planted import PLANTED
from tests.launch.testkit.world.planted import ForgetsItsJournal

__all__ = ["command"]

MEAN = str(ROOT / "docs" / "examples" / "mean.py")


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(virtual.SCHEDULES, "quick", 50)
    monkeypatch.setitem(virtual.SECONDS, "quick", 60.0)


@pytest.mark.parametrize("target", ["frequency-grr", MEAN])
def test_no_schedule_breaks_a_rule(target: str) -> None:
    (verdict,) = [said for said in virtual.judge_schedules(find_target(target), "quick") if isinstance(said, Verdict)]
    assert verdict.outcome == "pass", verdict.says
    assert verdict.says.startswith("50 schedules, ")
    assert sum(verdict.evidence["killed"].values()) > 0


def test_a_protocol_that_needs_a_crowd_gets_one() -> None:
    with virtual.stage_of(find_target("split-and-mix")) as stage:
        assert stage.world.fewest == 20


def test_a_violation_comes_shrunk_with_the_command_that_repeats_it(
    command: Parley, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = PLANTED["analyst counts twice"]
    monkeypatch.setattr(virtual, "World", partial(World, parts=parts))
    monkeypatch.setitem(virtual.SCHEDULES, "quick", 400)
    target = find_target("frequency-grr")
    (verdict,) = [said for said in virtual.judge_schedules(target, "quick") if isinstance(said, Verdict)]
    assert verdict.outcome == "fail"
    assert verdict.evidence["conditions"].count("[[fault]]") <= 2
    program, *words = verdict.repeat.split()
    assert (program, words[:2]) == ("parley", ["run", "--in-memory"])
    # The node that runs there is not the faulty one, so that the command itself succeeds.
    assert command(*words, "--quiet", "--out", "again").code == 0


def test_every_schedule_of_two_users() -> None:
    (verdict,) = [said for said in virtual.judge_small_world(find_target(MEAN), "quick") if isinstance(said, Verdict)]
    assert verdict.outcome == "pass", verdict.says
    assert verdict.evidence["states"] > 100
    (verdict,) = [s for s in virtual.judge_small_world(find_target("shuffled"), "quick") if isinstance(s, Verdict)]
    assert verdict.outcome == "pass", verdict.says


def test_a_protocol_with_more_groups_than_users_is_not_tested_in_the_small_world(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For two users the inner protocol would have one round; with two there is nobody for one of three groups."""
    monkeypatch.setattr(targets, "design", partial(targets.design, inner="two-round-tuned"))
    (verdict,) = [
        said for said in virtual.judge_small_world(find_target("binned"), "quick") if isinstance(said, Verdict)
    ]
    assert verdict.outcome == "unknown"
    assert "none of the 2 users was drawn to answer" in verdict.says


def test_a_node_that_forgets_is_found_with_the_steps_that_lead_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual, "explore", partial(explore, cast=ForgetsItsJournal()))
    monkeypatch.setitem(virtual.FAULTS, "quick", 1)
    (verdict,) = [said for said in virtual.judge_small_world(find_target(MEAN), "quick") if isinstance(said, Verdict)]
    assert verdict.outcome == "fail"
    assert verdict.evidence["schedule"]
