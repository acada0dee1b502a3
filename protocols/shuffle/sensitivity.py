"""How far two users' vectors can be apart: the l2 and l1 diameters of the columns, computed by every user itself."""

from typing import NamedTuple

import numpy as np

from parley.emulator.randomizer import Floats, Integers

# Pairs of more inputs than this are not listed; twice the largest norm bounds them.
MOST_LISTED = 1024


class Sensitivity(NamedTuple):
    """Delta_2^2 and Delta_1."""

    square: float
    absolute: float


def sensitivity(vectors: Integers | Floats) -> Sensitivity:
    """Over all pairs of rows, in the units of the rows; never less than it is."""
    values = vectors.astype(np.float64)
    if len(values) > MOST_LISTED:
        square = 4 * float((values**2).sum(axis=1).max())
        return Sensitivity(square * (1 + 1e-12), 2 * float(np.abs(values).sum(axis=1).max()))
    square = absolute = 0.0
    for row in range(len(values) - 1):
        apart = np.abs(values[row + 1 :] - values[row])
        square = max(square, float((apart**2).sum(axis=1).max()))
        absolute = max(absolute, float(apart.sum(axis=1).max()))
    return Sensitivity(square * (1 + 1e-12), absolute)
