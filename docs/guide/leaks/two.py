"""Leak 2. Two rounds ask two questions; to save coins, users answer both with those of the first."""

from dataclasses import dataclass

import numpy as np

import parley

KEPT = {}


@dataclass(frozen=True, kw_only=True)
class Thrifty(parley.OneBit):
    """Flips coins once for each number of users, and keeps them."""

    def sample(self, inputs, coins):
        return super().sample(inputs, KEPT.setdefault(len(inputs), coins.copy()))


@dataclass(frozen=True, kw_only=True)
class LeakTwo(parley.Protocol):
    """The mean of a value in [0, 1], and the share of values above one half."""

    name = "leak-two"
    summary = "Find the leak: two questions"
    inputs: int
    epsilon: float

    @property
    def values(self):
        return np.linspace(0, 1, self.inputs)

    @property
    def bit(self):
        return Thrifty(low=0.0, high=1.0, epsilon=self.epsilon / 2)

    @parley.sends
    def mean(self):
        """Each user sends one bit about its value."""
        return {"x": parley.Send(self.bit, self.values)}

    @parley.sends
    def above(self):
        """Each user sends one bit about whether its value is above one half."""
        return {"x": parley.Send(self.bit, (self.values > 0.5).astype(float))}

    script = (mean, above)

    def analyst(self):
        one = yield parley.Ask(self.mean)
        two = yield parley.Ask(self.above)
        return one.estimate("x", above=float(two.mean("x")))
