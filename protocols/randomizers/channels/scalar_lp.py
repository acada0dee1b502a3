"""The best eps-LDP table for one scalar whose distribution is roughly known (mathematics.md, "The limit").

Inputs are places in [-1, 1]: ROWS of them, evenly spaced, and a place in between mixes its two neighbours, which mixes
their means too. Outputs y carry values t_y on an even grid. With P_xy = u_y + b_xy and 0 <= b_xy <= (e^eps - 1) u_y a
table is eps-LDP, and

    minimise  sum_x w_x sum_y P_xy t_y^2   over  sum_y P_xy = 1,  sum_y P_xy t_y = x

is a linear program: the least variance of an unbiased estimate when places x have the weights w_x.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import scipy

from parley.emulator.errors import LocalProtocolError
from parley.emulator.randomizer import Floats, Integers
from parley.protocols.randomizers.channels.scalar_table import BITS, OUTPUTS, ROWS


@dataclass(frozen=True, kw_only=True, eq=False)
class ScalarTable:
    """P(output | row) for evenly spaced places of [-1, 1], and the value of each output."""

    probabilities: Floats
    values: Floats

    @property
    def second_moments(self) -> Floats:
        """E t^2 at every row."""
        return np.asarray(self.probabilities @ self.values**2)


def best_table(weights: Floats, epsilon: float, outputs: int = OUTPUTS) -> ScalarTable:
    """The table with the least variance for these weights of the rows; a plan asks for the same ones several times."""
    return _best_table(np.asarray(weights, dtype=np.float64).tobytes(), epsilon, outputs)


@lru_cache(maxsize=8)
def _best_table(shares: bytes, epsilon: float, outputs: int) -> ScalarTable:
    weights = np.frombuffer(shares, dtype=np.float64)
    rows = len(weights)
    reach = (1.4 if epsilon >= 3 else 1.6) / math.tanh(epsilon / 2)
    values = np.linspace(-reach, reach, outputs)
    places = np.linspace(-1.0, 1.0, rows)
    weights = weights / weights.sum()
    # Variables: u_y, then b_xy row by row.
    eye, ones = np.eye(outputs), np.ones(rows)
    cost = np.concatenate([values**2, np.outer(weights, values**2).reshape(-1)])
    sums = np.hstack([np.ones((rows, outputs)), np.kron(np.eye(rows), np.ones(outputs))])
    means = np.hstack([np.tile(values, (rows, 1)), np.kron(np.eye(rows), values)])
    above = np.kron(ones[:, None], -math.expm1(epsilon) * eye)
    bounded = scipy.sparse.hstack([scipy.sparse.csr_matrix(above), scipy.sparse.identity(rows * outputs)], "csr")
    solve: Any = scipy.optimize.linprog
    found = solve(
        cost,
        A_ub=bounded,
        b_ub=np.zeros(rows * outputs),
        A_eq=scipy.sparse.csr_matrix(np.vstack([sums, means])),
        b_eq=np.concatenate([ones, places]),
        bounds=(0, None),
        method="highs-ds",
    )
    if found.x is None:
        raise LocalProtocolError(f"the linear program of the scalar's table has no solution: {found.message}")
    shared, own = found.x[:outputs], found.x[outputs:].reshape(rows, outputs)
    table = np.maximum(shared + own, 0.0)
    return ScalarTable(probabilities=table / table.sum(axis=1, keepdims=True), values=values)


def row_weights(places: Floats, weights: Floats, rows: int = ROWS) -> Floats:
    """The weights of inputs at these places of [-1, 1], each shared out between its two rows."""
    position = (np.clip(places, -1.0, 1.0) + 1) / 2 * (rows - 1)
    row = np.minimum(np.floor(position).astype(np.int64), rows - 2)
    share = position - row
    found = np.bincount(row, weights * (1 - share), minlength=rows)
    return np.asarray(found + np.bincount(row + 1, weights * share, minlength=rows))


def integer_table(table: ScalarTable) -> Integers:
    """Rows of whole numbers that add up to 2^32, rounded down; the rest goes where it changes a ratio least.

    Outputs that the solver does not use, or leaves a mere trace of (2^-26 at some row), nobody sends.
    """
    kept = table.probabilities.min(axis=0) > 2.0**-26
    probabilities = np.where(kept, table.probabilities, 0.0)
    probabilities = probabilities / probabilities.sum(axis=1, keepdims=True)
    weights = np.floor(probabilities * 2.0**BITS).astype(np.int64)
    weights[:, int(np.where(kept, probabilities.min(axis=0), 0.0).argmax())] += (1 << BITS) - weights.sum(axis=1)
    return np.asarray(weights, dtype=np.int64)
