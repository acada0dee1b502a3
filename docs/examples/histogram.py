"""How often each category occurs, by subset selection. The estimate is the share of the first category.

parley run --protocol-file docs/examples/histogram.py --protocol histogram --levels 6 --epsilon 1 --users 2000
"""

import math
from dataclasses import dataclass

import numpy as np

import parley


@dataclass(frozen=True, kw_only=True)
class Histogram(parley.Protocol):
    """All shares are in the estimate's details.

    Formal guarantee: eps-LDP, from subset selection, which is used once.
    """

    name = "histogram"
    summary = "An example: the share of every category, by subset selection"

    inputs: int
    epsilon: float

    @parley.sends
    def subset(self):
        """Each user sends a set of categories that is likelier to hold its own."""
        oracle = parley.SubsetSelection(categories=self.inputs, epsilon=self.epsilon)
        return {"subset": parley.Send(oracle, np.arange(self.inputs))}

    script = (subset,)

    def analyst(self):
        """Count how many subsets hold each category, and take out what chance put there."""
        heard = yield parley.Ask(self.subset)
        shares = heard.mean("subset")
        first = float(shares[0])
        variance = heard.sends["subset"].randomizer.variance_at(min(max(first, 0.0), 1.0)) / heard.replies
        return parley.Estimate.normal(first, math.sqrt(variance), {"shares": shares.tolist()})

    def truth(self, inputs):
        """What the estimate is compared with in an emulation."""
        return np.mean(inputs == 0)
