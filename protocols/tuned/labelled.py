"""A factor with one more row: a scalar function of the input that travels in the same vector."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parley.emulator.randomizer import Floats
from parley.protocols.factorization.operator import Factor


@dataclass(frozen=True, eq=False)
class Labelled(Factor):
    """[A ; weight * label']: the vector of A and, below it, a label of +1 or -1."""

    base: Factor
    label: Floats
    weight: float

    @property
    def shape(self) -> tuple[int, int]:
        return (self.base.rows + 1, self.base.inputs)

    def _columns(self, indices: NDArray[np.int64]) -> Floats:
        return np.concatenate([self.base.columns(indices), (self.weight * self.label[indices])[:, None]], axis=1)

    def _apply(self, matrix: Floats) -> Floats:
        return np.concatenate([self.base.apply(matrix), (self.weight * self.label @ matrix)[None]])

    def _transpose_apply(self, matrix: Floats) -> Floats:
        below = self.weight * self.label[:, None] * matrix[-1]
        return np.asarray(self.base.transpose_apply(matrix[:-1]) + below)

    def norms(self) -> Floats:
        return np.asarray(np.sqrt(self.base.norms() ** 2 + (self.weight * self.label) ** 2))
