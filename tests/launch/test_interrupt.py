"""Ctrl-C at any moment: exit code 130, the record closed, nothing left in the process table nor in /dev/shm."""

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from parley.emulator.errors import ParleyError
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.wire.messages import Abort, Announce, Event, Message
from tests.launch.conftest import ROOT
from tests.launch.processes.test_forkserver import until
from tests.launch.recovery import COMMAND, RUN, conditions, recorded


def on_record(folder: Path) -> list[Message]:
    """What is on record so far; nothing while the record is not there or has no header yet."""
    try:
        return recorded(folder)
    except ParleyError:
        return []


def opened(number: int) -> Callable[[Path], bool]:
    return lambda folder: any(isinstance(each, Announce) and each.round == number for each in on_record(folder))


def board_was_killed(folder: Path) -> bool:
    return any(isinstance(each, Event) and each.event == "kill" for each in on_record(folder))


MOMENTS: dict[str, Callable[[Path], bool]] = {
    "the folder is there": Path.exists,
    "the witness is there": lambda folder: (folder / "witness.parley").exists(),
    "the record is there": lambda folder: (folder / "transcript.parley").exists(),
    "round 1": opened(1),
    "round 2": opened(2),
    "without a board": board_was_killed,
}


def inheritors(token: str) -> list[int]:
    """Every process that was started, by whomever, with this token in its environment."""
    found = []
    for place in Path("/proc").glob("[0-9]*/environ"):
        try:
            if token.encode() in place.read_bytes():
                found.append(int(place.parent.name))
        except OSError:
            continue
    return found


def in_shared_memory() -> set[str]:
    """What is in shared memory, without the disks of small worlds that other tests explore."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith("parley-world-")}


def interrupted(folder: Path, moment: Callable[[Path], bool], rules: Path, *, times: int = 1) -> tuple[int, str]:
    token, shared = secrets.token_hex(8), in_shared_memory()
    command = [*COMMAND, *RUN, "--conditions", str(rules), "--out", str(folder)]
    launcher = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "PARLEY_TEST_TOKEN": token},
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        until(lambda: moment(folder) or launcher.poll() is not None)
        for _ in range(times):
            launcher.send_signal(signal.SIGINT)
            time.sleep(0.02)
        _, said = launcher.communicate(timeout=120)
    finally:
        launcher.kill()
        launcher.wait()
    until(lambda: not inheritors(token))
    # Others on this machine put theirs there for a moment; what a run leaves behind stays.
    until(lambda: in_shared_memory() <= shared)
    return launcher.returncode, said


def check_closed(folder: Path) -> None:
    reader = TranscriptReader(folder / "transcript.parley")
    last = [record.message for record in reader][-1]
    assert isinstance(last, Abort)
    assert reader.closing is not None
    assert reader.closing.outcome == last.outcome == "aborted"


@pytest.mark.parametrize("moment", MOMENTS)
def test_interrupt(moment: str, tmp_path: Path) -> None:
    folder, away = tmp_path / "run", ["kill board rounds=1 seconds=30"] if "board" in moment else []
    code, said = interrupted(folder, MOMENTS[moment], conditions(tmp_path / "rules.toml", *away))
    assert code == 130, said
    assert said.splitlines()[-1] == "parley: interrupted"
    assert "Traceback" not in said
    if (folder / "transcript.parley").exists():
        check_closed(folder)
    else:
        assert moment in ("the folder is there", "the witness is there")


def test_impatience_does_not_keep_the_record_from_being_closed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    code, said = interrupted(folder, opened(1), conditions(tmp_path / "rules.toml"), times=5)
    assert code == 130, said
    check_closed(folder)
