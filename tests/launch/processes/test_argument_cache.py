"""Command lines read in advance mean what they mean when a node reads them itself."""

from importlib import import_module
from pathlib import Path

import pytest

from parley.launch.processes.forkserver import ArgumentCache


def full(node: str, arguments: list[str]) -> dict[str, object]:
    return import_module(f"parley.nodes.{node}").main.make_context(node, list(arguments)).params


def test_a_crowds_arguments_are_read_as_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    common = ["--patience", "1.5", "--addresses", "nowhere.json", "--witness", "witness"]
    crowd = [["--state", f"state/{n}", *common] for n in range(5)]
    wanted = [full("user", arguments) for arguments in crowd]
    assert wanted[3]["state"] == Path("state/3")
    cache = ArgumentCache()
    assert cache.read("user", crowd[0]) == wanted[0]
    # From here on the library need not read a whole line again.
    monkeypatch.setattr("click.Command.make_context", None)
    assert [cache.read("user", arguments) for arguments in crowd] == wanted


@pytest.mark.parametrize(
    "arguments",
    [
        ["--state", "b", "--patience", "none", "--witness", "w"],
        ["--state", "b", "--patience", "0.01", "--witness", "w"],
        ["--state", "b", "--patience", "2", "--witness", "w", "--help"],
        ["--state", "b", "--patience", "2", "--witness"],
        ["--state", "b", "--patience", "2", "--colour", "red"],
        ["--witness", "w", "--patience", "2"],
        ["--help"],
        [],
    ],
)
def test_what_cannot_be_read_is_left_to_the_node(arguments: list[str]) -> None:
    cache = ArgumentCache()
    assert cache.read("user", ["--state", "a", "--patience", "1", "--witness", "w"]) is not None
    assert cache.read("user", arguments) is None
    assert cache.read("nobody-knows", arguments) is None


def test_the_last_of_two_values_counts() -> None:
    cache = ArgumentCache()
    once, twice = ["--state", "a", "--patience", "1"], ["--state", "a", "--patience", "1", "--patience", "2"]
    assert cache.read("user", once) == full("user", once)
    assert cache.read("user", twice) == full("user", twice)
    other = ["--addresses", "x.json", "--run", "r", "--plan", "p"]
    assert cache.read("analyst", other) == full("analyst", other)
