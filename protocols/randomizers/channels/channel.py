"""An explicit channel: a table of integer weights, one row per input and one column per output.

              output 0   output 1   output 2
    input 0 [  2^31       2^30       2^30  ]      a row adds up to a power of two, 2^32 here
    input 1 [  2^30       2^31       2^30  ]      a column's largest entry is at most e^eps times its smallest

Everything about such a randomizer is a look-up. A coin is compared with the row's running sums, the likelihood of a
reply is an entry, and anybody checks the privacy of a table in integers before using it, whoever made it. The analyst
keeps one count per output. What the counts say about the inputs is a matter of linear algebra (`decoding.py`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Alphabet, Coins, Columns, Floats, Integers, Shape
from parley.protocols.randomizers.categories.oracle import check_categories
from parley.protocols.randomizers.exact import (
    WORD_BYTES,
    Choice,
    Thresholds,
    check_count,
    check_epsilon,
    exponential_lower,
    guarded,
    words,
)

if TYPE_CHECKING:
    from parley.protocols.randomizers.channels.decoding import LinearDecoding

MOST_BITS = 62
MOST_OUTPUTS = 1 << 16
# Rows of real tables add up to 2^48. A sum or a ratio may be wrong by so much; as much of the average row is mixed in.
TABLE_BITS = 48
ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class Channel(Choice):
    """Draw the output of the input's row.

    Formal guarantee: for every output, weights under two inputs differ by a factor of at most e^eps. The table is
    checked in whole numbers when the randomizer is made, and refused with the entry that breaks a rule.

    Attacks. A reply is one whole number whose probability is a weight over a power of two, so there are no low-order
    bits to read. Every input takes the same look-up and the same number of comparisons.

    A column of zeros is an output that nobody sends; a table of a fixed size may have such columns. `column` is what a
    reply calls its output.
    """

    weights: Integers = field(repr=False)
    epsilon: float
    column: str = "output"
    coins = WORD_BYTES
    unit = 1.0
    reach = (0, 1)

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_table(self.weights, self.epsilon)

    @classmethod
    def from_probabilities(cls, probabilities: Floats, epsilon: float, **fields: Any) -> Self:
        """The channel of a table of real numbers, one row per input and one column per output: a mechanism of your own.

        A billionth of the average row is mixed into each row, so that a table that uses up epsilon passes the check in
        whole numbers. What is not eps-LDP is refused with the entry that fails.
        """
        check_epsilon(epsilon)
        table = np.asarray(probabilities, dtype=np.float64)
        check_probabilities(table, epsilon)
        mixed = (1 - ROUNDING) * table + ROUNDING * table.mean(axis=0)
        return cls(weights=rounded(mixed, TABLE_BITS), epsilon=epsilon, **fields)

    def decoding(self, guess: Floats | None = None) -> "LinearDecoding":
        """What its replies say about the inputs, at best for a guess of the histogram."""
        from parley.protocols.randomizers.channels.decoding import LinearDecoding

        return LinearDecoding(likelihood=self.probabilities.T, guess=guess)

    @property
    def inputs(self) -> int:
        return len(self.weights)

    @property
    def outputs(self) -> int:
        return int(self.weights.shape[1])

    @cached_property
    def bits(self) -> int:
        """Rows add up to 2^bits."""
        return int(self.weights[0].sum()).bit_length() - 1

    @cached_property
    def probabilities(self) -> Floats:
        """P(output | input): inputs x outputs."""
        return np.asarray(self.weights * 2.0**-self.bits, dtype=np.float64)

    @cached_property
    def used(self) -> NDArray[np.bool_]:
        """Which outputs are ever sent."""
        return np.asarray(self.weights[0] > 0)

    @property
    def reply(self) -> Shape:
        return {self.column: (np.dtype(np.uint8 if self.outputs <= 256 else np.uint16), ())}

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet(column=self.column, first=0, last=self.outputs - 1)

    @cached_property
    def _thresholds(self) -> Thresholds:
        """Running sums of the rows: the output is how many of them a coin has reached."""
        return Thresholds(np.cumsum(self.weights, axis=1).astype(np.uint64), self.bits)

    def sample(self, inputs: Floats, coins: Coins) -> Columns:
        rows = check_categories(inputs, self.inputs)
        coin = words(coins, 1)[:, 0] >> np.uint64(64 - self.bits)
        return {self.column: self._thresholds.reached(rows, coin).astype(self.reply[self.column][0])}

    def check(self, reply: Columns) -> NDArray[np.bool_]:
        sent: NDArray[Any] = reply[self.column]
        if self.used.all():
            return np.asarray(sent < self.outputs)
        return np.asarray((sent < self.outputs) & self.used[np.minimum(sent, self.outputs - 1)])

    def every_reply(self) -> Columns | None:
        listed = super().every_reply()
        return None if listed is None else {self.column: listed[self.column][self.used]}

    @cached_property
    def _logarithms(self) -> Floats:
        """log P(output | input): outputs x inputs."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.probabilities).T)

    def log_likelihood(self, reply: Columns, inputs: Floats) -> Floats:
        rows = check_categories(inputs, self.inputs)
        return np.asarray(self._logarithms[reply[self.column].astype(np.int64)][:, rows])

    def decode(self, reply: Columns) -> Floats:
        """What a reply adds to the counts."""
        return np.eye(self.outputs)[reply[self.column].astype(np.int64)]

    def total(self, reply: Columns) -> Integers:
        """How often each output was sent."""
        return np.bincount(reply[self.column], minlength=self.outputs).astype(np.int64)

    @property
    def variance(self) -> float:
        """That of one count."""
        return float((self.probabilities * (1 - self.probabilities)).max())


def check_table(weights: Integers, epsilon: float) -> None:
    """Refuse a table that is not eps-LDP, with the entry that fails; whole numbers decide."""
    if not isinstance(weights, np.ndarray) or weights.dtype != np.int64 or weights.ndim != 2:
        raise BadInput("a channel is a table of 64-bit whole numbers, one row per input and one column per output")
    check_count("the number of inputs of a channel", weights.shape[0], 1, 1 << 24)
    check_count("the number of outputs of a channel", weights.shape[1], 1, MOST_OUTPUTS)
    if weights.min() < 0 or weights.max() > 1 << MOST_BITS:
        row, column = np.argwhere((weights < 0) | (weights > 1 << MOST_BITS))[0].tolist()
        raise BadInput(f"output {column} of input {row} has the weight {weights[row, column]}; give 0 to 2^{MOST_BITS}")
    # Halves are added apart, so that no row overflows.
    high, low = (weights >> 32).sum(axis=1).tolist(), (weights & 0xFFFFFFFF).sum(axis=1).tolist()
    sums = [(above << 32) + below for above, below in zip(high, low, strict=True)]
    whole = sums[0]
    if whole > 1 << MOST_BITS or whole < 1 or whole & (whole - 1):
        raise BadInput(f"the weights of input 0 add up to {whole}; give a power of two up to 2^{MOST_BITS}")
    for row, total in enumerate(sums):
        if total != whole:
            raise BadInput(
                f"the weights of input {row} add up to {total}, those of input 0 to {whole}; make them equal"
            )
    bound = exponential_lower(guarded(epsilon))
    least, most = weights.min(axis=0).tolist(), weights.max(axis=0).tolist()
    for column, (small, large) in enumerate(zip(least, most, strict=True)):
        if large * bound.denominator > bound.numerator * small:
            low_row, high_row = int(weights[:, column].argmin()), int(weights[:, column].argmax())
            raise BadInput(
                f"output {column} has the weight {small} under input {low_row} and {large} under input {high_row}: "
                f"more than e^epsilon = {math.exp(epsilon):.6g} times as much; bring the two closer together"
            )


def rounded(probabilities: Floats, bits: int) -> Integers:
    """Whole weights nearest to a table of probabilities: rows add up to 2^bits.

    Entries are rounded down; what is left of each row goes to the output whose least probability is largest, which it
    changes by the smallest factor.
    """
    table = probabilities / probabilities.sum(axis=1, keepdims=True)
    weights = np.floor(table * 2.0**bits).astype(np.int64)
    weights[:, int(table.min(axis=0).argmax())] += (1 << bits) - weights.sum(axis=1)
    return np.asarray(weights)


def check_probabilities(table: Floats, epsilon: float) -> None:
    """Refuse a table of real numbers that is not eps-LDP but for rounding, with the entry that fails."""
    if table.ndim != 2 or not table.size:
        raise BadInput("a channel is a table of probabilities, one row per input and one column per output")
    for row, column in np.argwhere(~(table >= 0) | ~np.isfinite(table)).tolist():
        raise BadInput(f"output {column} of input {row} has the probability {table[row, column]:g}; give 0 to 1")
    for row, total in enumerate(table.sum(axis=1).tolist()):
        if abs(total - 1) > ROUNDING:
            raise BadInput(f"the probabilities of input {row} add up to {total:.12g}; make it 1")
    for column, (least, most) in enumerate(zip(table.argmin(axis=0), table.argmax(axis=0), strict=True)):
        small, large = float(table[least, column]), float(table[most, column])
        if large > math.exp(epsilon) * small * (1 + ROUNDING):
            raise BadInput(
                f"output {column} has the probability {small:.6g} under input {least} and {large:.6g} under input "
                f"{most}: more than e^epsilon = {math.exp(epsilon):.6g} times as much; bring the two closer together"
            )


def two_level_table(favoured: NDArray[np.bool_], epsilon: float) -> Integers:
    """e^eps against 1: where `favoured` (inputs x outputs) holds; every input favours equally many outputs."""
    many = favoured.sum(axis=1)
    if np.ptp(many) or not 0 < many[0] < favoured.shape[1]:
        raise BadInput("every input must favour the same number of outputs, and not all of them")
    top, outputs = int(many[0]), favoured.shape[1]
    ratio = exponential_lower(guarded(epsilon))
    low = int((1 << MOST_BITS) / (top * ratio + (outputs - top)))
    high = math.floor(ratio * low)
    weights = np.where(favoured, np.int64(high), np.int64(low))
    # The same for every input, so it lowers each ratio.
    weights[:, 0] += (1 << MOST_BITS) - top * high - (outputs - top) * low
    return weights


def response(categories: int, epsilon: float) -> Channel:
    """Randomized response as a table: an input favours itself."""
    check_count("categories", categories, 2, 1 << 12)
    return Channel(weights=two_level_table(np.eye(categories, dtype=np.bool_), epsilon), epsilon=epsilon)


def subsets(categories: int, size: int, epsilon: float) -> Channel:
    """Subset selection as a table: outputs are all subsets of this size, and an input favours those it is in."""
    check_count("categories", categories, 2, 1 << 12)
    check_count("size", size, 1, categories - 1)
    if math.comb(categories, size) > MOST_OUTPUTS:
        raise BadInput(f"{categories} categories have more than {MOST_OUTPUTS} subsets of {size}; use SubsetSelection")
    from itertools import combinations

    listed: list[Sequence[int]] = list(combinations(range(categories), size))
    favoured = np.zeros((categories, len(listed)), dtype=np.bool_)
    for number, members in enumerate(listed):
        favoured[list(members), number] = True
    return Channel(weights=two_level_table(favoured, epsilon), epsilon=epsilon)


def exact_loss(weights: Integers) -> Fraction:
    """The largest ratio of two weights of one output: e to the power of what a reply can give away."""
    used = weights[:, weights[0] > 0]
    most, least = used.max(axis=0).tolist(), used.min(axis=0).tolist()
    return max(Fraction(large, small) for large, small in zip(most, least, strict=True))
