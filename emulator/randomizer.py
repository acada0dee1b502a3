"""The contract of a local randomizer (the paper's VRand, Laplace noise, randomized response, ...).

A randomizer works on columns: one row per user. Its coins are a matrix of bytes, one row per user, so that the
same user gets the same reply however users are spread over processes. It draws nothing by itself.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Coins = NDArray[np.uint8]
Flip = Callable[[int, int, int], Coins]
"""The coins of users first, first + 1, ...: first user, number of users, bytes for each."""
Columns = Mapping[str, Array]
Shape = Mapping[str, tuple[np.dtype[np.generic], tuple[int, ...]]]
Layout = tuple[tuple[str, str, tuple[int, ...]], ...]
"""Name, type and shape of each column of some replies."""

WORD_BYTES = 8
# Up to here all replies are listed where somebody wants to look at each.
MOST_OUTCOMES = 4096


@dataclass(frozen=True)
class Alphabet:
    """A column of a reply and the whole numbers it can hold, where the rest of the reply hides nothing.

    An auditor that knows it can list every reply a user might have sent instead of the recorded one.
    """

    column: str
    first: int
    last: int

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return self.last - self.first + 1


def layout(columns: Columns) -> Layout:
    """The layout of some replies: what makes equal bytes equal replies."""
    return tuple((name, column.dtype.str, column.shape[1:]) for name, column in sorted(columns.items()))


def row_bytes(columns: Columns, rows: int) -> NDArray[np.uint8]:
    """Each user's reply as its bytes: one row per user, columns in the order of their names."""
    parts = [
        np.ascontiguousarray(columns[name]).reshape(rows, -1).view(np.uint8).reshape(rows, -1)
        for name in sorted(columns)
        if columns[name].size
    ]
    return np.concatenate(parts, axis=1) if parts else np.zeros((rows, 0), np.uint8)


class Randomizer(ABC):
    """A local randomizer with its exact likelihood. Parameters are frozen; what follows from them is a property."""

    epsilon: float

    @property
    @abstractmethod
    def coins(self) -> int:
        """Bytes of coins one user needs."""

    @property
    @abstractmethod
    def reply(self) -> Shape:
        """The columns of a reply: name -> (dtype, trailing shape of one user's entry)."""

    @property
    def public(self) -> Shape:
        """Columns that belong to a reply but are not sent, because they follow from the user's number."""
        return {}

    @abstractmethod
    def sample(self, inputs: Floats, coins: Coins) -> Columns:
        """One reply per user: row i answers for input row i with coin row i and nothing else."""

    @abstractmethod
    def check(self, reply: Columns) -> NDArray[np.bool_]:
        """Which rows lie in the randomizer's output space; dtypes and shapes are already right."""

    @abstractmethod
    def log_likelihood(self, reply: Columns, inputs: Floats) -> Floats:
        """Exact log p(reply i | input j) as an n x k matrix; for densities, up to a term that depends on i alone."""

    def log_law(self, reply: Columns, value: Floats) -> Floats:
        """log p(choice | value), as `log_likelihood` has it, of every choice each reply could have been.

        `value` is one row. The choices are those of `alphabet`; the rest of each reply stays as it is.
        """
        assert self.alphabet is not None
        rows, size, column = len(reply[self.alphabet.column]), self.alphabet.size, self.alphabet.column
        listed = {name: np.repeat(values, size, axis=0) for name, values in reply.items()}
        choices = np.tile(np.arange(self.alphabet.first, self.alphabet.last + 1), rows)
        listed[column] = choices.astype(reply[column].dtype)
        return self.log_likelihood(listed, value).reshape(rows, size)

    def every_reply(self) -> Columns | None:
        """Every reply there is, each once, where there are at most MOST_OUTCOMES; None where not."""
        return None

    @property
    def cells(self) -> int:
        """How many different replies there are, public columns included, where they are few and numbered; 0 if not."""
        return 0

    def cell(self, reply: Columns) -> Integers:
        """The number of each reply, 0 .. cells-1; replies lie in the output space."""
        raise NotImplementedError

    def in_cells(self, cells: Integers) -> Columns:
        """A reply for each of these numbers."""
        raise NotImplementedError

    @abstractmethod
    def decode(self, reply: Columns) -> Floats:
        """The unbiased estimate of the input that each reply carries."""

    @abstractmethod
    def total(self, reply: Columns) -> Integers:
        """The sum of `decode` over users in units of `unit`: integers, so that no order of addition matters."""

    @property
    def reach(self) -> tuple[int, int] | None:
        """The least and the most that one reply adds to a number of `total`; None where nobody says."""
        return None

    @property
    @abstractmethod
    def unit(self) -> float:
        """What one step of `total` is worth."""

    @property
    def offset(self) -> float:
        """What each reply adds besides its part of `total`: decode sums to unit * total + offset * replies."""
        return 0.0

    @property
    def work(self) -> int:
        """Numbers behind one reply: 64-bit words that are drawn or computed. A setup may not ask for too many."""
        return -(-self.coins // WORD_BYTES)

    @property
    def alphabet(self) -> Alphabet | None:
        """The column that is chosen, and from what; None where a reply is not a choice from a list."""
        return None

    @property
    @abstractmethod
    def variance(self) -> float:
        """The largest variance of the decoded value over all inputs; for vectors, a direction."""
