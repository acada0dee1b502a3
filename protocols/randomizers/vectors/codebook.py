"""The codebook randomizer: the default VRand of Theorem vec-rand, with a message of 9 bytes whatever d is.

The user draws a seed that does not depend on the input; everybody can expand it into B random directions and
their negatives, M = 2B candidates. The user ranks them by inner product with the input and sends the seed and
the index of one candidate, e^eps likelier to be any one of the best t than any one of the others.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Coins, Columns, Floats, Integers
from parley.protocols.randomizers.exact import WHOLE, WORD_BYTES, TwoLevel, check_count, check_epsilon, words
from parley.protocols.randomizers.vectors.directional import Seeded, blocks, check_radius, lift, read

if TYPE_CHECKING:
    from parley.protocols.randomizers.vectors.moments import SphereMoments

MOST_CANDIDATES = 1 << 16
MOST_NUMBERS = 1 << 28


@dataclass(frozen=True, kw_only=True)
class Codebook(Seeded):
    """Choose among M public candidates by rank (mathematics.md, "codebook"; Theorem vec-rand's VRand).

    Formal guarantee: for every two inputs and every reply (seed, index), the probabilities differ by a factor
    of at most e^eps exactly. The seed has the same law for every input, and given the seed the index is chosen
    by `TwoLevel`, whose integer weights have a ratio of at most e^eps.

    Attacks. Mironov's and other precision-based attacks read the low bits of floats; a reply holds no float and
    its probabilities are integers over 2^64, so the claim is about the program itself. Floating point only
    ranks candidates, and any ranking is private; it is exact on whole numbers below 2^53 besides, so replies are
    the same bytes on every machine. The number of operations does not depend on the input (sorting M numbers
    takes a time that depends on their order, which is as random as the seed); timing at the level of caches and
    branches is not defended against.

    `top` is t, the number of candidates that are e^eps likelier than the others; 0 takes the t with the smallest
    variance for the given number of candidates.
    """

    dimension: int
    radius: float
    epsilon: float
    candidates: int = 16
    top: int = 0
    # One word for the seed, one for the choice.
    coins = 2 * WORD_BYTES

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_radius(self.radius)
        check_count("dimension", self.dimension, 1, 1 << 20)
        check_count("candidates", self.candidates, 2, MOST_CANDIDATES)
        if self.candidates % 2:
            raise BadInput(f"candidates is {self.candidates}; give an even number, because they come in +- pairs")
        if self.half * self.ambient > MOST_NUMBERS:
            raise BadInput(
                f"{self.candidates} candidates in dimension {self.dimension} would expand to more than "
                f"{MOST_NUMBERS} numbers per user; ask for fewer candidates"
            )
        if self.top == 0:
            best = min(range(1, self.half + 1), key=lambda top: self._moments(top).variance)
            object.__setattr__(self, "top", best)
        check_count("top", self.top, 1, self.candidates - 1)

    @property
    def ambient(self) -> int:
        """d + 1: the appended coordinate gives every input the norm C."""
        return self.dimension + 1

    @cached_property
    def choice(self) -> TwoLevel:
        return TwoLevel(outcomes=self.candidates, top=self.top, epsilon=self.epsilon)

    @cached_property
    def moments(self) -> "SphereMoments":
        return self._moments(self.top)

    def _moments(self, top: int) -> "SphereMoments":
        # What a reply is worth matters to whoever decodes it; a user's node does not.
        from parley.protocols.randomizers.vectors.moments import lifted_moments, top_moment

        choice = TwoLevel(outcomes=self.candidates, top=top, epsilon=self.epsilon)
        everyone = (choice.low * self.candidates + choice.leftover) / WHOLE / self.ambient
        return lifted_moments(
            dimension=self.dimension,
            radius=self.radius,
            shrink=choice.contrast * top_moment(self.ambient, self.candidates, top, 1),
            along=everyone + choice.contrast * top_moment(self.ambient, self.candidates, top, 2),
        )

    def sample(self, inputs: Floats, coins: Coins) -> Columns:
        """Expand a seed, rank its candidates, send one of them."""
        coin = words(coins, 2)
        seeds = np.ascontiguousarray(coin[:, 0])
        rank = self.choice.rank(coin[:, 1])
        index = np.zeros(len(rank), dtype=self.reply["index"][0])
        for block in blocks(len(seeds), self.half * self.ambient):
            points = lift(inputs[block], self.dimension, self.radius, first_row=block.start)
            scores = self._scores(seeds[block], points[:, :, None])[:, :, 0]
            # Stable, so candidates of equal score keep the order of their indices.
            order = np.argsort(np.concatenate([-scores, scores], axis=1), axis=1, kind="stable")
            place = np.minimum(rank[block], self.candidates - 1)[:, None]
            index[block] = np.take_along_axis(order, place, axis=1)[:, 0]
        # Coin values that no rank uses mean candidate 0 for every input.
        index[rank == self.candidates] = 0
        return {"seed": seeds, "index": index}

    def log_likelihood(self, reply: Columns, inputs: Floats) -> Floats:
        """log P(index | seed, x); the seed's own 2^-64 is left out."""
        seeds, index = read(reply)
        points = lift(inputs, self.dimension, self.radius).T
        result = np.empty((len(seeds), len(inputs)))
        for block in blocks(len(seeds), self.half * max(self.ambient, len(inputs))):
            best = self._among_best(self._scores(seeds[block], points), index[block])
            fixed = (index[block] == 0)[:, None]
            result[block] = self.choice.log_table[best.astype(np.int64), fixed.astype(np.int64)]
        return result

    def _among_best(self, scores: Floats, index: Integers) -> NDArray[np.bool_]:
        """Whether candidate index[i] is among the best t for each input: scores are (n, B, k)."""
        numbers = np.arange(self.half)[None, :, None]
        sent = np.take_along_axis(scores, (index % self.half)[:, None, None], axis=1)
        number = index[:, None, None]
        sent = np.where(number < self.half, sent, -sent)
        ahead = (scores > sent) | ((scores == sent) & (numbers < number))
        negative_ahead = (-scores > sent) | ((-scores == sent) & (numbers + self.half < number))
        return np.asarray(ahead.sum(axis=1) + negative_ahead.sum(axis=1) < self.top)
