"""The exact likelihoods of recorded replies: of each (broadcast, reply) once where replies are few.

A reply of a few bytes is one of a few: a bit, a category, a step of a grid. Its likelihoods under all inputs are a row
of a table that is made as replies turn up. A reply with a fresh seed is like no other, and is computed on its own.
"""

from threading import Lock

import numpy as np
from numpy.typing import NDArray

from parley.emulator.protocol import Inputs, Send
from parley.emulator.randomizer import Columns, Floats, row_bytes
from parley.emulator.record.conversation import Answers
from parley.emulator.round import columns_of

# Replies of at most so many bytes are looked up.
LONGEST_CODE = 8
# Numbers of one table, 32 MiB; beyond, replies that are not in it are computed one by one.
TABLE_NUMBERS = 1 << 22
# Likelihoods that are computed to learn what every reply gives away.
SPREAD_NUMBERS = 1 << 24


class Table:
    """The likelihoods of the different replies of one send that have occurred so far."""

    def __init__(self, send: Send, inputs: Inputs) -> None:
        self.randomizer, self.values = send.randomizer, send.at(inputs)
        self.most = TABLE_NUMBERS // max(1, len(inputs))
        self.few = sum(_width(*each) for each in send.randomizer.reply.values()) <= LONGEST_CODE
        self._lock = Lock()
        self._codes = np.empty(0, np.uint64)
        self._places = np.empty(0, np.intp)
        self._rows: Floats = np.empty((0, len(inputs)))
        self._used = 0

    def likelihoods(self, reply: Columns) -> Floats:
        """log p(reply i | x), a row per reply."""
        rows = len(next(iter(reply.values())))
        if not self.few or rows == 0:
            return self.randomizer.log_likelihood(reply, self.values)
        codes = _codes(reply, rows)
        with self._lock:
            found = self._find(codes)
            if (found < 0).any() and self.few:
                self._learn(codes, reply, found < 0)
                found = self._find(codes)
            known = self._rows
        if (found < 0).any():
            return self.randomizer.log_likelihood(reply, self.values)
        return known[found]

    def _find(self, codes: NDArray[np.uint64]) -> NDArray[np.intp]:
        """The row of each code; -1 where it has none."""
        if not len(self._codes):
            return np.full(len(codes), -1)
        place = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        return np.where(self._codes[place] == codes, self._places[place], -1)

    def _learn(self, codes: NDArray[np.uint64], reply: Columns, fresh: NDArray[np.bool_]) -> None:
        """Add the replies that are not there yet, unless they are too many."""
        new, first = np.unique(codes[fresh], return_index=True)
        if self._used + len(new) > self.most:
            self.few = False
            return
        first = np.flatnonzero(fresh)[first]
        rows = self.randomizer.log_likelihood({name: column[first] for name, column in reply.items()}, self.values)
        if self._used + len(new) > len(self._rows):
            larger = np.empty((min(self.most, 2 * (self._used + len(new))), rows.shape[1]))
            larger[: self._used] = self._rows[: self._used]
            self._rows = larger
        self._rows[self._used : self._used + len(new)] = rows
        merged = np.concatenate([self._codes, new])
        places = np.concatenate([self._places, np.arange(self._used, self._used + len(new))])
        order = np.argsort(merged)
        self._codes, self._places, self._used = merged[order], places[order], self._used + len(new)


class Spread:
    """How much each reply of one send gives away: its largest log-likelihood minus its smallest, a number per cell."""

    def __init__(self, send: Send, inputs: Inputs) -> None:
        randomizer, values = send.randomizer, send.at(inputs)
        self.randomizer = randomizer
        step = max(1, TABLE_NUMBERS // len(inputs))
        parts = [np.arange(first, min(first + step, randomizer.cells)) for first in range(0, randomizer.cells, step)]
        self.losses: Floats = np.concatenate(
            [spread_of(randomizer.log_likelihood(randomizer.in_cells(part), values)) for part in parts]
        )

    @staticmethod
    def suits(send: Send, inputs: int) -> bool:
        """Whether a table is less work than the likelihoods of a frame."""
        return 0 < send.randomizer.cells * inputs <= SPREAD_NUMBERS


def spread_of(rows: Floats) -> Floats:
    """The largest minus the smallest of each row; not a number where no input is possible."""
    high, low = rows.max(axis=1), rows.min(axis=1)
    possible = ~(np.isneginf(high) | np.isnan(high))
    losses: Floats = np.full(len(rows), np.nan)
    np.subtract(high, low, out=losses, where=possible)
    return losses


class Likelihoods:
    """Of all rounds of one record, under all inputs or those that stand for them. Threads may ask at the same time."""

    def __init__(self, inputs: Inputs | None = None) -> None:
        self._inputs = inputs
        self._lock = Lock()
        self._asked: dict[int, tuple[object, dict[str, Table]]] = {}
        self._spreads: dict[int, tuple[object, Spread]] = {}

    def losses(self, answers: Answers) -> Floats:
        """What each of these replies gives away by itself; not a number where no input could have caused it."""
        sends, inputs = answers.step.sends(answers.public), self._tried(answers)
        name, send = next(iter(sends.items()))
        if len(sends) > 1 or not Spread.suits(send, len(inputs)):
            size = max(1, TABLE_NUMBERS // len(inputs))
            parts = [np.arange(start, start + size) for start in range(0, len(answers.users), size)]
            some = [answers.take(part[part < len(answers.users)]) for part in parts]
            return np.concatenate([np.empty(0), *(spread_of(self.of(each)) for each in some)])
        with self._lock:
            public, spread = self._spreads.get(answers.round, (None, None))
            if spread is None or public is not answers.public:
                spread = Spread(send, inputs)
                self._spreads[answers.round] = (answers.public, spread)
        found: Floats = spread.losses[spread.randomizer.cell(columns_of(name, send, answers.columns))]
        return found

    def _tried(self, answers: Answers) -> Inputs:
        return np.arange(answers.step.inputs) if self._inputs is None else self._inputs

    def of(self, answers: Answers) -> Floats:
        """Exact log p(reply i | x) for these inputs x, as `Round.log_likelihood` gives it."""
        sends = answers.step.sends(answers.public)
        with self._lock:
            public, tables = self._asked.get(answers.round, (None, {}))
            if public is not answers.public:
                tables = {name: Table(send, self._tried(answers)) for name, send in sends.items()}
                self._asked[answers.round] = (answers.public, tables)
        total: Floats | None = None
        for name, send in sends.items():
            rows = tables[name].likelihoods(columns_of(name, send, answers.columns))
            total = rows if total is None else total + rows
        assert total is not None
        return total


def _width(dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> int:
    return dtype.itemsize * int(np.prod(shape, dtype=np.int64))


def _codes(reply: Columns, rows: int) -> NDArray[np.uint64]:
    """Each reply as one number: its bytes."""
    said = row_bytes(reply, rows)
    padded = np.zeros((rows, LONGEST_CODE), np.uint8)
    padded[:, : said.shape[1]] = said
    return padded.view(np.uint64)[:, 0]
