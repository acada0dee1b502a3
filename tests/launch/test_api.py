"""The Python door: problems from columns, answers as objects, protocols and examples from outside."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas
import pytest

import parley
from parley.emulator.errors import BadInput

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
GENERATOR = np.random.default_rng(4)
FRAME = pandas.DataFrame({"age": GENERATOR.uniform(18, 90, 400), "score": GENERATOR.uniform(0, 100, 400)})


def problem() -> parley.Problem:
    ranges = {"age": (18.0, 90.0), "score": (0.0, 100.0)}
    return parley.problem(FRAME, "kendall", columns=("age", "score"), levels=(4, 4), ranges=ranges)


def test_a_problem_does_not_show_its_inputs() -> None:
    text = repr(problem())
    assert text == "<kendall of 400 users with 16 possible inputs each>"


def test_simulate_in_one_line() -> None:
    answer = problem().simulate(epsilon=4.0, protocol="three-round", seed=3)
    assert answer.rounds_declared == answer.rounds_observed == 3
    assert answer.truth == problem().truth()
    assert answer.error == answer.estimate - answer.truth
    assert str(answer).startswith("estimate")
    assert "<table>" in answer._repr_html_()
    assert json.loads(json.dumps(answer.record()))["rounds"] == {"declared": 3, "observed": 3}


def test_run_is_simulate_between_processes(tmp_path: Path) -> None:
    asked = problem()
    answer = asked.run(epsilon=4.0, protocol="three-round", seed=3, processes=2, out=tmp_path / "run")
    assert answer.estimate == asked.simulate(epsilon=4.0, protocol="three-round", seed=3).estimate
    replies = answer.replies()
    assert replies.num_rows == 1200
    assert replies.to_pandas()["user"].nunique() == 400
    assert parley.Answer.load(tmp_path / "run") == answer


def test_inputs_that_are_already_coded() -> None:
    coded = parley.coded_problem([0, 1, 2, 2], kernel=np.eye(3))
    assert coded.users == 4
    for wrong in ([0, 3], [0.5, 1.0], [[0, 1]]):
        with pytest.raises(BadInput):
            parley.coded_problem(wrong, kernel=np.eye(3))


def test_an_answer_from_memory_has_no_replies_and_no_folder(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="left no record"):
        problem().simulate(epsilon=4.0, protocol="one-round", seed=3).replies()
    with pytest.raises(BadInput, match="no result"):
        parley.Answer.load(tmp_path)


@pytest.mark.parametrize("example", ["breast_cancer_auc", "diabetes_tau"])
def test_the_examples_run(example: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / f"{example}.py"))
    assert "95% interval" in capsys.readouterr().out


def parley_command(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "parley.launch.cli", *arguments]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240)


def test_a_protocol_from_outside_is_run_audited_and_replayed(tmp_path: Path) -> None:
    own = ("--protocol-file", str(EXAMPLES / "own_protocol.py"))
    asked = ("--statistic", "gini-diversity", "--levels", "4", "--epsilon", "2", "--users", "500", "--seed", "1")
    out = str(tmp_path / "run")
    ran = parley_command("run", *own, *asked, "--protocol", "one-hemisphere", "--out", out, "--json", folder=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["protocol"] == "one-hemisphere"
    planned = parley_command("plan", *own, *asked, "--json", folder=tmp_path)
    assert "one-hemisphere" in planned.stdout, planned.stderr
    audited = parley_command("audit", out, *own, "--json", folder=tmp_path)
    assert audited.returncode == 0, audited.stdout + audited.stderr
    replayed = parley_command("replay", out, *own, "--role", "all", "--json", folder=tmp_path)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    unknown = parley_command("audit", out, "--json", folder=tmp_path)
    assert json.loads(unknown.stdout)["privacy"]["verdict"] == "unknown"


@pytest.mark.parametrize(
    ("content", "reason"), [("x = 1", "defines no protocol"), ("import nowhere", "cannot be loaded")]
)
def test_files_that_offer_no_protocol(content: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text(content)
    ran = parley_command("protocols", "--protocol-file", str(tmp_path / "empty.py"), folder=tmp_path)
    assert ran.returncode == 2
    assert reason in ran.stderr
