"""Sets of users as runs of numbers: a cohort of a million is one run, however many frames it came in."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from parley.emulator.wire.messages import Users

_MOST_PENDING = 2**18


class UserSet:
    """Users that were heard. Memory grows with the number of gaps, at worst with the number of users."""

    def __init__(self) -> None:
        self._starts: NDArray[np.int64] = np.empty(0, np.int64)
        self._stops: NDArray[np.int64] = np.empty(0, np.int64)
        self._pending: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self._waiting = 0

    def add(self, users: Users) -> None:
        """Users in increasing order."""
        if len(users):
            last = np.flatnonzero(np.diff(users) > 1)
            self._add_runs(users[np.r_[0, last + 1]], users[np.r_[last, len(users) - 1]] + 1)

    def add_range(self, first: int, end: int) -> None:
        if first < end:
            self._add_runs(np.array([first]), np.array([end]))

    def join(self, other: "UserSet") -> None:
        other._merge()
        if len(other._starts):
            self._add_runs(other._starts, other._stops)

    def _add_runs(self, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> None:
        self._pending.append((starts, stops))
        self._waiting += len(starts)
        if self._waiting > _MOST_PENDING:
            self._merge()

    def _merge(self) -> None:
        if not self._pending:
            return
        starts = np.concatenate([self._starts, *(each for each, _ in self._pending)])
        stops = np.concatenate([self._stops, *(each for _, each in self._pending)])
        order = np.argsort(starts, kind="stable")
        starts, stops = starts[order], np.maximum.accumulate(stops[order])
        fresh = np.r_[True, starts[1:] > stops[:-1]]
        self._starts, self._stops = starts[fresh], stops[np.r_[fresh[1:], True]]
        self._pending, self._waiting = [], 0

    def __len__(self) -> int:
        self._merge()
        return int((self._stops - self._starts).sum())

    def holds(self, users: Users) -> NDArray[np.bool_]:
        self._merge()
        place = np.searchsorted(self._starts, users, side="right") - 1
        if len(self._starts) == 0:
            return np.zeros(len(users), np.bool_)
        inside: NDArray[np.bool_] = (place >= 0) & (users < self._stops[np.maximum(place, 0)])
        return inside

    def blocks(self, size: int) -> Iterator[Users]:
        """All users in increasing order, at most `size` at a time."""
        self._merge()
        before = np.r_[0, np.cumsum(self._stops - self._starts)]
        for first in range(0, len(self), size):
            yield self._number(np.arange(first, min(first + size, len(self))), before)

    def choose(self, count: int, generator: np.random.Generator) -> Users:
        """So many different users at random, in increasing order; all of them if there are no more."""
        size = min(count, len(self))
        ranks = np.sort(generator.choice(len(self), size=size, replace=False, shuffle=False))
        return self._number(ranks, np.r_[0, np.cumsum(self._stops - self._starts)])

    def _number(self, ranks: NDArray[np.int64], before: NDArray[np.int64]) -> Users:
        run = np.searchsorted(before, ranks, side="right") - 1
        users: Users = self._starts[run] + (ranks - before[run])
        return users
