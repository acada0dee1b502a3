"""The codebook randomizer: the default VRand of Theorem vec-rand, with a message of 9 bytes whatever d is.

The user draws a seed that does not depend on the input; everybody can expand it into B random directions and
their negatives, M = 2B candidates. The user ranks them by inner product with the input and sends the seed and
the index of one candidate, e^eps likelier to be any one of the best t than any one of the others.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from emulator.errors import BadInput
from emulator.randomizer import Array, Coins, Columns, Floats, Integers, Randomizer, Shape
from protocols.randomizers.exact import WHOLE, WORD_BYTES, Words, check_count, check_epsilon, words
from protocols.randomizers.expansion import all_directions, one_direction
from protocols.randomizers.moments import SphereMoments
from protocols.randomizers.order_statistics import best_moment
from protocols.randomizers.sphere import check_radius, lift
from protocols.randomizers.two_level import TwoLevel

MOST_CANDIDATES = 1 << 16
MOST_NUMBERS = 1 << 28
FIXED_POINT = 36
# Numbers a block of users may expand to: temporary arrays stay at about 2 MiB, within a core's cache.
BLOCK_NUMBERS = 1 << 18


def blocks(rows: int, numbers: int) -> Iterator[slice]:
    """Slices of users whose expansions, `numbers` for each user, fit a block."""
    step = max(1, BLOCK_NUMBERS // numbers)
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


@dataclass(frozen=True, kw_only=True)
class Codebook(Randomizer):
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

    `best=None` takes the t with the smallest variance for the given number of candidates.
    """

    dimension: int
    radius: float
    epsilon: float
    candidates: int = 16
    best: int | None = None

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_radius(self.radius)
        check_count("dimension", self.dimension, 1, 1 << 20)
        check_count("candidates", self.candidates, 2, MOST_CANDIDATES)
        if self.candidates % 2:
            raise BadInput(f"candidates is {self.candidates}; give an even number, for they come in +- pairs")
        if self.candidates // 2 * (self.dimension + 1) > MOST_NUMBERS:
            raise BadInput(
                f"{self.candidates} candidates in dimension {self.dimension} would expand to more than "
                f"{MOST_NUMBERS} numbers a user; ask for fewer candidates"
            )
        if self.best is None:
            object.__setattr__(self, "best", self._least_variance())
        check_count("best", self.favoured, 1, self.candidates - 1)

    def _least_variance(self) -> int:
        return min(range(1, self.candidates // 2 + 1), key=lambda best: self._moments(best).variance)

    @property
    def favoured(self) -> int:
        """t, the number of candidates that are e^eps likelier than the others."""
        assert self.best is not None
        return self.best

    @cached_property
    def choice(self) -> TwoLevel:
        """The law of the rank that is sent."""
        return self._choice(self.favoured)

    def _choice(self, best: int) -> TwoLevel:
        return TwoLevel(outcomes=self.candidates, favoured=best, epsilon=self.epsilon)

    @cached_property
    def moments(self) -> SphereMoments:
        """Mean and covariance of the decoded vector."""
        return self._moments(self.favoured)

    def _moments(self, best: int) -> SphereMoments:
        choice, lifted = self._choice(best), self.dimension + 1
        everyone = (choice.low * self.candidates + choice.leftover) / WHOLE / lifted
        return SphereMoments(
            dimension=self.dimension,
            radius=self.radius,
            shrink=choice.contrast * best_moment(lifted, self.candidates, best, 1),
            along=everyone + choice.contrast * best_moment(lifted, self.candidates, best, 2),
        )

    @property
    def variance(self) -> float:
        """E|Y-x|^2/d of the decoded vector, the largest over all inputs."""
        return self.moments.variance

    def covariance(self, x: Floats) -> Floats:
        """The exact covariance of the decoded vector for the input x."""
        return self.moments.covariance(x)

    @property
    def coins(self) -> int:
        """One word for the seed, one for the choice."""
        return 2 * WORD_BYTES

    @property
    def reply(self) -> Shape:
        """The seed and the index of a candidate: b stands for direction b, B + b for its negative."""
        index: np.dtype[np.generic] = np.dtype(np.uint8 if self.candidates <= 256 else np.uint16)
        return {"seed": (np.dtype(np.uint64), ()), "index": (index, ())}

    def sample(self, inputs: Floats, coins: Coins) -> Columns:
        """Expand a seed, rank its candidates, send one of them."""
        coin = words(coins, 2)
        seeds = np.ascontiguousarray(coin[:, 0])
        rank = self.choice.rank(coin[:, 1])
        index = np.zeros(len(rank), dtype=self.reply["index"][0])
        for block in self._blocks(len(seeds)):
            points = lift(inputs[block], self.dimension, self.radius, first_row=block.start)
            scores = self._scores(seeds[block], points[:, :, None])[:, :, 0]
            # Stable, so candidates of equal score keep the order of their indices.
            order = np.argsort(np.concatenate([-scores, scores], axis=1), axis=1, kind="stable")
            place = np.minimum(rank[block], self.candidates - 1)[:, None]
            index[block] = np.take_along_axis(order, place, axis=1)[:, 0]
        index[rank == self.candidates] = 0
        return {"seed": seeds, "index": index}

    def _blocks(self, rows: int, inputs: int = 1) -> Iterator[slice]:
        return blocks(rows, self.candidates // 2 * max(self.dimension + 1, inputs))

    def _scores(self, seeds: Words, points: Floats) -> Floats:
        """<g_b, x> / |g_b|: sums of whole numbers below 2^53, so neither BLAS nor the order of sums matters."""
        directions = all_directions(seeds, self.candidates // 2, self.dimension + 1)
        norms = np.sqrt(np.einsum("nbd,nbd->nb", directions, directions))
        scores: Floats = np.matmul(directions, points) / norms[:, :, None]
        return scores

    def check(self, reply: Columns) -> NDArray[np.bool_]:
        """Any seed, and an index below the number of candidates."""
        accepted: NDArray[np.bool_] = reply["index"].astype(np.int64) < self.candidates
        return accepted

    def log_likelihood(self, reply: Columns, inputs: Floats) -> Floats:
        """log P(index | seed, x); the seed's own 2^-64 is left out."""
        seeds, index = _read(reply)
        points = lift(inputs, self.dimension, self.radius).T
        result = np.empty((len(seeds), len(inputs)))
        for block in self._blocks(len(seeds), len(inputs)):
            ranked_best = self._among_best(self._scores(seeds[block], points), index[block])
            result[block] = self.choice.log_table[ranked_best.astype(np.int64), (index[block] == 0)[:, None] * 1]
        return result

    def _among_best(self, scores: Floats, index: Integers) -> NDArray[np.bool_]:
        """Whether candidate index[i] is among the best t for each input: scores are (n, B, k)."""
        half = self.candidates // 2
        numbers = np.arange(half)[None, :, None]
        sent = np.take_along_axis(scores, (index % half)[:, None, None], axis=1)
        sent = np.where((index < half)[:, None, None], sent, -sent)
        earlier = numbers < index[:, None, None]
        ahead = (scores > sent) | ((scores == sent) & earlier)
        earlier = numbers + half < index[:, None, None]
        behind = (-scores > sent) | ((-scores == sent) & earlier)
        best: NDArray[np.bool_] = ahead.sum(axis=1) + behind.sum(axis=1) < self.favoured
        return best

    def _directions(self, reply: Columns) -> Iterator[tuple[slice, Floats]]:
        """The candidates sent, as whole numbers in d+1 dimensions, block by block."""
        seeds, index = _read(reply)
        half = self.candidates // 2
        for block in blocks(len(seeds), self.dimension + 1):
            sign = np.where(index[block] < half, 1.0, -1.0)
            yield block, one_direction(seeds[block], index[block] % half, self.dimension + 1) * sign[:, None]

    def _steps(self, reply: Columns) -> Iterator[tuple[slice, Floats]]:
        """Unit candidates without the appended coordinate, in whole steps of 2^-36."""
        for block, directions in self._directions(reply):
            norms = np.sqrt(np.einsum("nd,nd->n", directions, directions))
            yield block, np.rint(directions[:, : self.dimension] / norms[:, None] * 2.0**FIXED_POINT)

    def decode(self, reply: Columns) -> Floats:
        """C/m times the candidate's direction."""
        vectors = np.empty((len(reply["seed"]), self.dimension))
        for block, steps in self._steps(reply):
            vectors[block] = steps * self.unit
        return vectors

    def total(self, reply: Columns) -> Integers:
        """Sum of the decoded vectors in units; no sum of fewer than 2^26 replies overflows."""
        total = np.zeros(self.dimension, dtype=np.int64)
        for _, steps in self._steps(reply):
            # Below 2^17 rows of at most 2^36 the sum in float64 is a whole number below 2^53, thus exact.
            for start in range(0, len(steps), 1 << 16):
                total += steps[start : start + (1 << 16)].sum(axis=0).astype(np.int64)
        return total

    @property
    def unit(self) -> float:
        """C / m / 2^36."""
        return self.moments.scale / 2.0**FIXED_POINT

    def quadratic_total(self, reply: Columns, signs: Array) -> int:
        """Sum over replies of y'Dy, D = diag(signs) of -1, 0 and 1, in units of `quadratic_unit`."""
        weights = np.append(np.asarray(signs, dtype=np.float64), 0.0)
        if weights.shape != (self.dimension + 1,) or not np.isin(weights, (-1.0, 0.0, 1.0)).all():
            raise BadInput(f"signs should be {self.dimension} numbers out of -1, 0 and 1")
        total = 0
        for _, directions in self._directions(reply):
            squares = directions**2
            shares = squares @ weights / squares.sum(axis=1)
            total += int(np.rint(shares * 2.0**FIXED_POINT).astype(np.int64).sum())
        return total

    @property
    def quadratic_unit(self) -> float:
        """(C / m)^2 / 2^36."""
        return self.moments.scale**2 / 2.0**FIXED_POINT


def _read(reply: Columns) -> tuple[Words, Integers]:
    return reply["seed"].astype(np.uint64), reply["index"].astype(np.int64)


def best_codebook(*, dimension: int, radius: float, epsilon: float, max_candidates: int = 16) -> Codebook:
    """The codebook of at most so many candidates with the smallest variance; of equals, the smaller one."""
    check_count("max_candidates", max_candidates, 2, MOST_CANDIDATES)
    sizes = range(2, max_candidates + 1, 2) if max_candidates <= 64 else (max_candidates // 2 * 2,)
    tuned = [Codebook(dimension=dimension, radius=radius, epsilon=epsilon, candidates=size) for size in sizes]
    return min(tuned, key=lambda codebook: codebook.variance)


def hemisphere(*, dimension: int, radius: float, epsilon: float) -> Codebook:
    """The hemisphere randomizer (Duchi, Jordan, Wainwright 2018): one direction and its negative."""
    return Codebook(dimension=dimension, radius=radius, epsilon=epsilon, candidates=2, best=1)
