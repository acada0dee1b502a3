"""Statistics of ranks of whole columns, exact and in little memory: what an emulation calls the truth.

Nothing here is private. Columns become ranks in four bytes, and pairs are counted in whole numbers.
"""

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.emulator.randomizer import Floats

Ranks = NDArray[np.uint32]
BLOCK_ROWS = 1 << 18
# Parts that a column is sorted in, and values that show where they begin.
PARTS, SAMPLE = 32, 1 << 14
# Rows so short are compared value by value.
FEW = 32


def taus(columns: Iterable[Floats]) -> tuple[float, float]:
    """Kendall's tau-a and tau-b of two columns; 0 where a column has one value. Columns are let go of one by one.

    With users sorted by the first column, and by the second where they tie, whoever stands before another with a
    larger second value disagrees with him.
    """
    first, second = (dense_ranks(column) for column in columns)
    both = first.astype(np.uint64)
    del first
    both <<= np.uint64(32)
    both |= second
    del second
    both.sort()
    tied, tied_first = _tied_pairs(both), _tied_pairs(both, dropping=32)
    values = both.astype(np.uint32)
    del both
    discordant, pairs = inversions(values), len(values) * (len(values) - 1) // 2
    tied_second = _tied_pairs(values)
    agreement = pairs - tied_first - tied_second + tied - 2 * discordant
    untied = math.sqrt(pairs - tied_first) * math.sqrt(pairs - tied_second)
    return agreement / pairs, agreement / untied if untied else 0.0


def auc(scores: Floats, positive: NDArray[np.bool_]) -> float | None:
    """The chance that a positive user has the larger score, ties counting half; None where all have one label."""
    above, below = (np.sort(scores[side]) for side in (positive, ~positive))
    if not (len(above) and len(below)):
        return None
    twice = sum(int(np.searchsorted(below, above, side).sum()) for side in ("left", "right"))
    return twice / (2 * len(above) * len(below))


def dense_ranks(values: Floats) -> Ranks:
    """0 for the smallest value, 1 for the next one, and so on; equal values have equal ranks.

    Values are sorted part by part, so that no order of all of them is in memory. Parts lie between values of the column
    itself, about evenly; a value that is most of the column is a border, and has nothing to sort.
    """
    ranks, following = np.empty(len(values), dtype=np.uint32), 0
    few = np.sort(values[:: max(1, len(values) // SAMPLE)])
    borders = np.unique([values.min(), *few[:: max(1, len(few) // PARTS)], values.max()])
    for low, high in pairwise([*borders, borders[-1]]):
        ranks[values == low] = following
        following += 1
        between = values > low
        between &= values < high
        rows = np.flatnonzero(between)
        if len(rows):
            order = np.argsort(values[rows])
            rows = rows[order]
            here = values[rows]
            ranks[rows] = following + np.concatenate([[0], np.cumsum(here[1:] != here[:-1])])
            following = int(ranks[rows[-1]]) + 1
    return ranks


def inversions(values: Ranks) -> int:
    """How many pairs stand in falling order, by sorting longer and longer pieces of `values`, which ends up sorted.

    Values are below 2^31: the lowest bit says which half of a piece a value comes from.
    """
    count = 0
    for rows in _pieces(values, FEW):
        for gap in range(1, rows.shape[1]):
            count += int(np.count_nonzero(rows[:, :-gap] > rows[:, gap:]))
        rows.sort(axis=1)
    half = FEW
    while half < len(values):
        for rows in _pieces(values, 2 * half):
            rows <<= 1
            rows[:, half:] |= 1
            rows.sort(axis=1)
            # So many of the right half come before each value; for those of the right half that is 1, 2, 3, ...
            smaller = rows & 1
            np.cumsum(smaller, axis=1, out=smaller)
            many = max(0, rows.shape[1] - half)
            count += int(smaller.sum(dtype=np.uint64)) - len(rows) * (many * (many + 1) // 2)
            rows >>= 1
        half *= 2
    return count


def _pieces(values: Ranks, length: int) -> tuple[Ranks, Ranks]:
    """Views of all pieces of this length, and of the rest."""
    whole = len(values) - len(values) % length
    return values[:whole].reshape(-1, length), values[whole:].reshape(1, -1)


def _tied_pairs(ordered: NDArray[Any], *, dropping: int = 0) -> int:
    """How many pairs of these sorted numbers are equal but for so many of their lowest bits."""
    count, begin, before = 0, 0, -1
    for start in range(0, len(ordered), BLOCK_ROWS):
        here = ordered[start : start + BLOCK_ROWS] >> dropping
        places = np.arange(start, start + len(here))
        new = np.concatenate([[int(here[0]) != before], here[1:] != here[:-1]])
        begins = np.maximum.accumulate(np.where(new, places, begin))
        count += int((places - begins).sum())
        begin, before = int(begins[-1]), int(here[-1])
    return count
