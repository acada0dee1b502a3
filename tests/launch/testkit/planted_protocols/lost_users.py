"""Planted fault: a loss and a denominator. The analyst divides by the users there are, and not by those who answered;
on a network that loses some of them, the estimate is too small."""

from dataclasses import dataclass

import numpy as np

import parley


@dataclass(frozen=True, kw_only=True)
class LostUsers(parley.Protocol):
    name = "lost-users"
    summary = "A mean that counts on everybody"
    inputs: int
    epsilon: float
    users: int

    @property
    def values(self):
        return np.linspace(0, 1, self.inputs)

    @parley.sends
    def bit(self):
        """Each user sends one bit."""
        return {"x": parley.Send(parley.OneBit(low=0.0, high=1.0, epsilon=self.epsilon), self.values)}

    script = (bit,)

    def analyst(self):
        heard = yield parley.Ask(self.bit)
        value = float(heard.mean("x")) * heard.replies / self.users
        return parley.Estimate.normal(value, heard.variance("x") ** 0.5)

    def truth(self, inputs):
        return self.values[inputs].mean()
