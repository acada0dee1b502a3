"""Replies of one shape: frames that differ only in who speaks, for whom, and what is said.

```
   99 04 a9 benchmark 01 a6 node-2 cd 01 2c cd 01 f4 92 cd 05 14 01 81 a6 v.step c7 .. 55 00 00 00 c4 20 ..... crc
   fixed                    ^^^^^^    ^^^^^    ^^^^^       ^^^^^                       ^^^^^^^^^^^^             ^^^
                            node      chunk    chunks      first user                  column                  checksum
```

One frame of a shape is decoded carefully, which says where its fields lie. Another frame of the same size is in its one
valid encoding, and of the same shape, if its fixed bytes are the same and each hole holds what may stand there. So many
frames are checked at once, in columns, as strictly as `decode` checks each of them.
"""

import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import RemoteProtocolError
from parley.emulator.randomizer import Columns
from parley.emulator.wire.codec import decode, pack
from parley.emulator.wire.messages import LARGEST_COUNT, NAME, Message, Replies

# Larger frames carry many replies, and what is done once for each of them does not count.
LARGEST = 1024
# Fewer frames than this are not worth a shape.
FEWEST = 8
# Shapes that are tried for frames of one size, and sizes of which shapes are remembered.
MOST_SHAPES, MOST_SIZES = 4, 64
CHECKSUM = 4
# What CRC-32 gives for any bytes that are followed by their own CRC-32.
RESIDUE = 0x2144DF1C
Matrix = NDArray[np.uint8]
"""Frames of one size, one per row."""


class Span(NamedTuple):
    """Bytes of a frame."""

    start: int
    end: int


class Count(NamedTuple):
    """A number in a frame: its bytes without the head, and the least that may stand there."""

    start: int
    end: int
    least: int

    @property
    def most(self) -> int:
        return 127 if self.least == 0 else LARGEST_COUNT - 1

    def read(self, frames: Matrix) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The number in each frame, and whether it is one in its shortest form."""
        width = self.end - self.start
        raw = np.ascontiguousarray(frames[:, self.start : self.end]).view(f">u{width}")[:, 0].astype(np.uint64)
        fits = (raw >= self.least) & (raw <= self.most)
        return np.where(fits, raw, 0).astype(np.int64), fits


class Column(NamedTuple):
    """A column in a frame: its data, their type, and their shape with the number of users first."""

    start: int
    end: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Shape:
    """What all frames of a shape have in common, and where they differ."""

    size: int
    run: str
    round: int
    question: bytes
    users: int
    node: Span
    chunk: Count
    chunks: Count
    first: Count
    columns: dict[str, Column]
    fixed: tuple[tuple[int, int, bytes], ...]

    @classmethod
    def of(cls, frame: bytes, message: Message) -> "Shape | None":
        """The shape of a frame that holds this message; None if it is not a small one with consecutive users."""
        if not isinstance(message, Replies) or len(frame) > LARGEST:
            return None
        count = len(message.users)
        if not count or int(message.users[-1]) - int(message.users[0]) != count - 1:
            return None
        # The head of the array, the tag, the name of the run, the round; then the head of the node's name.
        at = len(pack([4, message.run, message.round]))
        node = Span(at + len(pack(message.node)) - len(message.node), at + len(pack(message.node)))
        chunk = _count(node.end, message.chunk)
        chunks = _count(chunk.end, message.chunks)
        first = _count(chunks.end + 1, int(message.users[0]))
        at = (
            first.end
            + len(pack(count))
            + len(pack(dict.fromkeys(message.columns)))
            - sum(len(pack(name)) + 1 for name in message.columns)
        )
        columns: dict[str, Column] = {}
        for name in sorted(message.columns):
            column = message.columns[name]
            at += len(pack(name)) + len(pack(column))
            columns[name] = Column(at - column.nbytes, at, column.dtype, column.shape)
        end = at + len(pack(message.question))
        holes = [node, chunk[:2], chunks[:2], first[:2], *(column[:2] for column in columns.values())]
        stretches = pairwise([0, *(place for hole in holes for place in hole), end])
        fixed = tuple((start, stop, frame[start:stop]) for start, stop in list(stretches)[::2])
        return cls(
            size=len(frame),
            run=message.run,
            round=message.round,
            question=message.question,
            users=count,
            node=node,
            chunk=chunk,
            chunks=chunks,
            first=first,
            columns=columns,
            fixed=fixed,
        )

    @cached_property
    def _layout(self) -> tuple[struct.Struct, tuple[bytes, ...]]:
        """How one frame is taken apart, data of columns left out, and what its fixed stretches hold."""
        holes = [f"{self.node.end - self.node.start}s", *map(_code, (self.chunk, self.chunks, self.first))]
        holes += [f"{column.end - column.start}x" for column in self.columns.values()]
        stretches = [f"{end - start}s" for start, end, _ in self.fixed]
        layout = "".join(part for pair in zip(stretches, [*holes, ""], strict=True) for part in pair)
        return struct.Struct(f">{layout}"), tuple(expected for _, _, expected in self.fixed)

    @cached_property
    def _plain(self) -> list[tuple[str, int, np.dtype[Any], int, tuple[int, ...] | None]]:
        """The columns: name, where its data start, their type and number, and their shape if there are several
        dimensions."""
        return [
            (name, start, dtype, (end - start) // dtype.itemsize, shape if len(shape) > 1 else None)
            for name, (start, end, dtype, shape) in self.columns.items()
        ]

    def read(self, frame: bytes) -> Replies | None:
        """The message of one frame if it is of this shape, else None."""
        if len(frame) != self.size or zlib.crc32(frame) != RESIDUE:
            return None
        layout, expected = self._layout
        found = layout.unpack_from(frame)
        if found[:8:2] + found[8:] != expected:
            return None
        _, name, _, chunk, _, chunks, _, first = found[:8]
        node = name.decode("latin-1")
        shortest = chunk >= self.chunk.least and chunks >= self.chunks.least and first >= self.first.least
        if not shortest or not chunk < chunks <= self.chunks.most or first > self.first.most or chunk > self.chunk.most:
            return None
        if not NAME.fullmatch(node):
            return None
        columns: dict[str, NDArray[Any]] = {}
        for name, start, dtype, count, shape in self._plain:
            column = np.frombuffer(frame, dtype, count, start)
            if dtype.kind in "bf" and not _holds(column):
                return None
            columns[name] = column if shape is None else column.reshape(shape)
        # All that a message checks when it is made was checked here.
        message: Replies = object.__new__(Replies)
        fields = {
            "run": self.run,
            "round": self.round,
            "node": node,
            "chunk": chunk,
            "chunks": chunks,
            "users": np.arange(first, first + self.users, dtype=np.int64),
            "columns": columns,
            "question": self.question,
        }
        object.__setattr__(message, "__dict__", fields)
        return message

    def fits(self, frames: Matrix) -> NDArray[np.bool_]:
        """Which of these frames, all of this size and with good checksums, are of this shape."""
        good = np.ones(len(frames), np.bool_)
        for start, end, expected in self.fixed:
            good &= (frames[:, start:end] == np.frombuffer(expected, np.uint8)).all(axis=1)
        names = _NAMES[frames[:, self.node.start : self.node.end]]
        good &= (names[:, 0] == _FIRST) & (names != 0).all(axis=1)
        chunk, of, first = (count.read(frames) for count in (self.chunk, self.chunks, self.first))
        good &= chunk[1] & of[1] & first[1] & (chunk[0] < of[0])
        for start, end, dtype, _ in self.columns.values():
            if dtype.kind == "b":
                good &= (frames[:, start:end] <= 1).all(axis=1)
            elif dtype.kind == "f":
                good &= np.isfinite(np.ascontiguousarray(frames[:, start:end]).view(dtype)).all(axis=1)
        return good


@dataclass(frozen=True, kw_only=True, eq=False)
class Alike:
    """Frames of one shape, in columns: row i of `frames` is a frame, `places[i]` its place among those that came."""

    shape: Shape
    frames: Matrix
    places: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.frames)

    def take(self, rows: NDArray[np.bool_] | Sequence[int]) -> "Alike":
        return replace(self, frames=self.frames[rows], places=self.places[rows])

    @cached_property
    def nodes(self) -> list[str]:
        return texts(self.frames, self.shape.node)

    @cached_property
    def chunk(self) -> NDArray[np.int64]:
        return self.shape.chunk.read(self.frames)[0]

    @cached_property
    def chunks(self) -> NDArray[np.int64]:
        return self.shape.chunks.read(self.frames)[0]

    @cached_property
    def first(self) -> NDArray[np.int64]:
        return self.shape.first.read(self.frames)[0]

    @cached_property
    def users(self) -> NDArray[np.int64]:
        """The users of all frames, one after the other."""
        return (self.first[:, None] + np.arange(self.shape.users)).reshape(-1)

    @cached_property
    def columns(self) -> Columns:
        """Row i is the reply of users[i]."""
        found: dict[str, NDArray[Any]] = {}
        for name, (start, end, dtype, shape) in self.shape.columns.items():
            data = np.ascontiguousarray(self.frames[:, start:end])
            found[name] = data.reshape(-1).view(dtype).reshape(len(self) * shape[0], *shape[1:])
        return found


class Shapes:
    """The shapes of late: a stream of replies has few of them."""

    def __init__(self, *, recorded: bool = False) -> None:
        """`recorded`: they are of a record, which may be one of the first of its format."""
        self._recorded = recorded
        self._known: dict[int, list[Shape]] = {}

    def decode(self, frame: bytes) -> Message:
        """As `decode`, and several times faster for a frame whose shape is known."""
        for shape in self._known.get(len(frame), ()):
            found = shape.read(frame)
            if found is not None:
                return found
        message = decode(frame, recorded=self._recorded)
        self._learn(Shape.of(frame, message))
        return message

    def sort(self, frames: Sequence[bytes]) -> list[Alike]:
        """Groups of frames that are of one shape each. Frames in none of them are to be decoded one by one."""
        sizes: dict[int, list[int]] = {}
        for place, frame in enumerate(frames):
            sizes.setdefault(len(frame), []).append(place)
        found: list[Alike] = []
        for size, places in sizes.items():
            if len(places) >= FEWEST and CHECKSUM < size <= LARGEST:
                whole = [place for place in places if zlib.crc32(frames[place]) == RESIDUE]
                found += self._sort_size(frames, np.array(whole, np.intp))
        return found

    def _sort_size(self, frames: Sequence[bytes], places: NDArray[np.intp]) -> Iterable[Alike]:
        """The same for whole frames of one size. Known shapes come first: garbage must not use up the trials."""
        known = list(self._known.get(len(frames[places[0]]), ())) if len(places) else []
        for _ in range(2 * MOST_SHAPES):
            if len(places) < FEWEST:
                return
            matrix = as_matrix([frames[place] for place in places])
            if known:
                shape: Shape | None = known.pop(0)
            else:
                # From the middle: whoever comes first, again and again, does not decide for the others.
                shape = _shape_of(frames[places[len(places) // 2]])
                self._learn(shape)
            rows = np.zeros(len(places), np.bool_) if shape is None else shape.fits(matrix)
            if shape is not None and rows.sum() >= FEWEST:
                yield Alike(shape=shape, frames=matrix[rows], places=places[rows])
            elif shape is None:
                rows[len(places) // 2] = True
            places = places[~rows]

    def _learn(self, shape: Shape | None) -> None:
        if shape is None:
            return
        if len(self._known) >= MOST_SIZES and shape.size not in self._known:
            self._known.pop(next(iter(self._known)))
        self._known[shape.size] = [shape, *self._known.get(shape.size, ())][:MOST_SHAPES]


def texts(frames: Matrix, span: Span) -> list[str]:
    """The same bytes of each frame, read as text."""
    width = span.end - span.start
    whole = frames[:, span.start : span.end].tobytes().decode("latin-1")
    return [whole[at : at + width] for at in range(0, len(whole), width)]


def as_matrix(frames: Sequence[bytes]) -> Matrix:
    """Frames of one size as rows."""
    return np.frombuffer(b"".join(frames), np.uint8).reshape(len(frames), -1)


def _shape_of(frame: bytes) -> Shape | None:
    try:
        return Shape.of(frame, decode(frame))
    except RemoteProtocolError:
        return None


def _count(at: int, number: int) -> Count:
    """Where the bytes of a number are whose encoding begins here, and the least number with as long an encoding."""
    width = len(pack(number)) - 1
    return (
        Count(at, at + 1, 0) if width == 0 else Count(at + 1, at + 1 + width, 128 if width == 1 else 2 ** (4 * width))
    )


def _code(count: Count) -> str:
    """How `struct` calls a number of this width."""
    return {1: "B", 2: "H", 4: "I", 8: "Q"}[count.end - count.start]


def _holds(column: NDArray[Any]) -> bool:
    """Whether floats are finite, and truth values 0 or 1."""
    return bool(np.isfinite(column).all() if column.dtype.kind == "f" else (column.view(np.uint8) <= 1).all())


_FIRST = 2


def _name_bytes() -> NDArray[np.uint8]:
    """For each byte: 2 if a name may begin with it, 1 if it may stand in one, else 0."""
    texts = [chr(byte) for byte in range(256)]
    return np.array([_FIRST if NAME.fullmatch(text) else bool(NAME.fullmatch(f"a{text}")) for text in texts], np.uint8)


_NAMES = _name_bytes()
