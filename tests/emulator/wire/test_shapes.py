"""Frames of one shape are read together. That accepts exactly what `decode` accepts, and reads the same."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from parley.emulator.errors import RemoteProtocolError
from parley.emulator.wire.codec import decode, encode
from parley.emulator.wire.messages import Message, Replies
from parley.emulator.wire.shapes import FEWEST, LARGEST, Alike, Shape, Shapes, as_matrix
from parley.emulator.wire.signatures import Signer
from tests.emulator.wire.test_codec import any_message, replies, same, seal, steady

SIGNER = Signer(bytes(range(32)))
small = replies().filter(lambda message: Shape.of(encode(message, SIGNER), message) is not None)


def attempt(frame: bytes) -> Message | None:
    try:
        return decode(frame)
    except RemoteProtocolError:
        return None


def content(message: Message) -> tuple[Any, ...]:
    return (message.kind, *(getattr(message, each.name) for each in fields(message)))


def in_common(message: Message | None) -> Any:
    """What frames of one shape share, read off the message alone."""
    if not isinstance(message, Replies) or not len(message.users):
        return None
    columns = {name: (column.dtype, column.shape) for name, column in message.columns.items()}
    consecutive = int(message.users[-1] - message.users[0]) == len(message.users) - 1
    lengths = [len(message.node), *map(_length, (message.chunk, message.chunks, int(message.users[0])))]
    return consecutive, message.run, message.round, message.question, columns, len(message.users), lengths


def _length(number: int) -> int:
    return 1 + sum(number >= least for least in (128, 256, 2**16, 2**32))


@st.composite
def cousins(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A frame, and another that is often of the same shape and often nearly so, with a good checksum."""
    message = draw(small)
    signer = draw(st.sampled_from([None, SIGNER]))
    frame = encode(message, signer)
    body = bytearray(frame[:-4])
    for _ in range(draw(st.integers(0, 3))):
        body[draw(st.integers(0, len(body) - 1))] = draw(st.integers(0, 255))
    if draw(st.booleans()):
        return frame, seal(bytes(body))
    first = draw(st.integers(0, 2**40))
    chunks = draw(st.integers(1, 2**20))
    other = replace(
        message,
        chunk=draw(st.integers(0, chunks - 1)),
        chunks=chunks,
        users=np.arange(first, first + len(message.users)),
    )
    return frame, encode(other, signer)


@given(cousins())
@steady(600)
def test_one_frame_is_read_as_the_careful_way_reads_it(both: tuple[bytes, bytes]) -> None:
    frame, other = both
    message, expected = decode(frame), attempt(other)
    shape = Shape.of(frame, message)
    assert shape is not None
    found = shape.read(other)
    alike = expected is not None and len(frame) == len(other) and in_common(expected) == in_common(message)
    assert (found is not None) == alike
    if found is not None and expected is not None:
        assert same(content(found), content(expected))
        assert encode(found)[:-4] == other[: len(encode(found)) - 4]
    if len(frame) == len(other):
        assert shape.fits(as_matrix([frame, other])).tolist() == [True, alike]


@given(any_message, st.booleans())
@steady(150)
def test_decoding_with_known_shapes_is_decoding(message: Message, is_signed: bool) -> None:
    shapes, frame = Shapes(), encode(message, SIGNER if is_signed else None)
    for _ in range(2):
        assert same(content(shapes.decode(frame)), content(decode(frame)))
    with pytest.raises(RemoteProtocolError):
        shapes.decode(frame[:-1] + bytes([frame[-1] ^ 1]))


@given(small, st.integers(FEWEST, 40))
@steady(100)
def test_columns_hold_what_the_frames_say(message: Replies, count: int) -> None:
    said = [replace(message, chunk=256 + place, chunks=1000) for place in range(count)]
    frames = [encode(each, SIGNER) for each in said]
    (alike,) = Shapes().sort(frames)
    assert alike.places.tolist() == list(range(count))
    assert alike.frames.tobytes() == b"".join(frames)
    assert alike.nodes == [each.node for each in said]
    assert alike.chunk.tolist() == [each.chunk for each in said]
    assert alike.chunks.tolist() == [each.chunks for each in said]
    assert alike.users.tolist() == [user for each in said for user in each.users.tolist()]
    for name, column in alike.columns.items():
        joined = np.concatenate([each.columns[name] for each in said])
        assert same(column, joined)
    half = alike.take(list(range(0, count, 2)))
    assert half.places.tolist() == list(range(0, count, 2))
    assert half.chunk.tolist() == [each.chunk for each in said[::2]]


def reply(user: int, name: str = "bit", value: int = 1) -> bytes:
    column = np.array([value], np.uint8)
    columns = {name: column}
    return encode(
        Replies(run="r", round=1, node="node-1", chunk=user, chunks=2**20, users=np.array([user]), columns=columns)
    )


def places(groups: list[Alike]) -> set[int]:
    return {place for group in groups for place in group.places.tolist()}


def test_what_does_not_fit_is_left_and_spoils_nobody() -> None:
    good = [reply(1000 + user) for user in range(20)]
    bad = [good[0][:-1] + b"x", b"", bytes(len(good[0])), seal(bytes(len(good[0]) - 4)), b"x" * 10, bytes(LARGEST + 1)]
    assert places(Shapes().sort([*bad, *good, *bad])) == set(range(len(bad), len(bad) + len(good)))


def test_garbage_of_the_right_size_does_not_use_up_the_trials() -> None:
    good = [reply(1000 + user) for user in range(20)]
    noise = [seal(b"\x99\x04" + number.to_bytes(2, "big") + bytes(len(good[0]) - 8)) for number in range(60)]
    shapes = Shapes()
    assert places(shapes.sort(good)) == set(range(20))
    assert places(shapes.sort([*noise, *good])) == set(range(60, 80))
    assert places(shapes.sort([frame for pair in zip(noise, good, strict=False) for frame in pair])) == set(
        range(1, 40, 2)
    )


def test_several_shapes_of_one_size() -> None:
    frames = [reply(1000 + user, name) for user in range(12) for name in ("bit", "tib", "ibt")]
    groups = Shapes().sort(frames)
    assert sorted(len(group) for group in groups) == [12, 12, 12]
    assert {tuple(group.columns) for group in groups} == {("bit",), ("tib",), ("ibt",)}


def test_few_frames_and_large_ones_are_not_worth_it() -> None:
    assert Shapes().sort([reply(user) for user in range(FEWEST - 1)]) == []
    users = np.arange(LARGEST)
    large = Replies(
        run="r", round=1, node="node-1", chunk=0, chunks=1, users=users, columns={"bit": np.zeros(LARGEST, np.uint8)}
    )
    assert Shapes().sort([encode(large)] * FEWEST) == []


@given(cousins())
@steady(150)
def test_a_group_holds_what_decodes_and_nothing_else(both: tuple[bytes, bytes]) -> None:
    frame, other = both
    assume(len(frame) == len(other))
    frames = [frame] * FEWEST + [other] * FEWEST
    found = places(Shapes().sort(frames))
    assert set(range(FEWEST)) <= found
    if attempt(other) is None:
        assert found == set(range(FEWEST))
