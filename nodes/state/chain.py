"""Entries of a file, each with the SHA-256 of all before it: a cut or altered file does not pass for another.

An entry: length (4 bytes, little-endian), payload, hash of everything up to here.
"""

import hashlib
from collections.abc import Iterator

LENGTH_BYTES = 4
HASH_BYTES = 32


class Chain:
    """The hash of what was written or read so far; it begins with the file's magic bytes."""

    def __init__(self, magic: bytes) -> None:
        self._magic = magic
        self._chain = hashlib.sha256(magic).digest()

    def entry(self, payload: bytes) -> bytes:
        """The next entry of a file."""
        length = len(payload).to_bytes(LENGTH_BYTES, "little")
        self._chain = hashlib.sha256(self._chain + length + payload).digest()
        return b"".join((length, payload, self._chain))

    def payloads(self, content: bytes) -> Iterator[bytes]:
        """What the entries of a whole file hold; ValueError at the first byte that is not as it was written."""
        if not content.startswith(self._magic):
            raise ValueError("other magic bytes")
        start = len(self._magic)
        while start < len(content):
            size = int.from_bytes(content[start : start + LENGTH_BYTES], "little")
            payload = content[start + LENGTH_BYTES : start + LENGTH_BYTES + size]
            stop = start + LENGTH_BYTES + size + HASH_BYTES
            if content[start:stop] != self.entry(payload):
                raise ValueError(f"cut or altered at byte {start}")
            yield payload
            start = stop
