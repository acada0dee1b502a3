"""`parley protocols`: the list, and every protocol as a state machine that follows from its class."""

import json
import sys

import click
import pytest

from parley.emulator.protocol import spent
from parley.protocols.outline import example, source_of
from parley.protocols.registry import names
from tests.launch.conftest import Parley

NAMES = names("shuffler")


@pytest.mark.parametrize("width", [80, 140])
def test_names_are_never_cut(width: int, parley: Parley, monkeypatch: pytest.MonkeyPatch) -> None:
    # A terminal as wide as this; elsewhere the table is as wide as it needs.
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    shown = click.unstyle(parley("protocols").out)
    assert max(map(len, shown.splitlines())) <= width
    words = shown.replace(":", " ").split()
    assert [name for name in NAMES if name not in words] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_protocol_as_a_state_machine(name: str, parley: Parley) -> None:
    shown, protocol = parley("protocols", name, "--json").record, example(name)
    assert [each["name"] for each in shown["rounds"]] == [each.name for each in protocol.rounds]
    assert len(shown["states"]) == shown["claim"]["rounds"] + 1
    for each, step in zip(shown["rounds"], protocol.rounds, strict=True):
        assert set(each["broadcast"]) == set(step.broadcast)
        if each["epsilon"] is not None:
            assert sum(send["epsilon"] for send in each["sends"]) == pytest.approx(each["epsilon"])
        assert each["says"]
    assert spent(protocol, protocol.rounds) <= protocol.claim.epsilon_for("nobody") * (1 + 1e-9)
    assert "yield" in shown["analyst"]["steps"]
    text = parley("protocols", name).out
    assert max(map(len, text.partition("analyst:")[0].splitlines())) <= 80
    for each in shown["rounds"]:
        assert f"asking {each['name']!r}" in text
        assert all(f"{send['name']}: {send['randomizer']}" in text for send in each["sends"])
    assert json.dumps(shown, allow_nan=False)


def test_unknown_names_are_refused(parley: Parley) -> None:
    said = parley("protocols", "three-rounds")
    assert said.code == 2
    assert "did you mean three-round?" in said.err


def test_steps_are_tidied() -> None:
    def analyst() -> int:
        """What it does."""
        import math

        found = math.pi  # type: ignore[misc]
        # Why.
        return int(found)

    assert source_of(analyst, body=True) == "found = math.pi\n# Why.\nreturn int(found)"
    assert source_of(analyst).splitlines()[0] == "def analyst() -> int:"
