"""A finished run to look at, and the command as a person calls it."""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from parley.launch.cli import run

ROOT = Path(__file__).resolve().parent.parent.parent
PROBLEM = ("--statistic", "kendall", "--levels", "4x4", "--epsilon", "4", "--protocol", "three-round")
COMMAND = (sys.executable, "-m", "parley.launch.cli")


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a command printed and its exit code."""

    code: int
    out: str
    err: str

    @property
    def record(self) -> Any:
        return json.loads(self.out)


class Parley:
    """Calls the command in this process, in an empty folder."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    def __call__(self, *arguments: object) -> Said:
        self._capture.readouterr()
        code = run([str(each) for each in arguments])
        out, err = self._capture.readouterr()
        return Said(code=code, out=out, err=err)


@pytest.fixture
def parley(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Parley:
    monkeypatch.chdir(tmp_path)
    return Parley(capsys)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of 301 users in 2 processes with seed 7."""
    out = tmp_path_factory.mktemp("finished") / "run"
    arguments = ("run", *PROBLEM, "--users", "301", "--processes", "2", "--seed", "7", "--quiet", "--out", str(out))
    before = os.getcwd()
    os.chdir(out.parent)
    try:
        assert run(list(arguments)) == 0
    finally:
        os.chdir(before)
    return out
