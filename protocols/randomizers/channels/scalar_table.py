"""A table for one scalar: whole-numbered rows for evenly spaced places, and inputs that lie between two of them.

place -1  [ row 0  ]      an input at a place between two rows draws from their mixture, which mixes their means:
          [ row 1  ]      replies stay unbiased. All rows keep the ratio e^eps with each other, so every mixture
          [ ...    ]      does too, and positions need no trust.
place +1  [ row 20 ]
"""

import numpy as np

from parley.emulator.randomizer import Floats, Integers

ROWS, OUTPUTS = 21, 32
# Rows add up to 2^32.
BITS = 32
# A position is a row and so many bits of the way to the next.
FRACTION = 16


def positions(places: Floats, rows: int = ROWS) -> Integers:
    """Places of [-1, 1] as whole numbers: the row, and 16 bits of the way to the next."""
    return np.rint((np.clip(places, -1.0, 1.0) + 1) / 2 * ((rows - 1) << FRACTION)).astype(np.int64)


def mixed(rows: Integers, position: Integers) -> Integers:
    """The table over inputs: each mixes two neighbouring rows by its position. Its rows add up to 2^(32 + 16)."""
    row = np.minimum(position >> FRACTION, len(rows) - 2)
    share = position - (row << FRACTION)
    return np.asarray(rows[row] * ((1 << FRACTION) - share)[:, None] + rows[row + 1] * share[:, None])
