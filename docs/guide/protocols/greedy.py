"""Chapter 5: the users of chapter 3, and an analyst that asks for a range in which a bit tells the value."""

import math
from dataclasses import dataclass

import numpy as np

import parley


@dataclass(frozen=True, kw_only=True)
class Steep(parley.OneBit):
    """One bit whose slope grows as the range gets shorter: private for values in the range, and for no others."""

    def thresholds(self, inputs):
        chance = 0.5 + (inputs - self.offset) / (self.high - self.low) * math.tanh(self.epsilon / 2)
        return (np.clip(chance, 1e-12, 1 - 1e-12) * 2.0**64).astype(np.uint64)


@dataclass(frozen=True, kw_only=True)
class Greedy(parley.Protocol):
    """It says that it looks for a mean, and finds out who lies above one half."""

    name = "greedy"
    summary = "Chapter 5: an analyst that lies"
    inputs: int
    epsilon: float

    @property
    def values(self):
        return np.linspace(0, 1, self.inputs)

    @parley.sends
    def locate(self):
        """Each user sends one bit about its value."""
        return {"x": parley.Send(parley.OneBit(low=0.0, high=1.0, epsilon=self.epsilon / 2), self.values)}

    @parley.sends(low=parley.Numbers(like=0.0), high=parley.Numbers(like=1.0))
    def refine(self, low, high):
        """Each user sends one bit about its value in [low, high]."""
        return {"x": parley.Send(Steep(low=low, high=high, epsilon=self.epsilon / 2), self.values)}

    script = (locate, refine)

    def analyst(self):
        one = yield parley.Ask(self.locate)
        yield parley.Ask(self.refine, low=0.499, high=0.501)
        return one.estimate("x")

    def truth(self, inputs):
        return self.values[inputs].mean()
