"""Exact arithmetic behind every privacy-critical probability: bounds of e^eps as rationals, coins as integers.

A probability here is an integer over 2^64 and a coin is a 64-bit word, so what a randomizer does is what its
pmf says, to the last bit. e^eps itself is irrational; the two functions `exponential_lower` and
`exponential_upper` enclose it by dyadic rationals computed with integers only. Where a weight must not
exceed e^eps times another, the lower bound is used and the product is rounded down. Scalars are integers too: an
input's place in its declared range, in whole steps.

Attacks. Mironov's and other precision-based attacks read the low bits of floats. Replies here are whole numbers, each
with as many values of a coin as its probability says, so there is nothing to read, and a claim is about the program
itself. Every input takes the same arithmetic; timing at the level of caches and branches is not defended against.

`TwoLevel` is the heart of codebooks and responses: a choice among M ranked outcomes with two probabilities, e^eps
apart. One coin decides. The best t outcomes have `high` of its 2^64 values each, the other M - t have `low` each, and
the `leftover` values (at most t e^eps + M of them) go to one outcome fixed in advance, whatever the input is: adding
one constant to both sides of a ratio above 1 only lowers it.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import MOST_OUTCOMES, Alphabet, Coins, Columns, Floats, Integers, Randomizer

Words = NDArray[np.uint64]

WORD_BYTES = 8
WHOLE = 1 << 64
BITS = 192
PLACES = 1 << 32
# What a protocol may claim and a reply may spend; some randomizers need narrower limits of their own.
LEAST_EPSILON = 2.0**-20
LARGEST_EPSILON = 32.0
# Auditors add logarithms in double precision. Spending 2^-44 less than epsilon keeps their rounding below the claim.
GUARD = Fraction(1, 1 << 44)
# Places of a table of thresholds (640 KiB), bits of a coin that find a place, and coins that are worth making it.
TABLE_PLACES = 1 << 16
MOST_BUCKET_BITS = 12
WORTH_A_TABLE = 1 << 10
# Beyond so many outcomes a rank is computed by division.
MOST_RANKS = 1 << 8
# Numbers that are compared at once where there is no table: 8 MiB.
COMPARED_NUMBERS = 1 << 20


def check_epsilon(
    epsilon: float, largest: float = LARGEST_EPSILON, least: float = LEAST_EPSILON, where: str = ""
) -> Fraction:
    """The exact value of a usable epsilon; anything else is refused before work starts.

    `where` names a randomizer whose limits are narrower than those of a protocol.
    """
    if not math.isfinite(epsilon) or not least <= epsilon <= largest:
        raise BadInput(f"epsilon{where} is {epsilon:g}; give a number from {least:.3g} to {largest:g}")
    return Fraction(epsilon)


def check_count(name: str, value: int, least: int, largest: int) -> None:
    """A whole number within limits, named in the error otherwise."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not least <= value <= largest:
        raise BadInput(f"{name} is {value!r}; give a whole number from {least} to {largest}")


def check_interval(low: float, high: float) -> None:
    """A finite interval whose width is a usable positive number."""
    if not (math.isfinite(low) and math.isfinite(high) and low < high and math.isfinite(high - low)):
        raise BadInput(f"the range [{low}, {high}] is not a finite interval; give low < high")
    if high - low < 1e-9 * max(abs(low), abs(high)) or not 1e-150 < high - low < 1e150:
        raise BadInput(f"the range [{low}, {high}] cannot be resolved in double precision; shift or rescale it")


def guarded(epsilon: float) -> Fraction:
    """What is spent of epsilon: all of it but `GUARD`."""
    return Fraction(epsilon) - GUARD


@lru_cache(maxsize=1024)
def _exponential(x: Fraction) -> tuple[Fraction, Fraction]:
    """A lower and an upper bound of e^x: Taylor's series of e^|x| in integers over 2^BITS, with its remainder."""
    size, order = abs(x), 0
    term_lower = term_upper = 1 << BITS
    lower = upper = 0
    # From the order 2x on the terms at least halve, so all that is left is at most twice the next one.
    while order <= 2 * size or term_lower:
        lower += term_lower
        upper += term_upper
        order += 1
        term_lower = term_lower * size.numerator // (size.denominator * order)
        term_upper = -(-term_upper * size.numerator // (size.denominator * order))
    upper += 2 * term_upper
    if x >= 0:
        return Fraction(lower, 1 << BITS), Fraction(upper, 1 << BITS)
    return Fraction((1 << (2 * BITS)) // upper, 1 << BITS), Fraction(-(-(1 << (2 * BITS)) // lower), 1 << BITS)


def exponential_lower(x: Fraction) -> Fraction:
    """A dyadic rational at most e^x, within a relative 2^-80 of it for |x| <= 64."""
    return _exponential(x)[0]


def exponential_upper(x: Fraction) -> Fraction:
    """A dyadic rational at least e^x, within a relative 2^-80 of it for |x| <= 64."""
    return _exponential(x)[1]


def words(coins: Coins, count: int) -> Words:
    """A row of coin bytes read as `count` little-endian 64-bit words."""
    if coins.dtype != np.uint8 or coins.ndim != 2 or coins.shape[1] != count * WORD_BYTES:
        raise BadInput(f"coins are {coins.dtype} {coins.shape}; give uint8 with {count * WORD_BYTES} bytes per user")
    return np.ascontiguousarray(coins).view("<u8").astype(np.uint64, copy=False)


class Thresholds:
    """How many of its row's running sums a coin has reached, for a whole cohort by look-up.

    The first bits of a coin, its bucket, leave at most one sum to compare it with, nearly always:

        bucket      0 ....... 1 ....... 2 ....... 3 ....... 4
        sums               a        b            c
        reached     0 or 1    1 or 2    2 or 3    3

    Coins of a bucket that holds more sums, and coins that are too few to be worth a table, meet all sums of their row.
    Either way whole numbers are compared, and the answer is the same.
    """

    def __init__(self, sums: Words, bits: int) -> None:
        """`sums`: one row per input, increasing; coins are below 2^bits."""
        self.sums, self._bits = sums, bits
        self._first = max(0, min(bits, MOST_BUCKET_BITS, (TABLE_PLACES // len(sums)).bit_length() - 1))

    def reached(self, rows: Integers, coin: Words) -> Integers:
        """For each coin the number of sums of its row that are at most as large."""
        if len(coin) < WORTH_A_TABLE or not self._first:
            return self._compare(rows, coin)
        below, above, last, crowded = self._tables
        place = (coin >> np.uint64(self._bits - self._first)).astype(np.intp)
        place += rows << self._first
        found = np.where(coin > last[place], above[place], below[place]).astype(np.int64)
        if crowded is not None and (many := crowded[place]).any():
            found[many] = self._compare(rows[many], coin[many])
        return found

    def _compare(self, rows: Integers, coin: Words) -> Integers:
        found = np.empty(len(coin), dtype=np.int64)
        step = max(1, COMPARED_NUMBERS // self.sums.shape[1])
        for start in range(0, len(coin), step):
            part = slice(start, start + step)
            found[part] = np.count_nonzero(self.sums[rows[part]] <= coin[part, None], axis=1)
        return found

    @cached_property
    def _tables(self) -> tuple[NDArray[np.uint16], NDArray[np.uint16], Words, NDArray[np.bool_] | None]:
        """By row and bucket: sums before it, sums up to its end, the last coin before its first sum, has it several."""
        width = self._bits - self._first
        starts = np.arange(1 << self._first, dtype=np.uint64) << np.uint64(width)
        ends = starts + np.uint64((1 << width) - 1)
        below = np.array([np.searchsorted(row, starts, side="right") for row in self.sums])
        above = np.array([np.searchsorted(row, ends, side="right") for row in self.sums])
        padded = np.concatenate([self.sums, np.zeros((len(self.sums), 1), np.uint64)], axis=1)
        own = np.take_along_axis(padded, below, axis=1)
        last = np.where(above > below, own - np.uint64(1), np.uint64(WHOLE - 1))
        # Equal sums belong to outputs that nobody sends: they are one step.
        crowded = (above > below) & (np.take_along_axis(padded, np.maximum(above, 1) - 1, axis=1) != own)
        narrow = [each.astype(np.uint16).reshape(-1) for each in (below, above)]
        return narrow[0], narrow[1], last.reshape(-1), crowded.reshape(-1) if crowded.any() else None


@dataclass(frozen=True, kw_only=True)
class TwoLevel:
    """Randomized response with t favoured outcomes among M (Kairouz et al. 2014), on integers.

    Formal guarantee: high <= e^eps * low with both integers, so for every two inputs and every outcome
    (high + leftover) / (low + leftover) <= high / low <= e^eps exactly.
    """

    outcomes: int
    top: int
    epsilon: float

    def __post_init__(self) -> None:
        # The exact exponential of a number without bounds would take without end.
        check_epsilon(self.epsilon)

    @cached_property
    def low(self) -> int:
        """Coin values of each outcome that is not favoured."""
        ratio = exponential_lower(guarded(self.epsilon))
        return int(WHOLE / (self.top * ratio + (self.outcomes - self.top)))

    @cached_property
    def high(self) -> int:
        """Coin values of each favoured outcome."""
        return math.floor(exponential_lower(guarded(self.epsilon)) * self.low)

    @property
    def leftover(self) -> int:
        """Coin values that go to the fixed outcome."""
        return WHOLE - self.top * self.high - (self.outcomes - self.top) * self.low

    @property
    def contrast(self) -> float:
        """How much likelier a favoured outcome is than another one."""
        return (self.high - self.low) / WHOLE

    def rank(self, coin: Words) -> Integers:
        """The rank each coin picks, 0 .. M-1 with the favoured first; M stands for the fixed outcome."""
        if len(coin) >= WORTH_A_TABLE and self.outcomes <= MOST_RANKS:
            return self._thresholds.reached(np.zeros(len(coin), np.int64), coin)
        border = np.uint64(self.top * self.high)
        favoured = coin < border
        past = np.where(favoured, np.uint64(0), coin - border)
        rank = np.where(favoured, coin // np.uint64(self.high), np.uint64(self.top) + past // np.uint64(self.low))
        return np.minimum(rank, np.uint64(self.outcomes)).astype(np.int64)

    @cached_property
    def _thresholds(self) -> Thresholds:
        widths = [self.high] * self.top + [self.low] * (self.outcomes - self.top)
        # No coin reaches 2^64, where nothing is left over.
        sums = [each for each in accumulate(widths) if each < WHOLE]
        return Thresholds(np.array([sums], dtype=np.uint64), 64)

    def weight(self, top: bool, fixed: bool) -> int:
        """The number of coin values that lead to an outcome: its probability times 2^64."""
        return (self.high if top else self.low) + (self.leftover if fixed else 0)

    @cached_property
    def log_table(self) -> Floats:
        """log probability by [favoured, fixed outcome]; correctly rounded but for the logarithm itself."""
        weights = [[self.weight(best, fixed) for fixed in (False, True)] for best in (False, True)]
        return np.array([[math.log(weight / WHOLE) if weight else -math.inf for weight in row] for row in weights])


class Choice(Randomizer):
    """A randomizer whose reply is one whole number from a list, next to a seed that hides nothing or alone."""

    @property
    @abstractmethod
    def alphabet(self) -> Alphabet: ...

    def check(self, reply: Columns) -> NDArray[np.bool_]:
        sent: NDArray[Any] = reply[self.alphabet.column]
        return np.asarray((self.alphabet.first <= sent) & (sent <= self.alphabet.last))

    @property
    def cells(self) -> int:
        return self.alphabet.size if len(self.reply) == 1 and not self.public else 0

    def cell(self, reply: Columns) -> Integers:
        return reply[self.alphabet.column].astype(np.int64) - self.alphabet.first

    def in_cells(self, cells: Integers) -> Columns:
        column = self.alphabet.column
        return {column: (cells + self.alphabet.first).astype(self.reply[column][0])}

    def every_reply(self) -> Columns | None:
        column, first, last = self.alphabet.column, self.alphabet.first, self.alphabet.last
        if len(self.reply) > 1 or self.alphabet.size > MOST_OUTCOMES:
            return None
        return {column: np.arange(first, last + 1, dtype=self.reply[column][0])}


def clip(inputs: Floats, low: float, high: float) -> Floats:
    """Values outside the range become its ends; NaN is refused."""
    if inputs.ndim != 1:
        raise BadInput(f"inputs have shape {inputs.shape}; give one number per user")
    if np.isnan(inputs).any():
        raise BadInput(f"input row {int(np.argmax(np.isnan(inputs)))} is not a number; leave it out or give a value")
    return np.clip(inputs, low, high)


def exact_range(values: Floats) -> tuple[float, float]:
    """The least and the greatest of a public function's k values, apart even where it is constant."""
    low, high = float(values.min()), float(values.max())
    pad = 1e-8 * max(abs(low), abs(high), 1e-100)
    return (low, high) if high - low > pad else (low - pad, high + pad)
