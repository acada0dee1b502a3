"""The stage with real processes: a good protocol passes, a run that differs comes with the command that repeats it."""

import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from parley.emulator.transport.conditions import read_conditions
from parley.launch.cluster.fault_driver import READY_MADE
from parley.launch.testkit.processes import QUIET, Ran, conditions_text, judge, verdict_of
from parley.launch.testkit.target import find_target
from parley.launch.testkit.verdicts import Verdict
from tests.launch.conftest import COMMAND, ROOT

MEAN = ROOT / "docs" / "examples" / "mean.py"


def test_a_protocol_from_a_file_between_processes_that_are_killed() -> None:
    verdicts = [said for said in judge(find_target(str(MEAN)), "quick") if isinstance(said, Verdict)]
    assert [each.check for each in verdicts] == ["a quiet run", "lossy, with kills"]
    assert [each.outcome for each in verdicts] == ["pass", "pass"], [each.says for each in verdicts]
    assert verdicts[1].evidence["faults"]["kill"] >= 1
    assert verdicts[1].evidence["replies"] == 120


@pytest.mark.parametrize("name", sorted(path.stem for path in READY_MADE.glob("*.toml")))
def test_kills_are_added_to_every_condition(name: str, tmp_path: Path) -> None:
    target = find_target("three-round")
    (tmp_path / "conditions.toml").write_text(conditions_text(name, target))
    conditions = read_conditions(tmp_path / "conditions.toml")
    victims = {each.nodes for each in conditions.processes if each.kind == "kill"}
    assert {"board", "analyst", "node-1", "node-2", "node-3"} <= victims


def test_another_estimate_than_the_quiet_one_is_a_failure() -> None:
    target = find_target("frequency-grr")
    quiet, other = (Ran(name, 1, Path("place") / name / "run", code=0, estimate=0.25) for name in (QUIET, "wan"))
    finished = {(each.conditions, each.seed): each for each in (quiet, other)}
    assert verdict_of(target, [other], finished).outcome == "pass"
    other.estimate = 0.25 + 2**-54
    found = verdict_of(target, [other], finished)
    assert found.outcome == "fail"
    assert "that of the quiet run with the same coins is 0.25" in found.says
    assert found.repeat.startswith("parley run --protocol frequency-grr --statistic kendall --levels 2x2")
    assert found.repeat.endswith("--conditions place/wan/conditions.toml")


def test_a_clean_failure_is_good_but_not_of_the_quiet_run() -> None:
    target = find_target("frequency-grr")
    runs = {name: Ran(name, 1, Path("place") / name / "run", code=3, faults=Counter(kill=2)) for name in (QUIET, "lan")}
    finished = {(each.conditions, each.seed): each for each in runs.values()}
    assert "1 of 1 runs failed cleanly" in verdict_of(target, [runs["lan"]], finished).says
    assert verdict_of(target, [runs[QUIET]], finished).outcome == "fail"


def test_whoever_interrupts_a_test_gets_the_terminal_back_and_no_run_goes_on(tmp_path: Path) -> None:
    command = [*COMMAND, "test", str(MEAN), "--quiet", "--stage", "contract", "--stage", "processes"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    runs = []
    while not runs and process.poll() is None:
        runs = list(tmp_path.glob("parley-test-*/*/run/state/addresses.json"))
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err.strip().splitlines()[-1] == "parley: interrupted"
    assert list(tmp_path.glob("parley-test-*")) == []
