"""Some rows of a factor, without forming it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parley.emulator.randomizer import Floats, Integers
from parley.protocols.factorization.operator import Factor


@dataclass(frozen=True, eq=False)
class Selected(Factor):
    """Some rows of a factor."""

    base: Factor
    kept: Integers

    @property
    def shape(self) -> tuple[int, int]:
        return (len(self.kept), self.base.inputs)

    def _columns(self, indices: NDArray[np.int64]) -> Floats:
        return np.ascontiguousarray(self.base.columns(indices)[:, self.kept])

    def _apply(self, matrix: Floats) -> Floats:
        return self.base.apply(matrix)[self.kept]

    def _transpose_apply(self, matrix: Floats) -> Floats:
        whole = np.zeros((self.base.rows, matrix.shape[1]))
        whole[self.kept] = matrix
        return self.base.transpose_apply(whole)

    def norms(self) -> Floats:
        return np.asarray(np.sqrt((self.dense() ** 2).sum(axis=0)))
