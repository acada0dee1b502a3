"""Messages to bytes and back: strict, canonical, bounded. The only file that imports msgpack.

A frame is a msgpack array `[tag, field, field, ...]` in the order of the message's fields, then the signature of who
said it (64 bytes, or none where nobody signs), then four bytes of CRC-32.

Arrays travel as extension type 1: dtype code, number of dimensions, dimensions (u32), little-endian data.
Numbers, lengths and heads are in their shortest form and the keys of a map increase, so that one message has exactly
one encoding: equal messages are equal bytes, and `decode` refuses every other spelling.

A small body is read by msgpack, written again and compared, which is several times faster than reading its heads one by
one. A body that is large, or that does not come out the same, goes through `canonical.extent`, which believes no head
and names what is wrong.
"""

import math
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from itertools import pairwise
from typing import Any, get_type_hints

import msgpack
import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import LocalProtocolError, RemoteProtocolError
from parley.emulator.wire import messages as wire
from parley.emulator.wire.canonical import ARRAY, DEEPEST, MOST_ITEMS, extent, pack_users, reader
from parley.emulator.wire.signatures import SIGNATURE_BYTES, Signer, verify

FORMAT = 2
LARGEST_FRAME = 64 * 2**20
# What msgpack may read before its heads were looked at: what these bounds let a hostile body allocate is harmless.
SMALL_BODY = 1024
SMALL_COUNT = 64
USUAL_BUNDLE = 2 * 2**20
# The first number of a bundle; messages count their tags from 0.
BUNDLE = 255
_BUNDLE_NUMBER = b"\xcc\xff"
DTYPES = ("|u1", "<u2", "<u4", "<u8", "|i1", "<i2", "<i4", "<i8", "<f4", "<f8", "|b1")
_DTYPES = tuple(map(np.dtype, DTYPES))
_CODE = {dtype: code for code, dtype in enumerate(_DTYPES)}
_SHAPES = tuple(struct.Struct(f"<{dimensions}I") for dimensions in range(4))
_PLAIN = frozenset((int, str, bytes, bool, type(None)))
# Making one takes longer than packing a short list.
_PACKER = msgpack.Packer(use_bin_type=True)
_TAGS: dict[type[wire.Message], int] = {kind: tag for tag, kind in enumerate(wire.MESSAGES)}
# Where numbers of users stand in a frame of replies, in either format.
_USERS = [each.name for each in fields(wire.Replies)].index("users")


def learn_fields() -> None:
    """Work out now how every kind of message is read and written, for all who are forked from this process."""
    for tag in range(len(wire.MESSAGES)):
        _fields(tag)


def encode(message: wire.Message, signer: Signer | None = None, nonce: bytes = b"", *, format: int = FORMAT) -> bytes:
    """The one encoding of a message, signed where there is a signer; `nonce` is the run's."""
    tag = _TAGS[type(message)]
    values = [(getattr(message, name), is_users) for name, is_users, _ in _fields(tag, format)]
    body = pack([tag, *(pack_users(value, format) if is_users else value for value, is_users in values)])
    if len(body) + SIGNATURE_BYTES + 4 > LARGEST_FRAME:
        raise LocalProtocolError(f"{message.kind} of {len(body)} bytes is larger than a frame may be")
    return seal(body if signer is None else body + signer.sign(message.kind, _bound(message, nonce), body))


def decode(frame: bytes, *, format: int = FORMAT, recorded: bool = False) -> wire.Message:
    """The message a frame holds, whoever signed it, or RemoteProtocolError naming what is wrong with it.

    `recorded`: the first records of format 2 write numbers of users in longer forms.
    """
    if not 5 <= len(frame) <= LARGEST_FRAME:
        raise RemoteProtocolError(f"a frame of {len(frame)} bytes")
    body = _unsum(frame)
    small = _read_small(body)
    if small is None or len(body) - small[1] not in _signature_sizes(format):
        content = _unpack(_unsigned(body, format)[0])
    else:
        content = small[0]
    if not isinstance(content, tuple) or not content or type(content[0]) is not int:
        raise RemoteProtocolError("a frame that is not a tagged array")
    tag, *values = content
    if not 0 <= tag < (len(wire.MESSAGES) if format > 1 else wire.KINDS_OF_FORMAT_1):
        raise RemoteProtocolError(f"a message with the unknown tag {tag}")
    kind, readers = wire.MESSAGES[tag], _fields(tag, format, recorded)
    if len(values) != len(readers):
        raise RemoteProtocolError(f"{kind.kind}: {len(values)} fields instead of {len(readers)}")
    if kind is wire.Replies:
        _check_room(values[_USERS], len(body))
    return kind(**{name: read(value) for (name, _, read), value in zip(readers, values, strict=True)})


def _check_room(users: Any, room: int) -> None:
    """A reply takes a byte at least; two numbers could claim a million users before anybody has looked for replies."""
    if isinstance(users, tuple) and users and type(users[-1]) is int and users[-1] > room:
        raise RemoteProtocolError(f"replies of {users[-1]} users in {room} bytes")


def said_by(public: bytes, frame: bytes, message: wire.Message, nonce: bytes) -> bool:
    """Whether the holder of this key signed this frame, which holds this message, in the run with this nonce."""
    body, signature = _unsigned(_unsum(frame), FORMAT)
    return verify(public, signature.tobytes(), message.kind, _bound(message, nonce), body)


def _bound(message: wire.Message, nonce: bytes) -> bytes:
    """The nonce a signature is bound to: none for what is said before or without one, its own for what carries one.

    An abort carries its nonce because it must end those too who have heard no setup, or refused it, and know none.
    """
    if isinstance(message, wire.Setup | wire.Abort | wire.Seating):
        return message.nonce
    return b"" if isinstance(message, wire.Ready | wire.Roster | wire.Pledge | wire.Shard) else nonce


def is_signed(frame: bytes) -> bool:
    """Whether the frame bears a signature at all, be it right or wrong."""
    return len(_unsigned(_unsum(frame), FORMAT)[1]) > 0


def is_whole(frame: bytes) -> bool:
    """Whether the frame came as it was sent: what is wrong with it is then its sender's doing, not the network's."""
    return len(frame) >= 5 and zlib.crc32(memoryview(frame)[:-4]).to_bytes(4, "little") == frame[-4:]


def _unsigned(body: memoryview, format: int) -> tuple[memoryview, memoryview]:
    """The value of a frame and the signature behind it, which may be empty; format 1 has none."""
    end = extent(body)
    if len(body) - end not in _signature_sizes(format):
        raise RemoteProtocolError(f"{len(body)} bytes for a value of {end}, and what follows is not a signature")
    return body[:end], body[end:]


def _signature_sizes(format: int) -> tuple[int, ...]:
    return (0, SIGNATURE_BYTES) if format > 1 else (0,)


def bundle(frames: Sequence[bytes]) -> bytes:
    """Several frames as one, for the way through a relay; it is taken apart before anything is judged."""
    return seal(msgpack.packb([BUNDLE, *frames], use_bin_type=True))


def unbundle(frame: bytes) -> tuple[bytes, ...]:
    """The frames of a bundle; any other frame alone, as it is. RemoteProtocolError: a bundle of something else."""
    if not is_bundle(frame):
        return (frame,)
    body = _unsum(frame)
    content = _read_bundle(body) or unpack(body)
    if not isinstance(content, tuple) or not all(type(each) is bytes for each in content[1:]):
        raise RemoteProtocolError("a bundle that does not hold frames")
    return content[1:]


def is_bundle(frame: bytes) -> bool:
    """Whether a frame begins as a bundle does: the head of an array, then the number that no message has as its tag."""
    if _BUNDLE_NUMBER not in frame[:7] or len(frame) > LARGEST_FRAME:
        return False
    start = {0xDC: 3, 0xDD: 5}.get(frame[0], 1)
    return frame[start : start + 2] == _BUNDLE_NUMBER


def _read_bundle(body: memoryview) -> tuple[Any, ...] | None:
    """What a bundle of usual size holds, if it is written as the same bytes again; None: `unpack` must look at it."""
    if len(body) > USUAL_BUNDLE:
        return None
    try:
        content = msgpack.unpackb(body, use_list=False, raw=False, max_array_len=MOST_ITEMS, max_map_len=0)
    except (ValueError, TypeError, OverflowError, msgpack.exceptions.UnpackException):
        return None
    plain = type(content) is tuple and all(type(each) is bytes for each in content[1:])
    return content if plain and _PACKER.pack(content) == body else None


def envelope(sequence: int, sender: str, frame: bytes) -> bytes:
    """A recorded frame on its way out: its number on the record and who sent it."""
    return seal(pack_plain([sequence, sender, frame]))


def open_sealed(sealed: bytes) -> Any:
    """The value of a stranger behind its checksum, as `unpack` reads it, or RemoteProtocolError."""
    return unpack(_unsum(sealed))


def open_envelope(sealed: bytes) -> tuple[int, str, bytes]:
    """Number, sender and frame, or RemoteProtocolError."""
    content = open_sealed(sealed)
    if not isinstance(content, tuple) or [type(each) for each in content] != [int, str, bytes]:
        raise RemoteProtocolError("an envelope that does not hold number, sender and frame")
    return content


def seal(body: bytes) -> bytes:
    """A packed value with its checksum."""
    return body + zlib.crc32(body).to_bytes(4, "little")


def _unsum(frame: bytes) -> memoryview:
    """The body of a frame whose checksum is right. A network may spoil a byte; it must not become another value."""
    body = memoryview(frame)[:-4]
    if zlib.crc32(body).to_bytes(4, "little") != frame[-4:]:
        raise RemoteProtocolError("a frame whose checksum does not match its bytes")
    return body


def pack(value: Any) -> bytes:
    """Bytes of plain values (no message): headers and journals."""
    try:
        packed: bytes = msgpack.packb(_pack(value), use_bin_type=True)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise LocalProtocolError(f"a value that cannot be sent: {error}"[:200]) from error
    return packed


def pack_plain(values: Sequence[int | str | bytes]) -> bytes:
    """The same for a list of numbers, texts and bytes, of which nothing else needs to be known."""
    packed: bytes = _PACKER.pack(values)
    return packed


def unpack(body: bytes | memoryview) -> Any:
    """Plain values from bytes of a stranger: in their one form, bounded, no map keys but text, nothing left over."""
    small = _read_small(body)
    if small is not None and small[1] == len(body) and _is_shallow(small[0], DEEPEST + 1):
        return small[0]
    if extent(body) != len(body):
        raise RemoteProtocolError(f"{len(body)} bytes for a value of {extent(body)}")
    return _unpack(body)


def _read_small(body: bytes | memoryview) -> tuple[Any, int] | None:
    """The value that starts a small body, in its one form, and where it ends; None: `extent` must look at it.

    Bytes are in their one form if the value they hold is written as the same bytes. Its depth is not checked.
    """
    if len(body) > SMALL_BODY:
        return None
    whole, end, arrays = bytes(body), len(body), _Arrays()
    try:
        try:
            value = msgpack.unpackb(whole, ext_hook=arrays.read, **_SMALL)
        except msgpack.ExtraData as error:
            value, end = error.unpacked, end - len(error.extra)
        arrays.reverse()
        written = msgpack.packb(value, default=arrays.write)
    except (ValueError, TypeError, OverflowError, msgpack.exceptions.UnpackException):
        return None
    return (value, end) if written == whole[:end] else None


class _Arrays(list[msgpack.ExtType]):
    """The arrays of one value as they came: they are written in the order in which they were read."""

    def read(self, code: int, data: bytes) -> NDArray[Any]:
        self.append(msgpack.ExtType(code, data))
        return _unpack_array(code, data)

    def write(self, _: NDArray[Any]) -> msgpack.ExtType:
        return self.pop()


def _read_small_map(value: dict[Any, Any]) -> dict[str, Any]:
    """A map as it is if its keys are text and increase. A key that came twice is missing when the map is written."""
    names = list(value)
    if not all(type(name) is str for name in names) or names != sorted(names):
        raise ValueError("a map whose keys are not text, or do not increase")
    return value


_SMALL: dict[str, Any] = {
    "object_hook": _read_small_map,
    "raw": False,
    "strict_map_key": True,
    "use_list": False,
    # msgpack has an extension of its own for points in time: as a number it is written otherwise, and so refused.
    "timestamp": 1,
    "max_array_len": SMALL_COUNT,
    "max_map_len": SMALL_COUNT,
}


def _is_shallow(value: Any, depth: int) -> bool:
    """Whether a value nests at most so many lists and maps."""
    if type(value) is tuple:
        return depth > 0 and all(_is_shallow(each, depth - 1) for each in value if type(each) in (tuple, dict))
    if type(value) is dict:
        return depth > 0 and all(_is_shallow(each, depth - 1) for each in value.values())
    return True


def _unpack(body: bytes | memoryview) -> Any:
    try:
        return msgpack.unpackb(
            body,
            ext_hook=_unpack_array,
            object_pairs_hook=_unpack_map,
            raw=False,
            strict_map_key=True,
            use_list=False,
            **dict.fromkeys(("max_str_len", "max_bin_len", "max_ext_len", "max_array_len", "max_map_len"), len(body)),
        )
    except (ValueError, TypeError, OverflowError, msgpack.exceptions.UnpackException) as error:
        raise RemoteProtocolError(f"bytes that are not a value: {error}"[:200]) from error


@cache
def _fields(
    tag: int, format: int = FORMAT, recorded: bool = False
) -> tuple[tuple[str, bool, Callable[[Any], Any]], ...]:
    """For each field of a message: its name, whether it holds numbers of users, how it is read."""
    kind, hints = wire.MESSAGES[tag], get_type_hints(wire.MESSAGES[tag])
    names = [each.name for each in fields(kind) if format > 1 or each.name not in kind.since_format_2]
    readers = [reader(hints[name], f"{kind.kind}: {name}", format, recorded) for name in names]
    return tuple((name, hints[name] == wire.Users, read) for name, read in zip(names, readers, strict=True))


def packed_parts(fields: Mapping[str, Any]) -> Iterator[bytes | memoryview]:
    """The bytes of `pack(fields)`, piece by piece: a large array is a view of its numbers and not copied."""
    yield msgpack.Packer().pack_map_header(len(fields))
    for name in sorted(fields):
        value = fields[name]
        yield pack(name)
        # Msgpack takes its widest head for extensions from here on.
        if isinstance(value, np.ndarray) and value.nbytes >= 2**16:
            head, data = _array_parts(value)
            yield b"\xc9" + struct.pack(">IB", len(head) + data.nbytes, ARRAY) + head
            yield np.ascontiguousarray(data).data.cast("B")
        else:
            yield pack(value)


def _pack(value: Any) -> Any:
    if type(value) in _PLAIN:
        return value
    if isinstance(value, np.ndarray):
        head, data = _array_parts(value)
        return msgpack.ExtType(ARRAY, head + data.tobytes())
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise LocalProtocolError(f"the key {name!r:.80} cannot be sent: it is not text")
        return {name: _pack(value[name]) for name in sorted(value)}
    if isinstance(value, tuple | list):
        return [_pack(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        raise LocalProtocolError(f"{value} cannot be sent: it is not finite")
    return value


def _array_parts(array: NDArray[Any]) -> tuple[bytes, NDArray[Any]]:
    """The head of an array that travels, and its little-endian numbers."""
    code = _CODE.get(array.dtype.newbyteorder("<"))
    if code is None or array.ndim > 3 or max(array.shape, default=0) >= 2**32:
        raise LocalProtocolError(f"an array of {array.dtype} with the shape {array.shape} cannot be sent")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise LocalProtocolError("an array that holds a value which is not finite cannot be sent")
    head = struct.pack(f"<BB{array.ndim}I", code, array.ndim, *array.shape)
    return head, array.astype(DTYPES[code], copy=False)


def _unpack_array(code: int, data: bytes) -> NDArray[Any]:
    if code != ARRAY or len(data) < 2 or data[0] >= len(DTYPES) or data[1] > 3:
        raise ValueError("an extension that is not an array")
    dtype, start = _DTYPES[data[0]], 2 + 4 * data[1]
    if len(data) < start:
        raise ValueError("an array without its dimensions")
    shape = _SHAPES[data[1]].unpack_from(data, 2)
    if math.prod(shape) * dtype.itemsize != len(data) - start:
        raise ValueError(f"an array of shape {shape} in {len(data) - start} bytes")
    if dtype.kind == "b" and any(byte > 1 for byte in set(data[start:])):
        raise ValueError("a truth value that is neither 0 nor 1")
    array = np.frombuffer(data, dtype, offset=start)
    return array if len(shape) == 1 else array.reshape(shape)


def _unpack_map(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
    """A map from its pairs, whose keys are text and increase: no key twice, one order for equal maps."""
    names = [name for name, _ in pairs]
    if not all(isinstance(name, str) for name in names):
        raise ValueError("a map whose keys are not text")
    if any(name >= after for name, after in pairwise(names)):
        raise ValueError("a map whose keys do not increase")
    return dict(pairs)
