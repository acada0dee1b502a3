"""Coins: user u's coins for a question are a fixed block of a ChaCha20 keystream (RFC 8439).

The key of the stream is HMAC-SHA256(coin key, question), where the question is a digest of the protocol, its
parameters, domain and claim, the nonce of the run, the round and the broadcast. Two questions never share a coin, so a
mistake elsewhere costs one more epsilon and never the input. The question says nothing about the run's name, keys,
processes or shards: however users are spread, they are asked the same, and flip the same coins.

The place in the stream is the user's number: a cohort's coins come in one stroke, it does not matter which process
hosts a user, and a node that was killed draws the same coins again instead of fresh noise.
"""

import hashlib
import hmac
import secrets
from functools import partial

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from numpy.typing import NDArray

from parley.emulator.errors import BadInput, LocalProtocolError
from parley.emulator.randomizer import Coins, Flip
from parley.emulator.wire.codec import encode, pack
from parley.emulator.wire.messages import DIGEST_BYTES, NONCE_BYTES, Announce, Setup

KEY_BYTES = 32
BLOCK = 64
SEGMENT = 2**16
LARGEST = BLOCK * 2**15
# Bytes of keystream that are made at once: they stay in the cache until the coins are taken out.
STRETCH = 2**17
# Numbers of users whose words are taken from one stretch of public coins: at most 8 MiB.
NEIGHBOURS = 2**20


def fresh_key() -> bytes:
    """A key from the operating system."""
    return secrets.token_bytes(KEY_BYTES)


def key_from_seed(seed: int) -> bytes:
    """The key of an experiment that is to be repeated. Such a run is not private: whoever knows the seed knows all."""
    if not 0 <= seed < 2**128:
        raise BadInput(f"the seed {seed} is not between 0 and 2^128 - 1")
    return hashlib.sha256(b"parley seed" + seed.to_bytes(16, "little")).digest()


def nonce_from_key(key: bytes) -> bytes:
    """The nonce of an experiment that is to be repeated; elsewhere the board draws it."""
    return hmac.new(key, b"parley nonce", hashlib.sha256).digest()[:NONCE_BYTES]


def setup_digest(setup: Setup) -> bytes:
    """Tells one setup from every other, down to the name of its run."""
    return hashlib.sha256(encode(setup)).digest()


def terms_of(setup: Setup) -> bytes:
    """The digest of everything about a question that is the same in all rounds."""
    names = ("protocol", "version", "parameters", "domain", "epsilon", "delta", "rounds", "nonce")
    return hashlib.sha256(b"parley terms" + pack([getattr(setup, name) for name in names])).digest()


def question_of(terms: bytes, announce: Announce) -> bytes:
    """The digest of the question that a broadcast asks under these terms."""
    return hashlib.sha256(b"parley question" + terms + pack([announce.round, announce.broadcast])).digest()


def coins(key: bytes, question: bytes, first: int, users: int, size: int) -> Coins:
    """`size` bytes of coins for each of the users first, first + 1, ...: one row per user."""
    if len(question) != DIGEST_BYTES:
        raise LocalProtocolError(f"no coins for a question of {len(question)} bytes")
    return _blocks(hmac.new(key, b"parley coins" + question, hashlib.sha256).digest(), key, 0, first, users, size)


def addressed(key: bytes, number: int, first: int, users: int, size: int) -> Coins:
    """A block for each user of the stream with this number: for draws that hide nothing.

    Users of format 1 flipped their coins this way, with the round as the number; replaying them needs it too.
    """
    if not 0 <= number < 2**32:
        raise LocalProtocolError(f"no stream with the number {number}")
    return _blocks(key, key, number, first, users, size)


def public_words(salt: bytes, users: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A word for each of these users that everybody knows: public coins, eight users to a block of the keystream.

    They decide what must not depend on an input, such as who answers in which round. The salt is a public parameter.
    """
    key = hashlib.sha256(b"parley public coins" + salt).digest()
    if len(users) == 0:
        return np.empty(0, dtype=np.uint64)
    # Users of a chunk are neighbours: nearly always this is one stretch.
    if int(users.max()) - int(users.min()) < NEIGHBOURS:
        return _neighbours(key, users)
    found = np.empty(len(users), dtype=np.uint64)
    stretches = users // NEIGHBOURS
    for stretch in np.unique(stretches):
        mine = stretches == stretch
        found[mine] = _neighbours(key, users[mine])
    return found


def _neighbours(key: bytes, users: NDArray[np.int64]) -> NDArray[np.uint64]:
    each = BLOCK // 8
    first, last = int(users.min()), int(users.max())
    blocks = first // each
    stream = addressed(key, 0, blocks, last // each - blocks + 1, BLOCK).view("<u8").reshape(-1)
    if last - first + 1 == len(users) and (users[1:] > users[:-1]).all():
        # Whoever asks about all of a cohort needs no look-up.
        found = stream[first - blocks * each :][: len(users)]
    else:
        found = stream.take(users - blocks * each)
    return found.astype(np.uint64, copy=False)


def recorded_coins(setup: Setup, announce: Announce, key: bytes) -> Flip:
    """The coins that users flipped when they answered a broadcast that is on record, in whichever format."""
    if not setup.nonce:
        return partial(addressed, key, announce.round)
    return partial(coins, key, question_of(terms_of(setup), announce))


def _blocks(stream_key: bytes, key: bytes, word: int, first: int, users: int, size: int) -> Coins:
    if len(key) != KEY_BYTES or not 0 <= size <= LARGEST:
        raise LocalProtocolError(f"no coins from a key of {len(key)} bytes, {size} bytes for each user")
    if first < 0 or users < 0 or first + users > 2**63:
        raise LocalProtocolError(f"no coins for {users} users from {first} on")
    if size == 0:
        return np.empty((users, 0), dtype=np.uint8)
    width = -(-size // BLOCK) * BLOCK
    found = np.empty((users, size), dtype=np.uint8)
    many = max(1, min(users, STRETCH // width))
    nothing, stream = memoryview(bytes(many * width)), bytearray(many * width)
    blocks = np.frombuffer(stream, dtype=np.uint8).reshape(many, width)
    # Whole words are copied as words.
    wanted, made = (each.view("<u8") if size % 8 == 0 else each for each in (found, blocks))
    done = 0
    while done < users:
        segment, offset = divmod(first + done, SEGMENT)
        end = min(users, done + SEGMENT - offset)
        # The 32-bit block counter cannot wrap: a segment is at most SEGMENT * LARGEST / BLOCK = 2^31 blocks.
        block = (offset * (width // BLOCK)).to_bytes(4, "little")
        nonce = block + word.to_bytes(4, "little") + segment.to_bytes(8, "little")
        flow = Cipher(ChaCha20(stream_key, nonce), mode=None).encryptor()
        for start in range(done, end, many):
            count = min(many, end - start)
            flow.update_into(nothing[: count * width], stream)
            wanted[start : start + count] = made[:count, : wanted.shape[1]]
        done = end
    found.flags.writeable = False
    return found
