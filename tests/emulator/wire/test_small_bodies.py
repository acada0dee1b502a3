"""Small bodies take the short way through the codec. It accepts and refuses exactly what the scan of heads does."""

import struct
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from parley.emulator.errors import RemoteProtocolError
from parley.emulator.wire import codec, messages
from parley.emulator.wire.canonical import DEEPEST
from parley.emulator.wire.signatures import Signer
from tests.emulator.wire.test_codec import any_message, mutated, plain, same, seal, steady

SIGNER = Signer(bytes(range(32)))


@contextmanager
def scan_alone() -> Iterator[None]:
    """The codec without its short way."""
    before, codec.SMALL_BODY = codec.SMALL_BODY, -1
    try:
        yield
    finally:
        codec.SMALL_BODY = before


def attempt(read: Callable[[bytes], Any], data: bytes) -> Any:
    """What is read, or None where it is refused; messages as their fields, floats as their bytes."""
    try:
        found = read(data)
    except RemoteProtocolError:
        return None
    if isinstance(found, messages.Message):
        return (found.kind, *(getattr(found, each.name) for each in fields(found)))
    return (found,)


def bits(value: Any) -> Any:
    """Floats as their bytes, so that NaN equals itself and zeros keep their signs."""
    if type(value) is float:
        return ("float", struct.pack("<d", value))
    if type(value) is tuple:
        return tuple(map(bits, value))
    if type(value) is dict:
        return {name: bits(each) for name, each in value.items()}
    return value


def agree(read: Callable[[bytes], Any], data: bytes) -> bool:
    """Whether both ways say the same about these bytes; True where they accept."""
    short = attempt(read, data)
    with scan_alone():
        careful = attempt(read, data)
    assert (short is None) == (careful is None), (short, careful)
    assert short is None or same(bits(short), bits(careful))
    return short is not None


LENGTHS = (0, 1, 2, 3, 4, 5, 8, 16, 31, 32, 33)


@st.composite
def spelled(draw: st.DrawFn, depth: int = DEEPEST + 3) -> bytes:
    """A msgpack value in any of its spellings: heads longer than they need be, floats of four bytes, any extension."""
    if depth and draw(st.integers(0, 3)) == 0:
        parts = draw(st.lists(spelled(depth - 1), max_size=3))
        if draw(st.booleans()):
            head = draw(st.sampled_from([bytes([0x90 + len(parts)]), struct.pack(">BH", 0xDC, len(parts))]))
            return head + b"".join(parts)
        names = draw(st.lists(st.sampled_from([b"\xa1a", b"\xa1b", b"\xd9\x01c", b"\xc4\x01a", b"\x07"]), max_size=3))
        names = names[: len(parts)]
        head = draw(st.sampled_from([bytes([0x80 + len(names)]), struct.pack(">BH", 0xDE, len(names))]))
        return head + b"".join(name + part for name, part in zip(names, parts, strict=False))
    if draw(st.booleans()):
        number = draw(
            st.integers(-300, 300) | st.sampled_from([2**15, 2**16 - 1, 2**31, 2**32, -(2**15), -(2**31) - 1])
        )
        heads = [(base + step, 1 << step) for base in (0xCC, 0xD0) for step in range(4)]
        forms = [bytes([head]) + (number % 2 ** (8 * width)).to_bytes(width, "big") for head, width in heads]
        return draw(st.sampled_from([msgpack.packb(number), *forms]))
    content = bytes(draw(st.sampled_from(LENGTHS)))
    size = len(content)
    code = draw(st.sampled_from([b"\x01", b"\x02", b"\xff"]))
    array = b"\x00\x01" + struct.pack("<I", size) + content
    return draw(
        st.sampled_from(
            [
                b"\xc0",
                b"\xc1",
                b"\xc2",
                b"\xc3",
                b"\xca" + bytes(4),
                b"\xcb" + struct.pack(">d", 0.1),
                b"\xcb\x7f\xf8\x00\x00\x00\x00\x00\x01",
                b"\xcb\xff\xf0\x00\x00\x00\x00\x00\x00",
                b"\xa1\xff",
                msgpack.packb(content),
                msgpack.packb("a" * size),
                bytes([0xD9, size]) + b"a" * size,
                struct.pack(">BH", 0xC5, size) + content,
                struct.pack(">BI", 0xDB, size) + content,
                b"\xd6\xff" + bytes(4),
                b"\xd7\xff" + bytes(8),
                msgpack.packb(msgpack.ExtType(1, array)),
                struct.pack(">BB", 0xC7, len(array)) + code + array,
                struct.pack(">BH", 0xC8, len(array)) + code + array,
                b"\xd8" + code + b"\x00\x01" + struct.pack("<I", 10) + bytes(10),
            ]
        )
    )


@given(spelled(), st.sampled_from([b"", b"\x00", bytes(64)]))
@steady(2000)
def test_every_spelling_of_a_value_is_taken_or_refused_alike(value: bytes, after: bytes) -> None:
    agree(codec.unpack, value + after)


@given(plain)
@steady(300)
def test_a_value_in_its_one_form_is_taken_by_both(value: Any) -> None:
    assert agree(codec.unpack, codec.pack(value))


@given(any_message, st.booleans())
@steady(300)
def test_a_message_is_read_alike(message: messages.Message, signed: bool) -> None:
    assert agree(codec.decode, codec.encode(message, SIGNER if signed else None, bytes(16)))


@given(mutated() | st.binary(max_size=200).map(seal) | st.binary(max_size=40))
@steady(1000)
def test_a_spoilt_frame_is_read_alike(frame: bytes) -> None:
    for form in (1, 2):
        agree(lambda data, form=form: codec.decode(data, format=form), frame)


@given(any_message, st.data())
@steady(500)
def test_a_frame_with_other_bytes_and_the_right_checksum_is_read_alike(
    message: messages.Message, data: st.DataObject
) -> None:
    body = bytearray(codec.encode(message)[:-4])
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    agree(codec.decode, seal(bytes(body)))


@given(any_message, spelled(), st.data())
@steady(500)
def test_a_frame_with_a_field_spelled_otherwise_is_read_alike(
    message: messages.Message, other: bytes, data: st.DataObject
) -> None:
    parts = _parts(codec.encode(message)[:-4])
    parts[data.draw(st.integers(1, len(parts) - 1))] = other
    agree(codec.decode, seal(b"".join(parts)))


def _parts(body: bytes) -> list[bytes]:
    """The head of a frame's array, then its items as they are written."""
    unpacker = msgpack.Unpacker()
    unpacker.feed(body)
    count, ends = unpacker.read_array_header(), [unpacker.tell()]
    for _ in range(count):
        unpacker.skip()
        ends.append(unpacker.tell())
    return [body[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@pytest.mark.parametrize("depth", range(DEEPEST - 1, DEEPEST + 4))
@pytest.mark.parametrize("shell", [b"\x91", b"\x81\xa1a"])
@pytest.mark.parametrize("heart", [b"\x00", b"\x90", b"\x80"])
def test_both_ways_stop_at_the_same_depth(depth: int, shell: bytes, heart: bytes) -> None:
    agree(codec.unpack, shell * depth + heart)


@pytest.mark.parametrize(
    ("names", "accepted"),
    [
        ((b"\xa1a", b"\xa1b"), True),
        ((b"\xa1b", b"\xa1a"), False),
        ((b"\xa1a", b"\xa1a"), False),
        ((b"\xa0", b"\xa1a"), True),
        ((b"\xc4\x01a",), False),
        ((b"\x01",), False),
        ((b"\xa1\x7f", b"\xa2\xc3\xa4"), True),
        ((b"\xa2\xc3\xa4", b"\xa1\x7f"), False),
    ],
)
def test_keys_are_text_that_increases(names: tuple[bytes, ...], accepted: bool) -> None:
    body = bytes([0x80 + len(names)]) + b"".join(name + b"\x00" for name in names)
    assert agree(codec.unpack, body) == accepted
    assert agree(codec.unpack, b"\x91" + body) == accepted


@pytest.mark.parametrize("size", [codec.SMALL_BODY - 1, codec.SMALL_BODY, codec.SMALL_BODY + 1])
@pytest.mark.parametrize(
    "body", [b"\xdc\x00\x40", b"\xdc\x03\x00", b"\x9f", b"\xdf\x00\x00\x00\x40\xa1a", b"\xde\x00\x10\xa1a"]
)
def test_a_small_bomb_costs_next_to_nothing(body: bytes, size: int) -> None:
    frame = seal((body * size)[: size - 4])
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError):
            codec.decode(frame)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**18


@given(st.integers(1, 200))
@example(codec.SMALL_COUNT)
@example(codec.SMALL_COUNT + 1)
@steady(50)
def test_more_items_than_the_short_way_takes_are_read_alike(count: int) -> None:
    assert agree(codec.unpack, codec.pack([0] * count))
    assert agree(codec.unpack, codec.pack({f"{number:03}": 0 for number in range(count)}))
