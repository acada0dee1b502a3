"""Many frames as one value: each comes back byte for byte, and what is not such a value is refused."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.emulator.errors import RemoteProtocolError
from parley.emulator.wire.batches import Batch, is_batch, open_delivery, read_batch
from parley.emulator.wire.codec import LARGEST_FRAME, envelope, pack, seal, unpack
from parley.emulator.wire.shapes import Span, as_matrix
from tests.emulator.wire.test_codec import steady

FRAMES = [b"__anna__1234", b"__bert__1235", b"__carl__1234"]


def batch_of(frames: list[bytes], **changes: Any) -> Batch:
    return Batch(**{"sequence": 7, "time_ns": 5, "name": Span(2, 6), "matrix": as_matrix(frames), **changes})


@given(
    st.integers(2, 12).flatmap(
        lambda count: st.integers(5, 40).flatmap(
            lambda size: st.lists(st.binary(min_size=size - 4, max_size=size - 4), min_size=count, max_size=count)
        )
    )
)
@steady(200)
def test_every_frame_comes_back(tails: list[bytes]) -> None:
    frames = [b"anna" + tail for tail in tails]
    if len(set(frames)) == 1:
        return
    payload = batch_of(frames, name=Span(0, 4)).payload
    back = read_batch(unpack(payload))
    assert back.frames == frames
    assert (back.sequence, back.time_ns, back.senders) == (7, 5, ["anna"] * len(frames))
    assert back.payload == payload
    assert [back.since(9).sequence, back.since(9).frames] == [9, frames[2:]]


def test_frames_that_hardly_differ_take_little_space() -> None:
    frames = [b"__anna__" + bytes(100) + number.to_bytes(2, "big") for number in range(1000)]
    assert len(batch_of(frames).payload) < 200 + 2 * len(frames)


def test_a_delivery_is_a_message_or_a_batch() -> None:
    assert open_delivery(envelope(3, "anna", b"12345")) == (3, "anna", b"12345")
    found = open_delivery(seal(batch_of(FRAMES).payload))
    assert isinstance(found, Batch)
    assert (found.frames, found.senders) == (FRAMES, ["anna", "bert", "carl"])
    for wrong in ([1, 2, 3], "text", [1, "anna"], [1, "anna", "text"]):
        with pytest.raises(RemoteProtocolError, match="neither"):
            open_delivery(seal(pack(wrong)))
    with pytest.raises(RemoteProtocolError, match="checksum"):
        open_delivery(batch_of(FRAMES).payload)


GOOD = unpack(batch_of(FRAMES).payload)
PLACES, ROWS = GOOD[4], GOOD[5]


def test_the_example_is_good() -> None:
    assert is_batch(GOOD)
    assert read_batch(GOOD).frames == FRAMES


@pytest.mark.parametrize(
    ("part", "value", "what"),
    [
        (0, -1, "a batch of frames"),
        (1, -1, "a batch of frames"),
        (1, 2**63, "a batch of frames"),
        (3, b"1234", "a batch of frames of 4"),
        (3, bytes(1025), "a batch of frames of 1025"),
        (2, (2, 0), "names of their senders"),
        (2, (2, 11), "names of their senders"),
        (2, (-1, 4), "names of their senders"),
        (2, (2,), "names of their senders"),
        (2, (2, "4"), "names of their senders"),
        (2, (0, 4), "a message from '__"),
        (4, PLACES.astype(np.uint32), "without places"),
        (4, PLACES[:0], "without places"),
        (4, PLACES[::-1].copy(), "do not increase"),
        (4, np.where(PLACES[-1] == PLACES, 12, PLACES).astype(np.uint16), "are not in its frames"),
        (4, PLACES[:-1], "rows of shape"),
        (5, ROWS[:0], "rows of shape"),
        (5, ROWS.astype(np.uint16), "without places"),
        (5, ROWS[0], "without places"),
        (5, np.repeat(ROWS, LARGEST_FRAME // 20, axis=0), "rows of shape"),
        (5, np.stack([np.frombuffer(FRAMES[0], np.uint8)[PLACES]] * 2), "all its frames are the same"),
    ],
)
def test_any_other_value_is_refused(part: int, value: Any, what: str) -> None:
    with pytest.raises(RemoteProtocolError, match=what):
        read_batch((*GOOD[:part], value, *GOOD[part + 1 :]))


@given(st.data())
@steady(300)
def test_a_spoiled_batch_is_refused_or_another_batch_in_its_one_form(data: st.DataObject) -> None:
    payload = bytearray(batch_of(FRAMES).payload)
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = open_delivery(seal(bytes(payload)))
    except RemoteProtocolError:
        return
    assert not isinstance(found, Batch) or found.payload == bytes(payload)
