"""Where bins begin: borders between fine levels, so that bins hold equal shares, and the public map they make."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from parley.emulator.errors import RemoteProtocolError
from parley.emulator.protocol import Inputs
from parley.emulator.randomizer import Floats, Integers


def quantile_borders(shares: Floats, bins: int) -> Integers:
    """The first fine level of every bin but the first, so that bins hold shares as equal as fine levels allow."""
    levels = len(shares)
    below = np.concatenate([[0.0], np.cumsum(shares)])
    wanted = below[-1] * np.arange(1, bins) / bins
    after = np.clip(np.searchsorted(below, wanted), 1, levels - 1)
    before = np.maximum(after - 1, 1)
    nearer = np.where(below[after] - wanted < wanted - below[before], after, before)
    borders = np.unique(nearer).tolist()
    while len(borders) < bins - 1:
        # A level that holds much takes several borders at once. The others go where most can still be divided.
        edges = np.array([0, *borders, levels])
        held = np.where(np.diff(edges) > 1, np.diff(below[edges]) + 1e-12 * np.diff(edges), -1.0)
        widest = int(held.argmax())
        low, high = int(edges[widest]), int(edges[widest + 1])
        middle = int(np.searchsorted(below[low + 1 : high], (below[low] + below[high]) / 2)) + low + 1
        borders = sorted({*borders, min(max(middle, low + 1), high - 1)})
    return np.array(borders, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Bins:
    """The bins of every column: fine levels on one side, cells on the other."""

    fine: tuple[int, ...]
    levels: tuple[int, ...]
    borders: tuple[Integers, ...]

    @classmethod
    def of(cls, fine: Sequence[int], levels: Sequence[int], joined: Integers) -> "Bins":
        """From the borders of all columns one after the other, which a stranger gave."""
        parts = np.split(joined.astype(np.int64), np.cumsum([each - 1 for each in levels])[:-1])
        for borders, many in zip(parts, fine, strict=True):
            edges = np.concatenate([[0], borders, [many]])
            if not (np.diff(edges) > 0).all():
                raise RemoteProtocolError("the borders of bins do not rise from fine level to fine level")
        return cls(tuple(fine), tuple(levels), tuple(parts))

    @property
    def joined(self) -> Integers:
        return np.concatenate(self.borders)

    @property
    def inputs(self) -> int:
        return int(np.prod(self.fine, dtype=np.int64))

    def cells(self, inputs: Inputs) -> Inputs:
        """The cell of each fine input."""
        places = np.unravel_index(inputs, self.fine)
        found = [np.searchsorted(own, place, side="right") for own, place in zip(self.borders, places, strict=True)]
        return np.asarray(np.ravel_multi_index(found, self.levels), dtype=np.int64)

    def shares(self, column: int, fine: Floats) -> Floats:
        """What each bin of a column holds, from the shares of its fine levels."""
        return np.asarray(np.add.reduceat(fine, np.concatenate([[0], self.borders[column]])))

    def widths(self, column: int) -> Integers:
        """How many fine levels each bin of a column has."""
        return np.diff(np.concatenate([[0], self.borders[column], [self.fine[column]]]))

    @property
    def representatives(self) -> Inputs:
        """One fine input of every cell."""
        first = np.meshgrid(*(np.concatenate([[0], own]) for own in self.borders), indexing="ij")
        return np.asarray(np.ravel_multi_index(first, self.fine), dtype=np.int64).reshape(-1)
