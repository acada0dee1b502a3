"""A program and all it starts: timed, its memory watched, ended with everything it left behind."""

import ctypes
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

PR_SET_CHILD_SUBREAPER = 36
LOOK_SECONDS = 0.2
LIMIT_SECONDS = 300.0
KIBIBYTES_IN_MEBIBYTE = 1024


class Unavailable(Exception):
    """Why there is no figure; the table says so in its place."""


@dataclass(frozen=True, kw_only=True)
class Finished:
    """What a program printed, how long it took, and the most memory it and its descendants had at one time."""

    seconds: float
    output: str
    mebibytes: float
    most_processes: int

    @property
    def record(self) -> dict[str, Any]:
        """The last line it printed that is a record; others talk about other things."""
        for line in reversed(self.output.splitlines()):
            try:
                found = json.loads(line)
            except json.JSONDecodeError:
                continue
            if isinstance(found, dict):
                return found
        raise Unavailable("printed no figures")


def run(
    command: Sequence[object],
    *,
    variables: Mapping[str, str] | None = None,
    folder: Path | None = None,
    limit: float = LIMIT_SECONDS,
    watch: bool = False,
) -> Finished:
    """Run to the end, or to the limit; Unavailable says how it failed. Looking at memory costs time: ask for one."""
    words = [str(each) for each in command]
    with TemporaryFile() as output, TemporaryFile() as errors, _adopting() as adopted:
        began = time.perf_counter()
        process = subprocess.Popen(
            words, stdout=output, stderr=errors, cwd=folder, env=variables, start_new_session=True
        )
        try:
            mebibytes, most = _follow(process, adopted, began + limit, watch)
            seconds = time.perf_counter() - began
        finally:
            _end(process, adopted)
        said, complaints = (_text(each) for each in (output, errors))
    if process.returncode:
        last = [line for line in complaints.splitlines() if line.strip()] or ["it said nothing"]
        raise Unavailable(f"failed: {last[-1].strip()}"[:200])
    return Finished(seconds=seconds, output=said, mebibytes=mebibytes, most_processes=most)


def _follow(
    process: "subprocess.Popen[bytes]", adopted: frozenset[int], until: float, watch: bool
) -> tuple[float, int]:
    """Wait, and look now and then; the largest sum of memory and the largest number of processes seen."""
    mebibytes, most = 0.0, 0
    while True:
        left = until - time.perf_counter()
        if left <= 0:
            raise Unavailable("not done at the time limit")
        try:
            process.wait(min(LOOK_SECONDS, left) if watch else left)
            return mebibytes, most
        except subprocess.TimeoutExpired:
            if watch:
                there = descendants() - adopted
                mebibytes, most = max(mebibytes, sum(map(share, there))), max(most, len(there))


def share(pid: int) -> float:
    """MiB of a process, pages it shares with others counted in parts (PSS); 0 once it is gone."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return float(line.split()[1]) / KIBIBYTES_IN_MEBIBYTE
    except OSError:
        return 0.0
    return 0.0


def descendants() -> frozenset[int]:
    """All processes under this one."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, ahead = set[int](), [os.getpid()]
    while ahead:
        more = [each for each in children.get(ahead.pop(), []) if each not in found]
        found.update(more)
        ahead += more
    return frozenset(found)


@contextmanager
def _adopting() -> Iterator[frozenset[int]]:
    """Orphans come to this process instead of to init, so that none gets away; who was here before."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    before = descendants()
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield before
    finally:
        prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _end(process: "subprocess.Popen[bytes]", adopted: frozenset[int]) -> None:
    """Kill what is left of it, wherever it went, until nothing is."""
    while left := descendants() - adopted:
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.wait()
        for pid in left - {process.pid}:
            _reap(pid)
    process.wait()


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        # It is somebody else's child for now; once its parent is dead it is ours, and the next look finds it.
        return


def _text(file: Any) -> str:
    file.seek(0)
    found: bytes = file.read()
    return found.decode(errors="replace")
