"""A user node's memory on disk: the coin key before its first message, each answered round before the answer.

With the journal a restarted node knows which broadcast it answered, so it never answers another one in its place.
"""

import json
import os
from pathlib import Path

from emulator.coins import KEY_BYTES, fresh_key
from emulator.errors import BadInput, LocalProtocolError
from emulator.roles import Commit


class Journal:
    """Append-only lines of JSON, one a commitment. A torn last line was never acted upon and is dropped."""

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        """Without `durable` a line survives the death of the process, but not of the machine."""
        self.durable = durable
        self.run: str | None = None
        self.commitments: dict[int, bytes] = {}
        whole = self._read(path)
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        os.ftruncate(self._handle, whole)
        os.lseek(self._handle, whole, os.SEEK_SET)

    def write(self, commit: Commit) -> None:
        """Put a commitment on disk; when this returns, the answer may be sent."""
        line = json.dumps({"run": commit.run, "round": commit.round, "digest": commit.digest.hex()}) + "\n"
        os.write(self._handle, line.encode())
        if self.durable:
            os.fdatasync(self._handle)

    def close(self) -> None:
        os.close(self._handle)

    def _read(self, path: Path) -> int:
        """Take in the whole lines; return where they end."""
        content = path.read_bytes() if path.exists() else b""
        whole = content.rfind(b"\n") + 1
        for line in content[:whole].splitlines():
            try:
                entry = json.loads(line)
                run, number, digest = entry["run"], int(entry["round"]), bytes.fromhex(entry["digest"])
            except (ValueError, KeyError, TypeError) as error:
                raise BadInput(
                    f"the journal {path} is damaged; without it this node must not speak: {error}"
                ) from error
            if self.run not in (None, run):
                raise BadInput(f"the journal {path} speaks of two runs, {self.run} and {run}")
            self.run, self.commitments[number] = run, digest
        return whole


def keep_key(state: Path) -> bytes:
    """The coin key of this state folder: read, or drawn from the operating system and on disk before it is used."""
    path = state / "coins.key"
    if path.exists():
        if path.stat().st_mode & 0o077:
            raise BadInput(f"{path} can be read by others; run chmod 600 on it or start with a new folder")
        key = path.read_bytes()
        if len(key) != KEY_BYTES:
            raise BadInput(f"{path} is not a key of {KEY_BYTES} bytes; start with a new folder")
        return key
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    key = fresh_key()
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        if os.write(handle, key) != KEY_BYTES:
            raise LocalProtocolError(f"the coin key could not be written to {path}")
        os.fsync(handle)
    finally:
        os.close(handle)
    return key
