"""However a run ends, its own secret keys are gone; and a disk that is full ends it at once, with the cause."""

import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest

from parley.emulator.errors import LocalProtocolError
from parley.launch.cluster.cluster import Cluster
from parley.launch.processes.processes import Processes
from parley.launch.results.display.progress import Standing
from parley.launch.results.follow import Follower
from tests.launch.conftest import ROOT, Parley
from tests.launch.recovery import COMMAND, PROBLEM, RUN, conditions

SECURE = (*RUN, "--secure", "--out", "run")


def check_gone() -> None:
    for pattern in ("*.secret", "*.signing", "state.parley"):
        assert list(Path("run").rglob(pattern)) == []
    assert {path.name for path in Path("run/state/keys").iterdir()} == {"allowed.public", "board.public", "trust.toml"}


def test_secrets_are_gone_after_a_run_that_completed(parley: Parley) -> None:
    assert parley(*SECURE).code == 0
    check_gone()


def test_secrets_are_gone_after_a_run_that_failed(parley: Parley) -> None:
    rules = conditions(Path("rules.toml"), "kill node-1 rounds=2 restart=false")
    assert parley(*SECURE, "--conditions", rules).code == 3
    check_gone()


def test_secrets_are_gone_after_a_mistake_of_the_launcher(parley: Parley, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        assert list(Path("run").rglob("*.secret"))
        raise LocalProtocolError("a mistake")

    monkeypatch.setattr(Cluster, "_watch", fail)
    assert parley(*SECURE).code == 3
    check_gone()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_secrets_are_gone_after_an_interrupt(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rules = conditions(tmp_path / "rules.toml")
    command = [*COMMAND, *RUN, "--secure", "--conditions", str(rules), "--out", str(tmp_path / "run")]
    launcher = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    limit = time.monotonic() + 60
    while not Path("run/transcript.parley").exists():
        assert time.monotonic() < limit
        time.sleep(0.01)
    assert list(Path("run").rglob("*.secret"))
    launcher.send_signal(number)
    assert launcher.wait(60) == 128 + number
    check_gone()


def test_keys_of_a_person_stay(parley: Parley) -> None:
    assert parley("keys", "keys", "--nodes", 3).code == 0
    before = sorted(Path("keys").iterdir())
    assert parley(*RUN, "--keys", "keys", "--out", "run").code == 0
    assert sorted(Path("keys").iterdir()) == before


@pytest.mark.parametrize("size", [1000, 700_000])
def test_a_full_disk_ends_the_run_with_its_cause(size: int, tmp_path: Path) -> None:
    """No file may have more than so many bytes: the launcher's own would, or the board's record."""
    command = [*COMMAND, "run", *PROBLEM, "--users", "50000", "--processes", "2", "--quiet", "--out", tmp_path / "run"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
    )
    assert done.returncode == 3, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("parley: ")
    assert ("transcript.parley" if size > 1000 else "run") + " cannot be written: File too large" in last
    assert "Traceback" not in done.stderr


def test_a_death_that_is_heard_of_before_the_last_word_is_read_costs_nothing(
    parley: Parley, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hear_of_a_death(cluster: Cluster, processes: Processes, *_: object) -> None:
        other = Follower(cluster.folder.transcript, Standing(nodes=0, users=0, declared=0))
        limit = time.monotonic() + 60
        while not other.closed:
            assert time.monotonic() < limit
            processes.exits(0.05)
            other.look()
        raise LocalProtocolError("the analyst was killed and the run cannot finish without it")

    monkeypatch.setattr(Cluster, "_watch", hear_of_a_death)
    assert parley(*RUN, "--out", "run").code == 0
    assert Path("run/result.json").exists()
    assert parley("audit", "run").code == 0
