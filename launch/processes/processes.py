"""The launcher's side of the forkserver: start nodes by name, hear what becomes of them, leave none behind."""

import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from parley.emulator.errors import LocalProtocolError
from parley.launch.processes.forkserver import Channel
from parley.nodes.environment import child_environment

LAST_LINES = 5
PATIENCE_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class CommandLine:
    """One node to start: its name, its kind (board, analyst or user), its arguments, its log, its niceness."""

    name: str
    node: str
    arguments: tuple[str, ...]
    log: Path
    niceness: int = 0


@dataclass(frozen=True, kw_only=True)
class Exit:
    """A node that has ended; a negative status is the signal that ended it."""

    name: str
    pid: int
    status: int

    @property
    def cause(self) -> str:
        if self.status >= 0:
            return f"ended with exit code {self.status}"
        try:
            return f"was killed by {signal.Signals(-self.status).name}"
        except ValueError:
            return f"was killed by signal {-self.status}"


class Processes(AbstractContextManager["Processes"]):
    """The nodes of one run. Use as a context: leaving it, however that happens, ends every process.

    It may be entered twice, first early by whoever knows that a run is coming, and is left once for all.
    """

    def __init__(self) -> None:
        self.pids: dict[str, int] = {}
        self.running: set[str] = set()
        self._exits: list[Exit] = []
        # A file, not a pipe: a node that was stopped at birth would hold a pipe open and keep its reader waiting.
        self._complaints: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed in __exit__)
        ours, theirs = socket.socketpair()
        with theirs:
            name = "parley.launch.processes.forkserver"
            self.process = start_helper(name, theirs, self._complaints, subprocess.DEVNULL)
        self._channel = Channel(ours)

    def __exit__(self, *_: object) -> None:
        self._channel.stream.close()
        try:
            # It has no child yet and may still be busy with its imports: nothing to wait for.
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(PATIENCE_SECONDS if self.running or self.pids else 0.0)
        finally:
            # SIGKILL for the forkserver is SIGKILL for all its children.
            self.process.kill()
            self.process.wait()
            self._complaints.close()
        self.running.clear()

    def spawn(self, command_lines: Iterable[CommandLine]) -> None:
        """Start these nodes; returns when the requests are under way, not when the nodes are."""
        for command_line in command_lines:
            self.running.add(command_line.name)
            self._channel.send({"request": "spawn", **vars(command_line), "log": str(command_line.log)})
            self._hear()

    def prepare(self, plan: Path, *, crowd: Path | None = None) -> None:
        """Let the forkserver build the plan's protocol before it forks; `crowd`: the witness of many users to come."""
        told = None if crowd is None else str(crowd)
        self._channel.send({"request": "prepare", "plan": str(plan), "crowd": told})

    def send_signal(self, names: Iterable[str], number: int) -> None:
        self._channel.send({"request": "signal", "names": list(names), "signal": number})

    def exits(self, timeout: float) -> list[Exit]:
        """The nodes that ended since the last call; waits at most `timeout` seconds for one."""
        if not self._exits:
            with selectors.DefaultSelector() as selector:
                wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._channel.unsent else 0)
                selector.register(self._channel.stream, wanted)
                selector.select(timeout)
        self._hear()
        found, self._exits = self._exits, []
        return found

    def _hear(self) -> None:
        self._channel.flush()
        for report in self._channel.receive():
            if report["event"] == "spawned":
                self.pids[report["name"]] = report["pid"]
            elif report["event"] == "exit":
                self.running.discard(report["name"])
                self._exits.append(Exit(name=report["name"], pid=report["pid"], status=report["status"]))
            elif report["event"] == "refused":
                raise LocalProtocolError(
                    f"{report['name']} could not be started ({report['reason']}); "
                    f"{len(self.running)} processes are more than this machine allows"
                )
        if self._channel.closed:
            self.process.wait(PATIENCE_SECONDS)
            last = last_complaint(self._complaints) or f"exit code {self.process.returncode}"
            raise LocalProtocolError(f"the process that starts the nodes has ended: {last}")


def start_helper(module: str, stream: socket.socket, complaints: IO[bytes], stdin: int) -> "subprocess.Popen[bytes]":
    """A process of our own, which is given a socket and our process id."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, str(stream.fileno()), str(os.getpid())],
        pass_fds=[stream.fileno()],
        stdin=stdin,
        stdout=subprocess.DEVNULL,
        stderr=complaints,
        env=child_environment(),
        # Its own session: an interrupt typed at the terminal is for the launcher alone.
        start_new_session=True,
    )


def last_complaint(complaints: IO[bytes]) -> str:
    """The last line that such a process wrote to its standard error, if any."""
    complaints.seek(0)
    said = complaints.read().decode(errors="replace").strip()
    return said.splitlines()[-1] if said else ""


def last_lines(log: Path, count: int = LAST_LINES) -> list[str]:
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 4096 * count))
            return file.read().decode(errors="replace").splitlines()[-count:]
    except OSError as error:
        return [f"(no log: {error.strerror})"]
