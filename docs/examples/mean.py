"""The mean of a value in [0, 1], by one bit per user.

parley run --protocol-file docs/examples/mean.py --protocol mean --levels 16 --epsilon 1 --users 2000
"""

from dataclasses import dataclass

import numpy as np

import parley


@dataclass(frozen=True, kw_only=True)
class Mean(parley.Protocol):
    """Input j of k stands for the value j/(k - 1).

    Formal guarantee: eps-LDP, from the one-bit randomizer, which is used once.
    """

    name = "mean"
    summary = "An example: the mean of a bounded value, by one bit per user"

    inputs: int
    epsilon: float

    @property
    def values(self):
        return np.linspace(0, 1, self.inputs)

    @parley.sends
    def bit(self):
        """Each user sends a bit that is the likelier 1, the larger its value is."""
        return {"x": parley.Send(parley.OneBit(low=0.0, high=1.0, epsilon=self.epsilon), self.values)}

    script = (bit,)

    def analyst(self):
        """The mean of the decoded bits."""
        heard = yield parley.Ask(self.bit)
        return heard.estimate("x")

    def truth(self, inputs):
        """What the estimate is compared with in an emulation."""
        return self.values[inputs].mean()
