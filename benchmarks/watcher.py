"""Looks at the processes of a run while it goes on: memory and processor time, from /proc."""

import os
import statistics
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

KIBIBYTE, MEBIBYTE = 1024, 2**20
LOOK_SECONDS = 0.15


def forked() -> list[int]:
    """The processes forked for a run that this process started, the oldest first: board, analyst, user nodes."""
    us, found = str(os.getpid()), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if b"parley.launch.processes.forkserver" in words and us.encode() in words and fields[1] != us:
                found.append((int(fields[19]), int(entry.name)))
    return [pid for _, pid in sorted(found)]


def look(pid: int) -> dict[str, float]:
    """Peak memory, own memory, processor time and switches of one process; nothing if it is gone."""
    home = Path("/proc") / str(pid)
    try:
        lines = (home / "smaps_rollup").read_text().splitlines()[1:]
        kibibytes = {line.split(":")[0]: float(line.split()[1]) for line in lines}
        running = sum(int((task / "schedstat").read_text().split()[0]) for task in (home / "task").iterdir())
        status = dict(line.split(":", 1) for line in (home / "status").read_text().splitlines())
        return {
            "peak": float(status["VmHWM"].split()[0]) * KIBIBYTE / MEBIBYTE,
            "own": (kibibytes["Private_Dirty"] + kibibytes["Private_Clean"]) * KIBIBYTE / MEBIBYTE,
            "share": kibibytes["Pss"] * KIBIBYTE / MEBIBYTE,
            "processor": running / 1e6,
            "switches": float(status["voluntary_ctxt_switches"]),
        }
    except (OSError, IndexError, ValueError, KeyError):
        return {}


def available() -> float:
    """MiB of memory that programs can still have."""
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    return float(fields["MemAvailable"].split()[0]) * KIBIBYTE / MEBIBYTE


class Watcher:
    """Watches board, analyst and a few user nodes until told to stop; use as a context. Keeps the largest figures."""

    def __init__(self, nodes: int = 8) -> None:
        self._wanted = nodes
        self.used = 0.0
        """Processor seconds that watching itself took in this process."""
        self._free = self._least = available()
        self._seen: dict[str, dict[str, float]] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    @property
    def taken(self) -> float:
        """MiB by which the machine's free memory went down meanwhile, kernel included."""
        return self._free - self._least

    def of(self, role: str, name: str) -> float:
        """A figure of the board, the analyst, or the median over the user nodes that were watched."""
        found = [figures[name] for who, figures in self._seen.items() if who.startswith(role)]
        return statistics.median(found) if found else float("nan")

    def _watch(self) -> None:
        chosen: dict[str, int] = {}
        while not self._done.wait(LOOK_SECONDS):
            self._least = min(self._least, available())
            if len(chosen) < 2 + self._wanted:
                chosen = self._choose(forked())
            for who, pid in chosen.items():
                found, before = look(pid), self._seen.get(who, {})
                if found:
                    self._seen[who] = {name: max(value, before.get(name, 0.0)) for name, value in found.items()}
            self.used = time.thread_time()

    def _choose(self, pids: list[int]) -> dict[str, int]:
        nodes = pids[2:][:: max(1, (len(pids) - 2) // self._wanted)][: self._wanted]
        return dict(zip(("board", "analyst", *(f"node-{pid}" for pid in nodes)), [*pids[:2], *nodes], strict=False))
