"""Boards and sub-analysts of shards on the workers of a Dask cluster, started and watched like processes here.

A task on a worker starts the process, waits for it and returns how it ended. What the process reads and writes is in
the run's folder, which launcher and workers share: its command line is the one that it would have here. The process
ends with its worker, and when nobody wants its task any more: Dask lets go of the tasks of a launcher that is gone,
however it went.
"""

import fcntl
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from parley.emulator.errors import BadInput, LocalProtocolError
from parley.emulator.roles.shards.boards import board_of
from parley.launch.processes.processes import CommandLine, Exit, Processes
from parley.launch.processes.system import CRASHED
from parley.nodes.environment import child_environment

if TYPE_CHECKING:
    from distributed import Future, Worker

    from parley.launch.cluster.dask import Workers
    from parley.launch.cluster.layout import Layout
    from parley.launch.results.folder import RunFolder

LOOK_SECONDS = 0.1
SEARCH_SECONDS = 0.25
ANSWER_SECONDS = 10.0
PATIENCE_SECONDS = 10.0
# What this worker holds open while the launcher looks whether it sees it.
_probes: dict[str, int] = {}


@dataclass(frozen=True, kw_only=True)
class Life:
    """One life of a process. `mark` is made when it begins, so that it begins once, and filled when it has ended."""

    command_line: CommandLine
    mark: Path


@dataclass(frozen=True, kw_only=True)
class Lost(Exit):
    """The process ended with its worker."""

    why: str

    @property
    def cause(self) -> str:
        return self.why


def live(life: Life) -> tuple[int, int]:
    """On a worker: start the process and wait for its end; its process id and its exit status."""
    from distributed import get_worker, secede

    worker = get_worker()
    key = worker.get_current_task()
    # It waits more than it works: it must not keep its worker from hosting others.
    secede()
    try:
        life.mark.touch(exist_ok=False)
    except FileExistsError:
        # Dask begins a task again by itself when a worker comes back under its old address. The process would not know
        # its old ports; the launcher does.
        return 0, -signal.SIGKILL
    process = _start(life.command_line)
    try:
        while process.poll() is None:
            if not _is_wanted(worker, key):
                process.kill()
            with suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_SECONDS)
    finally:
        process.kill()
        life.mark.write_text(f"ended with {process.wait()}\n")
    return process.pid, process.returncode


def _start(line: CommandLine) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-P", "-m", "parley.launch.processes.dependent_node", str(os.getpid())]
    log = os.open(line.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        return subprocess.Popen(
            [*command, line.node, *line.arguments],
            # Never written to: it closes with this worker.
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=child_environment(),
            start_new_session=True,
        )
    finally:
        os.close(log)


def _is_wanted(worker: "Worker", key: Any) -> bool:
    """Whether anybody waits for this task: Dask cannot stop one that runs, but marks it."""
    task = worker.state.tasks.get(key)
    return task is not None and task.state != "cancelled"


def host_of(worker: str) -> str:
    """The IP address of a worker, from the address by which Dask reaches it."""
    name = urlsplit(worker).hostname or ""
    try:
        return str(socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise BadInput(f"worker {worker} has no address that others could reach: {error.strerror}") from error


class WorkerProcesses(AbstractContextManager["WorkerProcesses"]):
    """The processes of a run in shards: `here` those of this machine, the shards' own on workers."""

    def __init__(self, here: Processes, workers: "Workers", layout: "Layout", folder: "RunFolder") -> None:
        self._here, self._workers, self._folder = here, workers, folder
        self._needed = [] if layout.keys is None else [layout.keys / "allowed.public"]
        there = workers.names
        # A shard's user nodes are placed in the same order: they get the workers around their board.
        self._homes = {
            name: there[place * len(there) // layout.shards]
            for place, shard in enumerate(layout.shard_names)
            for name in (board_of(shard), shard)
        }
        # Others look for a board where it was; a sub-analyst nobody looks for.
        self._fixed = set(map(board_of, layout.shard_names))
        self.hosts = {name: host_of(self._homes[name]) for name in sorted(self._fixed)}
        self._placed: dict[str, Future[tuple[int, int]]] = {}
        self._lives: dict[str, int] = {}
        self._ended: list[Exit] = []
        self._searched = 0.0

    def __enter__(self) -> "WorkerProcesses":
        self._check_shared()
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of all tasks; their workers end the processes, and what is on record is nobody's but ours then."""
        until = time.monotonic() + PATIENCE_SECONDS
        for future in self._placed.values():
            future.cancel()
        marks = [self._mark(name) for name in self._placed]
        self._placed.clear()
        # Without a scheduler the workers end by themselves, and their processes with them.
        while self._workers.client.status == "running" and any(map(_goes_on, marks)) and time.monotonic() < until:
            time.sleep(LOOK_SECONDS / 2)

    @property
    def running(self) -> set[str]:
        return self._here.running | set(self._placed)

    def prepare(self, plan: Path, *, crowd: Path | None = None) -> None:
        self._here.prepare(plan, crowd=crowd)

    def send_signal(self, names: Iterable[str], number: int) -> None:
        """Only to processes of this machine; a run with processes elsewhere has no faults to inject."""
        self._here.send_signal(names, number)

    def spawn(self, command_lines: Iterable[CommandLine]) -> None:
        """Start these nodes where they belong."""
        for line in command_lines:
            if line.name in self._homes:
                self._place(line)
            else:
                self._here.spawn([line])

    def exits(self, timeout: float) -> list[Exit]:
        """The nodes that ended since the last call; waits at most `timeout` seconds for one of this machine."""
        found = self._here.exits(timeout)
        for name, future in list(self._placed.items()):
            if future.status == "error":
                raise LocalProtocolError(f"{name} on worker {self._homes[name]} failed: {future.exception()}")
            if future.status == "finished":
                try:
                    pid, status = future.result(ANSWER_SECONDS)
                except (TimeoutError, CancelledError):
                    # Its worker went before it could tell: that shows below.
                    continue
                found.append(Exit(name=name, pid=pid, status=status))
                del self._placed[name]
        if time.monotonic() >= self._searched + SEARCH_SECONDS:
            found += self._lost()
            self._searched = time.monotonic()
        found, self._ended = found + self._ended, []
        return found

    def _lost(self) -> list[Exit]:
        """Processes whose workers are gone."""
        if not self._placed:
            return []
        there, gone = self._workers.names, list[Exit]()
        for name, future in list(self._placed.items()):
            worker = self._homes[name]
            if future.status in ("cancelled", "lost") or (worker not in there and not future.done()):
                future.cancel()
                del self._placed[name]
                gone.append(Lost(name=name, pid=0, status=-signal.SIGKILL, why=f"was lost with worker {worker}"))
        return gone

    def _place(self, line: CommandLine) -> None:
        name, worker = line.name, self._homes[line.name]
        there = self._workers.names
        if worker not in there:
            others = [each for each in there if name not in self._fixed or host_of(each) == self.hosts[name]]
            if not others:
                why = f"was lost with worker {worker}, and no other worker on its host can take its place"
                self._ended.append(Lost(name=name, pid=0, status=CRASHED, why=why))
                return
            homes = list(self._homes.values())
            self._homes[name] = worker = min(others, key=lambda each: (homes.count(each), each))
        self._lives[name] = self._lives.get(name, 0) + 1
        life = Life(command_line=line, mark=self._mark(name))
        key = f"parley-{self._folder.run}-{secrets.token_hex(4)}-{life.mark.name}"
        options: dict[str, Any] = {"key": key, "workers": [worker], "allow_other_workers": False, "pure": False}
        self._placed[name] = self._workers.client.submit(live, life, **options)

    def _mark(self, name: str) -> Path:
        return self._folder.path / "state" / f"{name}.life-{self._lives[name]}"

    def _check_shared(self) -> None:
        """All workers see the run's folder as we do, at once, with what is locked in it; BadInput otherwise."""
        state, client = self._folder.path / "state", self._workers.client
        wanted = f"with --shards boards run on workers and write to {self._folder.path}; give --out in a folder"
        try:
            answers = client.run(write_probe, state, self._needed, on_error="return")
            for worker, probe in answers.items():
                if isinstance(probe, BaseException):
                    raise BadInput(f"worker {worker} cannot use the run's folder ({probe}): {wanted} that all share")
                if not shows(state / probe):
                    what = f"what worker {worker} writes to the run's folder does not show here at once"
                    raise BadInput(f"{what}: {wanted} that all share without delay, locks included")
        finally:
            client.run(drop_probes, state, on_error="return")


def _goes_on(mark: Path) -> bool:
    """Whether a process has begun and not ended."""
    return mark.exists() and mark.stat().st_size == 0


def write_probe(state: Path, needed: Sequence[Path]) -> str:
    """On a worker: a new file in this folder, locked and held open as a board holds its record; its name."""
    for path in needed:
        path.open("rb").close()
    name = f"probe-{secrets.token_hex(8)}"
    descriptor = os.open(state / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    _probes[str(state / name)] = descriptor
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.write(descriptor, name.encode())
    return name


def drop_probes(state: Path) -> None:
    """On a worker: let go of the files in this folder."""
    for path in [each for each in _probes if Path(each).parent == state]:
        os.close(_probes.pop(path))
        Path(path).unlink(missing_ok=True)


def shows(probe: Path) -> bool:
    """Whether the file is here as its writer sees it: its name in it, and locked."""
    try:
        with probe.open("rb") as file:
            if file.read() != probe.name.encode():
                return False
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
