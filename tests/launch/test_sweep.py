"""`parley sweep` from the outside: the records, the exact path beside the fast simulation, and worker processes."""

import json

import pytest
from click.testing import CliRunner

from parley.launch.cli import parley, run

PROBLEM = ["sweep", "--statistic", "kendall", "--levels", "2x2", "--seed", "5", "--quiet", "--json"]


def sweep(*arguments: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(
        CliRunner().invoke(parley, [*PROBLEM, *arguments], catch_exceptions=False).stdout
    )
    return found


def test_one_record_for_each_case() -> None:
    rows = sweep(
        "--users", "500,1000", "--epsilon", "1,2", "--protocol", "one-round-tuned,frequency-grr", "--trials", "8"
    )
    assert [(row["protocol"], row["users"], row["epsilon"]) for row in rows[:4]] == [
        ("one-round-tuned", 500, 1.0),
        ("frequency-grr", 500, 1.0),
        ("one-round-tuned", 500, 2.0),
        ("frequency-grr", 500, 2.0),
    ]
    assert len(rows) == 8
    assert list(rows[0]) == ["protocol", "users", "epsilon", "trials", "rmse", "predicted_rmse", "limit", "floor"]


def test_all_protocols_measure_what_they_predict() -> None:
    rows = sweep("--users", "4000", "--epsilon", "1", "--trials", "60", "--processes", "1")
    assert len(rows) >= 9
    for row in rows:
        measured, predicted = float(str(row["rmse"])), float(str(row["predicted_rmse"]))
        # 60 trials know an RMSE to a tenth: five of those tenths, and the 15% that are promised.
        assert 0.5 <= measured / predicted <= 1.65, row


def test_the_real_roles_and_worker_processes_agree_with_the_fast_simulation() -> None:
    arguments = ("--users", "600", "--epsilon", "2", "--protocol", "two-round-tuned", "--trials", "120")
    alone, spread = sweep(*arguments, "--processes", "1"), sweep(*arguments, "--processes", "2")
    # The last bit of a product of matrices may depend on the process.
    assert alone[0].pop("rmse") == pytest.approx(spread[0]["rmse"], rel=1e-12)
    alone[0]["rmse"] = spread[0]["rmse"]
    assert alone == spread
    exact = sweep(*arguments, "--exact")
    assert 0.6 <= float(str(exact[0]["rmse"])) / float(str(alone[0]["rmse"])) <= 1.6


@pytest.mark.parametrize("wrong", [["--users", "many"], ["--users", "500", "--trials", "1"], ["--protocol", "none"]])
def test_what_makes_no_sense_is_bad_input(wrong: list[str]) -> None:
    assert run([*PROBLEM, "--users", "500", "--epsilon", "1", *wrong]) == 2
