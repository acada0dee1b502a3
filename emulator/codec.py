"""Messages to bytes and back: strict, canonical, bounded. The only file that imports msgpack.

A frame is a msgpack array `[tag, field, field, ...]` in the order of the message's fields, then four bytes of
CRC-32. Arrays travel as extension type 1: dtype code, number of dimensions, dimensions (u32), little-endian data.
One message has exactly one encoding, so equal messages are equal bytes.
"""

import math
import struct
import zlib
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

import msgpack
import numpy as np
from numpy.typing import NDArray

from emulator.errors import LocalProtocolError, RemoteProtocolError
from emulator.messages import LONGEST_TEXT, MESSAGES, Message, Users

LARGEST_FRAME = 64 * 2**20
MOST_USERS = 2**20
DEEPEST = 8
ARRAY = 1
DTYPES = ("|u1", "<u2", "<u4", "<u8", "|i1", "<i2", "<i4", "<i8", "<f4", "<f8", "|b1")
_CODE = {np.dtype(name): code for code, name in enumerate(DTYPES)}


def encode(message: Message) -> bytes:
    """The one encoding of a message."""
    tag = MESSAGES.index(type(message))
    values = [
        _pack_users(getattr(message, name)) if hint is Users else _pack(getattr(message, name))
        for name, hint in _hints(tag).items()
    ]
    body: bytes = msgpack.packb([tag, *values], use_bin_type=True)
    if len(body) + 4 > LARGEST_FRAME:
        raise LocalProtocolError(f"{message.kind} of {len(body)} bytes is larger than a frame may be")
    return body + zlib.crc32(body).to_bytes(4, "little")


def decode(frame: bytes) -> Message:
    """The message a frame holds, or RemoteProtocolError naming what is wrong with it."""
    if not 5 <= len(frame) <= LARGEST_FRAME:
        raise RemoteProtocolError(f"a frame of {len(frame)} bytes")
    body = memoryview(frame)[:-4]
    if zlib.crc32(body).to_bytes(4, "little") != frame[-4:]:
        raise RemoteProtocolError("a frame whose checksum does not match its bytes")
    tag, values = _split(unpack(body))
    kind = MESSAGES[tag]
    hints = _hints(tag)
    if len(values) != len(hints):
        raise RemoteProtocolError(f"{kind.kind}: {len(values)} fields instead of {len(hints)}")
    arguments = {
        name: _conform(f"{kind.kind}: {name}", hint, value)
        for (name, hint), value in zip(hints.items(), values, strict=True)
    }
    return kind(**arguments)


def envelope(sequence: int, sender: str, frame: bytes) -> bytes:
    """A recorded frame on its way out: its number on the record and who sent it."""
    sealed: bytes = msgpack.packb([sequence, sender, frame], use_bin_type=True)
    return sealed


def open_envelope(sealed: bytes) -> tuple[int, str, bytes]:
    """Number, sender and frame, or RemoteProtocolError."""
    content = unpack(sealed)
    if not isinstance(content, tuple) or [type(each) for each in content] != [int, str, bytes]:
        raise RemoteProtocolError("an envelope that does not hold number, sender and frame")
    return content


def pack(value: Any) -> bytes:
    """Bytes of plain values (no message): headers and journals."""
    packed: bytes = msgpack.packb(_pack(value), use_bin_type=True)
    return packed


def unpack(body: bytes | memoryview) -> Any:
    """Plain values from bytes of a stranger: bounded, no map keys but text, nothing left over."""
    size = len(body)
    try:
        return msgpack.unpackb(
            body,
            ext_hook=_unpack_array,
            raw=False,
            strict_map_key=True,
            use_list=False,
            max_str_len=min(size, LARGEST_FRAME),
            max_bin_len=min(size, LARGEST_FRAME),
            max_ext_len=min(size, LARGEST_FRAME),
            max_array_len=size,
            max_map_len=size,
        )
    except (ValueError, TypeError, RecursionError, msgpack.exceptions.UnpackException) as error:
        raise RemoteProtocolError(f"bytes that are not msgpack: {error}"[:200]) from error


def _split(content: Any) -> tuple[int, tuple[Any, ...]]:
    if not isinstance(content, tuple) or not content or type(content[0]) is not int:
        raise RemoteProtocolError("a frame that is not a tagged array")
    if not 0 <= content[0] < len(MESSAGES):
        raise RemoteProtocolError(f"a message with the unknown tag {content[0]}")
    return content[0], content[1:]


@cache
def _hints(tag: int) -> dict[str, Any]:
    hints = get_type_hints(MESSAGES[tag])
    return {each.name: hints[each.name] for each in fields(MESSAGES[tag])}


def _pack(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _pack_array(value)
    if isinstance(value, Mapping):
        return {name: _pack(each) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return [_pack(each) for each in value]
    if isinstance(value, np.generic):
        return value.item()
    return value


def _pack_array(array: NDArray[Any]) -> Any:
    plain = np.ascontiguousarray(array).reshape(array.shape)
    code = _CODE.get(plain.dtype.newbyteorder("<"))
    if code is None or plain.ndim > 3:
        raise LocalProtocolError(f"an array of {plain.dtype} with {plain.ndim} dimensions cannot be sent")
    head = struct.pack(f"<BB{plain.ndim}I", code, plain.ndim, *plain.shape)
    return msgpack.ExtType(ARRAY, head + plain.astype(DTYPES[code], copy=False).tobytes())


def _pack_users(users: NDArray[np.int64]) -> Any:
    """Increasing numbers: (first, count) where they are consecutive, else (first, offsets)."""
    if len(users) == 0:
        return [0, 0]
    first, last = int(users[0]), int(users[-1])
    if last - first == len(users) - 1:
        return [first, len(users)]
    return [first, _pack_array((users - first).astype(np.uint32))]


def _users(where: str, value: Any) -> NDArray[np.int64]:
    if not isinstance(value, tuple) or len(value) != 2 or type(value[0]) is not int or not 0 <= value[0] < 2**62:
        raise RemoteProtocolError(f"{where} is not a first number and a count or offsets")
    first, rest = value
    if type(rest) is int:
        if not 0 <= rest <= MOST_USERS:
            raise RemoteProtocolError(f"{where} counts {rest} users in one frame")
        return np.arange(first, first + rest, dtype=np.int64)
    if not isinstance(rest, np.ndarray) or rest.dtype != np.uint32 or rest.ndim != 1 or len(rest) > MOST_USERS:
        raise RemoteProtocolError(f"{where} is not a first number and a count or offsets")
    if len(rest) < 2 or rest[0] != 0 or int(rest[-1]) == len(rest) - 1:
        raise RemoteProtocolError(f"{where} is not in its one canonical form")
    users: NDArray[np.int64] = rest.astype(np.int64) + first
    return users


def _unpack_array(code: int, data: bytes) -> NDArray[Any]:
    if code != ARRAY or len(data) < 2 or data[0] >= len(DTYPES) or data[1] > 3:
        raise ValueError("an extension that is not an array")
    dtype, dimensions = np.dtype(DTYPES[data[0]]), data[1]
    start = 2 + 4 * dimensions
    if len(data) < start:
        raise ValueError("an array without its dimensions")
    shape = struct.unpack_from(f"<{dimensions}I", data, 2)
    if math.prod(shape) * dtype.itemsize != len(data) - start:
        raise ValueError(f"an array of shape {shape} in {len(data) - start} bytes")
    if dtype.kind == "b" and any(byte > 1 for byte in set(data[start:])):
        raise ValueError("a truth value that is neither 0 nor 1")
    return np.frombuffer(data, dtype, offset=start).reshape(shape)


def _conform(where: str, hint: Any, value: Any) -> Any:
    """`value` if it is exactly what the field is declared to hold."""
    origin = get_origin(hint)
    if hint is Users:
        return _users(where, value)
    if hint in (str, int, float):
        return _scalar(where, hint, value)
    if origin is np.ndarray:
        return _array(where, value)
    if origin is tuple:
        item = get_args(hint)[0]
        if not isinstance(value, tuple):
            raise RemoteProtocolError(f"{where} is not a list")
        return tuple(_conform(where, item, each) for each in value)
    if origin is not None and issubclass(Mapping, origin):
        return _mapping(where, get_args(hint)[1], value)
    if hint is Any:
        return _plain(where, value, DEEPEST)
    return _scalar(where, str, value)


def _scalar(where: str, kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise RemoteProtocolError(f"{where} should be {kind.__name__}, got {type(value).__name__}")
    return value


def _array(where: str, value: Any) -> NDArray[Any]:
    if not isinstance(value, np.ndarray):
        raise RemoteProtocolError(f"{where} should be an array, got {type(value).__name__}")
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        raise RemoteProtocolError(f"{where} holds a value that is not finite")
    return value


def _mapping(where: str, item: Any, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RemoteProtocolError(f"{where} should be a map, got {type(value).__name__}")
    for name in value:
        if not isinstance(name, str) or len(name) > 64:
            raise RemoteProtocolError(f"{where} has a key that is not a short text")
    return {name: _conform(f"{where}.{name}", item, each) for name, each in value.items()}


def _plain(where: str, value: Any, depth: int) -> Any:
    """Plain data of bounded depth: what parameters and details may hold."""
    if depth == 0:
        raise RemoteProtocolError(f"{where} is nested too deeply")
    if isinstance(value, dict):
        return {_scalar(where, str, name): _plain(where, each, depth - 1) for name, each in value.items()}
    if isinstance(value, tuple):
        return tuple(_plain(where, each, depth - 1) for each in value)
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise RemoteProtocolError(f"{where} holds a value that is not finite")
        return value
    if isinstance(value, float) and not math.isfinite(value):
        raise RemoteProtocolError(f"{where} is not finite")
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        raise RemoteProtocolError(f"{where} is {len(value)} characters long")
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise RemoteProtocolError(f"{where} holds a {type(value).__name__}")
