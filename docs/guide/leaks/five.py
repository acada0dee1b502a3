"""Leak 5. One bit per user, with a guard against a broken generator of coins."""

from dataclasses import dataclass

import numpy as np

import parley


@dataclass(frozen=True, kw_only=True)
class Guarded(parley.OneBit):
    """A coin that begins with zeros looks like one that was never flipped, and such a coin is not used."""

    def sample(self, inputs, coins):
        flipped = coins[:, :2].any(axis=1)
        bit = super().sample(inputs, coins)["bit"]
        return {"bit": np.where(flipped, bit, inputs > 0.5).astype(np.uint8)}


@dataclass(frozen=True, kw_only=True)
class LeakFive(parley.Protocol):
    """The mean of a value in [0, 1]."""

    name = "leak-five"
    summary = "Find the leak: this one is for you"
    inputs: int
    epsilon: float

    @property
    def values(self):
        return np.linspace(0, 1, self.inputs)

    @parley.sends
    def bit(self):
        """Each user sends one bit."""
        return {"x": parley.Send(Guarded(low=0.0, high=1.0, epsilon=self.epsilon), self.values)}

    script = (bit,)

    def analyst(self):
        heard = yield parley.Ask(self.bit)
        return heard.estimate("x")

    def truth(self, inputs):
        return self.values[inputs].mean()
