"""Sets of users: runs of numbers, and pages of bits where runs would be short.

A cohort of a million is one run, however many frames it came in. Where only some of its users speak, which public coins
decide, runs are short and many: there a set takes one bit per number, page by page.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from parley.emulator.wire.messages import Users

_MOST_PENDING = 2**18
# Numbers of a page, which takes 8 KiB; so many runs of a frame that lie on it take as much, so that no record makes a
# set larger than itself.
PAGE = 2**16
MANY_RUNS = 2**9
# Pages that are gone through one by one; where there are more, only those with users are.
NEAR_PAGES = 64


class UserSet:
    """Users that were heard. No number is in a run and on a page at a time."""

    def __init__(self) -> None:
        self._starts: NDArray[np.int64] = np.empty(0, np.int64)
        self._stops: NDArray[np.int64] = np.empty(0, np.int64)
        self._pages: dict[int, NDArray[np.uint8]] = {}
        self._pending: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self._waiting = 0
        self._mixed = False

    def add(self, users: Users) -> None:
        """Users in increasing order."""
        if not len(users):
            return
        first, end = int(users[0]), int(users[-1]) + 1
        if end - first == len(users):
            self.add_range(first, end)
            return
        if len(users) <= MANY_RUNS:
            self._add_runs(*_runs_of(users))
        else:
            self._add_by_page(users)

    def _add_by_page(self, users: Users) -> None:
        """Users in many short runs: in bits, but for those on pages where runs are few."""
        for number, part in _by_page(users):
            spoken = np.zeros(PAGE, np.bool_)
            spoken[users[part] - number * PAGE] = True
            if number in self._pages or np.count_nonzero(spoken[1:] > spoken[:-1]) >= MANY_RUNS:
                self._mark(number, np.packbits(spoken))
            else:
                self._add_runs(*_runs_of(users[part]))

    def add_range(self, first: int, end: int) -> None:
        if first < end:
            self._add_runs(np.array([first]), np.array([end]))

    def join(self, other: "UserSet") -> None:
        other._merge()
        if len(other._starts):
            self._add_runs(other._starts, other._stops)
        for number, page in other._pages.items():
            self._mark(number, page)

    def _mark(self, number: int, page: NDArray[np.uint8]) -> None:
        known = self._pages.get(number)
        if known is None:
            self._pages[number] = page.copy()
            self._mixed |= bool(len(self._starts) or self._pending)
        else:
            known |= page

    def _add_runs(self, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> None:
        self._pending.append((starts, stops))
        self._waiting += len(starts)
        if self._waiting > _MOST_PENDING:
            self._merge()

    def _merge(self) -> None:
        if self._pending:
            starts = np.concatenate([self._starts, *(each for each, _ in self._pending)])
            stops = np.concatenate([self._stops, *(each for _, each in self._pending)])
            order = np.argsort(starts, kind="stable")
            starts, stops = starts[order], np.maximum.accumulate(stops[order])
            fresh = np.r_[True, starts[1:] > stops[:-1]]
            self._starts, self._stops = starts[fresh], stops[np.r_[fresh[1:], True]]
            self._pending, self._waiting, self._mixed = [], 0, bool(self._pages)
        if self._mixed:
            self._move_to_pages()
            self._mixed = False

    def _move_to_pages(self) -> None:
        """Numbers of runs that lie on pages go there."""
        numbers = np.array(sorted(self._pages), dtype=np.int64)
        starts, stops, which = _overlaps(self._starts, self._stops, numbers * PAGE, (numbers + 1) * PAGE)
        for place in np.unique(which):
            mine, number = which == place, int(numbers[place])
            steps = np.zeros(PAGE + 1, np.int8)
            steps[starts[mine] - number * PAGE] += 1
            steps[stops[mine] - number * PAGE] -= 1
            self._pages[number] |= np.packbits(np.cumsum(steps[:PAGE]) > 0)
        # What is left of the runs lies between pages.
        before, after = np.r_[0, (numbers + 1) * PAGE], np.r_[numbers * PAGE, np.iinfo(np.int64).max]
        self._starts, self._stops, _ = _overlaps(self._starts, self._stops, before, after)

    @property
    def runs(self) -> NDArray[np.int64]:
        """A row for each run: its first number, and the one behind its last."""
        self._merge()
        return np.column_stack([self._starts, self._stops])

    def __len__(self) -> int:
        self._merge()
        spoken = sum(int(np.bitwise_count(page).sum()) for page in self._pages.values())
        return int((self._stops - self._starts).sum()) + spoken

    def holds(self, users: Users) -> NDArray[np.bool_]:
        self._merge()
        inside = np.zeros(len(users), np.bool_)
        if len(self._starts) and len(users):
            place = np.searchsorted(self._starts, users, side="right") - 1
            inside = (place >= 0) & (users < self._stops[np.maximum(place, 0)])
        for number, part in _by_page(users) if self._pages and len(users) else ():
            if (page := self._pages.get(number)) is not None:
                inside[part] = np.unpackbits(page).view(np.bool_)[users[part] - number * PAGE]
        return inside

    def marks(self, first: int, end: int) -> NDArray[np.bool_]:
        """For each of the numbers first .. end - 1 whether it is there."""
        self._merge()
        found = np.zeros(end - first, np.bool_)
        some = slice(np.searchsorted(self._stops, first, side="right"), np.searchsorted(self._starts, end))
        for start, stop in zip(self._starts[some].tolist(), self._stops[some].tolist(), strict=True):
            found[max(0, start - first) : stop - first] = True
        for number in range(first // PAGE, -(-end // PAGE)) if self._pages else ():
            if (page := self._pages.get(number)) is not None:
                low, high = max(first, number * PAGE), min(end, (number + 1) * PAGE)
                spoken = np.unpackbits(page).view(np.bool_)[low - number * PAGE : high - number * PAGE]
                found[low - first : high - first] |= spoken
        return found

    def holds_range(self, first: int, end: int) -> bool:
        """Whether one run holds all of these numbers: the usual case, and quickly known."""
        self._merge()
        place = int(np.searchsorted(self._starts, first, side="right")) - 1
        return place >= 0 and end <= int(self._stops[place])

    def shared_with(self, other: "UserSet") -> int:
        """How many users are in both."""
        self._merge()
        other._merge()
        starts, stops, _ = _overlaps(self._starts, self._stops, other._starts, other._stops)
        shared = int((stops - starts).sum())
        for number, page in self._pages.items():
            if number in other._pages:
                shared += int(np.bitwise_count(page & other._pages[number]).sum())
        # Pages of one against runs of the other: no number of a page is in a run of the same set.
        for one, another in ((self, other), (other, self)):
            for number in set(one._pages) - set(another._pages) if len(another._starts) else ():
                shared += int(np.count_nonzero(another.holds(one._on_page(number * PAGE))))
        return shared

    def blocks(self, size: int) -> Iterator[Users]:
        """All users in increasing order, at most `size` at a time."""
        firsts, before = self._pieces()
        on_page = np.array([self._is_page(first) for first in firsts.tolist()]) if self._pages else None
        for start in range(0, int(before[-1]), size):
            ranks = np.arange(start, min(start + size, int(before[-1])))
            low, high = np.searchsorted(before, [start, ranks[-1]], side="right") - 1
            edges = np.clip(before[low : high + 2], start, ranks[-1] + 1) - start
            users: Users = ranks + np.repeat((firsts - before[:-1])[low : high + 1], np.diff(edges))
            for each in () if on_page is None else np.flatnonzero(on_page[low : high + 1]).tolist():
                part = slice(edges[each], edges[each + 1])
                users[part] = self._on_page(int(firsts[low + each]))[ranks[part] - before[low + each]]
            yield users

    def choose(self, count: int, generator: np.random.Generator) -> Users:
        """So many different users at random, in increasing order; all of them if there are no more."""
        size = min(count, len(self))
        ranks = np.sort(generator.choice(len(self), size=size, replace=False, shuffle=False))
        firsts, before = self._pieces()
        piece = np.searchsorted(before, ranks, side="right") - 1
        users: Users = firsts[piece] + ranks - before[piece]
        for each in np.unique(piece).tolist() if self._pages else ():
            if self._is_page(first := int(firsts[each])):
                mine = piece == each
                users[mine] = self._on_page(first)[ranks[mine] - before[each]]
        return users

    def _is_page(self, first: int) -> bool:
        return first % PAGE == 0 and first // PAGE in self._pages

    def _on_page(self, first: int) -> Users:
        return first + np.flatnonzero(np.unpackbits(self._pages[first // PAGE]).view(np.bool_))

    def _pieces(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first number of every run and page, and how many users there are before each."""
        self._merge()
        sizes = [int(np.bitwise_count(page).sum()) for page in self._pages.values()]
        firsts = np.concatenate([self._starts, np.array([number * PAGE for number in self._pages], dtype=np.int64)])
        many = np.concatenate([self._stops - self._starts, np.array(sizes, dtype=np.int64)])
        order = np.argsort(firsts, kind="stable")
        return firsts[order], np.r_[0, np.cumsum(many[order])]


def _runs_of(users: Users) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the runs of increasing numbers start and end."""
    last = np.flatnonzero(np.diff(users) > 1)
    return users[np.r_[0, last + 1]], users[np.r_[last, len(users) - 1]] + 1


def _by_page(users: Users) -> Iterator[tuple[int, slice | NDArray[np.intp]]]:
    """The pages that users are on, and where those of each are."""
    low, high = int(users.min()) // PAGE, int(users.max()) // PAGE
    if high - low < NEAR_PAGES and (users[1:] >= users[:-1]).all():
        edges = np.searchsorted(users, np.arange(low, high + 2) * PAGE).tolist()
        for number, start, stop in zip(range(low, high + 1), edges, edges[1:], strict=False):
            if start < stop:
                yield number, slice(start, stop)
        return
    on = users // PAGE
    for number in np.unique(on).tolist():
        yield number, np.flatnonzero(on == number)


def _overlaps(
    starts: NDArray[np.int64], stops: NDArray[np.int64], others: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """What some runs share with others, and with which of those: both in increasing order, none touching its next."""
    low, high = np.searchsorted(ends, starts, side="right"), np.searchsorted(others, stops, side="left")
    many = np.maximum(high - low, 0)
    run = np.repeat(np.arange(len(starts)), many)
    other = np.repeat(low, many) + np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
    shared, until = np.maximum(starts[run], others[other]), np.minimum(stops[run], ends[other])
    some = shared < until
    return shared[some], until[some], other[some]
