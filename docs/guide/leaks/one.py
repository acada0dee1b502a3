"""Leak 1. A mean by one bit per user; the randomizer adapts its range to the values it sees."""

from dataclasses import dataclass

import numpy as np

import parley


@dataclass(frozen=True, kw_only=True)
class Adaptive(parley.OneBit):
    """A shorter range needs less noise, so the range ends at the largest value."""

    def sample(self, inputs, coins):
        largest = float(inputs.max(initial=0.5))
        return parley.OneBit(low=0.0, high=largest, epsilon=self.epsilon).sample(inputs, coins)


@dataclass(frozen=True, kw_only=True)
class LeakOne(parley.Protocol):
    """The mean of a value in [0, 1]."""

    name = "leak-one"
    summary = "Find the leak: a range that adapts"
    inputs: int
    epsilon: float

    @property
    def values(self):
        return np.linspace(0, 1, self.inputs)

    @parley.sends
    def bit(self):
        """Each user sends one bit."""
        return {"x": parley.Send(Adaptive(low=0.0, high=1.0, epsilon=self.epsilon), self.values)}

    script = (bit,)

    def analyst(self):
        heard = yield parley.Ask(self.bit)
        return heard.estimate("x")

    def truth(self, inputs):
        return self.values[inputs].mean()
