"""The mean of answers from 0 to 1 by a mechanism of one's own, given as a table: answers nearby are likelier.

parley run --protocol-file docs/examples/own_table.py --protocol own-table --levels 5 --epsilon 1 --users 2000
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

import parley


@dataclass(frozen=True, kw_only=True)
class OwnTable(parley.Protocol):
    """Input j of k stands for the answer j/(k - 1).

    Formal guarantee: eps-LDP. Every node checks the table in whole numbers before it uses it.
    """

    name = "own-table"
    summary = "An example: a mean by a table of one's own"

    inputs: int
    epsilon: float

    @property
    def values(self):
        return np.linspace(0, 1, self.inputs)

    @cached_property
    def channel(self):
        # The exponential mechanism: a row per input, a column per reply.
        table = np.exp(-self.epsilon / 2 * abs(self.values[:, None] - self.values))
        return parley.Channel.from_probabilities(table / table.sum(axis=1, keepdims=True), self.epsilon)

    @parley.sends
    def answer(self):
        """Each user sends an answer that is the likelier, the nearer it is to its own."""
        return {"answer": parley.Send(self.channel, np.arange(self.inputs))}

    script = (answer,)

    def analyst(self):
        """What each reply is worth so that the mean is unbiased with the least variance; then their mean."""
        heard = yield parley.Ask(self.answer)
        worth = self.channel.decoding().values(self.values)
        largest = (self.channel.probabilities @ worth**2 - self.values**2).max()
        return parley.Estimate.normal(worth @ heard.mean("answer"), math.sqrt(largest / heard.replies))

    def truth(self, inputs):
        """What the estimate is compared with in an emulation."""
        return self.values[inputs].mean()
