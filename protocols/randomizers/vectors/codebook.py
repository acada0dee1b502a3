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
from parley.protocols.randomizers.exact import WHOLE, WORD_BYTES, TwoLevel, Words, check_count, check_epsilon, words
from parley.protocols.randomizers.vectors.directional import Seeded, blocks, check_radius, lift, read, score
from parley.protocols.randomizers.vectors.expansion import all_short_directions, one_direction

if TYPE_CHECKING:
    from parley.protocols.randomizers.vectors.moments import SphereMoments

MOST_CANDIDATES = 1 << 16
MOST_NUMBERS = 1 << 28
# Up to here products in single precision tell nearly all ranks; beyond, too many would have to be computed again.
QUICK_DIMENSION = 1 << 10


@dataclass(frozen=True, kw_only=True)
class Codebook(Seeded):
    """Choose among M public candidates by rank (mathematics.md, "codebook"; Theorem vec-rand's VRand).

    Formal guarantee: for every two inputs and every reply (seed, index), the probabilities differ by a factor
    of at most e^eps exactly. The seed has the same law for every input, and given the seed the index is chosen
    by `TwoLevel`, whose integer weights have a ratio of at most e^eps.

    Attacks. Floating point only ranks candidates, and any ranking is private; it is exact on whole numbers below
    2^53 besides, so replies are the same bytes on every machine. Sorting M numbers takes a time that depends on their
    order, which is as random as the seed.

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
            order = self._order(self._scores(seeds[block], points[:, :, None])[:, :, 0])
            place = np.minimum(rank[block], self.candidates - 1)[:, None]
            index[block] = np.take_along_axis(order, place, axis=1)[:, 0]
        # Coin values that no rank uses mean candidate 0 for every input.
        index[rank == self.candidates] = 0
        return {"seed": seeds, "index": index}

    def log_likelihood(self, reply: Columns, inputs: Floats) -> Floats:
        """log P(index | seed, x); the seed's own 2^-64 is left out."""
        seeds, index = read(reply)
        points = lift(inputs, self.dimension, self.radius).T
        usual, fixed = self.choice.log_table.T
        result = np.empty((len(seeds), len(inputs)))
        for block in blocks(len(seeds), self._compared * max(self.ambient, len(inputs))):
            # As numbers and not as truth values: looking up is several times faster than choosing.
            best = self._favoured(seeds[block], points, index[block]).view(np.uint8)
            result[block] = np.take(usual, best)
            zero = np.flatnonzero(index[block] == 0)
            result[block][zero] = np.take(fixed, best[zero])
        return result

    @property
    def _compared(self) -> int:
        """Directions that decide whether a candidate is among the best t."""
        return 1 if self.top == self.half else self.half

    def _favoured(self, seeds: Words, points: Floats, index: Integers) -> NDArray[np.bool_]:
        """Whether candidate index[i] of seed i is among the best t for each point, a column of `points`."""
        if self.top == self.half:
            # The better of each pair +-g are the best half; of two zeros the first is, and it comes before all seconds.
            sent = one_direction(seeds, index % self.half, self.ambient)
            return np.asarray((sent @ points >= 0) == (index < self.half)[:, None])
        if self.ambient <= QUICK_DIMENSION:
            return self._quickly_among_best(seeds, points, index)
        return self._among_best(self._scores(seeds, points), index)

    def log_law(self, reply: Columns, value: Floats) -> Floats:
        """log P(index | seed, x) of every index: the seed is expanded once."""
        seeds, _ = read(reply)
        point = lift(value, self.dimension, self.radius).T
        fixed = (np.arange(self.candidates) == 0).astype(np.int64)
        low, high = self.choice.log_table[:, fixed]
        result = np.empty((len(seeds), self.candidates))
        for block in blocks(len(seeds), self.half * self.ambient):
            order = self._order(self._scores(seeds[block], point)[:, :, 0])
            best = np.zeros(order.shape, dtype=np.bool_)
            np.put_along_axis(best, order[:, : self.top], True, axis=1)
            result[block] = np.where(best, high, low)
        return result

    def _order(self, scores: Floats) -> Integers:
        """The candidates, best first; sorting is stable, so those of equal score keep the order of their indices."""
        return np.argsort(np.concatenate([-scores, scores], axis=1), axis=1, kind="stable")

    def _quickly_among_best(self, seeds: Words, points: Floats, index: Integers) -> NDArray[np.bool_]:
        """The same as `_among_best`, from scores in single precision where these are far enough apart.

        For whole numbers d and a point p of norm 2^24, the sum <d, p> of D terms is off by at most D 2^-24 |d| |p| in
        any order of addition, and |d| by half as many roundings: a score s is off by less than D + 8 + D 2^-24 |s|.
        Where scores that come closer than twice that to the one sent, up to its sign, decide whether it is among the
        best, all scores of the pair are computed again in double precision.
        """
        directions = all_short_directions(seeds, self.half, self.ambient)
        padded = np.zeros((directions.shape[2], points.shape[1]), np.float32)
        padded[: self.ambient] = points
        flat = directions.reshape(-1, directions.shape[2]) @ padded
        scores = flat.reshape(self.half, len(seeds), points.shape[1])
        scores *= (1.0 / np.sqrt(np.vecdot(directions, directions)))[:, :, None]
        sent = scores[index % self.half, np.arange(len(seeds))]
        forward = (sent > 0) == (index < self.half)[:, None]
        np.abs(scores, out=scores)
        np.abs(sent, out=sent)
        # For a score that lies within a few errors of the one sent, the error is at most this, too.
        error = (self.ambient + 16) * (1.0 + 2.0**-23 * sent)
        above = self._count(scores > sent + 2 * error)
        near = self._count(scores > sent - 2 * error)
        # At least `above` other pairs are longer and at most near - 1: where these say the same, so does any between.
        best = self._ranked(forward, above)
        close = (best != self._ranked(forward, near - 1)) | (sent <= error)
        row, column = np.divmod(np.flatnonzero(close), points.shape[1])
        for block in blocks(len(row), self.half * self.ambient):
            exact = directions[:, row[block], : self.ambient].swapaxes(0, 1).astype(np.float64)
            again = self._among_best(score(exact, points.T[column[block], :, None]), index[row[block]])
            best[row[block], column[block]] = again[:, 0]
        return best

    def _ranked(self, forward: NDArray[np.bool_], longer: NDArray[np.unsignedinteger]) -> NDArray[np.bool_]:
        """Whether a candidate is among the best t, where so many other pairs +-g have longer scores than its own.

        One of each is ahead of a positive score; a negative score is the mirror image.
        """
        best: NDArray[np.bool_] = forward & (longer < self.top)
        return best if self.top < self.half else best | (~forward & (longer >= self.candidates - self.top))

    def _count(self, true: NDArray[np.bool_]) -> NDArray[np.unsignedinteger]:
        """How many of the B are true."""
        count = np.uint8 if self.half <= 255 else np.uint32
        return np.asarray(np.add.reduce(true.view(np.uint8), axis=0, dtype=count))

    def _among_best(self, scores: Floats, index: Integers) -> NDArray[np.bool_]:
        """Whether candidate index[i] is among the best t for each input: scores are (n, B, k)."""
        numbers = np.arange(self.half)[None, :, None]
        sent = np.take_along_axis(scores, (index % self.half)[:, None, None], axis=1)
        number = index[:, None, None]
        sent = np.where(number < self.half, sent, -sent)
        ahead = (scores > sent) | ((scores == sent) & (numbers < number))
        negative_ahead = (-scores > sent) | ((-scores == sent) & (numbers + self.half < number))
        return np.asarray(ahead.sum(axis=1) + negative_ahead.sum(axis=1) < self.top)
