"""A codebook with a short public list of seeds: S small channels, and a public choice of which one a user speaks.

Seed s expands into M/2 random directions and their negatives, the candidates. An input favours the t of them with the
largest inner products and is e^eps likelier to send any one of these than any one of the others:

    seed s     candidate 0   1   2   3  ...  M-1
    input 0  [     1        e^eps 1  e^eps    1  ]  / (t e^eps + M - t)
    input 1  [   e^eps        1   1  e^eps    1  ]

Which seed is whose does not depend on the input. Either it follows from the user's number through public coins, and
then the reply is the index alone, one byte; or the user draws it and sends it along, which shuffled replies need.

With S seeds and M candidates the analyst keeps S M counts, whatever the number of users, and decodes them by their
likelihood: the directions themselves play no part in it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Alphabet, Coins, Columns, Floats, Integers, Shape
from parley.protocols.randomizers.categories.oracle import check_categories
from parley.protocols.randomizers.exact import WHOLE, WORD_BYTES, Choice, TwoLevel, check_count, check_epsilon, words
from parley.protocols.randomizers.vectors.directional import lift
from parley.protocols.randomizers.vectors.expansion import all_directions

MOST_SEEDS = 1 << 12
MOST_CANDIDATES = 256
MOST_FOLDS = 16
# Numbers of a block of scores: 2 MiB.
BLOCK_NUMBERS = 1 << 18
Real = TypeVar("Real", np.float32, np.float64)


@dataclass(frozen=True, kw_only=True, eq=False)
class CodebookSeeds(Choice):
    """Choose among the M candidates of a seed by rank; the seed is public, or sent along.

    Formal guarantee: for every seed and index, probabilities under two inputs differ by a factor of at most e^eps
    exactly, whatever `vectors` are: given the seed an index is chosen by `TwoLevel`, whose integer weights keep that
    ratio, and the seed has the same law for every input.

    Attacks. No reply holds a float. Floating point only ranks candidates, and any ranking is private. Every input takes
    the same look-ups. A user who lies cannot search for a seed that serves the lie where seeds are public.

    `vectors` has one row per input, of norm at most `radius`. A place is a seed within a fold: fold * seeds + seed. The
    table of a seed is the same in every fold.
    """

    vectors: Floats = field(repr=False)
    radius: float
    epsilon: float
    seeds: int
    candidates: int
    top: int
    folds: int = 1
    sends_place: bool = False
    unit = 1.0
    reach = (0, 1)

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_count("seeds", self.seeds, 1, MOST_SEEDS)
        check_count("folds", self.folds, 1, MOST_FOLDS)
        check_count("candidates", self.candidates, 2, MOST_CANDIDATES)
        check_count("top", self.top, 1, self.candidates - 1)
        if self.candidates % 2:
            raise BadInput(f"candidates is {self.candidates}; give an even number, because they come in +- pairs")
        # Refuses vectors that are too long or not finite.
        self._points  # noqa: B018

    @property
    def inputs(self) -> int:
        return len(self.vectors)

    @property
    def places(self) -> int:
        return self.folds * self.seeds

    @cached_property
    def choice(self) -> TwoLevel:
        return TwoLevel(outcomes=self.candidates, top=self.top, epsilon=self.epsilon)

    @property
    def coins(self) -> int:
        """One word for the choice, one more for the place."""
        return (1 + self.sends_place) * WORD_BYTES

    @property
    def reply(self) -> Shape:
        index = {"index": (np.dtype(np.uint8), ())}
        return {"place": (np.dtype(np.uint16), ()), **index} if self.sends_place else index

    @property
    def public(self) -> Shape:
        """What belongs to a reply and follows from the user's number."""
        return {} if self.sends_place else {"place": (np.dtype(np.uint16), ())}

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet(column="index", first=0, last=self.candidates - 1)

    @property
    def work(self) -> int:
        """The directions of one seed."""
        return self.candidates // 2 * int(self.vectors.shape[1] + 1)

    @cached_property
    def _points(self) -> Floats:
        return lift(self.vectors, self.vectors.shape[1], self.radius)

    @cached_property
    def _tables(self) -> "Tables":
        return Tables(self._points, self.seeds, self.candidates)

    @cached_property
    def _seed_of(self) -> Integers:
        """The seed of each place."""
        return np.arange(self.places) % self.seeds

    def order(self, seeds: Integers) -> NDArray[np.uint8]:
        """The candidates of each of these seeds for every input, by falling inner product: (seeds, inputs, M)."""
        return self._tables.of(seeds)

    def sample(self, inputs: Floats, coins: Coins) -> Columns:
        """Rows of `inputs` are an input and, where places are public, a place."""
        if coins.dtype != np.uint8 or coins.ndim != 2 or coins.shape[1] != self.coins:
            raise BadInput(f"coins are {coins.dtype} {coins.shape}; give uint8 with {self.coins} bytes per user")
        coin = words(coins, self.coins // WORD_BYTES)
        if self.sends_place:
            truth, place = inputs, (coin[:, 1] >> np.uint64(32)) * np.uint64(self.places) >> np.uint64(32)
        else:
            if inputs.ndim != 2 or inputs.shape[1] != 2:
                raise BadInput(f"inputs have shape {inputs.shape}; give an input and a place per user")
            truth, place = inputs[:, 0], check_categories(inputs[:, 1], self.places).astype(np.uint64)
        rank = self.choice.rank(coin[:, 0])
        rows, seeds = check_categories(truth, self.inputs), self._seed_of[place.astype(np.int64)]
        # Coin values that no rank uses mean candidate 0 for every input.
        index = np.where(rank == self.candidates, np.uint8(0), self._tables.look_up(seeds, rows, rank))
        return {"place": place.astype(np.uint16), "index": index} if self.sends_place else {"index": index}

    def check(self, reply: Columns) -> NDArray[np.bool_]:
        good = super().check(reply)
        return np.asarray(good & (reply["place"].astype(np.int64) < self.places)) if self.sends_place else good

    @property
    def cells(self) -> int:
        """One for each index of each seed: what an index says does not depend on the fold."""
        return self.seeds * self.candidates

    def cell(self, reply: Columns) -> Integers:
        seed = self._seed_of[reply["place"].astype(np.int64)]
        return np.asarray(seed * self.candidates + reply["index"].astype(np.int64))

    def in_cells(self, cells: Integers) -> Columns:
        place, index = np.divmod(cells, self.candidates)
        return {"place": place.astype(np.uint16), "index": index.astype(np.uint8)}

    def every_reply(self) -> Columns | None:
        """One list would have to serve all seeds."""
        return None

    def log_likelihood(self, reply: Columns, inputs: Floats) -> Floats:
        """log P(index | place, x); the place's own law is the same for every input and left out."""
        truth = inputs if inputs.ndim == 1 else inputs[:, 0]
        rows = check_categories(truth, self.inputs)
        seeds, index = reply["place"].astype(np.int64) % self.seeds, reply["index"].astype(np.int64)
        known, which = np.unique(seeds, return_inverse=True)
        favoured = np.zeros((len(index), len(rows)), dtype=np.bool_)
        if len(known):
            best = self.order(known)[:, :, : self.top]
            for rank in range(self.top):
                favoured |= best[which, :, rank][:, rows] == index[:, None]
        fixed = (index == 0).astype(np.int64)[:, None]
        return np.asarray(self.choice.log_table[favoured.astype(np.int64), fixed])

    def likelihood(self, precision: type[Real]) -> NDArray[Real]:
        """P(seed, index | x) times S, all seeds below each other: (S M) x inputs. It is what decoding needs."""
        high, low, leftover = (each / WHOLE for each in (self.choice.high, self.choice.low, self.choice.leftover))
        table = np.where(self._favoured, precision(high), precision(low))
        table[:, 0] = np.where(self._favoured[:, 0], precision(high + leftover), precision(low + leftover))
        return table.reshape(self.cells, self.inputs)

    @cached_property
    def _favoured(self) -> NDArray[np.bool_]:
        return self._tables.favoured(self.top)

    def decode(self, reply: Columns) -> Floats:
        """What a reply adds to the counts."""
        cells = self._cells(reply)
        rows = np.zeros((len(cells), self.places * self.candidates))
        rows[np.arange(len(cells)), cells] = 1.0
        return rows.reshape(len(cells), self.folds, self.seeds, self.candidates)

    def total(self, reply: Columns) -> Integers:
        """How often each index was sent: (folds, seeds, M)."""
        counts = np.bincount(self._cells(reply), minlength=self.places * self.candidates)
        return counts.reshape(self.folds, self.seeds, self.candidates).astype(np.int64)

    def _cells(self, reply: Columns) -> Integers:
        cells: Integers = reply["place"].astype(np.int64) * self.candidates + reply["index"].astype(np.int64)
        return cells

    @property
    def variance(self) -> float:
        """That of one count, given the place."""
        chance = self.choice.high / WHOLE
        return chance * (1 - chance)


class Tables:
    """The candidates of every seed in their order for every input, computed when a seed is first asked for.

    An audit asks from several threads. Places and tables change together, in one assignment; an update that is lost
    is made again.
    """

    def __init__(self, points: Floats, seeds: int, candidates: int) -> None:
        self._points, self._candidates = points, candidates
        nothing: NDArray[np.uint8] = np.zeros((0, len(points), candidates), dtype=np.uint8)
        self._state = np.full(seeds, -1, dtype=np.int64), nothing

    def of(self, seeds: Integers) -> NDArray[np.uint8]:
        place, known = self._holding(seeds)
        return known[place[seeds]]

    def look_up(self, seeds: Integers, rows: Integers, rank: Integers) -> NDArray[np.uint8]:
        """The candidate of each seed that is so far down for its input; the last one beyond the last rank."""
        place, known = self._holding(seeds)
        cell = (place[seeds] * known.shape[1] + rows) * self._candidates + np.minimum(rank, self._candidates - 1)
        return np.asarray(known.reshape(-1)[cell])

    def _holding(self, seeds: Integers) -> tuple[Integers, NDArray[np.uint8]]:
        """Where each seed's table is, and the tables; those of these seeds are among them."""
        place, known = self._state
        missing = place[seeds] < 0
        if missing.any():
            fresh = np.unique(seeds[missing])
            place = place.copy()
            place[fresh] = len(known) + np.arange(len(fresh))
            known = np.concatenate([known, self._made(fresh)])
            self._state = place, known
        return place, known

    def favoured(self, top: int) -> NDArray[np.bool_]:
        """Whether each candidate is among the best `top` of its seed for an input: (seeds, M, inputs).

        Of a direction and its negative one has the larger score, so of the best half each comes from a pair of its own.
        """
        inputs, half = len(self._points), self._candidates // 2
        seeds = np.arange(len(self._state[0]))
        found = np.empty((len(seeds), self._candidates, inputs), dtype=np.bool_)
        for part, scores in self._scores(seeds):
            if top <= half:
                least = np.partition(np.abs(scores), half - top, axis=1)[:, half - top, None]
                found[part] = np.concatenate([scores >= least, scores <= -least], axis=1)
            if top > half or np.count_nonzero(found[part]) != top * inputs * len(scores):
                # Candidates of equal score keep the order of their indices.
                best = self.of(seeds[part])[:, :, :top].astype(np.int64)
                found[part] = False
                np.put_along_axis(found[part], np.swapaxes(best, 1, 2), True, axis=1)
        return found

    def _made(self, seeds: Integers) -> NDArray[np.uint8]:
        order = np.empty((len(seeds), len(self._points), self._candidates), dtype=np.uint8)
        for part, scores in self._scores(seeds):
            scores = np.swapaxes(scores, 1, 2)
            both = np.concatenate([-scores, scores], axis=2)
            # Stable, so candidates of equal score keep the order of their indices.
            order[part] = np.argsort(both, axis=2, kind="stable")
        return order

    def _scores(self, seeds: Integers) -> Iterator[tuple[slice, Floats]]:
        """Inner products with the directions of these seeds, block by block: (seeds, M/2, inputs)."""
        inputs, ambient = self._points.shape
        half = self._candidates // 2
        step = max(1, BLOCK_NUMBERS // (half * max(ambient, inputs)))
        for start in range(0, len(seeds), step):
            part = slice(start, start + step)
            directions = all_directions(seeds[part].astype(np.uint64), half, ambient)
            norms = np.sqrt(np.vecdot(directions, directions))
            # Sums of whole numbers below 2^53: the same on every machine.
            scores = (directions.reshape(-1, ambient) @ self._points.T).reshape(-1, half, inputs)
            yield part, scores / norms[:, :, None]
