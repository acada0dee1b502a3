"""Coins are the ChaCha20 keystream of RFC 8439 under a key for each question, the same however users are spread."""

import hashlib
import hmac
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from parley.emulator.coins import BLOCK, LARGEST, SEGMENT, addressed, coins, fresh_key, key_from_seed, nonce_from_key
from parley.emulator.errors import BadInput, LocalProtocolError

KEY = key_from_seed(7)
ALPHA = 1e-6
ONE, TWO = bytes(32), bytes(31) + b"\1"


def stream_key(key: bytes, question: bytes) -> bytes:
    """The key of a question's stream, as the documentation says it."""
    return hmac.new(key, b"parley coins" + question, hashlib.sha256).digest()


def chacha20_block(key: bytes, counter: int, nonce: bytes) -> bytes:
    """RFC 8439, section 2.3, as written there: an implementation that shares nothing with the one under test."""
    start = [
        *struct.unpack("<4I", b"expand 32-byte k"),
        *struct.unpack("<8I", key),
        counter,
        *struct.unpack("<3I", nonce),
    ]
    state = list(start)

    def turn(value: int, by: int) -> int:
        return (value << by | value >> (32 - by)) & 0xFFFFFFFF

    def quarter(a: int, b: int, c: int, d: int) -> None:
        for x, y, z, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            state[x] = (state[x] + state[y]) & 0xFFFFFFFF
            state[z] = turn(state[z] ^ state[x], by)

    for _ in range(10):
        for column in range(4):
            quarter(column, column + 4, column + 8, column + 12)
        for column in range(4):
            quarter(column, 4 + (column + 1) % 4, 8 + (column + 2) % 4, 12 + (column + 3) % 4)
    return struct.pack("<16I", *((one + two) & 0xFFFFFFFF for one, two in zip(state, start, strict=True)))


def test_vector_of_rfc_8439_section_2_3_2() -> None:
    block = bytes.fromhex(
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    )
    key, nonce = bytes(range(32)), bytes.fromhex("000000090000004a00000000")
    assert chacha20_block(key, 1, nonce) == block
    # The vector's nonce and block counter, read as round, segment and user within the segment.
    round_number, segment = struct.unpack("<IQ", nonce)
    assert addressed(key, round_number, segment * SEGMENT + 1, 1, BLOCK).tobytes() == block


def test_first_two_vectors_of_rfc_8439_appendix_a_1() -> None:
    blocks = bytes.fromhex(
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
        "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"
    )
    assert addressed(bytes(32), 0, 0, 2, BLOCK).tobytes() == blocks


@given(
    key=st.binary(min_size=32, max_size=32),
    round_number=st.integers(0, 2**32 - 1),
    user=st.integers(0, 2**62) | st.integers(SEGMENT - 2, SEGMENT + 2),
    size=st.integers(1, 3 * BLOCK),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_user_has_the_blocks_at_its_address(key: bytes, round_number: int, user: int, size: int) -> None:
    width = -(-size // BLOCK)
    segment, place = divmod(user, SEGMENT)
    nonce = struct.pack("<IQ", round_number, segment)
    blocks = b"".join(chacha20_block(key, place * width + i, nonce) for i in range(width))
    assert addressed(key, round_number, user, 1, size).tobytes() == blocks[:size]


@given(
    key=st.binary(min_size=32, max_size=32),
    question=st.binary(min_size=32, max_size=32),
    user=st.integers(0, 2**62) | st.integers(SEGMENT - 2, SEGMENT + 2),
    size=st.integers(1, 3 * BLOCK),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_question_has_a_stream_of_its_own(key: bytes, question: bytes, user: int, size: int) -> None:
    width = -(-size // BLOCK)
    segment, place = divmod(user, SEGMENT)
    nonce = struct.pack("<IQ", 0, segment)
    blocks = b"".join(chacha20_block(stream_key(key, question), place * width + i, nonce) for i in range(width))
    assert coins(key, question, user, 1, size).tobytes() == blocks[:size]


def test_coins_stay_as_they_are() -> None:
    """A state from today must give the same reply tomorrow: one row, byte for byte."""
    assert coins(KEY, ONE, 5, 1, 16).tobytes().hex() == "6783e784eac32c52e27a3e895b4ee12c"


@given(
    first=st.integers(0, 100) | st.integers(SEGMENT - 60, SEGMENT + 5),
    shares=st.lists(st.integers(0, 40), min_size=1, max_size=5),
    size=st.integers(0, 200),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_sharding_does_not_matter(first: int, shares: list[int], size: int) -> None:
    whole = coins(KEY, TWO, first, sum(shares), size)
    starts = np.cumsum([first, *shares[:-1]])
    parts = [coins(KEY, TWO, int(start), count, size) for start, count in zip(starts, shares, strict=True)]
    assert whole.shape == (sum(shares), size)
    assert np.array_equal(whole, np.concatenate(parts))


def test_no_two_users_no_two_questions_and_no_two_keys_share_a_block() -> None:
    users, first = 2000, SEGMENT - 1000
    questions = [hashlib.sha256(bytes([number])).digest() for number in range(4)]
    streams = [coins(key, question, first, users, BLOCK) for key in (KEY, bytes(32)) for question in questions]
    streams.append(addressed(KEY, 1, first, users, BLOCK))
    assert len({row.tobytes() for stream in streams for row in stream}) == len(streams) * users


def test_questions_and_users_are_independent() -> None:
    """Bytes, and their differences between questions and between neighbours, are uniform."""
    first, second = coins(KEY, ONE, 0, 4096, 64), coins(KEY, TWO, 0, 4096, 64)
    samples = {"bytes": first, "between questions": first ^ second, "between users": first[1:] ^ first[:-1]}
    for name, sample in samples.items():
        counts = np.bincount(sample.ravel(), minlength=256)
        test = stats.chisquare(counts)
        threshold = stats.chi2.isf(ALPHA, 255)
        assert test.statistic < threshold, f"{name}: n = {sample.size}, {test.statistic} above {threshold}"


def test_coins_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        coins(KEY, ONE, 0, 2, 8)[0, 0] = 1


def test_the_largest_request_stays_within_the_block_counter() -> None:
    assert SEGMENT * LARGEST // BLOCK <= 2**32
    last = coins(KEY, ONE, SEGMENT - 1, 1, LARGEST)
    segment_nonce = struct.pack("<IQ", 0, 0)
    key = stream_key(KEY, ONE)
    assert last[0, -BLOCK:].tobytes() == chacha20_block(key, SEGMENT * (LARGEST // BLOCK) - 1, segment_nonce)


@pytest.mark.parametrize(
    "changes",
    [
        {"key": bytes(31)},
        {"question": b""},
        {"question": bytes(31)},
        {"question": bytes(33)},
        {"first": -1},
        {"first": 2**63},
        {"users": -1},
        {"size": -1},
        {"size": LARGEST + 1},
    ],
    ids=str,
)
def test_addresses_that_do_not_exist_are_refused(changes: dict[str, object]) -> None:
    good = {"key": KEY, "question": ONE, "first": 0, "users": 1, "size": 8}
    with pytest.raises(LocalProtocolError, match="no coins"):
        coins(**(good | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [-1, 2**32])
def test_streams_that_do_not_exist_are_refused(number: int) -> None:
    with pytest.raises(LocalProtocolError, match="no stream with the number"):
        addressed(KEY, number, 0, 1, 8)


def test_keys() -> None:
    assert len({key_from_seed(seed) for seed in range(100)}) == 100
    assert key_from_seed(7) == key_from_seed(7)
    assert len(fresh_key()) == 32
    assert fresh_key() != fresh_key()
    assert len({nonce_from_key(key_from_seed(seed)) for seed in range(100)}) == 100
    assert len(nonce_from_key(KEY)) == 16
    assert nonce_from_key(KEY) not in KEY
    for seed in (-1, 2**128):
        with pytest.raises(BadInput, match="seed"):
            key_from_seed(seed)
