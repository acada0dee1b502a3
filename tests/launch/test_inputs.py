"""`parley inputs`: the same inputs as the launcher would make, under what the node's users agreed to."""

from pathlib import Path

import numpy as np
import pytest

from parley.launch.api import make_problem
from parley.launch.cli import run

COLUMNS = ("--column", "age=18:90/8", "--column", "answer=no,maybe,missing")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert run(["node", "init", "state", "--run", "r", "--node", "node-0", "--users", "3", *COLUMNS, "--cap", "1"]) == 0
    return tmp_path / "state"


def test_inputs_are_those_of_the_launcher(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("people.csv").write_text("answer,age\nno,17\nmaybe,20\nno,89\n")
    assert run(["inputs", "inputs.npy", "--state", "state", "--data", "people.csv"]) == 0
    assert "1 value of age lies outside its declared range and was clipped" in capsys.readouterr().err
    categories = {"answer": ("no", "maybe", "missing")}
    asked = {"columns": "age,answer", "levels": "8x3", "ranges": {"age": (18, 90)}, "categories": categories}
    assert (np.load("inputs.npy") == make_problem("people.csv", "kendall", **asked).inputs).all()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("age,answer\n20,no\n", "only one row"),
        ("age,answer\n20,no\n30,no\n", "has 2 rows for the 3 users"),
        ("age,answer\n20,no\n30,\n40,no\n", "answer"),
        ("age,answer\n20,no\n30,perhaps\n40,no\n", "not a declared category"),
    ],
)
def test_what_does_not_fit_is_refused(state: Path, text: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("people.csv").write_text(text)
    assert run(["inputs", "inputs.npy", "--state", "state", "--data", "people.csv"]) == 2
    assert words in capsys.readouterr().err
    assert not Path("inputs.npy").exists()


def test_absence_may_be_a_category(state: Path) -> None:
    Path("people.csv").write_text("age,answer\n20,no\n30,\n40,no\n")
    assert run(["inputs", "inputs.npy", "--state", "state", "--data", "people.csv", "--missing", "as-category"]) == 0
    assert (np.load("inputs.npy") % 3).tolist() == [0, 2, 0]


def test_nothing_is_overwritten(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("people.csv").write_text("age,answer\n20,no\n30,no\n40,no\n")
    Path("inputs.npy").write_text("mine")
    assert run(["inputs", "inputs.npy", "--state", "state", "--data", "people.csv"]) == 2
    assert "give a new file" in capsys.readouterr().err
    assert Path("inputs.npy").read_text() == "mine"
