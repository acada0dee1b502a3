"""What a node's state is made of on disk: file calls as one object, and entries that form a chain.

Whoever tests a node puts a failing disk in its place. An entry is a length (4 bytes, little-endian), a payload, and the
SHA-256 of everything up to here, so that a cut or altered file does not pass for another.
"""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

from parley.emulator.errors import BadInput

PIECE = 2**24
LENGTH_BYTES = 4
HASH_BYTES = 32


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


def read_whole(disk: Disk, descriptor: int) -> bytes:
    """All that is in a file that was just opened."""
    return b"".join(iter(lambda: disk.read(descriptor, PIECE), b""))


def open_locked(disk: Disk, path: Path, flags: int, what: str, missing: str = "") -> int:
    """Open a file for this process alone, or BadInput about what it is; `missing`: what to say where it is not."""
    descriptor, doing = -1, "opened"
    try:
        descriptor, doing = disk.open(path, flags), "locked"
        disk.lock(descriptor)
    except OSError as error:
        if descriptor >= 0:
            disk.close(descriptor)
        if missing and isinstance(error, FileNotFoundError):
            raise BadInput(missing) from None
        if isinstance(error, BlockingIOError):
            raise BadInput(f"{what} is in use by another process") from None
        raise BadInput(f"{what} cannot be {doing}: {error.strerror}") from error
    return descriptor


def create_whole(disk: Disk, draft: Path, path: Path, parts: Iterable[bytes], *, durable: bool = True) -> None:
    """A new file, written under another name and then given its own; FileExistsError where that is taken."""
    descriptor, end = disk.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL), 0
    try:
        for part in parts:
            write_whole(disk, descriptor, part, end)
            end += len(part)
        if durable:
            disk.sync(descriptor)
        disk.link(draft, path)
    finally:
        disk.close(descriptor)
        with suppress(OSError):
            disk.unlink(draft)
    if durable:
        disk.sync_folder(path.parent)


class Locked:
    """A state that one process has for itself, from `open_locked` until it is closed."""

    def __init__(self, disk: Disk, descriptor: int) -> None:
        self._disk = disk
        self._descriptor = descriptor

    def close(self) -> None:
        """Let go of the file and its lock."""
        if self._descriptor >= 0:
            self._disk.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Chain:
    """The hash of what was written or read so far; it begins with the file's magic bytes."""

    def __init__(self, magic: bytes) -> None:
        self._magic = magic
        self.hash = hashlib.sha256(magic).digest()

    def entry(self, payload: bytes) -> bytes:
        """The next entry of a file."""
        length = len(payload).to_bytes(LENGTH_BYTES, "little")
        self.hash = hashlib.sha256(self.hash + length + payload).digest()
        return b"".join((length, payload, self.hash))

    def payloads(self, content: bytes) -> Iterator[bytes]:
        """What the entries of a whole file hold; ValueError at the first entry that is not as it was written."""
        if not content.startswith(self._magic):
            raise ValueError("other magic bytes")
        start = len(self._magic)
        while start < len(content):
            size = int.from_bytes(content[start : start + LENGTH_BYTES], "little")
            payload = content[start + LENGTH_BYTES : start + LENGTH_BYTES + size]
            stop, before = start + LENGTH_BYTES + size + HASH_BYTES, self.hash
            if content[start:stop] != self.entry(payload):
                self.hash = before
                raise ValueError(f"cut or altered at byte {start}")
            yield payload
            start = stop
