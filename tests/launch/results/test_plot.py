"""Pictures of plans and sweeps: one line a protocol, and nothing half-drawn on bad input."""

from pathlib import Path

import pytest

from parley.launch.cli import run

PROBLEM = ["--statistic", "kendall", "--levels", "3x3", "--epsilon", "2"]


def drawn(path: Path) -> str:
    """The text of an SVG whose letters are comments beside their shapes."""
    return path.read_text()


def test_a_sweep_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "sweep.svg"
    asked = ["--users", "500,2000", "--protocol", "one-round,frequency-grr", "--trials", "4", "--processes", "1"]
    assert run(["sweep", *PROBLEM, *asked, "--plot", str(path), "--json", "--quiet"]) == 0
    assert capsys.readouterr().out.startswith("[")
    for label in ("one-round", "frequency-grr", "limit", "floor", "users", "RMSE"):
        assert f"<!-- {label} -->" in drawn(path)


def test_a_plan_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan.svg"
    asked = ["--users", "2000", "--protocol", "one-round,one-round-tuned"]
    assert run(["plan", *PROBLEM, *asked, "--plot", str(path), "--json"]) == 0
    assert capsys.readouterr().out.startswith("{")
    assert "<!-- one-round-tuned -->" in drawn(path)


@pytest.mark.parametrize(("name", "reason"), [("plan.txt", "should end in"), ("there.svg", "already exists")])
def test_pictures_that_cannot_be_drawn(
    name: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "there.svg").write_text("old")
    assert run(["plan", *PROBLEM, "--users", "2000", "--plot", str(tmp_path / name)]) == 2
    assert reason in capsys.readouterr().err
    assert (tmp_path / "there.svg").read_text() == "old"
