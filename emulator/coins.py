"""Coins: user u's coins in round r are a fixed block of a ChaCha20 keystream (RFC 8439), addressed by (key, r, u).

So a cohort's coins come in one stroke, it does not matter which process hosts a user, and a node that was killed
draws the same coins again instead of fresh noise.
"""

import hashlib
import secrets

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from emulator.errors import BadInput, LocalProtocolError
from emulator.randomizer import Coins

KEY_BYTES = 32
BLOCK = 64
SEGMENT = 2**16
LARGEST = BLOCK * 2**15


def fresh_key() -> bytes:
    """A key from the operating system."""
    return secrets.token_bytes(KEY_BYTES)


def key_from_seed(seed: int) -> bytes:
    """The key of an experiment that is to be repeated. Such a run is not private: whoever knows the seed knows all."""
    if not 0 <= seed < 2**128:
        raise BadInput(f"the seed {seed} is not between 0 and 2^128 - 1")
    return hashlib.sha256(b"parley seed" + seed.to_bytes(16, "little")).digest()


def coins(key: bytes, round_number: int, first: int, users: int, size: int) -> Coins:
    """`size` bytes of coins for each of the users first, first + 1, ...: one row a user."""
    if len(key) != KEY_BYTES or not 0 <= size <= LARGEST:
        raise LocalProtocolError(f"no coins from a key of {len(key)} bytes, {size} bytes for each user")
    if not 0 <= round_number < 2**32 or first < 0 or users < 0 or first + users > 2**63:
        raise LocalProtocolError(f"no coins for round {round_number}, {users} users from {first} on")
    if size == 0:
        return np.empty((users, 0), dtype=np.uint8)
    width = -(-size // BLOCK) * BLOCK
    pieces = []
    position = first
    while position < first + users:
        segment, offset = divmod(position, SEGMENT)
        count = min(SEGMENT - offset, first + users - position)
        pieces.append(_keystream(key, round_number, segment, offset * (width // BLOCK), count * width))
        position += count
    stream = np.frombuffer(b"".join(pieces), dtype=np.uint8)
    return stream.reshape(users, width)[:, :size]


def _keystream(key: bytes, round_number: int, segment: int, block: int, length: int) -> bytes:
    # The 32-bit block counter cannot wrap: a segment is at most SEGMENT * LARGEST / BLOCK = 2^31 blocks.
    nonce = block.to_bytes(4, "little") + round_number.to_bytes(4, "little") + segment.to_bytes(8, "little")
    encryptor = Cipher(ChaCha20(key, nonce), mode=None).encryptor()
    return encryptor.update(bytes(length))
