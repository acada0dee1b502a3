"""When two processes are in the same state: a digest of everything that a process knows, computed from its attributes.

Two digests are made of each process. The *exact* one holds all that its next step may depend on, down to the bytes of
the record, except the clock: in a small world time passes only when a timer fires (`network.py`), and every timer waits
longer than any message travels. The *canonical* one also forgets what changes nothing but numbers:

- on the record: reminders and events, which the tables of all roles let pass in any state, and with them the numbers of
  the records behind them; the order of the replies of one round, which are held by node and summed as integers;
- in a node: which head of the record a receipt showed, and what was verified before.

`tests/launch/testkit/world` explores the smallest worlds with either digest and finds the same outcomes.
"""

import hashlib
from collections import Counter, deque
from collections.abc import Callable, Set
from enum import Enum
from typing import Any

import numpy as np

from parley.emulator.protocol import Protocol
from parley.emulator.record.merkle import Tree
from parley.emulator.record.transcript import TranscriptReader, TranscriptWriter
from parley.emulator.roles.board import Terms
from parley.emulator.roles.consent import Consent
from parley.emulator.roles.replies import Speakers
from parley.emulator.transport.ports import BoardPort, ObserverPort
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import Message
from parley.emulator.wire.signatures import Signer
from parley.nodes.state.user_state import State

FIXED = (
    *(Protocol, Consent, Signer, Speakers, Terms, BoardPort, ObserverPort),
    *(State, TranscriptReader, TranscriptWriter, Tree),
)
"""What never changes in a small world, or is a function of the bytes on disk, which are compared as they are."""
PLAIN = frozenset((type(None), bool, int, float, str))
TIMES = frozenset(
    (
        *("_opened", "_reminded", "_asked", "_moved", "_began", "_wait", "_waits", "_repeated", "_named"),
        *("_spoke", "_leaving", "patience"),
    )
)
"""Moments, and what the board counts while it waits; of these, what matters is among a process's `details`."""
NUMBERS = frozenset(
    (
        *("_recent", "_receipts", "_length", "_allowance", "_refused", "_seatings", "pid"),
        *("_authentic", "head", "_closed", "size", "root"),
        "expected",
    )
)
"""The board's copies of its record and the processes' numbers; what a node has seen of the record; the analyst's place."""


def digest(*values: Any, canonical: bool) -> bytes:
    """32 bytes that are equal for equal values; attributes are compared by name, without those that are left out."""
    parts = list[bytes]()
    _feed(parts.append, values, TIMES | NUMBERS if canonical else TIMES, set())
    return hashlib.sha256(b"".join(parts)).digest()


def _feed(put: Callable[[bytes], None], value: Any, left_out: Set[str], within: set[int]) -> None:
    kind = type(value)
    if kind in PLAIN:
        put(b"%r;" % (value,))
    elif kind is bytes:
        put(b"%d:%b" % (len(value), value))
    elif kind in (tuple, list, deque):
        put(b"[")
        for each in value:
            _feed(put, each, left_out, within)
        put(b"]")
    elif kind in (dict, Counter):
        put(b"{")
        for part, each in sorted(((_part(name, left_out, within), each) for name, each in value.items()), key=_first):
            put(part)
            _feed(put, each, left_out, within)
        put(b"}")
    elif kind in (set, frozenset):
        put(b"<" + b"".join(sorted(_part(each, left_out, within) for each in value)) + b">")
    elif isinstance(value, np.ndarray | np.generic):
        put(b"%r%r" % (value.dtype.str, value.shape) + value.tobytes())
    elif isinstance(value, Message):
        # A message is what it is; only what a process keeps under these names is left out.
        put(encode(value))
    elif isinstance(value, Enum):
        put(value.name.encode() + b";")
    elif isinstance(value, FIXED) or callable(value) or id(value) in within or not hasattr(value, "__dict__"):
        put(b"-;")
    else:
        within.add(id(value))
        put(kind.__qualname__.encode())
        for name, each in sorted(vars(value).items()):
            if name not in left_out:
                put(name.encode() + b"=")
                _feed(put, each, left_out, within)
        within.discard(id(value))


def _part(value: Any, left_out: Set[str], within: set[int]) -> bytes:
    parts = list[bytes]()
    _feed(parts.append, value, left_out, within)
    return b"".join(parts)


def _first(pair: tuple[bytes, Any]) -> bytes:
    return pair[0]
