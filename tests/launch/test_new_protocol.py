"""`parley new-protocol`: the file runs as it is, and the commands in its docstring work."""

import ast
import shlex
from pathlib import Path

import pytest

from parley.protocols import registry
from parley.protocols.plugins import VARIABLE
from tests.launch.conftest import Parley


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is registered here is known to no other test."""
    monkeypatch.setattr(registry, "_OUTSIDE", {})
    monkeypatch.setenv(VARIABLE, "")


def test_the_commands_of_a_new_protocol_work(parley: Parley) -> None:
    said = parley("new-protocol", "own-mean", "--json")
    assert said.code == 0
    path = Path(said.record["file"])
    assert path.name == "own-mean.py"
    commands = [
        line for line in (ast.get_docstring(ast.parse(path.read_text())) or "").splitlines() if line[:7] == "parley "
    ]
    assert [line.split()[1] for line in commands] == ["run", "plan", "sweep", "audit", "replay", "protocols"]
    for line in (said.record["run"], *commands):
        done = parley(*shlex.split(line)[1:])
        assert done.code == 0, f"{line}: {done.err}"


def test_no_file_is_written_over(parley: Parley) -> None:
    assert parley("new-protocol", "own").code == 0
    before = Path("own.py").read_text()
    said = parley("new-protocol", "own")
    assert said.code == 2
    assert "own.py exists already" in said.err
    assert Path("own.py").read_text() == before


@pytest.mark.parametrize("name", ["Mean", "a/b", "../a", "a.py", "-a", "a--b", "", "three-round"])
def test_bad_names(name: str, parley: Parley) -> None:
    assert parley("new-protocol", "--", name).code == 2
    assert not list(Path().iterdir())
