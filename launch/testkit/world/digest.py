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
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import numpy as np

from parley.emulator.protocol import Protocol
from parley.emulator.record.merkle import Tree
from parley.emulator.record.transcript import TranscriptReader, TranscriptWriter
from parley.emulator.roles.board import Terms
from parley.emulator.roles.consent import Consent
from parley.emulator.roles.replies import Speakers
from parley.emulator.roles.shuffler import Memory
from parley.emulator.transport.ports import BoardPort, NodePort
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import Message
from parley.emulator.wire.signatures import Signer
from parley.nodes.state.batches import Batches
from parley.nodes.state.user_state import State

FIXED = (
    *(Protocol, Consent, Signer, Speakers, Terms, BoardPort, NodePort),
    *(State, Batches, Memory, TranscriptReader, TranscriptWriter, Tree),
)
"""What never changes in a small world, or is a function of the bytes on disk, which are compared as they are."""
PLAIN = frozenset((type(None), bool, int, float, str))
Names = Mapping[str, tuple[str, ...]]
"""Attributes, by the name of their class."""
TIMES: Names = {
    "BoardRole": ("_opened", "_reminded", "_asked", "_moved", "_began", "_wait", "_named"),
    "BoardNode": ("_repeated", "_waits"),
    "AnalystNode": ("_asked", "_spoke"),
    "UserNode": ("_spoke", "_leaving"),
    "RelayNode": ("_until",),
    "RelayRole": ("_repeated", "_spoke"),
    "ShufflerNode": ("_posted",),
    "ShufflerRole": ("_began", "_opened", "_reminded", "_wait"),
}
"""Moments, and what the board counts while it waits; what matters of them is among a process's `details`."""
NUMBERS: Names = {
    "BoardNode": ("_recent", "_receipts", "_length", "_allowance", "_refused", "_seatings"),
    "Seat": ("pid",),
    "ShufflerRole": ("_pid",),
    "UserNode": ("_authentic",),
    "Receipts": ("head", "_closed"),
    "Answered": ("size", "root"),
    "AnalystNode": ("expected",),
}
"""The board's copies of its record, what a node has seen of it, the analyst's place in it, numbers of processes."""
UNORDERED: Names = {"AnalystRole": ("_seats",)}
"""In which order nodes came does not matter: their users are added up."""


def digest(*values: Any, canonical: bool) -> bytes:
    """32 bytes that are equal for equal values; attributes are compared by name, without those that are left out."""
    parts = list[bytes]()
    _feed(parts.append, values, canonical, set())
    return hashlib.sha256(b"".join(parts)).digest()


_FOUND: dict[tuple[type[Any], bool], tuple[frozenset[str], frozenset[str]]] = {}


def _names(kind: type[Any], canonical: bool) -> tuple[frozenset[str], frozenset[str]]:
    """Which attributes of a class, and of those it is derived from, are left out, and which are in no order."""
    if (kind, canonical) not in _FOUND:
        tables = ((TIMES, NUMBERS) if canonical else (TIMES,)), ((UNORDERED,) if canonical else ())
        out, unordered = (
            frozenset(name for table in each for part in kind.__mro__ for name in table.get(part.__name__, ()))
            for each in tables
        )
        _FOUND[kind, canonical] = out, unordered
    return _FOUND[kind, canonical]


def _feed(put: Callable[[bytes], None], value: Any, canonical: bool, within: set[int]) -> None:
    kind = type(value)
    if kind in PLAIN:
        put(b"%r;" % (value,))
    elif kind is bytes:
        put(b"%d:%b" % (len(value), value))
    elif kind in (tuple, list, deque):
        put(b"[")
        for each in value:
            _feed(put, each, canonical, within)
        put(b"]")
    elif kind in (dict, Counter):
        put(b"{")
        for part, each in sorted(((_part(name, canonical, within), each) for name, each in value.items()), key=_first):
            put(part)
            _feed(put, each, canonical, within)
        put(b"}")
    elif kind in (set, frozenset):
        put(b"<" + b"".join(sorted(_part(each, canonical, within) for each in value)) + b">")
    elif isinstance(value, np.ndarray | np.generic):
        put(b"%r%r" % (value.dtype.str, value.shape) + value.tobytes())
    elif isinstance(value, Message):
        put(encode(value))
    elif isinstance(value, Enum):
        put(value.name.encode() + b";")
    elif kind is type:
        put(value.__name__.encode() + b";")
    elif isinstance(value, FIXED) or callable(value) or id(value) in within or not hasattr(value, "__dict__"):
        put(b"-;")
    else:
        within.add(id(value))
        put(kind.__qualname__.encode())
        left_out, unordered = _names(kind, canonical)
        for name, each in sorted(vars(value).items()):
            if name not in left_out:
                put(name.encode() + b"=")
                _feed(put, sorted(each) if name in unordered else each, canonical, within)
        within.discard(id(value))


def _part(value: Any, canonical: bool, within: set[int]) -> bytes:
    parts = list[bytes]()
    _feed(parts.append, value, canonical, within)
    return b"".join(parts)


def _first(pair: tuple[bytes, Any]) -> bytes:
    return pair[0]
