"""The forkserver: what it is told over its channel, what it reports, and that nothing outlives it."""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from parley.emulator.errors import LocalProtocolError
from parley.emulator.roles.consent import Consent, domain_of
from parley.launch.processes.forkserver import Channel
from parley.launch.processes.processes import CommandLine, Exit, Processes, last_lines
from parley.nodes.state.user_state import Identity, State

LIMIT_SECONDS = 60.0


def until(done: Callable[[], bool]) -> None:
    """Wait for something that must happen; fails when it has not for very long."""
    limit = time.monotonic() + LIMIT_SECONDS
    while not done():
        assert time.monotonic() < limit, "waited in vain"
        time.sleep(0.01)


def gone(pid: int) -> bool:
    """No such process, or only its remains."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


def wait_for_exits(processes: Processes, count: int) -> list[Exit]:
    found: list[Exit] = []
    until(lambda: len(found.__iadd__(processes.exits(0.5))) >= count)
    return found


def patient_user(folder: Path, name: str) -> CommandLine:
    """A user node whose board never answers: it waits for a long time."""
    addresses = folder / "addresses.json"
    addresses.write_text('{"inbox": "tcp://127.0.0.1:9", "feed": "tcp://127.0.0.1:9", "delivery": "tcp://127.0.0.1:9"}')
    np.save(folder / "inputs.npy", np.zeros(1, dtype=np.int64))
    arguments = ("--addresses", addresses, "--inputs", folder / "inputs.npy")
    consent = Consent(run="nobody-starts-it", domain=domain_of(2), cap=1.0)
    State.create(
        folder / name,
        Identity(node=name, first=0, users=1, consent=consent, coin_key=bytes(32), signing_key=bytes(32)),
    )
    state = ("--state", folder / name)
    return CommandLine(
        name=name, node="user", arguments=tuple(map(str, (*arguments, *state))), log=folder / f"{name}.log"
    )


@pytest.fixture
def channels() -> Iterator[tuple[Channel, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        yield Channel(one), other


def test_channel_waits_for_whole_messages(channels: tuple[Channel, socket.socket]) -> None:
    channel, other = channels
    sent = b'{"a": 1}\n'
    other.send(sent + sent[:5])
    assert list(channel.receive()) == [{"a": 1}]
    other.send(sent[5:])
    assert list(channel.receive()) == [{"a": 1}]
    other.close()
    assert list(channel.receive()) == []
    assert channel.closed


def test_channel_keeps_what_does_not_fit(channels: tuple[Channel, socket.socket]) -> None:
    channel, other = channels
    reader = Channel(other)
    for number in range(4):
        channel.send({"number": number, "padding": "x" * 2**20})
    assert channel.unsent
    heard: list[int] = []
    while len(heard) < 4:
        heard += [message["number"] for message in reader.receive()]
        channel.flush()
    assert heard == [0, 1, 2, 3]


def test_exit_codes_and_logs(tmp_path: Path) -> None:
    command_lines = [
        CommandLine(name="helpful", node="board", arguments=("--help",), log=tmp_path / "helpful.log"),
        CommandLine(name="wrong", node="analyst", arguments=("--colour", "red"), log=tmp_path / "wrong.log"),
        CommandLine(name="absent", node="shuffler-that-is-not", arguments=(), log=tmp_path / "absent.log"),
    ]
    with Processes() as processes:
        processes.spawn(command_lines)
        exits = {each.name: each for each in wait_for_exits(processes, 3)}
        assert len(set(processes.pids.values())) == 3
        assert not processes.running
    assert {name: each.status for name, each in exits.items()} == {"helpful": 0, "wrong": 2, "absent": 70}
    assert last_lines(tmp_path / "helpful.log", 100)[0].startswith("Usage")
    assert "--colour" in "".join(last_lines(tmp_path / "wrong.log"))
    assert "ModuleNotFoundError" in last_lines(tmp_path / "absent.log", 1)[0]
    assert (tmp_path / "wrong.log").stat().st_mode & 0o077 == 0


def test_signals_reach_the_named(tmp_path: Path) -> None:
    with Processes() as processes:
        processes.spawn([patient_user(tmp_path, "one"), patient_user(tmp_path, "two")])
        until(lambda: processes.exits(0.05) == [] and len(processes.pids) == 2)
        processes.send_signal(["one"], signal.SIGKILL)
        (ended,) = wait_for_exits(processes, 1)
        assert ended == Exit(name="one", pid=processes.pids["one"], status=-signal.SIGKILL)
        assert ended.cause == "was killed by SIGKILL"
        assert processes.running == {"two"}
        assert not gone(processes.pids["two"])
    until(lambda: gone(processes.pids["two"]))


def test_children_die_with_the_forkserver(tmp_path: Path) -> None:
    with Processes() as processes:
        processes.spawn([patient_user(tmp_path, "one")])
        until(lambda: processes.exits(0.05) == [] and len(processes.pids) == 1)
        assert processes.process is not None
        os.kill(processes.process.pid, signal.SIGKILL)
        until(lambda: gone(processes.pids["one"]))
        with pytest.raises(LocalProtocolError, match="has ended"):
            processes.exits(1.0)


def test_many_children(tmp_path: Path) -> None:
    command_lines = [
        CommandLine(name=f"n{n}", node="user", arguments=("--help",), log=tmp_path / f"{n}.log") for n in range(60)
    ]
    with Processes() as processes:
        processes.spawn(command_lines)
        exits = wait_for_exits(processes, 60)
    assert {each.name for each in exits} == {command_line.name for command_line in command_lines}
    assert {each.status for each in exits} == {0}


def test_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"line {number}\n" for number in range(10_000)))
    assert last_lines(log, 2) == ["line 9998", "line 9999"]
    assert last_lines(tmp_path / "none") == ["(no log: No such file or directory)"]
