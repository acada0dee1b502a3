"""The disk of one virtual process: real files, and failures that a seed decides.

Every call that changes something is a step of its process, at which it may be killed. A process that is killed leaves
all it has written; one whose machine loses power leaves what was synced, and of the rest the first calls in their
order: the last of them may be a torn write. Rules of the conditions make writes fail for want of space (`disk-full`,
after a part of it was taken) or with an input/output error (`disk-error`).
"""

import errno
import os
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

from parley.emulator.record.transcript import TranscriptWriter
from parley.emulator.transport.conditions import Conditions
from parley.emulator.transport.virtual_time import Process
from parley.nodes.state.disk import Disk

Undo = Callable[[int], None]
ERRORS = {"disk-full": errno.ENOSPC, "disk-error": errno.EIO}


class VirtualDisk(Disk):
    """Calls go to the real disk unless the process is dead or a rule says otherwise.

    `pending` are the calls that no sync has made permanent: what they changed, and how to take them back down to the
    first bytes of them.
    """

    def __init__(self, process: Process, conditions: Conditions, chance: random.Random) -> None:
        self._process, self._chance = process, chance
        self._faults = conditions.disks
        self._generator: np.random.Generator = conditions.generator("disk", process.name)
        self._called = [0] * len(self._faults)
        self._began = process.clock.now()
        self._pending: list[tuple[Path, int, Undo]] = []
        self._paths: dict[int, Path] = {}

    def lose_power(self) -> None:
        """Keep what was synced, and a part of what came after it."""
        kept = self._chance.randint(0, len(self._pending))
        for place in reversed(range(kept, len(self._pending))):
            _, size, undo = self._pending[place]
            # Of the first call that is lost a part may be there.
            undo(self._chance.choice((0, self._chance.randint(0, size))) if place == kept else 0)
        self._pending = []

    def make_folder(self, path: Path, *, parents: bool = False) -> None:
        self._step()
        super().make_folder(path, parents=parents)

    def remove_folder(self, path: Path) -> None:
        self._step()
        super().remove_folder(path)

    def open(self, path: Path, flags: int) -> int:
        if flags & os.O_CREAT:
            self._step()
        elif self._process.dead:
            self._process.step()
        descriptor = super().open(path, flags)
        self._paths[descriptor] = path
        return descriptor

    def continue_record(self, writer: TranscriptWriter) -> None:
        """From here on a transcript that somebody has opened is written on this disk."""
        writer.pwrite = lambda descriptor, content, offset: self._write(descriptor, content, offset, writer.path)
        writer.fdatasync = lambda _: self._sync(writer.path)

    def write(self, descriptor: int, content: bytes | memoryview, offset: int) -> int:
        return self._write(descriptor, content, offset, self._paths[descriptor])

    def _write(self, descriptor: int, content: bytes | memoryview, offset: int, path: Path) -> int:
        failed = self._step(fails=False)
        if failed and (failed != errno.ENOSPC or len(content) < 2):
            raise OSError(failed, os.strerror(failed))
        if failed:
            # A full disk takes what it has room for; whoever asks again is told.
            content = content[: len(content) // 2]
        size, before = os.fstat(descriptor).st_size, b""
        if offset < size:
            with open(path, "rb") as file:
                file.seek(offset)
                before = file.read(len(content))

        def undo(kept: int) -> None:
            with suppress(FileNotFoundError), open(path, "r+b") as file:
                file.seek(offset + kept)
                file.write(before[kept:])
                if size < offset + len(content):
                    file.truncate(max(size, offset + kept if kept else 0))

        self._pending.append((path, len(content), undo))
        return super().write(descriptor, content, offset)

    def truncate(self, descriptor: int, size: int) -> None:
        self._step()
        super().truncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        self._sync(self._paths[descriptor])

    def _sync(self, path: Path) -> None:
        self._step()
        self._settle(path)

    def link(self, source: Path, target: Path) -> None:
        self._step()
        super().link(source, target)
        self._pending.append((target.parent, 0, lambda _: target.unlink(missing_ok=True)))

    def rename(self, source: Path, target: Path) -> None:
        self._step()
        super().rename(source, target)
        self._pending.append((target.parent, 0, lambda _: None if source.exists() else os.rename(target, source)))

    def remove_tree(self, path: Path) -> None:
        self._step()
        super().remove_tree(path)

    def unlink(self, path: Path) -> None:
        self._step()
        super().unlink(path)

    def sync_folder(self, path: Path) -> None:
        self._sync(path)

    def close(self, descriptor: int) -> None:
        """Also for the dead: the system closes their files."""
        self._paths.pop(descriptor, None)
        super().close(descriptor)

    def _settle(self, path: Path) -> None:
        self._pending = [each for each in self._pending if each[0] != path]

    def _step(self, *, fails: bool = True) -> int:
        """One call; the number of the error that it ends with, which is raised where it `fails` as a whole."""
        self._process.step()
        for index, fault in enumerate(self._faults):
            now = self._process.clock.now() - self._began
            if not fault.concerns(self._process.name, "both", "", 0, now):
                continue
            self._called[index] += 1
            wanted = not fault.nth or self._called[index] in fault.nth
            if wanted and self._generator.random() < fault.probability:
                if fails:
                    raise OSError(ERRORS[fault.kind], os.strerror(ERRORS[fault.kind]))
                return ERRORS[fault.kind]
        return 0
