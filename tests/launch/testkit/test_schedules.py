"""Search over schedules: nothing breaks, whatever happens; what is planted is found, shrunk and repeated."""

import random
import shlex
from pathlib import Path

import pytest

from parley.emulator.errors import BadInput
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.transport.conditions import Fault, read_conditions
from parley.launch.testkit.schedules.search import Finding, Plan, Stage, World, draw_plan, search, shrink
from tests.launch.conftest import Parley
from tests.launch.testkit.planted import PLANTED, coins_of_the_round

WORLDS = {
    "three-round": World(),
    "two-round-tuned": World(protocol="two-round-tuned", fewest=12, most=16),
    "one-round": World(protocol="one-round"),
    "frequency-grr": World(protocol="frequency-grr"),
    "split-and-mix": World(protocol="split-and-mix", delta=1e-6, fewest=20, most=24),
    "own": World(
        protocol="range-refinement",
        statistic=None,
        levels="16",
        protocol_file=Path(__file__).parents[3] / "docs/examples/range_refinement.py",
    ),
}
SHORT = 25


@pytest.mark.parametrize("name", WORLDS)
def test_no_schedule_breaks_a_rule(name: str) -> None:
    tally = search(WORLDS[name], SHORT, seed=1)
    assert [str(each) for finding in tally.findings for each in finding.violations] == []
    assert tally.schedules == SHORT
    assert tally.completed > SHORT / 2
    assert tally.killed.total() > 0


def test_whoever_is_killed_at_whichever_step_the_run_completes() -> None:
    with Stage(World()) as stage:
        taken = stage.steps(Plan(users=2, nodes=1))
        assert taken is not None
        assert set(taken) == {"board", "analyst", "node-0"}
        for victim, steps in taken.items():
            for step in range(1, steps + 1):
                kill = Fault(kind="kill", nodes=victim, step=step, seconds=0.3)
                violations, story, completed = stage.play(Plan(users=2, nodes=1, faults=(kill,)))
                assert (violations, completed) == ([], True), f"{victim}, step {step}"
                assert next(exit.status for exit in story.exits if exit.name == victim) == -9


def test_a_number_names_a_schedule() -> None:
    with Stage(World()) as stage:
        plans = [draw_plan(stage, random.Random(f"0 {number}")) for number in range(20)]
        assert plans == [draw_plan(stage, random.Random(f"0 {number}")) for number in range(20)]
        assert len(set(plans)) == 20


def test_a_schedule_is_a_conditions_file(tmp_path: Path) -> None:
    with Stage(World()) as stage:
        for number in range(50):
            plan = draw_plan(stage, random.Random(f"3 {number}"))
            (tmp_path / "found.toml").write_text(plan.as_toml())
            assert read_conditions(tmp_path / "found.toml") == plan.conditions


def test_the_command_repeats_the_schedule(parley: Parley, tmp_path: Path) -> None:
    """The name of the run is another one, so frames differ; who says what when does not."""

    def told(folder: Path) -> list[tuple[int, str, str]]:
        records = TranscriptReader(folder / "transcript.parley")
        return [(record.time_ns, record.sender, record.message.kind) for record in records]

    with Stage(World()) as stage:
        for number in range(3):
            plan = draw_plan(stage, random.Random(f"8 {number}"))
            stage.play(plan, keep=tmp_path / f"played-{number}")
            found = Finding(number=number, plan=plan, violations=())
            command = shlex.split(found.save(stage.world, Path("found.toml")))
            assert parley(*command[1:], "--out", f"again-{number}").code in (0, 3)
            assert told(Path(f"again-{number}")) == told(tmp_path / f"played-{number}")
            assert Path(f"again-{number}/report.html").exists()


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found_and_shrunk_to_one_fault(name: str) -> None:
    world = World(parts=PLANTED[name])
    tally = search(world, 400)
    assert tally.findings, f"{name}: nothing found in {tally.schedules} schedules"
    smallest = shrink(world, tally.findings[0])
    assert smallest.rules & tally.findings[0].rules
    assert len(smallest.plan.faults) == 1
    assert smallest.plan.users <= 3


def test_coins_that_are_not_bound_to_the_question_are_found_in_the_quiet_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parley.emulator.roles.replies.coins", coins_of_the_round)
    tally = search(World(), 5)
    assert "replies are those of the witness" in tally.findings[0].rules
    smallest = shrink(World(), tally.findings[0], examples=50)
    assert (smallest.plan.faults, smallest.plan.users, smallest.plan.nodes) == ((), 2, 1)


def test_who_lacks_hypothesis_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "hypothesis", None)
    finding = Finding(number=0, plan=Plan(users=2, nodes=1), violations=())
    with pytest.raises(BadInput, match="parley-ldp\\[test-kit\\]"):
        shrink(World(), finding)


def test_too_few_users_are_not_a_finding() -> None:
    with pytest.raises(BadInput, match="two-round-tuned cannot be tried with 2 to 2 users: the quiet run ends"):
        search(World(protocol="two-round-tuned", fewest=2, most=2), 1)
    with pytest.raises(BadInput, match="split-and-mix cannot be tried with 2 to 3 users: n >= 19 fails"):
        search(World(protocol="split-and-mix", delta=1e-6, fewest=2, most=3), 1)
