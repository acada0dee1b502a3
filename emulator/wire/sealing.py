"""Sealed boxes: messages that only the analyst can open, though the shuffler carries them.

A box is an ephemeral X25519 public key (RFC 7748) and the message under ChaCha20-Poly1305 (RFC 8439) with the key
SHA-256("parley seal" | shared secret | ephemeral key | analyst's key). No two boxes have the same key, so the nonce is
zero. The ephemeral secret comes from the user's coins: asked again, a user sends the same bytes.

Formal guarantee: computational. Boxes of equally long messages tell nothing to those who do not hold the secret key.
"""

import hashlib
import os
from pathlib import Path

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from numpy.typing import NDArray

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Coins

KEY_BYTES = 32
TAG_BYTES = 16
OVERHEAD = KEY_BYTES + TAG_BYTES
NONCE = bytes(12)
Bytes = NDArray[np.uint8]


def new_secret() -> bytes:
    return X25519PrivateKey.generate().private_bytes_raw()


def public_of(secret: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def gives_secret(public: bytes) -> bool:
    """Whether an exchange with this public key gives a secret: a point of small order gives 0 whoever exchanges.

    Secrets are multiples of 8, so a small order gives 0 for all of them; and none is a multiple of a large order,
    so one exchange tells (RFC 7748, section 6.1).
    """
    try:
        X25519PrivateKey.from_private_bytes(bytes(KEY_BYTES)).exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        return False
    return True


def seal(public: bytes, messages: Bytes, coins: Coins) -> Bytes:
    """A box for each row of `messages`, with the row of 32 bytes of coins as its ephemeral secret."""
    analyst = X25519PublicKey.from_public_bytes(public)
    boxes = np.empty((len(messages), messages.shape[1] + OVERHEAD), dtype=np.uint8)
    for box, message, coin in zip(boxes, messages, coins, strict=True):
        ephemeral = X25519PrivateKey.from_private_bytes(coin.tobytes())
        head = ephemeral.public_key().public_bytes_raw()
        key = _key(ephemeral.exchange(analyst), head, public)
        box[:] = np.frombuffer(head + ChaCha20Poly1305(key).encrypt(NONCE, message.tobytes(), None), dtype=np.uint8)
    return boxes


def open_boxes(secret: bytes, boxes: Bytes) -> tuple[Bytes, NDArray[np.bool_]]:
    """The messages, and which boxes could be opened; what could not is left 0."""
    own, public = X25519PrivateKey.from_private_bytes(secret), public_of(secret)
    messages = np.zeros((len(boxes), boxes.shape[1] - OVERHEAD), dtype=np.uint8)
    good = np.zeros(len(boxes), dtype=np.bool_)
    for place, box in enumerate(boxes):
        raw = box.tobytes()
        head, body = raw[:KEY_BYTES], raw[KEY_BYTES:]
        try:
            key = _key(own.exchange(X25519PublicKey.from_public_bytes(head)), head, public)
            messages[place] = np.frombuffer(ChaCha20Poly1305(key).decrypt(NONCE, body, None), dtype=np.uint8)
        except (InvalidTag, ValueError):
            # A box for somebody else, a spoilt one, or a point that gives no secret.
            continue
        good[place] = True
    return messages, good


def save_secret(path: Path, secret: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(secret.hex().encode() + b"\n")


def load_secret(path: Path) -> bytes:
    """Read a secret key back, or BadInput; the error never holds a part of it."""
    try:
        secret = bytes.fromhex(path.read_text().strip())
    except (OSError, ValueError):
        raise BadInput(f"the opening key {path} cannot be read") from None
    if len(secret) != KEY_BYTES:
        raise BadInput(f"{path} does not hold an opening key of {KEY_BYTES} bytes")
    return secret


def _key(shared: bytes, head: bytes, public: bytes) -> bytes:
    return hashlib.sha256(b"parley seal" + shared + head + public).digest()
