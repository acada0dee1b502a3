"""What exactly users are asked: the digest that their coins and their signatures are bound to.

A question is the protocol with its version, parameters, domain and claim, the nonce of the run, the round and the
broadcast. It says nothing about the run's name, keys, processes or shards: however users are spread, they are asked
the same, and flip the same coins.
"""

import hashlib

from parley.emulator.wire.codec import encode, pack
from parley.emulator.wire.messages import Announce, Setup


def setup_digest(setup: Setup) -> bytes:
    """Tells one setup from every other, down to the name of its run."""
    return hashlib.sha256(encode(setup)).digest()


def terms_of(setup: Setup) -> bytes:
    """The digest of everything about a question that is the same in all rounds."""
    terms = [
        setup.protocol,
        setup.version,
        setup.parameters,
        setup.domain,
        setup.epsilon,
        setup.delta,
        setup.rounds,
        setup.nonce,
    ]
    return hashlib.sha256(b"parley terms" + pack(terms)).digest()


def question_of(terms: bytes, announce: Announce) -> bytes:
    """The digest of the question that a broadcast asks under these terms."""
    return hashlib.sha256(b"parley question" + terms + pack([announce.round, announce.broadcast])).digest()
