"""A choice among M ranked outcomes with two probabilities, e^eps apart: the heart of codebooks and responses.

One 64-bit coin decides. The best t outcomes have `high` of its 2^64 values each, the other M - t have `low`
each, and the `leftover` values (at most t e^eps + M of them) go to one outcome fixed in advance,
whatever the input is: adding one constant to both sides of a ratio above 1 only lowers it.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from parley.emulator.randomizer import Integers
from parley.protocols.randomizers.exact import WHOLE, Words, exponential_lower, guarded, log_probability, scale_down


@dataclass(frozen=True, kw_only=True)
class TwoLevel:
    """Randomized response with t favoured outcomes among M (Kairouz et al. 2014), on integers.

    Formal guarantee: high <= e^eps * low with both integers, so for every two inputs and every outcome
    (high + leftover) / (low + leftover) <= high / low <= e^eps exactly.
    """

    outcomes: int
    top: int
    epsilon: float

    @cached_property
    def low(self) -> int:
        """Coin values of each outcome that is not favoured."""
        ratio = exponential_lower(guarded(self.epsilon))
        return int(WHOLE / (self.top * ratio + (self.outcomes - self.top)))

    @cached_property
    def high(self) -> int:
        """Coin values of each favoured outcome."""
        return scale_down(exponential_lower(guarded(self.epsilon)), self.low)

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
        border = np.uint64(self.top * self.high)
        favoured = coin < border
        past = np.where(favoured, np.uint64(0), coin - border)
        rank = np.where(favoured, coin // np.uint64(self.high), np.uint64(self.top) + past // np.uint64(self.low))
        return np.minimum(rank, np.uint64(self.outcomes)).astype(np.int64)

    def weight(self, top: bool, fixed: bool) -> int:
        """The number of coin values that lead to an outcome: its probability times 2^64."""
        return (self.high if top else self.low) + (self.leftover if fixed else 0)

    @cached_property
    def log_table(self) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        """log probability by [favoured, fixed outcome]."""
        return np.array(
            [[log_probability(self.weight(best, fixed)) for fixed in (False, True)] for best in (False, True)]
        )
