"""A file that only grows, whole or refused: framed, chained by hashes, locked, on disk before anything follows from it.

`log` holds the entries. `head` says how long the log is, in two slots that are written in turn, so that one is always
whole. A log longer than its head was not written to its end, and nothing followed from what is missing; a log shorter
than its head has been cut. All calls to the operating system go through a `Disk`.
"""

import hashlib
import os
import struct
import zlib
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

from parley.emulator.errors import BadInput
from parley.nodes.state.disk import Disk, write_whole

HASH_BYTES = 32
SLOT = struct.Struct("<QQ32sI")
LENGTH = struct.Struct("<I")


class Log:
    """The entries of a folder. `what` is how sentences call it, `magic` tells its files from others."""

    def __init__(self, folder: Path, what: str, magic: bytes, disk: Disk, durable: bool = True) -> None:
        self.folder = folder
        self._what, self._magic, self._disk, self._durable = what, magic, disk, durable
        self._handles: list[int] = []
        self._sequence = 0
        self._end = len(magic)
        self._chain = hashlib.sha256(magic).digest()
        self._broken = ""

    @classmethod
    def create(cls, folder: Path, what: str, magic: bytes, first: bytes, disk: Disk) -> None:
        """A new folder with one entry, there as a whole or not at all."""
        if folder.exists() or folder.is_symlink():
            raise BadInput(f"{folder} already exists; a {what} is never overwritten, give a new folder")
        draft = folder.with_name(f".{folder.name}.{os.getpid()}")
        log, made = cls(draft, what, magic, disk), draft
        try:
            disk.make_folder(draft)
            try:
                log._open(os.O_RDWR | os.O_CREAT | os.O_EXCL)
                log._put(log._handles[0], magic, 0)
                log.append(first)
                disk.sync_folder(draft)
                disk.rename(draft, folder)
                made = folder
                disk.sync_folder(folder.parent)
            except BaseException:
                with suppress(OSError):
                    disk.remove_tree(made)
                raise
            finally:
                log.close()
        except OSError as error:
            raise BadInput(f"the {what} {folder} cannot be created: {error.strerror or error}") from error

    @classmethod
    def resume(
        cls, folder: Path, what: str, magic: bytes, disk: Disk, durable: bool = True
    ) -> tuple[Self, list[bytes]]:
        """The log, locked, and its entries; what was not written to its end is taken off."""
        log = cls(folder, what, magic, disk, durable)
        with ExitStack() as stack:
            stack.callback(log.close)
            try:
                log._open(os.O_RDWR)
                try:
                    disk.lock(log._handles[0])
                except BlockingIOError:
                    raise BadInput(f"the {what} {folder} is in use by another process; wait until it ends") from None
                entries = log._read()
                if disk.size(log._handles[0]) > log._end:
                    disk.truncate(log._handles[0], log._end)
            except OSError as error:
                raise BadInput(f"the {what} {folder} cannot be opened: {error.strerror or error}") from error
            stack.pop_all()
        return log, entries

    @classmethod
    def look(cls, folder: Path, what: str, magic: bytes, disk: Disk) -> list[bytes]:
        """The entries of a log that others may be writing to."""
        log = cls(folder, what, magic, disk)
        try:
            log._open(os.O_RDONLY)
            return log._read()
        except OSError as error:
            raise BadInput(f"the {what} {folder} cannot be opened: {error.strerror or error}") from error
        finally:
            log.close()

    def append(self, payload: bytes) -> None:
        """Put an entry on disk; when this returns it is there. BadInput: it is not, and nothing may follow from it."""
        if self._broken or not self._handles:
            raise BadInput(f"the {self._what} {self.folder} cannot be written: {self._broken or 'it is closed'}")
        framed = LENGTH.pack(len(payload)) + payload
        chain = hashlib.sha256(self._chain + framed).digest()
        end = self._end + len(framed) + HASH_BYTES
        try:
            self._put(self._handles[0], framed + chain, self._end)
            self._sync(self._handles[0])
        except OSError as error:
            self._take_back(error)
            raise self._unwritten(error) from error
        try:
            slot = SLOT.pack(self._sequence + 1, end, chain, 0)[:-4]
            place = (self._sequence + 1) % 2 * SLOT.size
            self._put(self._handles[1], slot + LENGTH.pack(zlib.crc32(slot)), place)
            self._sync(self._handles[1])
        except OSError as error:
            # The new head may be on disk, so the entry stays: whoever opens the log next finds it, and it counts.
            self._broken = error.strerror or str(error)
            raise self._unwritten(error) from error
        self._sequence, self._end, self._chain = self._sequence + 1, end, chain

    def close(self) -> None:
        """Let go of files and lock."""
        while self._handles:
            self._disk.close(self._handles.pop())

    def _open(self, flags: int) -> None:
        for name in ("log", "head"):
            self._handles.append(self._disk.open(self.folder / name, flags))

    def _put(self, handle: int, data: bytes, at: int) -> None:
        write_whole(self._disk, handle, data, at)

    def _sync(self, handle: int) -> None:
        if not self._durable:
            return
        try:
            self._disk.sync(handle)
        except OSError as error:
            # What the disk holds after that nobody knows; asking again may claim that all is well.
            self._broken = error.strerror or str(error)
            raise

    def _unwritten(self, error: OSError) -> BadInput:
        reason = error.strerror or str(error)
        return BadInput(f"the {self._what} {self.folder} cannot be written: {reason}; nobody answers")

    def _take_back(self, error: OSError) -> None:
        try:
            self._disk.truncate(self._handles[0], self._end)
        except OSError:
            self._broken = error.strerror or str(error)

    def _whole(self, handle: int) -> bytes:
        size, parts = self._disk.size(handle), list[bytes]()
        while (at := sum(map(len, parts))) < size and (part := self._disk.read_at(handle, size - at, at)):
            parts.append(part)
        return b"".join(parts)

    def _read(self) -> list[bytes]:
        """The head first: what others append meanwhile comes after it."""
        head, content = self._whole(self._handles[1]), self._whole(self._handles[0])
        if not content.startswith(self._magic):
            raise BadInput(f"{self.folder} is not a {self._what}, or of another version")
        slots = [_slot(head[start : start + SLOT.size]) for start in (0, SLOT.size)]
        known = max((slot for slot in slots if slot is not None), default=None)
        if known is None:
            raise BadInput(f"the {self._what} {self.folder} is damaged: its head cannot be read")
        self._sequence, length, chain = known
        entries, proven = list[bytes](), False
        while (end := self._frame_end(content)) is not None:
            framed = content[self._end : end - HASH_BYTES]
            link = hashlib.sha256(self._chain + framed).digest()
            if link != content[end - HASH_BYTES : end]:
                break
            entries.append(framed[LENGTH.size :])
            self._end, self._chain = end, link
            proven = proven or (end, link) == (length, chain)
        if not proven:
            raise BadInput(
                f"the {self._what} {self.folder} is cut or damaged at byte {self._end} of {length}; "
                "without all of it nobody may answer"
            )
        return entries

    def _frame_end(self, content: bytes) -> int | None:
        """Where the next entry ends; None where it is not all there."""
        if self._end + LENGTH.size > len(content):
            return None
        end: int = self._end + LENGTH.size + LENGTH.unpack_from(content, self._end)[0] + HASH_BYTES
        return end if end <= len(content) else None


def _slot(raw: bytes) -> tuple[int, int, bytes] | None:
    if len(raw) != SLOT.size or zlib.crc32(raw[:-4]) != LENGTH.unpack(raw[-4:])[0]:
        return None
    sequence, length, chain, _ = SLOT.unpack(raw)
    return sequence, length, chain
