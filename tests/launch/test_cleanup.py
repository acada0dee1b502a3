"""However a run ends, no process is left, and its record says what happened."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.wire.messages import Abort
from tests.launch.conftest import COMMAND, PROBLEM, ROOT
from tests.launch.processes.test_forkserver import gone, until


def children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def threads(pid: int) -> int:
    """More than one: the node has its sockets."""
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


class Hung:
    """A run of three user nodes that cannot finish, for one of them has been stopped."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        users = ("--users", "60000", "--processes", "3", "--restarts", "0", "--out", str(folder))
        self.launcher = subprocess.Popen(
            [*COMMAND, "run", *PROBLEM, *users], cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        until(lambda: len(self.nodes) == 5)
        self.forkserver = children(self.launcher.pid)[0]
        self.everybody = [self.forkserver, *self.nodes]
        # Started in this order: board, analyst, users.
        self.board, self.analyst, *self.users = sorted(self.nodes)
        until(lambda: threads(self.users[2]) > 1)
        os.kill(self.users[2], signal.SIGSTOP)

    @property
    def nodes(self) -> list[int]:
        return [node for forkserver in children(self.launcher.pid) for node in children(forkserver)]

    def ended(self) -> tuple[int, str]:
        """Exit code and standard error, when no process is left."""
        _, said = self.launcher.communicate(timeout=60)
        until(lambda: all(gone(pid) for pid in self.everybody))
        return self.launcher.returncode, said

    def closing(self) -> tuple[str, str]:
        """Outcome and last message of the record, which must be whole."""
        reader = TranscriptReader(self.folder / "transcript.parley")
        last = [record.message for record in reader][-1]
        assert reader.closing is not None
        assert isinstance(last, Abort)
        return reader.closing.outcome, last.reason


@pytest.fixture
def hung(tmp_path: Path) -> Iterator[Hung]:
    run = Hung(tmp_path / "run")
    yield run
    run.launcher.kill()
    run.launcher.communicate()


def test_interrupt(hung: Hung) -> None:
    hung.launcher.send_signal(signal.SIGINT)
    code, said = hung.ended()
    assert code == 130
    assert said.splitlines()[-1] == "parley: interrupted"
    assert "Traceback" not in said
    assert hung.closing()[0] == "aborted"


def test_terminate(hung: Hung) -> None:
    hung.launcher.send_signal(signal.SIGTERM)
    code, said = hung.ended()
    assert code == 143
    assert "Traceback" not in said
    assert hung.closing()[0] == "aborted"


def test_launcher_killed(hung: Hung) -> None:
    hung.launcher.kill()
    code, _ = hung.ended()
    assert code == -signal.SIGKILL


def test_forkserver_killed(hung: Hung) -> None:
    os.kill(hung.forkserver, signal.SIGKILL)
    code, said = hung.ended()
    assert code == 3
    assert "has ended" in said
    assert hung.closing()[0] == "failed"


@pytest.mark.parametrize("victim", ["node-2", "analyst", "board"])
def test_a_node_that_dies_is_named(hung: Hung, victim: str) -> None:
    pid = {"node-2": hung.users[2], "analyst": hung.analyst, "board": hung.board}[victim]
    os.kill(pid, signal.SIGKILL)
    code, said = hung.ended()
    assert code == 3
    named = rf"{victim} \(process {pid}\) was killed by SIGKILL(, and its log is empty|; its log ends with:\n    \S)"
    assert re.search(named, said)
    assert f"parley: {victim} was killed by SIGKILL" in said.splitlines()[-1]
    assert "Traceback" not in said
    outcome, reason = hung.closing()
    assert outcome == "failed"
    assert victim in reason
