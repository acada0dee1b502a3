"""`kill -9` of anybody, at several moments: the launcher starts it again, and not a byte of the run is different."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from parley.emulator.audit.report import audit
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.wire.messages import Announce, Replies
from parley.protocols.registry import build
from tests.launch.conftest import ROOT, Parley
from tests.launch.processes.test_forkserver import until
from tests.launch.recovery import COMMAND, RUN, check_undisturbed, conditions, events, recorded
from tests.launch.test_cleanup import children

# Everybody is killed in every round, in turn: while one reply is still on its way, the others are on record.
TURNS = {
    "node analyst board": ("node-0", "analyst", "board"),
    "board node analyst": ("board", "node-2", "analyst"),
    "analyst board node": ("analyst", "board", "node-1"),
}


@pytest.mark.parametrize("turn", TURNS)
def test_killed_in_mid_round(parley: Parley, finished: Path, turn: str) -> None:
    rules = [f"kill {victim} rounds={number} seconds=0.2" for number, victim in enumerate(TURNS[turn], 1)]
    said = parley(*RUN, "--conditions", conditions(Path("rules.toml"), *rules), "--out", "run")
    assert said.code == 0, said.err
    messages = check_undisturbed(Path("run"), finished)
    killed = [event.detail.split()[2] for event in events(messages, "kill")]
    assert sorted(killed) == sorted(TURNS[turn])
    assert audit(Path("run/transcript.parley"), build).ok


def test_killed_while_nodes_gather_and_all_at_once(parley: Parley, finished: Path) -> None:
    rules = ("kill board seconds=0.1", "kill node-* after=0.2", "kill analyst after=0.2", "kill * rounds=2 seconds=0.1")
    said = parley(*RUN, "--conditions", conditions(Path("rules.toml"), *rules), "--out", "run")
    assert said.code == 0, said.err
    messages = check_undisturbed(Path("run"), finished)
    assert len(events(messages, "kill")) == 1 + 3 + 1 + 5


def test_paused_and_late(parley: Parley, finished: Path) -> None:
    rules = ("late node-1 seconds=0.7", "pause board rounds=1 seconds=0.7", "pause analyst rounds=2 seconds=0.7")
    said = parley(*RUN, "--conditions", conditions(Path("rules.toml"), *rules), "--out", "run", "--secure")
    assert said.code == 0, said.err
    messages = check_undisturbed(Path("run"), finished)
    assert sorted(event.event for event in events(messages, "late", "pause")) == ["late", "pause", "pause"]


def test_killed_from_outside(tmp_path: Path, finished: Path) -> None:
    """Nobody told the launcher; it names who died and starts it again."""
    folder, rules = tmp_path / "run", conditions(tmp_path / "rules.toml")
    command = [*COMMAND, *RUN, "--conditions", str(rules), "--out", str(folder)]
    launcher = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        transcript = folder / "transcript.parley"
        until(lambda: transcript.exists() and any(isinstance(each, Replies) for each in recorded(folder)))
        nodes = [node for forkserver in children(launcher.pid) for node in children(forkserver)]
        # Started in this order: board, analyst, users.
        board, analyst, user, *_ = sorted(nodes)
        for pid in (user, analyst, board):
            os.kill(pid, signal.SIGKILL)
        _, said = launcher.communicate(timeout=120)
    finally:
        launcher.kill()
        launcher.wait()
    assert launcher.returncode == 0, said
    for name, pid in (("board", board), ("analyst", analyst), ("node-0", user)):
        assert f"{name} (process {pid}) was killed by SIGKILL" in said
    messages = check_undisturbed(folder, finished)
    assert {event.detail.split()[0] for event in events(messages, "restart")} >= {"board", "analyst", "node-0"}


def test_a_node_that_is_killed_for_good_ends_the_run(parley: Parley) -> None:
    rules = conditions(Path("rules.toml"), "kill node-0 rounds=2 restart=false")
    said = parley(*RUN, "--conditions", rules, "--out", "run")
    assert said.code == 3
    assert "node-0 was killed by SIGKILL and the run cannot finish without it" in said.err
    reader = TranscriptReader(Path("run/transcript.parley"))
    assert [record.message.round for record in reader if isinstance(record.message, Announce)] == [1, 2]
    assert reader.closing is not None
    assert reader.closing.outcome == "failed"
