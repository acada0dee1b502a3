r"""A Merkle tree that grows at its right end, as in RFC 9162, section 2.1.

```
                    root of 7
                /               \
           [0..4)               [4..7)         a node hashes 0x01 | left | right
          /      \             /      \        a leaf hashes 0x00 | data
      [0..2)    [2..4)     [4..6)      6       the left half is the largest power of two
      0    1    2    3     4    5              below the size
```

`levels[h]` holds the hashes of all complete subtrees of 2^h leaves, so that adding a leaf costs one or two hashes and a
proof costs a look-up for each of its steps.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence

from parley.emulator.wire.codec import pack_plain

HASH_BYTES = 32
EMPTY = hashlib.sha256(b"").digest()


def leaf_hash(data: bytes) -> bytes:
    return hashlib.sha256(b"\0" + data).digest()


def leaf_of(sequence: int, time_ns: int, sender: str, digest: bytes) -> bytes:
    """The leaf of a message: its number, when and from whom it came, the SHA-256 of its frame."""
    return leaf_hash(pack_plain((sequence, time_ns, sender, digest)))


def node_hash(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


class Tree:
    """All hashes of a growing tree, and the proofs it can give."""

    def __init__(self) -> None:
        self._levels: list[list[bytes]] = [[]]

    def __len__(self) -> int:
        return len(self._levels[0])

    def append(self, leaf: bytes) -> None:
        self.extend((leaf,))

    def extend(self, leaves: Iterable[bytes]) -> None:
        """Append many: each level is completed as far as it goes before the next."""
        level, height = self._levels[0], 0
        level += leaves
        while len(level) > 1:
            if height + 1 == len(self._levels):
                self._levels.append([])
            above = self._levels[height + 1]
            pairs = range(2 * len(above), len(level) - 1, 2)
            if not pairs:
                return
            above += [hashlib.sha256(b"\1" + level[at] + level[at + 1]).digest() for at in pairs]
            level, height = above, height + 1

    def root(self, size: int | None = None) -> bytes:
        """The head of the first `size` leaves, by default of all."""
        size = len(self) if size is None else self._checked(size)
        return self._range(0, size) if size else EMPTY

    def inclusion(self, index: int, size: int) -> tuple[bytes, ...]:
        """The hashes that lead from leaf `index` to the head of the first `size` leaves (RFC 9162, 2.1.3.1)."""
        self._checked(size)
        if not 0 <= index < size:
            raise IndexError(f"leaf {index} of {size}")
        return self._path(index, size, 1)[0]

    def consistency(self, first: int, size: int) -> tuple[bytes, ...]:
        """The hashes that show that the head of `size` leaves extends the head of `first` (RFC 9162, 2.1.4.1)."""
        self._checked(size)
        if not 0 < first <= size:
            raise IndexError(f"a head of {first} leaves before one of {size}")
        path, low = self._path(first - 1, size, first)
        return (self._range(low, first), *path) if low else path

    def _path(self, index: int, size: int, widest: int) -> tuple[tuple[bytes, ...], int]:
        """From the head down towards leaf `index`, until it is the last of at most `widest` leaves.

        Gives what lies beside that way, from below, and the first of these leaves.
        """
        low, high, path = 0, size, list[bytes]()
        while high != index + 1 or high - low > widest:
            middle = low + _left(high - low)
            if index < middle:
                path.append(self._range(middle, high))
                high = middle
            else:
                path.append(self._range(low, middle))
                low = middle
        return tuple(reversed(path)), low

    def _checked(self, size: int) -> int:
        if not 0 <= size <= len(self):
            raise IndexError(f"{size} of {len(self)} leaves")
        return size

    def _range(self, low: int, high: int) -> bytes:
        """The hash over leaves low .. high - 1, where low is a multiple of the power of two that holds them."""
        width = high - low
        if width & (width - 1) == 0:
            return self._levels[width.bit_length() - 1][low // width]
        middle = low + _left(width)
        return node_hash(self._range(low, middle), self._range(middle, high))


def digests_of(path: bytes) -> tuple[bytes, ...]:
    """The digests of a path as it travels, one after the other."""
    return tuple(path[start : start + HASH_BYTES] for start in range(0, len(path), HASH_BYTES))


def is_included(leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> bool:
    """Whether the path leads from this leaf to this head (RFC 9162, 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    heads = _climb(index, size - 1, leaf, path)
    return heads is not None and heads[1] == root


def is_consistent(first: int, before: bytes, size: int, root: bytes, path: Sequence[bytes]) -> bool:
    """Whether the head of `size` leaves extends the earlier head of `first` (RFC 9162, 2.1.4.2)."""
    if first == size:
        return not path and before == root
    if not 0 < first < size or not path:
        return False
    steps: Iterator[bytes] = iter(path if first & (first - 1) else (before, *path))
    place, last = first - 1, size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    return _climb(place, last, next(steps), steps) == (before, root)


def _climb(place: int, last: int, start: bytes, steps: Iterable[bytes]) -> tuple[bytes, bytes] | None:
    """The heads that end at `place` and at `last`, worked out from `start`; None for too many or too few steps."""
    old = new = start
    for step in steps:
        if last == 0:
            return None
        if place & 1 or place == last:
            old, new = node_hash(step, old), node_hash(step, new)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            new = node_hash(new, step)
        place, last = place >> 1, last >> 1
    return (old, new) if last == 0 else None


def _left(width: int) -> int:
    """The largest power of two below the width."""
    return 1 << ((width - 1).bit_length() - 1)
