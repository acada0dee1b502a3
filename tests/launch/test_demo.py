"""The demo, with fewer users: two runs on the same people, and one sentence about why they differ."""

from pathlib import Path

import pytest

from parley.launch import demo
from parley.launch.results.answer import Answer


def test_two_runs_on_the_same_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    demo.main(4000)
    said = " ".join(capsys.readouterr().out.split())
    paper, best = (Answer.load(next(Path("runs").glob(f"*-{name}"))) for name in ("demo-paper", "demo-auto"))
    assert (paper.protocol, paper.rounds_observed, paper.users) == ("three-round", 3, 4000)
    assert (best.truth, best.epsilon, best.users) == (paper.truth, paper.epsilon, 4000)
    assert best.protocol != paper.protocol
    assert "Both promise epsilon 2 to the same users" in said
    assert "times narrower: three-round splits epsilon over 3 rounds" in said
