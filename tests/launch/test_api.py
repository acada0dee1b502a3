"""The Python door: problems from columns, answers as objects, protocols and examples from outside."""

import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

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
    assert str(answer).startswith("question  Kendall's tau of age and score, 4 x 4 bins\nestimate")
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


def test_one_column_may_be_named_by_itself() -> None:
    asked = {"levels": 4, "ranges": {"age": (18, 90)}}
    found = [parley.problem(FRAME, "gini-diversity", columns=each, **asked).inputs for each in ("age", ["age"])]
    assert np.array_equal(*found)


def test_everybody_is_split_by_a_fresh_salt() -> None:
    """With one salt for all runs the same users would always speak first, and their estimate would be biased."""
    asked = problem()
    salts = {asked.protocol("two-round-tuned", 1.0).parameters()["salt"] for _ in range(20)}
    assert len(salts) == 20
    repeated = {asked.protocol("two-round-tuned", 1.0, seed=5).parameters()["salt"] for _ in range(2)}
    assert len(repeated) == 1


def test_estimates_from_python_are_unbiased() -> None:
    """On sorted data a fixed split would show; alpha = 1e-6."""
    generator = np.random.default_rng(11)
    asked = parley.coded_problem(np.sort(generator.integers(8, size=600)), "gini-mean-difference", levels=8)
    runs = [asked.simulate(epsilon=4.0, protocol="two-round-tuned", seed=seed) for seed in range(60)]
    errors = np.array([each.error for each in runs])
    statistic = abs(errors.mean()) / (errors.std(ddof=1) / np.sqrt(len(errors)))
    assert statistic < 4.9, f"n = {len(errors)}, z = {statistic:.2f}, threshold 4.9"


def test_a_run_takes_the_options_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = problem().run(
        epsilon=4.0, protocol="three-round", processes=3, conditions="lan", secure=True, relays=1, name="named"
    )
    assert answer.folder is not None
    assert answer.folder.name.endswith("-named")
    assert (answer.folder / "report.html").is_file()
    assert "srcdoc" in answer._repr_html_()
    audited = parley.audit(answer)
    assert audited.ok
    assert audited["privacy"]["verdict"] == "pass"
    assert "good" in str(audited)
    assert "<table>" in audited._repr_html_()
    again = parley.replay(answer, role="all")
    assert again.identical
    assert "identical" in again._repr_html_()
    assert parley.replay("latest").record()["identical"]


def test_a_plan_is_a_list_a_table_and_a_picture() -> None:
    planned = parley.plan("kendall", levels=(4, 4), users=400, epsilon=1.0)
    assert [each.predicted_rmse for each in planned] == sorted(each.predicted_rmse for each in planned)
    assert planned.best.name == problem().plan(1.0).best.name
    assert planned.record()["protocols"][0]["name"] == planned[0].name
    assert str(planned).splitlines()[0] == "kendall, k = 16, 400 users, epsilon 1"
    assert "<table>" in planned._repr_html_()
    assert "<svg" in planned._repr_html_()


def test_a_sweep_is_a_list_and_a_table(tmp_path: Path) -> None:
    swept = parley.sweep(
        statistic="kendall", levels="4x4", users=(500, 2000), epsilon=1.0, protocol="two-round-tuned", trials=5
    )
    assert [(row["users"], row["trials"]) for row in swept] == [(500, 5), (2000, 5)]
    assert "two-round-tuned" in str(swept)
    assert "<table>" in swept._repr_html_()
    swept.plot(tmp_path / "sweep.svg")
    assert (tmp_path / "sweep.svg").is_file()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: parley.problem(FRAME, "kendall", levels=(4, 4)), r"columns age,score"),
        (
            lambda: parley.problem(FRAME, "gini-diversity", columns="age", levels=4),
            r"with ranges=\{'age': \(lo, hi\)\}, text with categories=\{'age': \['A', 'B', \.\.\.\]\};",
        ),
        (
            lambda: parley.problem({"x": [1, None]}, "gini-diversity", columns="x", levels=4, ranges={"x": (0, 9)}),
            r"missing='drop'",
        ),
        (
            lambda: parley.problem(FRAME, "gini-diversity", columns="age", levels=4, ranges={"age": (18, 90, 4)}),
            "the range of age should be two numbers or dates",
        ),
        (lambda: parley.problem(FRAME, "kendall", missing="ignore"), "missing 'ignore' is not one of"),  # type: ignore[arg-type]
        (lambda: parley.problem(statistic="kendall", levels="4x4", users=9, seed=-1), "seed=-1 cannot be used"),
        (lambda: problem().simulate(epsilon=0), "epsilon is 0; give a number from"),
        (lambda: problem().run(epsilon=1, delta=5), "delta=5 cannot be promised"),
        (lambda: problem().run(epsilon=1, conditions="stormy"), "conditions stormy is neither a file nor one of"),
        (lambda: parley.plan("kendall", levels=(4, 4), users=1, epsilon=1), "users=1 cannot be used"),
        (
            lambda: parley.sweep(statistic="kendall", levels="4x4", users=9, epsilon=1, trials=1),
            "trials=1 says nothing",
        ),
        (lambda: parley.problem(statistic="kendall"), "kendall needs levels for both columns"),
    ],
)
def test_errors_speak_python(call: Any, sentence: str) -> None:
    with pytest.raises(parley.BadInput, match=sentence) as found:
        call()
    assert "--" not in str(found.value)
