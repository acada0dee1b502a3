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
from collections.abc import Mapping, Set
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
from parley.emulator.wire.messages import Message
from parley.emulator.wire.signatures import Signer
from parley.nodes.state.user_state import State

FIXED = (Protocol, Tree, TranscriptReader, TranscriptWriter, Terms, Consent, Speakers, BoardPort, ObserverPort, Signer, State)
"""What never changes in a small world, or is a function of the bytes on disk, which are compared as they are."""
TIMES = frozenset(
    "_opened _reminded _asked _moved _began _wait _spoke _leaving _repeated _waits patience _named".split()
)
NUMBERS = frozenset(
    # The board's copies of its record, a node's copies of what it has seen of it, the numbers of processes.
    "_recent _receipts _length _allowance _refused _seatings _authentic head _closed size root pid expected".split()
)


def digest(*values: Any, canonical: bool) -> bytes:
    """32 bytes that are equal for equal values; attributes are compared by name, without those that are left out."""
    found = hashlib.sha256()
    _feed(found, values, TIMES | NUMBERS if canonical else TIMES, set())
    return found.digest()


def _feed(found: "hashlib._Hash", value: Any, left_out: Set[str], within: set[int]) -> None:
    if value is None or isinstance(value, bool | int | float | str | bytes | Enum):
        found.update(repr(value).encode() + b";")
    elif isinstance(value, np.ndarray):
        found.update(f"{value.dtype}{value.shape}".encode() + value.tobytes())
    elif isinstance(value, np.generic):
        found.update(repr(value.item()).encode() + b";")
    elif isinstance(value, FIXED) or callable(value) or id(value) in within:
        found.update(b"-;")
    elif isinstance(value, Counter | Mapping):
        parts = {_part(name, left_out, within): each for name, each in value.items()}
        found.update(b"{")
        for part in sorted(parts):
            found.update(part)
            _feed(found, parts[part], left_out, within)
        found.update(b"}")
    elif isinstance(value, Set):
        found.update(b"<" + b"".join(sorted(_part(each, left_out, within) for each in value)) + b">")
    elif isinstance(value, tuple | list | deque):
        found.update(b"[")
        for each in value:
            _feed(found, each, left_out, within)
        found.update(b"]")
    elif hasattr(value, "__dict__"):
        within.add(id(value))
        found.update(type(value).__qualname__.encode())
        # A message is what it is; only what a process keeps under these names is left out.
        hidden = frozenset[str]() if isinstance(value, Message) else left_out
        for name in sorted(set(vars(value)) - hidden):
            found.update(name.encode() + b"=")
            _feed(found, vars(value)[name], left_out, within)
        within.discard(id(value))


def _part(value: Any, left_out: Set[str], within: set[int]) -> bytes:
    part = hashlib.sha256()
    _feed(part, value, left_out, within)
    return part.digest()
