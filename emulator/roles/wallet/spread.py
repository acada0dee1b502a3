"""The exact loss of what was said: L(x), its spread, and the largest spread that one more reply can bring.

Likelihoods are floats. Each logarithm is taken to be right within ROUNDING (1 + |log p|), and every sum rounds; the
bound of all that goes with L and is added before anything is compared with a cap, so that rounding can only refuse.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import RemoteProtocolError
from parley.emulator.protocol import Broadcast
from parley.emulator.randomizer import Columns, Floats, Integers, row_bytes
from parley.emulator.round import Round

EPSILON_UNITS = 10**15
# More than any cap; two of them still fit into 64 bits.
NEVER = 4 * 10**18
# Two units in the last place, of the probability and of its logarithm.
ROUNDING = 2.0**-51
# All replies times all inputs: more are not looked at one by one.
MOST_LISTED = 1 << 22
# Numbers that are worked out together.
BLOCK_NUMBERS = 1 << 19


def units(epsilon: float) -> int:
    """An epsilon in whole units as it is written (0.1 is a tenth), rounded up."""
    if not epsilon < NEVER / EPSILON_UNITS:
        return NEVER
    return math.ceil(Fraction(repr(float(epsilon))) * EPSILON_UNITS)


def measured(losses: Floats) -> Integers:
    """Losses that were worked out in whole units, rounded up by more than the multiplication can be off."""
    usable = losses < NEVER / EPSILON_UNITS
    scaled = np.ceil(np.where(usable, losses, 0.0) * EPSILON_UNITS).astype(np.int64)
    found: Integers = np.where(usable, np.where(losses > 0, scaled + 1, 0), NEVER)
    return found


@dataclass(eq=False)
class Losses:
    """L of some users, a row each, its maximum 0; and how far each difference in a row may be off by rounding."""

    log: Floats
    error: Floats

    @classmethod
    def none(cls, users: int, inputs: int) -> "Losses":
        return cls(np.zeros((users, inputs)), np.zeros(users))

    def add(self, places: NDArray[np.intp] | Integers, rows: Floats, error: Floats) -> None:
        """One more reply of each of the users at these places."""
        log = self.log[places] + rows
        log -= log.max(axis=1, keepdims=True)
        self.log[places] = log
        self.error[places] += error + 2 * ROUNDING * np.abs(log).max(axis=1)

    @property
    def spread(self) -> Floats:
        found: Floats = np.ptp(self.log, axis=1)
        return found

    def spent(self) -> Integers:
        """The spread, not too small by rounding."""
        return measured(self.spread + self.error)


class Channel:
    """A question as a table: how likely each reply is under each input of the account."""

    def __init__(self, step: Round, public: Broadcast, coarsening: Integers | None = None) -> None:
        self._step, self._public, self._coarsening = step, public, coarsening

    def of(self, replies: Columns) -> tuple[Floats, Floats]:
        """log p(reply | x) with the largest of each row at 0, and the error of its differences; equal replies once."""
        raw = row_bytes(replies, len(next(iter(replies.values()))))
        joined = np.ascontiguousarray(raw).view(np.dtype((np.void, max(1, raw.shape[1]))))[:, 0]
        _, first, which = np.unique(joined, return_index=True, return_inverse=True)
        rows, error = self._rows({name: column[first] for name, column in replies.items()})
        return rows[which], error[which]

    def _rows(self, replies: Columns) -> tuple[Floats, Floats]:
        with np.errstate(all="ignore"):
            log = self._step.log_likelihood(self._public, replies)
        if self._coarsening is not None:
            log = log[:, self._coarsening]
        high = log.max(axis=1, keepdims=True)
        with np.errstate(all="ignore"):
            error = 2 * ROUNDING * (1 + np.abs(log).max(axis=1))
            rows = log - high
        # A reply that some input cannot cause gives that input away: no cap allows it.
        sure = np.isfinite(rows).all(axis=1)
        return np.where(sure[:, None], rows, 0.0), np.where(sure, error, np.inf)

    @cached_property
    def listed(self) -> tuple[Floats, Floats] | None:
        outcomes = self._step.outcomes(self._public)
        if outcomes is None or not outcomes:
            return None
        # A stranger's question over a coarse domain may be as long as its replies times the wallet's inputs.
        inputs = self._step.inputs if self._coarsening is None else len(self._coarsening)
        if len(next(iter(outcomes.values()))) * inputs > MOST_LISTED:
            return None
        return self._rows(outcomes)

    def check(self, epsilon: float) -> None:
        """A round whose replies are listed gives away no more than it says."""
        if self.listed is None:
            return
        rows, error = self.listed
        worst = float(np.where(np.isfinite(error), np.ptp(rows, axis=1) - error, np.inf).max())
        if not worst <= epsilon:
            raise RemoteProtocolError(f"the round {self._step.name} gives away {worst:.6g}, more than its {epsilon:g}")

    def affordable(self, losses: Losses, epsilon: float, room: Integers) -> NDArray[np.bool_]:
        """Whose spread stays within its room (whole units) whatever it replies.

        No reply adds more than epsilon to a spread. Who has no room for that may still have room for every reply there
        is, if they can be listed: what pulls L further apart at its ends need not be on offer.
        """
        found: NDArray[np.bool_] = losses.spent() + units(epsilon) <= room
        if self.listed is None:
            return found
        rows, error = self.listed
        slack = losses.error + error.max() + 2 * ROUNDING * (losses.spread + epsilon)
        left = np.flatnonzero(~found & np.isfinite(slack))
        # First the reply that pulls the two ends apart most: nearly always it decides.
        for part in parts(left, len(rows)):
            high, low = losses.log[part].argmax(axis=1), losses.log[part].argmin(axis=1)
            apart = losses.spread[part] + (rows[:, high] - rows[:, low]).max(axis=0)
            found[part] = measured(apart + slack[part]) <= room[part]
        left = left[found[left]]
        for part in parts(left, rows.size):
            after = losses.log[part][:, None, :] + rows[None, :, :]
            worst = np.ptp(after, axis=2).max(axis=1)
            found[part] = measured(worst + slack[part]) <= room[part]
        return found


def parts(places: NDArray[np.intp], each: int) -> list[NDArray[np.intp]]:
    """Blocks of users whose work, so many numbers for each of them, fits into BLOCK_NUMBERS."""
    step = max(1, BLOCK_NUMBERS // max(1, each))
    return [places[start : start + step] for start in range(0, len(places), step)]
