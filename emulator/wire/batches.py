"""Several frames of one size as one value: the first frame, and of the others the bytes in which they differ.

`[sequence, time, [start, length], frame, places, rows]`: the messages from number `sequence` on, recorded at `time`.
The name of a frame's sender is the `length` bytes from `start` on in the frame itself. `frame` is the first one. In the
next one, the byte at places[j] is rows[0][j], and all other bytes are those of the first; and so on. `places` increase,
and at each of them some frame differs from the first: equal batches are equal bytes.

A batch is a record of the transcript and, behind its checksum, what the board delivers.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from parley.emulator.errors import RemoteProtocolError
from parley.emulator.wire.codec import LARGEST_FRAME, open_sealed, pack
from parley.emulator.wire.messages import NAME
from parley.emulator.wire.shapes import LARGEST, Matrix, Span, texts

SMALLEST_FRAME = 5


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """Frames on record with consecutive numbers and one time; row i of `matrix` is a frame."""

    sequence: int
    time_ns: int
    name: Span
    matrix: Matrix

    def __len__(self) -> int:
        return len(self.matrix)

    @cached_property
    def frames(self) -> list[bytes]:
        size, raw = self.matrix.shape[1], self.matrix.tobytes()
        return [raw[at : at + size] for at in range(0, len(raw), size)]

    @cached_property
    def senders(self) -> list[str]:
        return texts(self.matrix, self.name)

    def since(self, sequence: int) -> "Batch":
        """The frames from this number on."""
        return replace(self, sequence=sequence, matrix=self.matrix[sequence - self.sequence :])

    @cached_property
    def payload(self) -> bytes:
        first = self.matrix[0]
        places = np.flatnonzero((self.matrix != first).any(axis=0))
        name = [self.name.start, self.name.end - self.name.start]
        rows = self.matrix[1:, places]
        return pack([self.sequence, self.time_ns, name, first.tobytes(), places.astype(np.uint16), rows])


def is_batch(value: Any) -> bool:
    """Whether a value that was unpacked has the parts of a batch; `read_batch` says whether they are right."""
    return isinstance(value, tuple) and [type(each) for each in value] == [
        int,
        int,
        tuple,
        bytes,
        np.ndarray,
        np.ndarray,
    ]


def read_batch(value: tuple[Any, ...]) -> Batch:
    """The batch, or RemoteProtocolError naming what is wrong with it."""
    sequence, time_ns, name, frame, places, rows = value
    if sequence < 0 or not 0 <= time_ns < 2**63 or not SMALLEST_FRAME <= len(frame) <= LARGEST:
        raise RemoteProtocolError(f"a batch of frames of {len(frame)} bytes at {time_ns} ns")
    if places.dtype != np.uint16 or places.ndim != 1 or not len(places) or rows.dtype != np.uint8 or rows.ndim != 2:
        raise RemoteProtocolError("a batch without places and rows")
    if int(places[-1]) >= len(frame) or (places[1:] <= places[:-1]).any():
        raise RemoteProtocolError("a batch whose places do not increase, or are not in its frames")
    if not len(rows) or rows.shape[1] != len(places) or (len(rows) + 1) * len(frame) > LARGEST_FRAME:
        raise RemoteProtocolError(f"a batch with rows of shape {rows.shape} for {len(places)} places")
    first = np.frombuffer(frame, np.uint8)
    if not (rows != first[places]).any(axis=0).all():
        raise RemoteProtocolError("a batch with a place at which all its frames are the same")
    if [type(each) for each in name] != [int, int] or name[0] < 0 or not 0 < name[1] <= len(frame) - name[0]:
        raise RemoteProtocolError("a batch whose frames do not hold the names of their senders")
    matrix = np.tile(first, (len(rows) + 1, 1))
    matrix[1:, places] = rows
    batch = Batch(sequence=sequence, time_ns=time_ns, name=Span(name[0], name[0] + name[1]), matrix=matrix)
    for sender in set(batch.senders):
        if not NAME.fullmatch(sender):
            raise RemoteProtocolError(f"a batch with a message from {sender[:80]!r}")
    return batch


def open_delivery(sealed: bytes) -> tuple[int, str, bytes] | Batch:
    """What the board delivers: number, sender and frame of a message, or a batch of them. RemoteProtocolError."""
    content = open_sealed(sealed)
    if is_batch(content):
        return read_batch(content)
    if not isinstance(content, tuple) or [type(each) for each in content] != [int, str, bytes]:
        raise RemoteProtocolError("a delivery that holds neither number, sender and frame nor a batch")
    return content
