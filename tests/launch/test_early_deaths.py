"""Whoever others connect to is killed before the last node has joined: it comes back, and the run completes."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.launch.conftest import ROOT
from tests.launch.recovery import COMMAND, PROBLEM, events, recorded
from tests.launch.test_cleanup import children

SHUFFLED = ("--statistic", "gini-diversity", "--levels", "3", "--epsilon", "1", "--protocol", "shuffled")
RELAYED = (*PROBLEM, "--relays", "2")
# What is in the folder at the moment of the blow, who is hit (in the order of their starts), and in which run.
MOMENTS: dict[str, tuple[Callable[[Path], bool], int, tuple[str, ...]]] = {
    "board at once": (lambda folder: (folder / "logs/board.log").exists(), 0, PROBLEM),
    "board when it is bound": (lambda folder: (folder / "state/addresses.json").exists(), 0, PROBLEM),
    "board while the shuffler starts": (lambda folder: (folder / "logs/shuffler.log").exists(), 0, SHUFFLED),
    "shuffler at once": (lambda folder: (folder / "logs/shuffler.log").exists(), 1, SHUFFLED),
    "board while a relay starts": (
        lambda folder: (folder / "logs/relay-0.log").exists(),
        0,
        RELAYED,
    ),
    "relay at once": (lambda folder: (folder / "logs/relay-0.log").exists(), 1, RELAYED),
    "board while nodes join": (lambda folder: (folder / "logs/node-0.log").exists(), 0, PROBLEM),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_server_that_dies_early_comes_back(moment: str, tmp_path: Path) -> None:
    due, victim, problem = MOMENTS[moment]
    folder = tmp_path / "run"
    command = [*COMMAND, "run", *problem, "--users", "301", "--processes", "3", "--quiet", "--out", str(folder)]
    launcher = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        limit = time.monotonic() + 60
        while not due(folder) and launcher.poll() is None:
            assert time.monotonic() < limit
        nodes = sorted(node for forkserver in children(launcher.pid) for node in children(forkserver))
        os.kill(nodes[victim], signal.SIGKILL)
        _, said = launcher.communicate(timeout=100)
    finally:
        launcher.kill()
        launcher.wait()
    assert launcher.returncode == 0, said
    details = [each.detail for each in events(recorded(folder), "restart")]
    assert [each for each in details if "was killed by SIGKILL and is started again" in each]
