"""How the values of a column are distributed over its fine levels, from a few users who answer about thresholds.

A column's fine levels are cut into nodes of `widths` levels each: coarse ones that show where most values lie, and fine
ones that show where exactly. A user draws one cut of one column and sends its node there through subset selection; the
borders of nodes are the thresholds. The analyst looks for the distribution that explains all nodes best.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from parley.emulator.protocol import Inputs
from parley.emulator.randomizer import Floats, Integers
from parley.protocols.randomizers.categories.levelled import LevelledSelection
from parley.protocols.randomizers.categories.subset_selection import SubsetSelection

# Each cut has a quarter of the nodes of the next finer one; the coarsest has fewer than this.
FANOUT = 4
COARSEST = 2 * FANOUT
# So many that an atom of the distribution is found whole: 80 leave a tenth of it to its neighbours.
STEPS = 250
# Draws behind the error of what is read off the margins; the generator's seed is fixed.
DRAWS = 12
SEED = 21


def widths_of(levels: int) -> tuple[int, ...]:
    """Fine levels of a node, cut by cut, the coarsest first."""
    widths = [1]
    while -(-levels // widths[0]) >= COARSEST:
        widths.insert(0, widths[0] * FANOUT)
    return tuple(widths)


@dataclass(frozen=True)
class Cut:
    """One way to cut a column into nodes of equal width."""

    column: int
    levels: int
    width: int

    @property
    def nodes(self) -> int:
        return -(-self.levels // self.width)

    def total(self, shares: Floats) -> Floats:
        """The share of each node, from those of the fine levels, column by column."""
        return np.asarray(np.add.reduceat(shares, np.arange(0, self.levels, self.width), axis=0))


@dataclass(frozen=True)
class Margins:
    """The question about the margins of columns with these fine levels. It is a value for every input."""

    fine: tuple[int, ...]

    @property
    def inputs(self) -> int:
        return int(np.prod(self.fine, dtype=np.int64))

    @cached_property
    def cuts(self) -> tuple[Cut, ...]:
        return tuple(
            Cut(column, levels, width) for column, levels in enumerate(self.fine) for width in widths_of(levels)
        )

    @property
    def rows(self) -> int:
        return len(self.cuts)

    def columns(self, indices: Inputs) -> Floats:
        """The node of each input at every cut."""
        places = np.unravel_index(indices, self.fine)
        return np.stack([places[cut.column] // cut.width for cut in self.cuts], axis=-1).astype(np.float64)

    def selection(self, epsilon: float) -> LevelledSelection:
        return LevelledSelection(categories=tuple(cut.nodes for cut in self.cuts), epsilon=epsilon)

    @property
    def representatives(self) -> Inputs:
        """Inputs that have, column by column, every fine level: a reply is about one column."""
        places = [np.arange(max(self.fine)) % levels for levels in self.fine]
        return np.asarray(np.ravel_multi_index(places, self.fine), dtype=np.int64)

    def read(self, selection: LevelledSelection, total: Integers) -> "MarginRead":
        """What the tally of the replies says of every column."""
        found = zip(self.cuts, selection.oracles, selection.at_levels(total), strict=True)
        return MarginRead(self.fine, tuple(Heard(cut, *_frequencies(oracle, *heard)) for cut, oracle, heard in found))


class Heard(NamedTuple):
    """Unbiased shares of the nodes of a cut, and the weight of each: one over its variance."""

    cut: Cut
    shares: Floats
    weight: float


def _frequencies(oracle: SubsetSelection, replies: int, counts: Integers) -> tuple[Floats, float]:
    own, other = oracle.own, oracle.other
    shares = (counts / max(1, replies) - other) / (own - other)
    return shares[:, None], replies * (own - other) ** 2 / (other * (1 - other))


@dataclass(frozen=True, eq=False)
class MarginRead:
    """What was heard of the margins: the share of each fine level, column by column."""

    fine: tuple[int, ...]
    heard: tuple[Heard, ...]

    @cached_property
    def shares(self) -> tuple[Floats, ...]:
        columns = range(len(self.fine))
        return tuple(explain(self._of(column))[:, 0] for column in columns)

    @cached_property
    def redrawn(self) -> tuple[Floats, ...]:
        """Shares as they might have come out had these been the true ones: so far may the true ones be from these."""
        return tuple(self._redraw(column) for column in range(len(self.fine)))

    def _redraw(self, column: int) -> Floats:
        generator, own = np.random.default_rng([SEED, column]), self.shares[column]
        again = []
        for cut, _, weight in self._of(column):
            noise = generator.standard_normal((cut.nodes, DRAWS)) / np.sqrt(max(weight, 1e-9))
            again.append(Heard(cut, cut.total(own[:, None]) + noise, weight))
        return explain(again)

    def _of(self, column: int) -> list[Heard]:
        return [each for each in self.heard if each.cut.column == column]


def explain(heard: list[Heard]) -> Floats:
    """The shares of fine levels whose nodes are nearest to what was heard.

    Coarse nodes come first, and each finer cut starts from the one before: gradients alone would take thousands of
    steps to move weight from one end of a column to the other.
    """
    cuts = sorted(heard, key=lambda each: -each.cut.width)
    found = np.full(cuts[0].shares.shape, 1.0 / cuts[0].cut.nodes)
    for place, finest in enumerate(cuts):
        width = finest.cut.width
        if place:
            ratio = cuts[place - 1].cut.width // width
            found = np.repeat(found / ratio, ratio, axis=0)[: finest.cut.nodes]
        found = _descend(found, [(each.cut.width // width, each) for each in cuts[: place + 1]])
    return found


def _descend(found: Floats, heard: list[tuple[int, Heard]]) -> Floats:
    """Accelerated projected gradients for nodes that each have so many of the shares that are looked for."""
    from parley.protocols.projection.simplex_projection import nearest_probabilities

    steepest = sum(weight * ratio for ratio, (_, _, weight) in heard) or 1.0
    ahead, momentum, many = found, np.ones(found.shape[1]), len(found)
    for _ in range(STEPS):
        gradient = np.zeros_like(found)
        for ratio, (_, shares, weight) in heard:
            missed = weight * (np.add.reduceat(ahead, np.arange(0, many, ratio), axis=0) - shares)
            gradient += np.repeat(missed, ratio, axis=0)[:many]
        after = nearest_probabilities(ahead - gradient / steepest)
        # Momentum restarts where it points uphill.
        momentum = np.where(((ahead - after) * (after - found)).sum(axis=0) > 0, 1.0, momentum)
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = after + (momentum - 1) / following * (after - found)
        found, momentum = after, following
    return found
