"""The mean of a value in [0, 1] in two rounds: first where the values lie, then the mean of what lies there.

parley run --protocol-file docs/examples/range_refinement.py --protocol range-refinement \
    --levels 64 --epsilon 2 --users 20000
"""

import math
from dataclasses import dataclass

import numpy as np

import parley


@dataclass(frozen=True, kw_only=True)
class RangeRefinement(parley.Protocol):
    """One bit about a value in a short range is less noisy than one about a value in [0, 1].

    Formal guarantee: eps-LDP against any analyst. Each user spends eps/2 in each round, whatever range is broadcast.
    """

    name = "range-refinement"
    summary = "An example in two rounds: find the range of the values, then measure their mean in it"

    inputs: int
    epsilon: float
    cells: int = 8

    @property
    def values(self):
        return np.linspace(0, 1, self.inputs)

    @parley.sends
    def locate(self):
        """Each user says in which of a few cells its value lies, by randomized response."""
        cell = np.minimum((self.values * self.cells).astype(np.int64), self.cells - 1)
        return {"cell": parley.Send(parley.RandomizedResponse(categories=self.cells, epsilon=self.epsilon / 2), cell)}

    @parley.sends(low=parley.Numbers(like=0.0), high=parley.Numbers(like=1.0))
    def refine(self, low, high):
        """Each user sends one bit about its value, clipped to [low, high]."""
        parley.require(0 <= low < high <= 1, f"[{low:.3g}, {high:.3g}] is not a part of [0, 1]")
        return {"x": parley.Send(parley.OneBit(low=low, high=high, epsilon=self.epsilon / 2), self.values)}

    script = (locate, refine)

    def analyst(self):
        """Cells that cannot be told from empty ones are left out, and the interval allows for what they may hold."""
        one = yield parley.Ask(self.locate)
        shares, doubt = one.mean("cell"), 2 * math.sqrt(one.variance("cell"))
        full = np.flatnonzero(shares > doubt) if shares.max() > doubt else np.arange(self.cells)
        low, high = full[0] / self.cells, (full[-1] + 1) / self.cells
        two = yield parley.Ask(self.refine, low=low, high=high)
        inside = two.estimate("x")
        below = min(1.0, max(0.0, shares[: full[0]].sum()) + doubt) * low
        above = min(1.0, max(0.0, shares[full[-1] + 1 :].sum()) + doubt) * (1 - high)
        ends = (inside.interval95[0] - below, inside.interval95[1] + above)
        rmse = math.hypot(inside.predicted_rmse, (below + above) / 2)
        details = {"range": [float(low), float(high)]}
        return parley.Estimate(value=inside.value, predicted_rmse=rmse, interval95=ends, details=details)

    def truth(self, inputs):
        """What the estimate is compared with in an emulation."""
        return self.values[inputs].mean()
