"""The table of the last round for a gradient g and a histogram (mathematics.md, "Two rounds near the limit")."""

from dataclasses import dataclass

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Chosen
from parley.emulator.randomizer import Floats
from parley.protocols.randomizers.channels.channel import check_table
from parley.protocols.randomizers.channels.scalar_lp import ScalarTable, best_table, integer_table, row_weights
from parley.protocols.randomizers.channels.scalar_table import positions
from parley.protocols.tuned.objective import Point

# h^ is rough: the table is made for a mixture with equal shares, so that no input is left out.
EVEN = 0.03
# What is left of epsilon for the rounding of a table to whole numbers, as a share: the first that suffices.
ROOM = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
# Beyond this epsilon a scalar's error is that of its grid of rows; whole numbers of 32 bits end soon after.
LARGEST_EPSILON = 10.0


@dataclass(frozen=True, kw_only=True, eq=False)
class ScalarQuestion:
    """g as places in [-1, 1], and the table for them."""

    table: ScalarTable
    places: Floats
    middle: float
    half: float

    @property
    def broadcast(self) -> dict[str, Chosen]:
        """A solver finds the table, so the record says which one it was."""
        arrays = {
            "table": integer_table(self.table).astype(np.uint32),
            "position": positions(self.places).astype(np.uint32),
            "values": self.middle + self.half * self.table.values,
        }
        return {name: Chosen(array) for name, array in arrays.items()}

    def variance(self, histogram: Floats) -> float:
        """V2: n times the variance of the mean reply of n users with this histogram, the users being as they are."""
        second = row_weights(self.places, histogram) @ self.table.second_moments
        return float(self.half**2 * (second - histogram @ self.places**2))


def scalar_question(point: Point, epsilon: float) -> ScalarQuestion:
    """The best table for the gradient at this point."""
    low, high = float(point.gradient.min()), float(point.gradient.max())
    middle, half = (low + high) / 2, (high - low) / 2
    # Where g is constant there is nothing to ask; a table is needed all the same.
    places = (point.gradient - middle) / half if half > 1e-12 * max(1.0, abs(middle)) else point.gradient * 0.0
    shares = (1 - EVEN) * point.histogram + EVEN / len(places)
    table = whole_table(row_weights(places, shares), min(epsilon, LARGEST_EPSILON))
    return ScalarQuestion(table=table, places=places, middle=middle, half=half)


def whole_table(weights: Floats, epsilon: float) -> ScalarTable:
    """The best table whose whole numbers keep e^epsilon: made for as little less as their rounding needs."""
    for room in ROOM:
        table = best_table(weights, epsilon * (1 - room))
        try:
            check_table(integer_table(table), epsilon)
        except BadInput:
            continue
        return table
    raise BadInput(f"no table of 32-bit whole numbers spends epsilon {epsilon:g}; give a larger or a smaller one")
