"""`parley plan` from the outside: the record scripts depend on, and what it refuses."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from parley.launch.cli import parley, run

PROBLEM = ["--statistic", "kendall", "--levels", "3x3", "--epsilon", "1", "--users", "5000"]


def plan(*arguments: str) -> Result:
    return CliRunner().invoke(parley, ["plan", *arguments], catch_exceptions=False)


def test_the_record_has_the_agreed_shape() -> None:
    found = json.loads(plan(*PROBLEM, "--json").stdout)
    assert list(found) == ["statistic", "k", "users", "epsilon", "gamma_2", "floor", "lower_bound", "protocols"]
    assert (found["statistic"], found["k"], found["users"], found["epsilon"]) == ("kendall", 9, 5000, 1.0)
    assert 0 < found["gamma_2"]["lower"] <= found["gamma_2"]["upper"]
    errors = [each["predicted_rmse"] for each in found["protocols"]]
    assert errors == sorted(errors)
    assert all(
        list(each) == ["name", "rounds", "predicted_rmse", "bytes_up", "bytes_down"] for each in found["protocols"]
    )


def test_people_get_a_table() -> None:
    said = plan(*PROBLEM, "--protocol", "two-round-tuned,frequency-subset").stdout
    for word in ("two-round-tuned", "frequency-subset", "gamma_2", "floor", "worst"):
        assert word in said


@pytest.mark.parametrize("kind", ["npy", "csv"])
def test_a_public_guess_is_read_from_a_file(tmp_path: Path, kind: str) -> None:
    guess, path = np.arange(1.0, 10.0), tmp_path / f"guess.{kind}"
    if kind == "npy":
        np.save(path, guess)
    else:
        path.write_text("\n".join(str(number) for number in guess))
    found = json.loads(plan(*PROBLEM, "--protocol", "frequency-subset", "--like", str(path), "--json").stdout)
    other = json.loads(plan(*PROBLEM, "--protocol", "frequency-subset", "--json").stdout)
    assert found["protocols"][0]["predicted_rmse"] != other["protocols"][0]["predicted_rmse"]


def test_a_wrong_guess_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "guess.csv"
    path.write_text("1,2,x")
    assert run(["plan", *PROBLEM, "--like", str(path)]) == 2
    assert "guess.csv" in capsys.readouterr().err
    path.write_text("1,2,3")
    assert run(["plan", *PROBLEM, "--like", str(path)]) == 2
