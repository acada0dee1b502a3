"""Planted fault: the variance is wrong, a ninth of what it is, so intervals are a third of what they should be."""

from dataclasses import dataclass

import numpy as np

import parley


@dataclass(frozen=True, kw_only=True)
class Confident(parley.OneBit):
    @property
    def variance(self):
        return (self.unit / 3) ** 2


@dataclass(frozen=True, kw_only=True)
class WrongVariance(parley.Protocol):
    name = "wrong-variance"
    summary = "A mean with intervals that are too short"
    inputs: int
    epsilon: float

    @property
    def values(self):
        return np.linspace(0, 1, self.inputs)

    @parley.sends
    def bit(self):
        """Each user sends one bit."""
        return {"x": parley.Send(Confident(low=0.0, high=1.0, epsilon=self.epsilon), self.values)}

    script = (bit,)

    def analyst(self):
        heard = yield parley.Ask(self.bit)
        return heard.estimate("x")

    def truth(self, inputs):
        return self.values[inputs].mean()
