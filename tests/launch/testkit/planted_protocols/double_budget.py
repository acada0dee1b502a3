"""Planted fault: the budget sums to more than the claim. Both rounds take 0.6 of epsilon."""

from dataclasses import dataclass

import numpy as np

import parley


@dataclass(frozen=True, kw_only=True)
class DoubleBudget(parley.Protocol):
    name = "double-budget"
    summary = "The mean of two answers"
    inputs: int
    epsilon: float

    @property
    def sent(self):
        values = np.linspace(0, 1, self.inputs)
        return {"x": parley.Send(parley.OneBit(low=0.0, high=1.0, epsilon=0.6 * self.epsilon), values)}

    @parley.sends
    def first(self):
        """Each user sends one bit."""
        return self.sent

    @parley.sends
    def second(self):
        """Each user sends another one."""
        return self.sent

    script = (first, second)

    def analyst(self):
        one = yield parley.Ask(self.first)
        two = yield parley.Ask(self.second)
        mean = (float(one.mean("x")) + float(two.mean("x"))) / 2
        return parley.Estimate.normal(mean, (one.variance("x") + two.variance("x")) ** 0.5 / 2)

    def truth(self, inputs):
        return np.mean(inputs) / (self.inputs - 1)
