"""`parley plan` from the outside: the record scripts depend on, and what it refuses."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from parley.emulator.errors import BadInput
from parley.launch.cli import parley, run

PROBLEM = ["--statistic", "kendall", "--levels", "3x3", "--epsilon", "1", "--users", "5000"]


def plan(*arguments: str) -> Result:
    return CliRunner().invoke(parley, ["plan", *arguments], catch_exceptions=False)


def test_the_record_has_the_agreed_shape() -> None:
    found = json.loads(plan(*PROBLEM, "--json").stdout)
    limits = ["gamma_2", "limit", "floor", "lower_bound", "scale", "separation"]
    agreed = ["statistic", "k", "users", "epsilon", *limits, "protocols"]
    assert list(found) == [*agreed, "recommended", "assumed", "epsilon_means"]
    assert (found["statistic"], found["k"], found["users"], found["epsilon"]) == ("kendall", 9, 5000, 1.0)
    assert 0 < found["gamma_2"]["lower"] <= found["gamma_2"]["upper"]
    errors = [each["predicted_rmse"] for each in found["protocols"]]
    assert errors == sorted(errors)
    assert all(
        list(each) == ["name", "rounds", "predicted_rmse", "bytes_up", "bytes_down"] for each in found["protocols"]
    )


def test_no_plan_is_written_for_a_run_whose_sums_could_overflow(tmp_path: Path) -> None:
    asked = [*PROBLEM[:-1], "134217728", "--protocol", "three-round", "--write", str(tmp_path / "plan.parley")]
    with pytest.raises(BadInput, match="three-round adds up at most 134217727 replies exactly"):
        plan(*asked)
    assert not list(tmp_path.iterdir())


def test_people_get_a_table() -> None:
    said = plan(*PROBLEM, "--protocol", "two-round-tuned,frequency-subset").stdout
    for word in ("two-round-tuned", "frequency-subset", "gamma_2", "limit", "floor", "worst"):
        assert word in said


def test_the_limit_lies_below_what_is_predicted_and_is_left_out_where_it_is_not_known() -> None:
    asked = ("--statistic", "kendall", "--levels", "3x3", "--users", "5000", "--protocol", "frequency-subset")
    known = json.loads(plan(*asked, "--epsilon", "1", "--json").stdout)
    assert 0 < known["limit"] < known["floor"] < known["protocols"][0]["predicted_rmse"]
    assert json.loads(plan(*asked, "--epsilon", "20", "--json").stdout)["limit"] is None
    assert "not computed beyond epsilon 12" in plan(*asked, "--epsilon", "20").stdout


TUNED = ["--statistic", "kendall", "--levels", "3x3", "--protocol", "one-round-tuned"]


def test_a_target_finds_users_or_epsilon() -> None:
    found = json.loads(plan(*TUNED, "--epsilon", "1", "--target", "0.02", "--json").stdout)
    (target,) = found["target"]
    assert (target["rmse"], target["epsilon"], target["users"]) == (0.02, 1.0, found["users"])
    assert 0.018 < found["protocols"][0]["predicted_rmse"] <= 0.02
    other = json.loads(plan(*TUNED, "--users", str(found["users"]), "--target", "0.02", "--json").stdout)
    assert other["epsilon"] == pytest.approx(1.0, rel=0.05)
    said = plan(*TUNED, "--epsilon", "1", "--users", "500", "--target", "0.02").stdout
    assert " ".join(said.split()).count("target: an error of 0.02") == 2


def test_how_far_one_reply_reaches() -> None:
    named = [*PROBLEM, "--protocol", "one-round-tuned,frequency-grr", "--influence"]
    for each in json.loads(plan(*named, "--json").stdout)["protocols"]:
        assert each["influence"]["crafted"] > each["influence"]["lie"] > 0
    said = plan(*named).stdout
    assert "one reply moves" in said
    assert max(map(len, said.splitlines())) <= 90


def test_users_may_be_a_list() -> None:
    found = json.loads(plan(*TUNED, "--epsilon", "1", "--users", "500,5000", "--json").stdout)
    assert [each["users"] for each in found] == [500, 5000]
    said = plan(*TUNED, "--epsilon", "4", "--users", "500,5000").stdout
    for words in ("5,000", "recommended", "assumed: nobody knows the histogram", "98% sure", "warning"):
        assert words in said
    assert max(map(len, said.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--target", "0.02"], "say which --epsilon or how many --users"),
        (["--epsilon", "1"], "say how many users"),
        (["--users", "500"], "say how much privacy"),
        (["--users", "500", "--target", "-1"], "--target -1 cannot be reached"),
        (["--epsilon", "1", "--target", "1e-9"], "give a larger --target"),
    ],
)
def test_what_a_plan_needs(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", *TUNED, *arguments]) == 2
    assert words in capsys.readouterr().err


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
