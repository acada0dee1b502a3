"""The file calls a node's state is made of, as one object: whoever tests a node puts a failing disk in its place."""

import fcntl
import os
import shutil
from pathlib import Path


class Disk:
    """The real disk. Every method is one system call that may fail with OSError."""

    def make_folder(self, path: Path, *, parents: bool = False) -> None:
        path.mkdir(mode=0o700, parents=parents)

    def remove_folder(self, path: Path) -> None:
        """Only if it is empty."""
        path.rmdir()

    def open(self, path: Path, flags: int) -> int:
        return os.open(path, flags | os.O_CLOEXEC, 0o600)

    def lock(self, descriptor: int) -> None:
        """Take the file for this process alone; BlockingIOError where another has it."""
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def read(self, descriptor: int, size: int) -> bytes:
        return os.read(descriptor, size)

    def read_at(self, descriptor: int, size: int, offset: int) -> bytes:
        return os.pread(descriptor, size, offset)

    def size(self, descriptor: int) -> int:
        return os.fstat(descriptor).st_size

    def write(self, descriptor: int, content: bytes | memoryview, offset: int) -> int:
        return os.pwrite(descriptor, content, offset)

    def truncate(self, descriptor: int, size: int) -> None:
        os.ftruncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name; FileExistsError where the name is taken."""
        os.link(source, target)

    def rename(self, source: Path, target: Path) -> None:
        source.rename(target)

    def remove_tree(self, path: Path) -> None:
        shutil.rmtree(path)

    def unlink(self, path: Path) -> None:
        path.unlink()

    def sync_folder(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)


REAL = Disk()


def write_whole(disk: Disk, descriptor: int, content: bytes, offset: int) -> None:
    """All of it: a disk that takes a part is asked to take the rest, and OSError tells when it does not."""
    written = 0
    while written < len(content):
        taken = disk.write(descriptor, content[written:], offset + written)
        if taken <= 0:
            raise OSError(5, "the disk takes no more")
        written += taken
