"""Signatures: who said a frame (Ed25519, RFC 8032).

A signature covers a tag (the name and format of the wire and the kind of message), the nonce of the run and the exact
bytes of the frame. The keys are not those of CURVE links: a link proves to the board who speaks, a signature proves it
to everybody who reads the record later.

Formal guarantee: computational. Nobody without the secret key makes a frame that passes under the public one.
"""

import hashlib
import hmac
from collections.abc import Mapping
from functools import cached_property

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from parley.emulator.errors import BadInput

SIGNATURE_BYTES = 64
PUBLIC_BYTES = 32
SECRET_BYTES = 32
WIRE = b"parley/2"
Keys = Mapping[str, bytes]
"""Public keys by the name of who signs with them."""


class Signer:
    """A secret key. It has no representation as text, so that it cannot end up in a log."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != SECRET_BYTES:
            raise BadInput(f"the signing key has {len(secret)} bytes instead of {SECRET_BYTES}; make new keys")
        self.secret = secret

    @cached_property
    def _key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.secret)

    @cached_property
    def public(self) -> bytes:
        return self._key.public_key().public_bytes_raw()

    def sign(self, kind: str, nonce: bytes, body: bytes | memoryview) -> bytes:
        return self._key.sign(covered(kind, nonce, body))


def verify(public: bytes, signature: bytes, kind: str, nonce: bytes, body: bytes | memoryview) -> bool:
    """Whether the holder of this public key signed exactly this."""
    if len(public) != PUBLIC_BYTES or len(signature) != SIGNATURE_BYTES:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, covered(kind, nonce, body))
    except (InvalidSignature, ValueError):
        return False
    return True


def covered(kind: str, nonce: bytes, body: bytes | memoryview) -> bytes:
    """The bytes that are signed: each part behind its length, so that no two messages look alike."""
    tag = kind.encode()
    return b"".join((WIRE, bytes((len(tag),)), tag, bytes((len(nonce),)), nonce, body))


def derived(key: bytes, name: str) -> Signer:
    """The signing key of a party in an experiment that is to be repeated."""
    return Signer(hmac.new(key, b"parley signing key of " + name.encode(), hashlib.sha256).digest())
