"""Signatures: Ed25519 as in RFC 8032, over exactly one kind, one run and one frame."""

import zlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.emulator.errors import BadInput, RemoteProtocolError
from parley.emulator.wire.codec import decode, encode, is_signed, is_whole, said_by
from parley.emulator.wire.messages import Abort, Message, Pledge, Ready, Roster, Seating, Setup, Shard
from parley.emulator.wire.signatures import SIGNATURE_BYTES, Signer, covered, derived, verify
from tests.emulator.samples import NONCE, every_message

SIGNER, OTHER = Signer(bytes(range(32))), Signer(bytes(32))
WITHOUT_NONCE = (Ready, Roster, Pledge, Shard)


def test_keys_are_those_of_rfc_8032_section_7_1() -> None:
    secret = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    public = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    assert Signer(secret).public == public


def test_a_signature_stays_as_it_is() -> None:
    """Ed25519 draws no randomness: what is signed again is signed with the same bytes."""
    assert SIGNER.sign("setup", NONCE, b"body") == SIGNER.sign("setup", NONCE, b"body")
    assert len(SIGNER.sign("setup", NONCE, b"body")) == SIGNATURE_BYTES
    assert covered("setup", bytes(16), b"body") == b"parley/2\x05setup\x10" + bytes(16) + b"body"


def test_a_signature_is_of_one_key_kind_nonce_and_body() -> None:
    signature = SIGNER.sign("setup", NONCE, b"body")
    assert verify(SIGNER.public, signature, "setup", NONCE, b"body")
    assert not verify(OTHER.public, signature, "setup", NONCE, b"body")
    assert not verify(SIGNER.public, signature, "announce", NONCE, b"body")
    assert not verify(SIGNER.public, signature, "setup", bytes(16), b"body")
    assert not verify(SIGNER.public, signature, "setup", b"", b"body")
    assert not verify(SIGNER.public, signature, "setup", NONCE, b"bod")
    for place in range(SIGNATURE_BYTES):
        spoiled = bytearray(signature)
        spoiled[place] ^= 1
        assert not verify(SIGNER.public, bytes(spoiled), "setup", NONCE, b"body")


@pytest.mark.parametrize("public", [b"", bytes(31), bytes(33), b"\xff" * 32])
def test_what_is_not_a_key_signed_nothing(public: bytes) -> None:
    assert not verify(public, SIGNER.sign("setup", NONCE, b""), "setup", NONCE, b"")


@pytest.mark.parametrize("signature", [b"", bytes(63), bytes(64), bytes(65)])
def test_what_is_not_a_signature_signs_nothing(signature: bytes) -> None:
    assert not verify(SIGNER.public, signature, "setup", NONCE, b"")


@given(st.tuples(st.text("ab", max_size=4), st.binary(max_size=20), st.binary(max_size=20)), st.data())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_no_two_messages_are_covered_by_the_same_bytes(one: tuple[str, bytes, bytes], data: st.DataObject) -> None:
    other = data.draw(st.tuples(st.text("ab", max_size=4), st.binary(max_size=20), st.binary(max_size=20)))
    assert (covered(*one) == covered(*other)) == (one == other)


@pytest.mark.parametrize("message", every_message(), ids=lambda each: each.kind)
def test_a_signed_frame_holds_the_message_and_who_said_it(message: Message) -> None:
    plain, signed = encode(message), encode(message, SIGNER, NONCE)
    assert len(signed) == len(plain) + SIGNATURE_BYTES
    assert signed[: len(plain) - 4] == plain[:-4]
    assert is_signed(signed)
    assert not is_signed(plain)
    assert encode(decode(signed)) == plain
    assert said_by(SIGNER.public, signed, message, NONCE)
    assert not said_by(OTHER.public, signed, message, NONCE)
    assert not said_by(SIGNER.public, plain, message, NONCE)
    # Setup, abort and seating carry their nonce themselves; the rest comes before there is one.
    free = isinstance(message, (Setup, Abort, Seating, *WITHOUT_NONCE))
    assert said_by(SIGNER.public, signed, message, bytes(16)) == free


@pytest.mark.parametrize("kind", [Setup, Abort, Seating])
def test_what_carries_a_nonce_is_bound_to_it(kind: type[Setup | Abort | Seating]) -> None:
    given = next(each for each in every_message() if isinstance(each, kind))
    one, other = replace(given, nonce=bytes(16)), replace(given, nonce=NONCE)
    frame = encode(one, SIGNER, NONCE)
    assert said_by(SIGNER.public, frame, one, NONCE)
    assert not said_by(SIGNER.public, frame, other, NONCE)


@pytest.mark.parametrize("message", every_message(), ids=lambda each: each.kind)
def test_every_flipped_byte_of_a_signed_frame_is_found(message: Message) -> None:
    """Also where the checksum is set right again: then the signature does not fit, or it is no message."""
    frame = encode(message, SIGNER, NONCE)
    for place in range(len(frame) - 4):
        body = bytearray(frame[:-4])
        body[place] ^= 1
        assert not is_whole(bytes(body) + frame[-4:])
        forged = bytes(body) + zlib.crc32(body).to_bytes(4, "little")
        assert is_whole(forged)
        try:
            found = decode(forged)
        except RemoteProtocolError:
            continue
        assert not said_by(SIGNER.public, forged, found, NONCE)


def test_keys_are_never_shown() -> None:
    shown = repr(SIGNER) + str(SIGNER)
    assert SIGNER.secret.hex() not in shown
    assert repr(SIGNER.secret) not in shown
    with pytest.raises(BadInput, match="the signing key has 31 bytes") as caught:
        Signer(bytes([7] * 31))
    assert "07" * 8 not in str(caught.value)


def test_an_experiment_has_the_same_keys_again_and_everybody_another() -> None:
    names = ["analyst", "board", *(f"node-{number}" for number in range(20))]
    keys = {derived(bytes(32), name).secret for name in names} | {
        derived(bytes([1] * 32), name).secret for name in names
    }
    assert len(keys) == 2 * len(names)
    assert derived(bytes(32), "board").secret == derived(bytes(32), "board").secret
