"""The codec: what is sent comes back, what is not one message in its one form is refused, and nothing is believed."""

import struct
import tracemalloc
import zlib
from dataclasses import fields
from typing import Any

import hypothesis.extra.numpy as hnp
import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from parley.emulator.errors import LocalProtocolError, RemoteProtocolError
from parley.emulator.wire import canonical, codec, messages
from parley.emulator.wire.canonical import DEEPEST, CutOff, extent

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
names = st.builds(str.__add__, st.sampled_from(LETTERS), st.text(LETTERS + "._:-", max_size=20))
texts = st.text(LETTERS + " .-\n\0äπ€\uffff𝛾", max_size=40)
counts = st.integers(0, messages.LARGEST_COUNT - 1) | st.sampled_from(
    [0, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32]
)
finite = st.floats(allow_nan=False, allow_infinity=False)
keys = st.text(LETTERS + "äπ€𝛾", max_size=12)
dtypes = st.sampled_from([np.dtype(name) for name in codec.DTYPES])


def arrays_of(shape: Any) -> st.SearchStrategy[Any]:
    """Arrays of this shape, of any type that can be sent."""
    return dtypes.flatmap(
        lambda dtype: hnp.arrays(dtype, shape, elements=hnp.from_dtype(dtype, allow_nan=False, allow_infinity=False))
    )


arrays = arrays_of(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | finite | texts
plain = st.recursive(
    scalars | arrays,
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
parameters = st.dictionaries(keys, plain, max_size=4)
broadcasts = st.dictionaries(keys, arrays, max_size=3)
digests = st.just(b"") | st.binary(min_size=32, max_size=32)
nonces = st.just(b"") | st.binary(min_size=16, max_size=16)
paths = st.integers(0, 3).flatmap(lambda count: st.binary(min_size=32 * count, max_size=32 * count))
user_numbers = (
    st.sets(st.integers(0, 2**20), max_size=6).map(sorted)
    | st.builds(lambda first, count: list(range(first, first + count)), st.integers(0, 2**61), st.integers(0, 6))
    | st.sets(st.integers(100, 130), max_size=28).map(sorted)
).map(lambda numbers: np.array(numbers, dtype=np.int64))


@st.composite
def replies(draw: st.DrawFn) -> messages.Replies:
    users = draw(user_numbers)
    trailing = draw(st.lists(hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3), max_size=2))
    columns = {draw(keys): draw(arrays_of((len(users), *shape))) for shape in trailing}
    chunk = draw(st.integers(0, 2**30))
    rest: dict[str, Any] = {"run": draw(names), "round": draw(counts), "node": draw(names)}
    rest |= {"question": draw(digests)}
    return messages.Replies(**rest, chunk=chunk, chunks=chunk + draw(st.integers(1, 9)), users=users, columns=columns)


@st.composite
def receipts(draw: st.DrawFn) -> messages.Receipt:
    shown = draw(st.lists(st.tuples(counts, counts, counts, paths), max_size=3))
    chunks, sequences, times, found = zip(*shown, strict=True) if shown else ((), (), (), ())
    rest: dict[str, Any] = {"run": draw(names), "round": draw(counts), "node": draw(names)}
    rest |= {"close": draw(st.binary(max_size=40)), "before": draw(counts), "consistency": draw(paths)}
    return messages.Receipt(**rest, chunks=chunks, sequences=sequences, times=times, paths=found)


@st.composite
def stretches(draw: st.DrawFn) -> NDArray[np.int64]:
    ends = draw(st.lists(st.integers(0, 2**62 - 1), min_size=2, max_size=8, unique=True))
    return whole(sorted(ends)[: len(ends) // 2 * 2]).reshape(-1, 2)


def whole(numbers: list[int]) -> NDArray[np.int64]:
    return np.array(numbers, dtype=np.int64)


ANY_MESSAGE: dict[type[messages.Message], st.SearchStrategy[messages.Message]] = {
    messages.Ready: st.builds(
        messages.Ready, node=names, first=counts, users=counts, pid=counts, run=st.just("") | names, key=digests
    ),
    messages.Roster: st.builds(messages.Roster, run=names, nodes=counts, users=counts, nonce=nonces),
    messages.Setup: st.builds(
        messages.Setup,
        run=names,
        protocol=names,
        parameters=parameters,
        epsilon=finite,
        delta=finite,
        rounds=counts,
        version=counts,
        domain=parameters,
        nonce=nonces,
    ),
    messages.Announce: st.builds(messages.Announce, run=names, round=counts, broadcast=broadcasts, speakers=counts),
    messages.Replies: replies(),
    messages.Refusal: st.builds(messages.Refusal, run=names, round=counts, node=names, reason=texts),
    messages.Close: st.builds(
        messages.Close,
        run=names,
        round=counts,
        replies=counts,
        missing=counts,
        absent=st.lists(names, max_size=3).map(tuple),
        size=counts,
        root=digests,
    ),
    messages.Result: st.builds(
        messages.Result,
        run=names,
        estimate=finite,
        predicted_rmse=finite,
        low=finite,
        high=finite,
        replied=counts,
        details=parameters,
    ),
    messages.Abort: st.builds(messages.Abort, run=names, outcome=st.sampled_from(["failed", "aborted"]), reason=texts),
    messages.Reminder: st.builds(
        messages.Reminder,
        run=names,
        round=counts,
        missing=st.dictionaries(names, st.lists(counts, max_size=4).map(tuple), max_size=3),
    ),
    messages.Resume: st.builds(messages.Resume, sequence=counts, count=counts),
    messages.Event: st.builds(messages.Event, event=texts, node=texts, round=counts, detail=texts),
    messages.Receipt: receipts(),
    messages.Inquiry: st.builds(messages.Inquiry, run=names, round=counts, node=names),
    messages.Pledge: st.builds(messages.Pledge, run=names, setup=digests),
    messages.Seating: st.builds(messages.Seating, run=names, node=names, key=digests, nonce=nonces),
    messages.Shard: st.builds(
        messages.Shard,
        run=names,
        node=names,
        stretches=stretches(),
        pid=counts,
        roster=st.binary(max_size=40),
        key=digests,
    ),
    messages.Tally: st.builds(
        messages.Tally,
        run=names,
        round=counts,
        node=names,
        replies=counts,
        sums=st.dictionaries(keys, st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3).map(whole), max_size=3),
        rejected=st.dictionaries(names, st.integers(1, messages.LARGEST_COUNT - 1), max_size=3),
        silent=counts,
        close=st.binary(max_size=40),
        question=digests,
    ),
    messages.Tie: st.builds(
        messages.Tie, run=names, round=counts, node=names, tally=st.binary(max_size=40), receipt=st.binary(max_size=40)
    ),
}
any_message = st.one_of(*ANY_MESSAGE.values())


def steady(examples: int) -> settings:
    """The same examples on every machine."""
    return settings(max_examples=examples, deadline=None, derandomize=True)


def seal(body: bytes) -> bytes:
    """A frame with the checksum it should have: what a hostile peer would send."""
    return body + zlib.crc32(body).to_bytes(4, "little")


def unsigned(frame: bytes) -> bytes:
    """The frame as it would be if nobody had signed it."""
    return seal(frame[:-4][:-64]) if codec.is_signed(frame) else frame


def same(left: Any, right: Any) -> bool:
    """Equal in value, type and shape."""
    if isinstance(left, np.ndarray):
        return (
            isinstance(right, np.ndarray)
            and left.dtype == right.dtype
            and left.shape == right.shape
            and left.tobytes() == right.tobytes()
        )
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and left == right


def test_every_kind_has_a_strategy() -> None:
    assert set(ANY_MESSAGE) == set(messages.MESSAGES)


@pytest.mark.parametrize("kind", messages.MESSAGES, ids=lambda kind: kind.kind)
def test_round_trip(kind: type[messages.Message]) -> None:
    @given(ANY_MESSAGE[kind])
    @steady(40)
    def check(message: messages.Message) -> None:
        frame = codec.encode(message)
        back = codec.decode(frame)
        assert type(back) is kind
        for each in fields(kind):
            assert same(getattr(back, each.name), getattr(message, each.name)), each.name
        assert codec.encode(back) == frame

    check()


@given(st.binary(max_size=60))
@steady(300)
def test_random_bytes_are_refused(data: bytes) -> None:
    for frame in (data, seal(data)):
        with pytest.raises(RemoteProtocolError):
            codec.decode(frame)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A frame with a few bytes changed, taken out or put in, and the right checksum."""
    body = bytearray(codec.encode(draw(any_message))[:-4])
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(len(body) - 1, 0)))
        how = draw(st.sampled_from(["set", "flip", "cut", "insert", "repeat"]))
        if how == "set":
            body[at : at + 1] = bytes([draw(st.integers(0, 255))])
        elif how == "flip":
            body[at : at + 1] = bytes([body[at] ^ 1 << draw(st.integers(0, 7))]) if body else b""
        elif how == "cut":
            del body[at : at + draw(st.integers(1, 4))]
        elif how == "insert":
            body[at:at] = draw(st.binary(min_size=1, max_size=5))
        else:
            body[at:at] = body[at : at + draw(st.integers(1, 8))]
    return seal(bytes(body))


@given(mutated())
@steady(800)
def test_what_decodes_is_the_one_encoding_of_what_it_decodes_to(frame: bytes) -> None:
    try:
        message = codec.decode(frame)
    except RemoteProtocolError:
        return
    assert unsigned(frame) == codec.encode(message)


foreign = st.recursive(
    scalars | st.binary(max_size=8) | st.builds(msgpack.ExtType, st.integers(0, 127), st.binary(max_size=20)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts | st.binary(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(st.integers(-1, len(messages.MESSAGES)), st.lists(foreign, max_size=8))
@steady(250)
def test_fields_of_the_wrong_kind_are_refused(tag: int, values: list[Any]) -> None:
    frame = seal(msgpack.packb([tag, *values]))
    try:
        message = codec.decode(frame)
    except RemoteProtocolError:
        return
    assert unsigned(frame) == codec.encode(message)


@given(any_message, st.data())
@steady(200)
def test_a_flipped_bit_is_found_by_the_checksum(message: messages.Message, data: st.DataObject) -> None:
    frame = bytearray(codec.encode(message))
    frame[data.draw(st.integers(0, len(frame) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(RemoteProtocolError):
        codec.decode(bytes(frame))


READY = messages.Ready(node="n", first=0, users=1, pid=1)
REST = b"\xa0\xc4\x00"
READY_BODY = codec.encode(READY)[:-4]
SETUP = b"\x9a\x02\xa1r\xa1p%b\xcb?\xf0\0\0\0\0\0\0\xcb\0\0\0\0\0\0\0\0\x01\x01\x80\xc4\x00"


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("an integer in two bytes that fits in one", b"\x97\xcc\x00\xa1n\x00\x01\x01" + REST),
        ("an integer in three", b"\x97\x00\xa1n\x00\xcd\x00\x80\x01" + REST),
        ("an integer in five", b"\x97\x00\xa1n\x00\xce\x00\x00\xff\xff\x01" + REST),
        ("an integer in nine", b"\x97\x00\xa1n\x00\xcf\x00\x00\x00\x00\xff\xff\xff\xff\x01" + REST),
        ("a signed form of a positive integer", b"\x97\x00\xa1n\x00\xd0\x01\x01" + REST),
        ("text with a long head", b"\x97\x00\xd9\x01n\x00\x01\x01" + REST),
        ("an array with a long head", b"\xdc\x00\x07\x00\xa1n\x00\x01\x01" + REST),
        ("an array with a longer head", b"\xdd\x00\x00\x00\x07\x00\xa1n\x00\x01\x01" + REST),
        ("bytes instead of text", b"\x97\x00\xc4\x01n\x00\x01\x01" + REST),
        ("text that is not UTF-8", b"\x97\x00\xa1\xff\x00\x01\x01" + REST),
        ("truth for a count", b"\x97\x00\xa1n\x00\x01\xc3" + REST),
        ("a field too few", b"\x96\x00\xa1n\x00\x01\xa0\xc4\x00"),
        ("a field too many", b"\x98\x00\xa1n\x00\x01\x01\x01" + REST),
        ("the fields of format 1", b"\x95\x00\xa1n\x00\x01\x01"),
        ("a key that is too short", b"\x97\x00\xa1n\x00\x01\x01\xa0\xc4\x01\x00"),
        ("half a signature", READY_BODY + bytes(32)),
        ("two signatures", READY_BODY + bytes(128)),
        ("something after the end", READY_BODY + b"\x00"),
        ("an end that comes early", READY_BODY[:-1]),
        ("no array", b"\x00"),
        ("an unknown tag", b"\x91\x7f"),
        ("a negative tag", b"\x91\xff"),
        ("the byte that msgpack never uses", b"\x97\x00\xa1n\x00\x01\xc1" + REST),
        ("a short float", SETUP.replace(b"\xcb?\xf0\0\0\0\0\0\0", b"\xca\x3f\x80\0\0") % b"\x80"),
        ("an infinite float", SETUP.replace(b"?\xf0", b"\x7f\xf0") % b"\x80"),
        ("a map with a long head", SETUP % b"\xde\x00\x00"),
        ("keys that do not increase", SETUP % b"\x82\xa1b\x00\xa1a\x00"),
        ("a key twice", SETUP % b"\x82\xa1a\x00\xa1a\x00"),
        ("a key that is a number", SETUP % b"\x81\x00\x00"),
        ("a key of bytes", SETUP % b"\x81\xc4\x01a\x00"),
        ("a key that is too long", SETUP % b"\x81\xd9\x41%b\x00" % (b"a" * 65)),
        ("a moment", SETUP % b"\x81\xa1a\xd6\xff\0\0\0\0"),
        ("bytes", SETUP % b"\x81\xa1a\xc4\x00"),
        ("not a number", SETUP % b"\x81\xa1a\xcb\x7f\xf8\0\0\0\0\0\0"),
        ("an array with a long head where a fixed one is", SETUP % b"\x81\xa1a\xc7\x08\x01\x00\x01\x02\0\0\0\x07\x07"),
        ("an array of an unknown type", SETUP % b"\x81\xa1a\xc7\x03\x01\x0b\x00\x00"),
        ("an array of four dimensions", SETUP % b"\x81\xa1a\xc7\x12\x01\x00\x04%b" % bytes(16)),
        ("an array without its dimensions", SETUP % b"\x81\xa1a\xc7\x03\x01\x00\x01\x00"),
        ("an array that is too short", SETUP % b"\x81\xa1a\xc7\x07\x01\x00\x01\x02\0\0\0\x07"),
        ("an array of no memory's size", SETUP % b"\x81\xa1a\xc7\x0e\x01\x00\x03\0\0\0\0%b" % (b"\xff" * 8)),
        ("a truth value of two", SETUP % b"\x81\xa1a\xc7\x03\x01\x0a\x00\x02"),
        ("an array with a value that is not finite", SETUP % b"\x81\xa1a\xc7\x06\x01\x08\x00\x00\x00\x80\x7f"),
        ("text that is too long", SETUP % b"\x81\xa1a\xda\x10\x01%b" % (b"a" * 4097)),
        ("too many levels", SETUP % b"\x81\xa1a%b\xc0" % (b"\x91" * DEEPEST)),
    ],
)
def test_every_other_form_is_refused(what: str, body: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        codec.decode(seal(body))


def test_the_frames_those_forms_were_made_from_are_good() -> None:
    for body in (READY_BODY, SETUP % b"\x80", SETUP % b"\x81\xa1a\xd7\x01\x00\x01\x02\0\0\0\x07\x07"):
        assert codec.encode(codec.decode(seal(body)))[:-4] == body
    deepest = codec.decode(seal(SETUP % b"\x81\xa1a%b\xc0" % (b"\x91" * (DEEPEST - 1))))
    assert codec.encode(deepest)


@pytest.mark.parametrize(
    "users",
    [
        [5, 0],
        [0, canonical.MOST_USERS + 1],
        [2**62, 1],
        [-1, 2],
        [0, np.array([0, 1], dtype="<u4")],
        [0, np.array([1, 5], dtype="<u4")],
        [0, np.array([0, 5, 3], dtype="<u4")],
        [0, np.array([0, 5, 5], dtype="<u4")],
        [0, np.array([0, 5], dtype="<u2")],
        [0, np.array([0], dtype="<u4")],
        [0, np.array([[0, 5]], dtype="<u4")],
        [0, b""],
        [0, b"\xfb\x00"],
        [0, b"\x01"],
        [0, b"\x07"],
        [0, b"\xff" * (canonical.MOST_USERS // 8) + b"\x01"],
        [0],
        0,
    ],
)
def test_user_numbers_have_one_form(users: Any) -> None:
    with pytest.raises(RemoteProtocolError):
        codec.decode(seal(codec.pack([4, "r", 1, "n", 0, 1, users, {}, b""])))


def test_users_have_the_shortest_form_and_only_records_may_have_older_ones() -> None:
    """Nine of ten speak: a bit for each. One of ten speaks: a byte for each. The first records have longer forms."""
    rest: dict[str, Any] = {"run": "r", "round": 1, "node": "n", "chunk": 0, "chunks": 1, "columns": {}}
    everybody = np.arange(1000)
    for users, size in ((everybody[everybody % 10 > 0], 125), (everybody[everybody % 10 == 0], 99)):
        frame = codec.encode(messages.Replies(users=users, **rest))
        alone = codec.encode(messages.Replies(users=users[:1], **rest))
        assert size <= len(frame) - len(alone) <= size + 12
        said = codec.decode(frame)
        assert isinstance(said, messages.Replies)
        assert np.array_equal(said.users, users)
        for rest_of in ((np.diff(users) - 1).astype(np.uint8), (users - users[0]).astype(np.uint32)):
            older = seal(codec.pack([4, "r", 1, "n", 0, 1, [int(users[0]), rest_of], {}, b""]))
            if older == frame:
                continue
            with pytest.raises(RemoteProtocolError, match="one canonical form"):
                codec.decode(older)
            before = codec.decode(older, recorded=True)
            assert isinstance(before, messages.Replies)
            assert np.array_equal(before.users, users)


def test_consecutive_users_cost_no_bytes() -> None:
    def size(users: int) -> int:
        rest: dict[str, Any] = {"run": "r", "round": 1, "node": "n", "chunk": 0, "chunks": 1, "columns": {}}
        return len(codec.encode(messages.Replies(users=np.arange(1000, 1000 + users), **rest)))

    assert size(100_000) <= size(1) + 4


def test_equal_maps_are_equal_bytes() -> None:
    def announce(*order: str) -> bytes:
        broadcast = {name: np.arange(3) for name in order}
        return codec.encode(messages.Announce(run="r", round=1, broadcast=broadcast))

    assert announce("b", "a", "é") == announce("é", "a", "b")


def test_arrays_of_either_byte_order_and_any_stride_are_equal_bytes() -> None:
    def announce(array: Any) -> bytes:
        return codec.encode(messages.Announce(run="r", round=1, broadcast={"a": array}))

    plain = np.arange(12, dtype="<i4").reshape(3, 4)
    assert announce(plain) == announce(plain.astype(">i4")) == announce(np.asfortranarray(plain))
    assert announce(plain[:, ::2]) == announce(plain[:, ::2].copy())


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        np.array([1.0, np.nan]),
        np.float64("inf"),
        np.array(["text"]),
        np.zeros((1, 1, 1, 1)),
        np.zeros(2, dtype=np.complex128),
        np.empty((2**33, 0)),
        ...,
        "\ud800",
        2**64,
        {1: 2},
        {"a": 1, 2: 3},
    ],
    ids=repr,
)
def test_what_cannot_be_received_cannot_be_sent(value: Any) -> None:
    setup = messages.Setup(run="r", protocol="p", parameters={"a": value}, epsilon=1.0, delta=0.0, rounds=1)
    with pytest.raises(LocalProtocolError):
        codec.encode(setup)


def test_a_cohort_too_large_for_a_frame_cannot_be_sent() -> None:
    rest: dict[str, Any] = {"run": "r", "round": 1, "node": "n", "chunk": 0, "chunks": 1, "columns": {}}
    for users in (np.arange(canonical.MOST_USERS + 1), np.array([0, 2**32])):
        with pytest.raises(LocalProtocolError, match="send several"):
            codec.encode(messages.Replies(users=users, **rest))


def test_a_frame_too_large_is_neither_sent_nor_read() -> None:
    broadcast = {"a": np.zeros(codec.LARGEST_FRAME, dtype=np.uint8)}
    with pytest.raises(LocalProtocolError, match="larger than a frame"):
        codec.encode(messages.Announce(run="r", round=1, broadcast=broadcast))
    with pytest.raises(RemoteProtocolError, match="a frame of"):
        codec.decode(bytes(codec.LARGEST_FRAME + 1))


@pytest.mark.parametrize(
    "body",
    [
        b"\xdd\x00\x10\x00\x00" * 8,
        (b"\xdd" + struct.pack(">I", 2**22)) + b"\x80" * 2**22,
        (b"\xdd" + struct.pack(">I", 2**32 - 1)) * 5,
        b"\xdf" + struct.pack(">I", 2**31),
        b"\x91" * 2**22,
        b"\x81\xa0" * 2**21,
        b"\xdb\xff\xff\xff\xff",
        b"\xc9\xff\xff\xff\xff\x01",
        b"\xc6\xff\xff\xff\xff",
    ],
    ids=["nested", "many maps", "huge", "huge map", "deep", "deep maps", "huge text", "huge array", "huge bytes"],
)
def test_a_bomb_costs_next_to_nothing(body: bytes) -> None:
    frame = seal(body)
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError):
            codec.decode(frame)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**18


@pytest.mark.parametrize("columns", [{}, {"v": np.zeros((canonical.MOST_USERS, 0), np.uint8)}], ids=["none", "empty"])
def test_a_million_users_in_a_few_bytes_cost_next_to_nothing(columns: dict[str, Any]) -> None:
    """Nobody is counted before there is a reply: a byte for each user at least."""
    frame = seal(codec.pack([4, "r", 1, "n", 0, 1, [0, canonical.MOST_USERS], columns, b""]))
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError, match="replies of 1048576 users in"):
            codec.decode(frame)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Their numbers alone are 8 MiB.
    assert peak < 2**20


@pytest.mark.parametrize("count", [0, 1, 15, 16, 31, 32, 255, 256, 65535, 65536])
def test_extent_agrees_with_msgpack_at_every_change_of_form(count: int) -> None:
    values: list[Any] = ["a" * count, b"a" * count, (0,) * count, {f"{i:05}": 0 for i in range(count)}]
    values += [np.zeros(count, dtype=np.uint8), count, -count, -count - 1, 2**32 - count, -(2**31) + count]
    for value in values:
        packed = codec.pack(value)
        assert extent(packed) == len(packed)
        assert same(codec.unpack(packed), value)


@given(plain, st.data())
@steady(200)
def test_extent_of_a_beginning_is_that_of_the_whole_or_unknown(value: Any, data: st.DataObject) -> None:
    packed = codec.pack(value)
    beginning = packed[: data.draw(st.integers(0, len(packed)))]
    try:
        assert extent(beginning) == len(packed)
    except CutOff:
        assert len(beginning) < len(packed)
    with_more = packed + b"\x00"
    assert extent(with_more) == len(packed)


@given(st.integers(0, 2**62), names, st.binary(max_size=50))
@steady(50)
def test_an_envelope_opens_to_what_was_put_in(sequence: int, sender: str, frame: bytes) -> None:
    assert codec.open_envelope(codec.envelope(sequence, sender, frame)) == (sequence, sender, frame)


@pytest.mark.parametrize("content", [[1, "a"], [1, "a", "b"], ["1", "a", b"b"], [True, "a", b"b"], 7])
def test_what_is_no_envelope_is_refused(content: Any) -> None:
    for sealed in (codec.pack(content), seal(codec.pack(content))):
        with pytest.raises(RemoteProtocolError):
            codec.open_envelope(sealed)


@given(st.integers(0, 2**62), names, st.binary(max_size=50), st.data())
@steady(100)
def test_a_flipped_bit_of_an_envelope_is_found(sequence: int, sender: str, frame: bytes, data: st.DataObject) -> None:
    sealed = bytearray(codec.envelope(sequence, sender, frame))
    sealed[data.draw(st.integers(0, len(sealed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(RemoteProtocolError):
        codec.open_envelope(bytes(sealed))


@pytest.mark.parametrize("users", [0, 1, 2**16 - 7, 2**16 - 6, 2**16 - 1, 2**16, 2**16 + 1])
@pytest.mark.parametrize("step", [1, 2])
def test_pieces_are_the_bytes_of_the_whole_with_and_without_large_arrays(users: int, step: int) -> None:
    inputs = np.arange(step * users, dtype=np.uint8)[::step]
    known = {"run": "a", "key": b"k", "inputs": inputs, "source": {"origin": "b"}}
    assert b"".join(codec.packed_parts(known)) == codec.pack(known)
