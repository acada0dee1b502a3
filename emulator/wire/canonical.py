"""The one form that bytes and fields from a stranger may have.

Of msgpack bytes: one value, its parts in their shortest form, few and not too deep. That is found out by reading heads
alone, before anything is built: a few bytes can announce very many values, or nest them very deep, and a library that
believes them pays in memory. Of fields: exactly the declared type, text and keys that are not too long, numbers that
are finite, and users in the shortest of several forms.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple, get_args, get_origin

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import LocalProtocolError, RemoteProtocolError
from parley.emulator.wire.messages import LONGEST_TEXT, Users

MOST_USERS = 2**20
LONGEST_KEY = 64
MOST_ITEMS = 2**20
DEEPEST = 8
ARRAY = 1


class _Form(NamedTuple):
    """What a msgpack head byte announces: a number of `width` bytes between `least` and `most`, then so many bytes
    (`follows` times the number) or values (`holds` times the number)."""

    width: int = 0
    least: int = 0
    most: int = 2**64
    follows: int = 0
    holds: int = 0


def _forms() -> dict[int, _Form]:
    """Every head byte that may occur. Bounds leave each number and length only its shortest form."""
    forms = {head: _Form() for head in (*range(0x80), *range(0xE0, 0x100), 0xC0, 0xC2, 0xC3)}
    forms |= {0x80 + count: _Form(least=count, holds=2) for count in range(16)}
    forms |= {0x90 + count: _Form(least=count, holds=1) for count in range(16)}
    forms |= {0xA0 + count: _Form(least=count, follows=1) for count in range(32)}
    forms[0xCB] = _Form(least=8, follows=1)
    for step, width in enumerate((1, 2, 4, 8)):
        forms[0xCC + step] = _Form(width, 2 ** (4 * width) if step else 128)
        # Negative numbers: two's complement, below what half the width (or a single byte) can hold.
        half = 2 ** (4 * width - 1) if step else 32
        forms[0xD0 + step] = _Form(width, 2 ** (8 * width - 1), 2 ** (8 * width) - half - 1)
    for step, width in enumerate((1, 2, 4)):
        longer = 2 ** (4 * width)
        forms[0xC4 + step] = _Form(width, longer if step else 0, follows=1)
        forms[0xC7 + step] = _Form(width, longer if step else 0, follows=1)
        forms[0xD9 + step] = _Form(width, longer if step else 32, follows=1)
    for step, width in enumerate((2, 4)):
        forms[0xDC + step] = _Form(width, 2**16 if step else 16, holds=1)
        forms[0xDE + step] = _Form(width, 2**16 if step else 16, holds=2)
    forms |= {0xD4 + step: _Form(least=2**step, follows=1) for step in range(5)}
    return forms


_FORMS = _forms()
_EXTENSIONS = frozenset((*range(0xC7, 0xCA), *range(0xD4, 0xD9)))
_FIXED = frozenset((1, 2, 4, 8, 16))


class CutOff(RemoteProtocolError):
    """Bytes that end before the heads of their values do."""


def extent(body: bytes | memoryview) -> int:
    """Where the value that starts `body` ends, be all its bytes there or not."""
    size, at, items, pending = len(body), 0, 0, [1]
    while pending:
        if not pending[-1]:
            pending.pop()
            continue
        pending[-1] -= 1
        if at >= size:
            raise CutOff(f"{size} bytes that end in the middle of a value")
        head = body[at]
        if head not in _FORMS:
            raise RemoteProtocolError(f"byte {at} is {head:#04x}, which does not start a value")
        width, number, most, follows, holds = _FORMS[head]
        at += 1
        if width:
            least, number = number, int.from_bytes(body[at : at + width], "big")
            at += width
            if at > size:
                raise CutOff(f"{size} bytes that end in the middle of a value")
            if not least <= number <= most or (head == 0xC7 and number in _FIXED):
                raise RemoteProtocolError(f"a number or length before byte {at} is not in its shortest form")
        if holds:
            items += number * holds
            pending.append(number * holds)
            if items > MOST_ITEMS or len(pending) > DEEPEST + 2:
                raise RemoteProtocolError(f"more than {MOST_ITEMS} values in one, or values nested too deeply")
        elif follows:
            if head in _EXTENSIONS:
                if at >= size:
                    raise CutOff(f"{size} bytes that end in the middle of a value")
                if body[at] != ARRAY:
                    raise RemoteProtocolError(f"byte {at} is {body[at]}, not the extension type of an array")
                at += 1
            at += number
    return at


def pack_users(users: NDArray[np.int64], format: int) -> Any:
    """Increasing numbers: (first, count) where they are consecutive, else (first, how many are left out before each).

    Where a bit for each number takes less room, (first, bits) for those after the first. Where more than 255 are left
    out at once, and in format 1, (first, offsets) instead.
    """
    if len(users) == 0:
        return [0, 0]
    first, last = int(users[0]), int(users[-1])
    if len(users) > MOST_USERS or last - first >= 2**32:
        raise LocalProtocolError(f"{len(users)} users from {first} to {last} do not fit into one frame: send several")
    if last - first == len(users) - 1:
        return [first, len(users)]
    if format > 1 and last - first <= 8 * (len(users) - 2) and (users[1:] > users[:-1]).all():
        return [first, _bits_of_users(users)]
    gaps = np.diff(users) - 1
    if format > 1 and gaps.min() >= 0 and gaps.max() < 256:
        return [first, gaps.astype(np.uint8)]
    return [first, (users - first).astype(np.uint32)]


def _users(where: str, format: int, recorded: bool, value: Any) -> NDArray[np.int64]:
    if not isinstance(value, tuple) or len(value) != 2 or type(value[0]) is not int or not 0 <= value[0] < 2**62:
        raise RemoteProtocolError(f"{where} is not a first number and a count or offsets")
    first, rest = value
    if type(rest) is int:
        if not 0 <= rest <= MOST_USERS or (rest == 0 and first != 0):
            raise RemoteProtocolError(f"{where} counts {rest} users from {first} in one frame")
        return np.arange(first, first + rest, dtype=np.int64)
    if type(rest) is bytes and format > 1:
        return _users_of_bits(where, first, rest)
    kinds = (np.uint8, np.uint32) if format > 1 else (np.uint32,)
    if not isinstance(rest, np.ndarray) or rest.dtype not in kinds or rest.ndim != 1 or len(rest) > MOST_USERS:
        raise RemoteProtocolError(f"{where} is not a first number and a count or offsets")
    if rest.dtype == np.uint8:
        users: NDArray[np.int64] = first + np.concatenate([[0], np.cumsum(rest.astype(np.int64) + 1)])
        canonical = bool(rest.any()) and len(users) <= MOST_USERS
    else:
        users = rest.astype(np.int64) + first
        canonical = len(rest) >= 2 and rest[0] == 0 and int(rest[-1]) != len(rest) - 1
    if format > 1 and canonical and not recorded:
        shortest = pack_users(users, format)[1]
        canonical = isinstance(shortest, np.ndarray) and shortest.dtype == rest.dtype
    if not canonical:
        raise RemoteProtocolError(f"{where} is not in its one canonical form")
    return users


def _bits_of_users(users: NDArray[np.int64]) -> bytes:
    """For each number after the first user whether it is one."""
    spoken = np.zeros(int(users[-1] - users[0]), np.bool_)
    spoken[users[1:] - (users[0] + 1)] = True
    return np.packbits(spoken, bitorder="little").tobytes()


def _users_of_bits(where: str, first: int, bits: bytes) -> NDArray[np.int64]:
    """The first number, and those after it whose bit is set; refused where another form would be shorter."""
    if not 0 < len(bits) <= MOST_USERS or not bits[-1]:
        raise RemoteProtocolError(f"{where} is not in its one canonical form")
    # Truth values are found ten times faster than bytes.
    after = np.flatnonzero(np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little").view(np.bool_))
    if len(after) <= len(bits) or len(after) == after[-1] + 1 or len(after) >= MOST_USERS:
        raise RemoteProtocolError(f"{where} is not in its one canonical form")
    users: NDArray[np.int64] = np.empty(len(after) + 1, np.int64)
    users[0], users[1:] = first, after + (first + 1)
    return users


def reader(hint: Any, where: str, format: int, recorded: bool) -> Callable[[Any], Any]:
    """The function that returns a value if it is exactly what a field of this type holds."""
    origin = get_origin(hint)
    if hint == Users:
        return partial(_users, where, format, recorded)
    if hint in (str, int, float, bytes):
        return partial(_scalar, where, hint)
    if origin is Literal:
        return partial(_scalar, where, str)
    if origin is np.ndarray:
        return partial(_array, where)
    if origin is tuple:
        return partial(_tuple, where, reader(get_args(hint)[0], where, format, recorded))
    if origin is Mapping:
        return partial(_mapping, where, reader(get_args(hint)[1], where, format, recorded))
    return partial(plain, where)


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


def _tuple(where: str, item: Callable[[Any], Any], value: Any) -> tuple[Any, ...]:
    if not isinstance(value, tuple):
        raise RemoteProtocolError(f"{where} should be a list, got {type(value).__name__}")
    return tuple(item(each) for each in value)


def _mapping(where: str, item: Callable[[Any], Any], value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RemoteProtocolError(f"{where} should be a map, got {type(value).__name__}")
    if max(map(len, value), default=0) > LONGEST_KEY:
        raise RemoteProtocolError(f"{where} has a key of more than {LONGEST_KEY} characters")
    return {name: item(each) for name, each in value.items()}


def plain(where: str, value: Any, depth: int = DEEPEST) -> Any:
    """Plain data of bounded depth: what parameters, details and headers may hold."""
    if depth == 0:
        raise RemoteProtocolError(f"{where} is nested too deeply")
    if isinstance(value, dict):
        return {name: plain(where, each, depth - 1) for name, each in value.items()}
    if isinstance(value, tuple):
        return tuple(plain(where, each, depth - 1) for each in value)
    if isinstance(value, np.ndarray):
        return _array(where, value)
    if isinstance(value, float) and not math.isfinite(value):
        raise RemoteProtocolError(f"{where} is not finite")
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        raise RemoteProtocolError(f"{where} is {len(value)} characters long")
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise RemoteProtocolError(f"{where} holds a {type(value).__name__}")
