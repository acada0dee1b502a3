"""The shuffler's state on disk: the setup it pledged itself to, and each mixed batch before it leaves.

    setup.parley      run, digest of the setup
    batch-N.parley    run, digest of the setup, round N; then the frames of the batch

A file is written under another name, synced, and then given its own: it is there whole or not at all. It never changes
after that. All in it is public: the pledge was to be sent, and so was the batch. Each file is PARLEYB2 and a chain of
entries (`user_state.py`); one that is cut or altered is refused, and so is a folder that another process uses. Whoever
posts a second batch of a round lets readers subtract one from the other.
"""

import os
import re
from contextlib import suppress
from pathlib import Path

from parley.emulator.errors import BadInput, LocalProtocolError, RemoteProtocolError
from parley.emulator.roles.shuffler import SHUFFLER_NAME, Keep, Memory
from parley.emulator.wire.codec import decode, pack, unpack
from parley.emulator.wire.messages import Replies
from parley.nodes.state.disk import REAL, Chain, Disk, Locked, create_whole, open_locked, read_whole

LOCK = "lock"
SETUP = "setup.parley"
DRAFT = ".draft"
MAGIC = b"PARLEYB2"
_BATCH = re.compile(r"batch-([1-9][0-9]{0,8})\.parley")


class Batches(Locked):
    """The open folder, locked. `write` returns when the disk has the file; after an error it writes nothing more."""

    def __init__(self, folder: Path, run: str, *, disk: Disk = REAL) -> None:
        self.folder = folder
        self.memory = Memory()
        self._run = run
        self._broken = False
        if not folder.is_dir():
            raise BadInput(f"there is no folder {folder} for the shuffler's state; make an empty one for a new run")
        lock = open_locked(disk, folder / LOCK, os.O_RDWR | os.O_CREAT, f"the shuffler's state {folder}")
        super().__init__(disk, lock)
        try:
            self._load()
        except BaseException:
            self.close()
            raise

    def write(self, keep: Keep) -> None:
        """Put it on disk; when this returns, what depends on it may be sent."""
        self.check()
        payloads = (pack([keep.run, keep.setup, keep.round, len(keep.frames)]), *keep.frames)
        draft, path = self.folder / DRAFT, self.folder / (f"batch-{keep.round}.parley" if keep.round else SETUP)
        try:
            # What an earlier life left half written.
            with suppress(FileNotFoundError):
                self._disk.unlink(draft)
            create_whole(self._disk, draft, path, (MAGIC, *map(Chain(MAGIC).entry, payloads)))
        except OSError as error:
            self._broken = True
            taken = isinstance(error, FileExistsError)
            why = "already exists" if taken else f"cannot be written: {error.strerror}"
            raise LocalProtocolError(f"{path} {why}; nothing was sent") from (None if taken else error)

    def check(self) -> None:
        """Raise where something could not be kept: what is known of it must not be said either."""
        if self._broken:
            raise LocalProtocolError(f"writing to {self.folder} failed before; the shuffler says nothing more")

    def _load(self) -> None:
        """Read and check everything that earlier lives have written."""
        if (self.folder / SETUP).exists():
            setup, number, _ = self._read(SETUP)
            if number:
                raise self._altered(SETUP)
            self.memory.note(Keep(run=self._run, setup=setup))
        for path in sorted(self.folder.iterdir()):
            found = _BATCH.fullmatch(path.name)
            if found is not None:
                setup, number, frames = self._read(path.name)
                if not setup or setup != self.memory.setup or number != int(found[1]):
                    raise BadInput(f"{path} is not a batch of the setup in {SETUP}; the shuffler must not use it")
                self.memory.note(Keep(run=self._run, setup=setup, round=number, frames=frames))

    def _read(self, name: str) -> tuple[bytes, int, tuple[bytes, ...]]:
        """Digest of the setup, round and frames of a file of this run."""
        path = self.folder / name
        try:
            descriptor = self._disk.open(path, os.O_RDONLY)
            try:
                content = read_whole(self._disk, descriptor)
            finally:
                self._disk.close(descriptor)
        except OSError as error:
            raise BadInput(f"the shuffler's state {path} cannot be read: {error.strerror}") from error
        try:
            head, *frames = Chain(MAGIC).payloads(content)
            run, setup, number, count = unpack(head)
            said = [decode(frame) for frame in frames]
        except (ValueError, TypeError, RemoteProtocolError):
            raise self._altered(name) from None
        if run != self._run:
            another = f"the run {run!r:.80}, not of {self._run}"
            raise BadInput(f"{self.folder} is the state of {another}; give another folder")
        if type(setup) is not bytes or type(number) is not int or count != len(frames):
            raise self._altered(name)
        for chunk, each in enumerate(said):
            place = (each.run, each.round, each.node, each.chunk, each.chunks) if isinstance(each, Replies) else ()
            if place != (run, number, SHUFFLER_NAME, chunk, count):
                raise self._altered(name)
        return setup, number, tuple(frames)

    def _altered(self, name: str) -> BadInput:
        what = f"the shuffler's state {self.folder / name} is cut or altered"
        return BadInput(f"{what}; a shuffler must not use it, start a new run with an empty folder")
