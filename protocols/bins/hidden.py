"""What bins hide: how far a statistic of ranks in bins is from that of the fine levels, as far as the margins show it.

Bins make ties of pairs that are none. What such pairs would have said is not on record, so it comes from a model:
within a bin its fine levels are equally likely, and the two columns depend on each other as normal variables do, with
the correlation that gives the measured value in these bins. The statistic of the model's fine levels minus that of its
bins is what the model hides.

Normal variables depend on each other smoothly. Data may do so more sharply, as delays of departure and arrival do, and
then bins hide more, up to three times as much. So the estimate is SHARPER times the model's, with an error that covers
both ends; `python -m benchmarks.bins` measures how well that does.

The record read at half the levels would show it too, but with more noise: at epsilon 1 and 300,000 users the difference
of two such readings has a standard error of 0.013, more than all that 16 bins hide.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy

from parley.emulator.protocol import QUANTILE_95
from parley.emulator.randomizer import Floats, Integers
from parley.protocols.workloads.kendall import Kendall, KendallTauB
from parley.protocols.workloads.workload import Workload

# Parts that stand for the fine levels of one bin; finer ones change nothing that can be seen.
PARTS = 12
# What data hide, times what the model hides; and the error of that, as a share of what the model hides.
SHARPER = 1.5
ROUGH = 0.6
# The error of the ties that bins add, as a share of them.
ROUGH_TIES = 0.3
STEPS = 18
LARGEST_CORRELATION = 0.999


@dataclass(frozen=True, kw_only=True)
class Hidden:
    """What is hidden of tau-a or an AUC's form, and of tau-b, each with the standard error of that."""

    amount: float
    error: float

    def interval(self, value: float, rmse: float) -> tuple[float, float]:
        """The 95% interval of what the bins are bins of: moved by what they hide, and wider. It holds the estimate."""
        half = QUANTILE_95 * float(np.hypot(rmse, self.error))
        low, high = value + self.amount - half, value + self.amount + half
        return min(low, value), max(high, value)


@dataclass(frozen=True, eq=False)
class Column:
    """A column of the model: the share of each bin, its parts, and normal scores of their middles and ends."""

    shares: Floats
    widths: Integers

    @property
    def parts(self) -> Integers:
        return np.minimum(self.widths, PARTS)

    @property
    def fine(self) -> Floats:
        """The share of each part."""
        return np.repeat(self.shares / self.parts, self.parts)

    @property
    def starts(self) -> Integers:
        """The first part of each bin."""
        return np.concatenate([[0], np.cumsum(self.parts)[:-1]])

    @property
    def untied(self) -> tuple[float, float]:
        """The share of pairs that differ: by bins, and by fine levels."""
        return 1 - float(self.shares @ self.shares), 1 - float(self.shares**2 @ (1 / self.widths))


Draws = Sequence[tuple[Column, Column]]


def model_taus(first: Column, second: Column, correlation: float) -> tuple[float, float]:
    """The form of Kendall's tau in bins and by fine levels, in the model."""
    one, two = first.fine, second.fine
    middle = scipy.special.ndtri(np.clip(np.cumsum(one) - one / 2, 1e-12, 1 - 1e-12))
    ends = scipy.special.ndtri(np.clip(np.cumsum(two), 1e-12, 1 - 1e-12))
    ends[-1] = np.inf
    below = scipy.special.ndtr((ends - correlation * middle[:, None]) / np.sqrt(1 - correlation**2))
    cells = one[:, None] * np.diff(below, axis=1, prepend=0.0)
    coarse = np.add.reduceat(np.add.reduceat(cells, first.starts, axis=0), second.starts, axis=1)
    return _form(coarse), _form(cells)


def _form(cells: Floats) -> float:
    return Kendall(levels=cells.shape).form(cells.reshape(-1))


def hidden(first: Column, second: Column, form: float, *, ties: bool = False, draws: Draws = ()) -> Hidden:
    """What bins hide of a form with this value in bins; with `ties`, of the form over the root of untied pairs.

    `draws` are columns as they may be instead, if their shares are known roughly: what is hidden is the mean over them.
    Bins that were made to look even are less so, and hide more.
    """
    low, high = -LARGEST_CORRELATION, LARGEST_CORRELATION
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if model_taus(first, second, middle)[0] < form else (low, middle)
    gained, shrunk = np.mean([_hidden(one, two, form, low, ties) for one, two in draws or [(first, second)]], axis=0)
    error = np.hypot(ROUGH * gained, ROUGH_TIES * shrunk)
    return Hidden(amount=float(SHARPER * gained + shrunk), error=float(error))


def _hidden(first: Column, second: Column, form: float, correlation: float, ties: bool) -> tuple[float, float]:
    """What pairs would say that bins tie, and what tau-b loses because more pairs count."""
    binned, fine = model_taus(first, second, correlation)
    if not ties:
        return fine - binned, 0.0
    coarse, exact = (math.sqrt(one * two) for one, two in zip(first.untied, second.untied, strict=True))
    return (fine - binned) / exact, form / exact - form / coarse


def hidden_of(workload: Workload, first: Column, second: Column, value: float, draws: Draws = ()) -> Hidden:
    """What bins hide of a value of this statistic."""
    if workload.labelled:
        return _hidden_area(first, second, value, draws)
    return hidden(first, second, value, ties=workload.name == KendallTauB.name, draws=draws)


def _hidden_area(score: Column, label: Column, area: float, draws: Draws) -> Hidden:
    """What bins of scores hide of an AUC: 4 p q of the labels turns its distance from 1/2 into a form."""
    spread = 4 * float(np.prod(np.clip(label.shares, 0.01, 1)))
    form = hidden(score, label, (area - 0.5) * spread, draws=draws)
    return Hidden(amount=form.amount / spread, error=form.error / spread)


@lru_cache(maxsize=64)
def typical_hidden(levels: tuple[int, ...], fine: tuple[int, ...], *, ties: bool = False, form: float = 0.5) -> Hidden:
    """What bins of equal shares hide at a public guess of the value: for plans, which know no data."""
    columns = [
        Column(np.full(bins, 1 / bins), np.full(bins, max(1, each // bins)))
        for bins, each in zip(levels, fine, strict=True)
    ]
    largest = model_taus(columns[0], columns[1], LARGEST_CORRELATION)[0]
    return hidden(columns[0], columns[1], form * largest, ties=ties)
