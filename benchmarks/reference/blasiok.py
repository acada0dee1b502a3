"""The randomizer of Blasiok, Bun, Nikolov and Steinke (SODA 2019) that Theorem vec-rand cites.

As we read it, it is the hemisphere sampler of Duchi et al. behind a random rounding to the sphere: x becomes
x~ = +C x/|x| with probability (1 + |x|/C)/2 and -C x/|x| otherwise, so that E[x~] = x; then a uniform direction is
sent, turned into the half space of x~ with probability e^eps/(1 + e^eps) and into the other one otherwise. A
uniform direction times sqrt(d) is O(1)-sub-Gaussian in every direction, which gives the theorem's O(C/eps).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from parley.emulator.randomizer import Coins, Columns, Floats
from parley.protocols.randomizers.exact import WHOLE, WORD_BYTES, TwoLevel, Words, check_count, check_epsilon, words
from parley.protocols.randomizers.vectors.directional import GRID, Seeded, blocks, check_radius, grid_points, read
from parley.protocols.randomizers.vectors.moments import SphereMoments, top_moment

# |x|/C in whole 2^-32, so (1 + |x|/C)/2 is a whole number of 2^-33.
UNIT = 1 << 32
ROUNDING_SHIFT = np.uint64(31)


@dataclass(frozen=True, kw_only=True)
class Blasiok(Seeded):
    """Theorem vec-rand's own VRand, with the direction sent as (seed, sign).

    Formal guarantee: for every two inputs and every reply the probabilities differ by a factor of at most e^eps
    exactly. The seed has the same law for every input; given the seed and x~ the sign is chosen by `TwoLevel`
    with integer weights; and the rounding of x to x~ mixes two such choices, which never raises the ratio.

    Attacks. As for `Codebook`: no float is sent and none decides a probability beyond which of two integers
    applies, so Mironov's and precision-based attacks find nothing to read. All inputs take the same operations;
    timing at the level of caches is not defended against.
    """

    dimension: int
    radius: float
    epsilon: float

    candidates = 2

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_radius(self.radius)
        check_count("dimension", self.dimension, 1, 1 << 20)

    @property
    def ambient(self) -> int:
        """d: rounding to the sphere takes the place of an appended coordinate."""
        return self.dimension

    @cached_property
    def choice(self) -> TwoLevel:
        """The law of the sign, given the rounded input."""
        return TwoLevel(outcomes=2, top=1, epsilon=self.epsilon)

    @cached_property
    def moments(self) -> SphereMoments:
        """A uniform direction is as likely as its negative before the choice, so E[UU'] = I/d for every input."""
        toward = top_moment(self.dimension, 2, 1, 1) if self.dimension > 1 else 1.0
        return SphereMoments(
            dimension=self.dimension,
            radius=self.radius,
            shrink=self.choice.contrast * toward,
            along=1.0 / self.dimension,
            across=1.0 / self.dimension,
        )

    @property
    def coins(self) -> int:
        """One word each for the seed, the rounding and the choice."""
        return 3 * WORD_BYTES

    def _norms(self, points: Floats) -> Words:
        """|x|/C in whole 2^-32, at most 2^32."""
        norms = np.sqrt(np.einsum("nd,nd->n", points, points)) * (UNIT / GRID)
        whole: Words = np.minimum(np.rint(norms), float(UNIT)).astype(np.uint64)
        return whole

    def sample(self, inputs: Floats, coins: Coins) -> Columns:
        """Round to the sphere, expand a seed, send the sign of one half space or of the other."""
        coin = words(coins, 3)
        seeds = np.ascontiguousarray(coin[:, 0])
        rank = self.choice.rank(coin[:, 2])
        index = np.zeros(len(rank), dtype=np.uint8)
        for block in blocks(len(seeds), self.half * self.ambient):
            points = grid_points(inputs[block], self.dimension, self.radius, first_row=block.start)
            kept = (coin[block, 1] >> ROUNDING_SHIFT) < np.uint64(UNIT) + self._norms(points)
            behind = self._scores(seeds[block], points[:, :, None])[:, 0, 0] < 0.0
            index[block] = behind ^ ~kept ^ (rank[block] == 1)
        index[rank == 2] = 0
        return {"seed": seeds, "index": index}

    def log_likelihood(self, reply: Columns, inputs: Floats) -> Floats:
        """log P(index | seed, x), mixed over the rounding; the seed's own 2^-64 is left out."""
        seeds, index = read(reply)
        points = grid_points(inputs, self.dimension, self.radius)
        kept = 0.5 + self._norms(points).astype(np.float64) / (2.0 * UNIT)
        high, low = self.choice.high / WHOLE, self.choice.low / WHOLE
        toward, away = kept * high + (1.0 - kept) * low, kept * low + (1.0 - kept) * high
        result = np.empty((len(seeds), len(inputs)))
        for block in blocks(len(seeds), self.half * max(self.ambient, len(inputs))):
            behind = self._scores(seeds[block], points.T)[:, 0, :] < 0.0
            same: NDArray[np.bool_] = behind == (index[block] == 1)[:, None]
            fixed = (index[block] == 0)[:, None] * (self.choice.leftover / WHOLE)
            result[block] = np.log(np.where(same, toward, away) + fixed)
        return result
