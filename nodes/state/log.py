"""The log of a wallet, whole or refused: framed, chained by hashes, locked, on disk before anything follows from it.

`log` holds the entries. `head` says how long the log is, in two slots that are written in turn, so that one is always
whole. A log longer than its head was not written to its end, and nothing followed from what is missing; a log shorter
than its head has been cut. All calls to the operating system go through a `Disk`.
"""

import os
import struct
import zlib
from contextlib import closing, suppress
from pathlib import Path
from typing import Self

from parley.emulator.errors import BadInput
from parley.nodes.state.disk import HASH_BYTES, LENGTH_BYTES, Chain, Disk, read_whole, write_whole

MAGIC = b"PARLEYW1"
SLOT = struct.Struct("<QQ32sI")
LENGTH = struct.Struct("<I")


class Log:
    """The entries of a folder."""

    def __init__(self, folder: Path, disk: Disk, durable: bool = True) -> None:
        self.folder = folder
        self._disk, self._durable = disk, durable
        self._handles: list[int] = []
        self._sequence = 0
        self._end = len(MAGIC)
        self._chain = Chain(MAGIC)
        self._broken = ""

    @classmethod
    def create(cls, folder: Path, first: bytes, disk: Disk) -> None:
        """A new folder with one entry, there as a whole or not at all."""
        if folder.exists() or folder.is_symlink():
            raise BadInput(f"{folder} already exists; a wallet is never overwritten, give a new folder")
        draft = folder.with_name(f".{folder.name}.{os.getpid()}")
        log, made = cls(draft, disk), draft
        try:
            disk.make_folder(draft)
            try:
                log._open(os.O_RDWR | os.O_CREAT | os.O_EXCL)
                write_whole(disk, log._handles[0], MAGIC, 0)
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
            raise BadInput(f"the wallet {folder} cannot be created: {error.strerror or error}") from error

    @classmethod
    def resume(cls, folder: Path, disk: Disk, durable: bool = True) -> tuple[Self, list[bytes]]:
        """The log, locked, and its entries; what was not written to its end is taken off."""
        log = cls(folder, disk, durable)
        try:
            return log, log._load(os.O_RDWR)
        except BaseException:
            log.close()
            raise

    @classmethod
    def look(cls, folder: Path, disk: Disk) -> list[bytes]:
        """The entries of a log that others may be writing to."""
        with closing(cls(folder, disk)) as log:
            return log._load(os.O_RDONLY)

    def append(self, payload: bytes) -> None:
        """Put an entry on disk; when this returns it is there. BadInput: it is not, and nothing may follow from it."""
        if self._broken or not self._handles:
            raise BadInput(f"the wallet {self.folder} cannot be written: {self._broken or 'it is closed'}")
        before, entry = self._chain.hash, self._chain.entry(payload)
        sequence, end, written = self._sequence + 1, self._end + len(entry), False
        slot = SLOT.pack(sequence, end, self._chain.hash, 0)[:-4]
        try:
            self._put(self._handles[0], entry, self._end)
            written = True
            self._put(self._handles[1], slot + LENGTH.pack(zlib.crc32(slot)), sequence % 2 * SLOT.size)
        except OSError as error:
            self._chain.hash, reason = before, error.strerror or str(error)
            try:
                # Where the new head may be on disk the entry stays: whoever opens the log next finds it, and it counts.
                if not written:
                    self._disk.truncate(self._handles[0], self._end)
            except OSError:
                written = True
            if written:
                self._broken = reason
            raise BadInput(f"the wallet {self.folder} cannot be written: {reason}; nobody answers") from error
        self._sequence, self._end = sequence, end

    def close(self) -> None:
        while self._handles:
            self._disk.close(self._handles.pop())

    def _open(self, flags: int) -> None:
        for name in ("log", "head"):
            self._handles.append(self._disk.open(self.folder / name, flags))

    def _put(self, handle: int, data: bytes, at: int) -> None:
        write_whole(self._disk, handle, data, at)
        try:
            if self._durable:
                self._disk.sync(handle)
        except OSError as error:
            # What the disk holds after that nobody knows; asking again may claim that all is well.
            self._broken = error.strerror or str(error)
            raise

    def _load(self, flags: int) -> list[bytes]:
        try:
            self._open(flags)
            if flags == os.O_RDWR:
                self._disk.lock(self._handles[0])
            entries, size = self._read()
            if flags == os.O_RDWR and size > self._end:
                self._disk.truncate(self._handles[0], self._end)
        except BlockingIOError:
            raise BadInput(f"the wallet {self.folder} is in use by another process; wait until it ends") from None
        except OSError as error:
            raise BadInput(f"the wallet {self.folder} cannot be opened: {error.strerror or error}") from error
        return entries

    def _read(self) -> tuple[list[bytes], int]:
        """All entries, and how long the file is. The head first: what others append meanwhile comes after it."""
        head, content = (read_whole(self._disk, handle) for handle in reversed(self._handles))
        if not content.startswith(MAGIC):
            raise BadInput(f"{self.folder} is not a wallet, or of another version")
        slots = [_slot(head[start : start + SLOT.size]) for start in (0, SLOT.size)]
        known = max((slot for slot in slots if slot is not None), default=None)
        if known is None:
            raise BadInput(f"the wallet {self.folder} is damaged: its head cannot be read")
        self._sequence, length, chain = known
        entries, proven = list[bytes](), False
        # What was not written to its end is no entry.
        with suppress(ValueError):
            for payload in self._chain.payloads(content):
                entries.append(payload)
                self._end += LENGTH_BYTES + len(payload) + HASH_BYTES
                proven = proven or (self._end, self._chain.hash) == (length, chain)
        # A crash cuts the log or a slot of the head, not both: the slot is written when the log is whole on disk.
        torn = self._end < len(content) and None in slots and self._sequence > 1
        if not proven or torn:
            damage = f"cut or damaged at byte {self._end} of {length}"
            raise BadInput(f"the wallet {self.folder} is {damage}; without all of it nobody may answer")
        return entries, len(content)


def _slot(raw: bytes) -> tuple[int, int, bytes] | None:
    if len(raw) != SLOT.size or zlib.crc32(raw[:-4]) != LENGTH.unpack(raw[-4:])[0]:
        return None
    sequence, length, chain, _ = SLOT.unpack(raw)
    return sequence, length, chain
