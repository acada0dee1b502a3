"""How replies are mixed: uniform permutations from the operating system's randomness, by a rule that names no protocol.

The rule is the setup's parameter `shuffle`, a map of two entries that shuffler and users both read:
- `crowd`: with fewer replies than this nothing is posted;
- `axes`: columns whose entries are messages of their own, column name -> a. Such a column has the shape
  (n, s_1, ..., s_a, t_1, ...): for each index of the s, apart, the entries over n and all t are permuted. All other
  columns move together: a row is one message.
"""

import hashlib
import hmac
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from numpy.typing import NDArray

from parley.emulator.coins import KEY_BYTES
from parley.emulator.errors import BadInput, LocalProtocolError, RemoteProtocolError
from parley.emulator.randomizer import Array, Columns, Layout, layout
from parley.emulator.wire.messages import Replies, Setup

Draw = Callable[[int], bytes]
Draws = Callable[[int], Draw]
"""The randomness of each round, by its number."""
Order = NDArray[np.intp]
MOST_CROWD = 2**40
MOST_AXES = 8


@dataclass(frozen=True, kw_only=True)
class Mixing:
    """The rule a shuffler follows."""

    crowd: int
    axes: Mapping[str, int] = field(default_factory=dict)

    def parameters(self) -> dict[str, Any]:
        return {"crowd": self.crowd, "axes": dict(self.axes)}

    @classmethod
    def from_parameters(cls, rule: Mapping[str, Any]) -> "Mixing":
        """The rule that a Setup describes; BadInput for anything that is not exactly such a description."""
        if set(rule) != {"crowd", "axes"}:
            raise BadInput(f"a rule of how replies are mixed has a crowd and axes, got {rule!r:.80}")
        crowd, axes = rule["crowd"], rule["axes"]
        if type(crowd) is not int or not 1 <= crowd <= MOST_CROWD:
            raise BadInput(f"a crowd of {crowd!r:.80} is not a number of replies")
        if not isinstance(axes, Mapping) or not all(type(a) is int and 0 <= a <= MOST_AXES for a in axes.values()):
            raise BadInput(f"the axes {axes!r:.80} are not small numbers")
        return cls(crowd=crowd, axes=dict(axes))


def read_mixing(setup: Setup) -> Mixing:
    """The rule of a setup; a protocol that has none is not meant to be shuffled."""
    rule = setup.parameters.get("shuffle")
    if not isinstance(rule, Mapping):
        raise RemoteProtocolError(f"shuffler: {setup.protocol} does not say how its replies are to be mixed")
    try:
        return Mixing.from_parameters(rule)
    except BadInput as error:
        raise RemoteProtocolError(f"shuffler: {error}") from None


def system_draw(size: int) -> bytes:
    return os.urandom(size)


def keyed_draw(key: bytes) -> Draw:
    """Bytes of a ChaCha20 keystream, for experiments that are to be repeated. Whoever knows the key knows the order."""
    if len(key) != KEY_BYTES:
        raise LocalProtocolError(f"a key of {len(key)} bytes draws nothing; give {KEY_BYTES}")
    stream = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()
    return lambda size: stream.update(bytes(size))


def system_draws(number: int) -> Draw:
    """The operating system's randomness, whatever the round."""
    return system_draw


def keyed_draws(key: bytes) -> Draws:
    """A keystream of its own for each round of an experiment that is to be repeated, kills included."""
    if len(key) != KEY_BYTES:
        raise LocalProtocolError(f"a key of {len(key)} bytes draws nothing; give {KEY_BYTES}")
    return lambda number: keyed_draw(hmac.new(key, b"parley mixing %d" % number, hashlib.sha256).digest())


def draw_seed_from_key(key: bytes) -> bytes:
    """The shuffler's seed in an experiment whose coins come from this key."""
    return hmac.new(key, b"parley shuffler", hashlib.sha256).digest()


def permutation(size: int, draw: Draw) -> Order:
    """A uniform permutation: the order of independent 64-bit numbers, drawn anew should two of them be equal."""
    while True:
        keys = np.frombuffer(draw(8 * size), dtype=np.uint64)
        order = np.argsort(keys, kind="stable")
        drawn = keys[order]
        if not (drawn[1:] == drawn[:-1]).any():
            return order


def gather(held: Iterable[Replies]) -> tuple[Columns, int, int]:
    """The replies of a round in the order of their users; how many they are, and how many are left out.

    Those stay whose layout most of them have: one node's nonsense must not spoil the batch. What is mixed with the
    same draws is the same batch, whoever answered first.
    """
    sizes, by_layout = Counter[Layout](), dict[Layout, list[Replies]]()
    for replies in held:
        if len(replies.users) and replies.columns:
            found = layout(replies.columns)
            sizes[found] += len(replies.users)
            by_layout.setdefault(found, []).append(replies)
    if not sizes:
        return {}, 0, 0
    chosen = max(sizes, key=lambda each: (sizes[each], each))
    kept = by_layout[chosen]
    order = np.argsort(np.concatenate([replies.users for replies in kept]), kind="stable")
    columns = {name: np.concatenate([replies.columns[name] for replies in kept])[order] for name, _, _ in chosen}
    return columns, sizes[chosen], sizes.total() - sizes[chosen]


def mix(columns: Columns, mixing: Mixing, draw: Draw) -> Columns:
    """The columns as the rule says: nothing in them tells any more which messages came together or from whom."""
    rows = len(next(iter(columns.values())))
    order = permutation(rows, draw) if any(name not in mixing.axes for name in columns) else None
    found: dict[str, Array] = {}
    for name, column in sorted(columns.items()):
        if name not in mixing.axes:
            found[name] = column[order]
            continue
        axes = mixing.axes[name]
        if column.ndim <= axes:
            raise RemoteProtocolError(f"shuffler: a column of shape {column.shape} has no {axes} axes to keep apart")
        apart = coordinates(column, axes)
        mixed = np.empty(apart.shape, dtype=column.dtype)
        for coordinate, entries in enumerate(apart):
            flat = np.ascontiguousarray(entries).reshape(-1)
            mixed[coordinate] = flat[permutation(len(flat), draw)].reshape(entries.shape)
        found[name] = np.ascontiguousarray(np.moveaxis(mixed, 0, 1)).reshape(column.shape)
    return found


def coordinates(column: Array, axes: int) -> Array:
    """The entries of each coordinate: a column of shape (n, s_1, ..., s_a, t_1, ...) as (s_1 ... s_a, n, t_1 ...)."""
    shape = column.shape
    return np.moveaxis(column.reshape(shape[0], int(np.prod(shape[1 : axes + 1])), -1), 1, 0)
