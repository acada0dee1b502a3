"""Processes that die where a test says: a count of the moments at which a kill can come, and a disk that counts."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from parley.nodes.state.disk import Disk

T = TypeVar("T")


class Killed(BaseException):
    """What SIGKILL is to a process: nothing that follows is done."""


class Fate:
    """Counts moments; at the chosen ones the process dies, and stays dead until it is reborn."""

    def __init__(self, *deaths: int) -> None:
        self.moments = 0
        self.dead = False
        self._deaths = set(deaths)

    def moment(self) -> None:
        if self.dead:
            raise Killed
        self.moments += 1
        if self.moments - 1 in self._deaths:
            self.dead = True
            raise Killed


class MortalDisk(Disk):
    """The real disk; a process may be killed before and after every call."""

    def __init__(self, fate: Fate) -> None:
        self._fate = fate
        self._held: set[int] = set()

    def bury(self) -> None:
        """What the system does for a process that has died: its files are closed, its locks are free."""
        for descriptor in self._held:
            os.close(descriptor)
        self._held.clear()

    def _call(self, call: Callable[[], T]) -> T:
        self._fate.moment()
        done = call()
        self._fate.moment()
        return done

    def open(self, path: Path, flags: int) -> int:
        self._fate.moment()
        descriptor = super().open(path, flags)
        self._held.add(descriptor)
        self._fate.moment()
        return descriptor

    def lock(self, descriptor: int) -> None:
        self._call(lambda: Disk.lock(self, descriptor))

    def read(self, descriptor: int, size: int) -> bytes:
        return self._call(lambda: Disk.read(self, descriptor, size))

    def write(self, descriptor: int, content: bytes, offset: int) -> int:
        # A kill leaves any part of it.
        half = max(1, len(content) // 2)
        self._call(lambda: Disk.write(self, descriptor, content[:half], offset))
        return self._call(lambda: Disk.write(self, descriptor, content, offset))

    def sync(self, descriptor: int) -> None:
        self._call(lambda: Disk.sync(self, descriptor))

    def link(self, source: Path, target: Path) -> None:
        self._call(lambda: Disk.link(self, source, target))

    def unlink(self, path: Path) -> None:
        self._call(lambda: Disk.unlink(self, path))

    def sync_folder(self, path: Path) -> None:
        self._call(lambda: Disk.sync_folder(self, path))

    def close(self, descriptor: int) -> None:
        self._fate.moment()
        self._held.discard(descriptor)
        super().close(descriptor)
        self._fate.moment()
