"""Directional randomizers whose reply is (seed, index): candidate b is a direction of the seed, B + b its negative."""

from abc import abstractmethod
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from parley.emulator.randomizer import Alphabet, Columns, Floats, Integers, Shape
from parley.protocols.randomizers.exact import Words
from parley.protocols.randomizers.vectors.directional import STEP, Directional, blocks
from parley.protocols.randomizers.vectors.expansion import all_directions, one_direction


class Seeded(Directional):
    """The seed is public and independent of the input; only the index is chosen."""

    candidates: int

    @property
    @abstractmethod
    def ambient(self) -> int:
        """The dimension of the candidates: d, or d + 1 with the appended coordinate."""

    @property
    def half(self) -> int:
        """B, the directions of a seed."""
        return self.candidates // 2

    @property
    def work(self) -> int:
        """Every candidate is expanded."""
        return self.half * self.ambient

    @property
    def reply(self) -> Shape:
        """The seed and the index of a candidate."""
        index: np.dtype[np.generic] = np.dtype(np.uint8 if self.candidates <= 256 else np.uint16)
        return {"seed": (np.dtype(np.uint64), ()), "index": (index, ())}

    @property
    def alphabet(self) -> Alphabet:
        """The index of a candidate."""
        return Alphabet(column="index", first=0, last=self.candidates - 1)

    def check(self, reply: Columns) -> NDArray[np.bool_]:
        """Any seed, and an index below the number of candidates."""
        accepted: NDArray[np.bool_] = reply["index"].astype(np.int64) < self.candidates
        return accepted

    def _blocks(self, rows: int, inputs: int = 1) -> Iterator[slice]:
        """Blocks for work on all candidates and this many inputs."""
        return blocks(rows, self.half * max(self.ambient, inputs))

    def _scores(self, seeds: Words, points: Floats) -> Floats:
        """<g_b, x> / |g_b|: sums of whole numbers below 2^53, so neither BLAS nor the order of sums matters."""
        directions = all_directions(seeds, self.half, self.ambient)
        norms = np.sqrt(np.vecdot(directions, directions))
        if points.ndim == 2:
            # One product of two matrices instead of one for each seed.
            flat = directions.reshape(-1, self.ambient) @ points
            products = flat.reshape(len(seeds), self.half, -1)
        else:
            products = np.matmul(directions, points)
        scores: Floats = products / norms[:, :, None]
        return scores

    def _directions(self, reply: Columns) -> Iterator[tuple[slice, Floats]]:
        """The candidates sent, as whole numbers, block by block."""
        seeds, index = read(reply)
        for block in blocks(len(seeds), self.ambient):
            sign = np.where(index[block] < self.half, 1.0, -1.0)
            yield block, one_direction(seeds[block], index[block] % self.half, self.ambient) * sign[:, None]

    def _units(self, reply: Columns) -> Iterator[tuple[slice, Floats]]:
        for block, directions in self._directions(reply):
            norms = np.sqrt(np.vecdot(directions, directions))
            yield block, directions[:, : self.dimension] / norms[:, None]

    def total(self, reply: Columns) -> Integers:
        """As for every direction, in fewer steps: dividing by 2^36 and changing a sign round nothing."""
        seeds, index = read(reply)
        total = np.zeros(self.dimension, dtype=np.int64)
        for block in blocks(len(seeds), self.ambient):
            directions = one_direction(seeds[block], index[block] % self.half, self.ambient)
            norms = np.sqrt(np.vecdot(directions, directions)) / STEP
            units = directions[:, : self.dimension]
            np.divide(units, norms[:, None], out=units)
            np.rint(units, out=units)
            # 2^16 rows of at most 2^36 add up to a whole number below 2^53, in any order.
            sign = np.where(index[block] < self.half, 1.0, -1.0)
            for start in range(0, len(units), 1 << 16):
                total += (sign[start : start + (1 << 16)] @ units[start : start + (1 << 16)]).astype(np.int64)
        return total

    def _shares(self, reply: Columns, weights: Floats) -> Iterator[Floats]:
        for _, directions in self._directions(reply):
            squares = directions**2
            # Both sums are over whole numbers below 2^53; only the division rounds.
            yield squares[:, : self.dimension] @ weights / squares.sum(axis=1)


def read(reply: Columns) -> tuple[Words, Integers]:
    """Seeds and indices in the types of arithmetic."""
    return reply["seed"].astype(np.uint64), reply["index"].astype(np.int64)
