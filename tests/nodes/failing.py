"""A disk that fails at a chosen call, in a chosen way, and what a node says and does on it."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from parley.nodes.state.disk import Disk

FAULTS = (
    "no space",
    "input/output error",
    "short write",
    "torn write",
    "killed before",
    "killed after",
    "killed within",
)
ERRORS = {"no space": errno.ENOSPC, "input/output error": errno.EIO, "torn write": errno.EIO}


class Killed(BaseException):
    """The process is gone: nothing that would have come after takes place."""


class FailingDisk(Disk):
    """Counts its calls and fails at one of them. Who was killed makes no more calls; the system closes its files."""

    def __init__(self, at: int = -1, fault: str = "") -> None:
        self.at, self.fault = at, fault
        self.calls: list[str] = []
        self.struck = False
        self._dead = False
        self._open: set[int] = set()

    def release(self) -> None:
        """What the system does when a process ends."""
        while self._open:
            with suppress(OSError):
                os.close(self._open.pop())

    def _call(self, name: str, act: Callable[[], Any], part: Callable[[], Any] | None = None) -> Any:
        """One call; `part` does a part of it, where there is such a thing."""
        if self._dead:
            raise Killed
        self.calls.append(name)
        if len(self.calls) - 1 != self.at:
            return act()
        self.struck = True
        if self.fault.startswith("killed"):
            self._dead = True
            if self.fault == "killed after":
                act()
            elif self.fault == "killed within" and part is not None:
                part()
            raise Killed
        if part is not None and self.fault in ("short write", "torn write"):
            taken = part()
            if self.fault == "short write":
                return taken
        if self.fault in ERRORS:
            raise OSError(ERRORS[self.fault], os.strerror(ERRORS[self.fault]))
        return act()

    def make_folder(self, path: Path, *, parents: bool = False) -> None:
        self._call("make folder", lambda: Disk.make_folder(self, path, parents=parents))

    def open(self, path: Path, flags: int) -> int:
        def act() -> int:
            descriptor = Disk.open(self, path, flags)
            self._open.add(descriptor)
            return descriptor

        return int(self._call("open", act))

    def lock(self, descriptor: int) -> None:
        self._call("lock", lambda: Disk.lock(self, descriptor))

    def read(self, descriptor: int, size: int) -> bytes:
        return bytes(self._call("read", lambda: Disk.read(self, descriptor, size)))

    def write(self, descriptor: int, content: bytes, offset: int) -> int:
        half = content[: max(1, len(content) // 2)]
        return int(
            self._call(
                "write",
                lambda: Disk.write(self, descriptor, content, offset),
                lambda: Disk.write(self, descriptor, half, offset),
            )
        )

    def truncate(self, descriptor: int, size: int) -> None:
        self._call("truncate", lambda: Disk.truncate(self, descriptor, size))

    def sync(self, descriptor: int) -> None:
        self._call("sync", lambda: Disk.sync(self, descriptor))

    def link(self, source: Path, target: Path) -> None:
        self._call("link", lambda: Disk.link(self, source, target))

    def unlink(self, path: Path) -> None:
        self._call("unlink", lambda: Disk.unlink(self, path))

    def sync_folder(self, path: Path) -> None:
        self._call("sync folder", lambda: Disk.sync_folder(self, path))

    def close(self, descriptor: int) -> None:
        def act() -> None:
            self._open.discard(descriptor)
            Disk.close(self, descriptor)

        self._call("close", act)


@contextmanager
def on(disk: FailingDisk) -> Iterator[FailingDisk]:
    """For as long as a process would live."""
    try:
        yield disk
    finally:
        disk.release()
