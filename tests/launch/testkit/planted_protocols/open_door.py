"""Planted fault: replies are not checked. A user who sends 255 instead of a bit counts for hundreds of users."""

from dataclasses import dataclass

import numpy as np

import parley


@dataclass(frozen=True, kw_only=True)
class Unchecked(parley.OneBit):
    def check(self, reply):
        return np.ones(len(reply["bit"]), np.bool_)

    def total(self, reply):
        return np.array(2 * int(reply["bit"].astype(np.int64).sum()) - len(reply["bit"]), dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class OpenDoor(parley.Protocol):
    name = "open-door"
    summary = "A mean that takes any number for a bit"
    inputs: int
    epsilon: float

    @property
    def values(self):
        return np.linspace(0, 1, self.inputs)

    @parley.sends
    def bit(self):
        """Each user sends one bit."""
        return {"x": parley.Send(Unchecked(low=0.0, high=1.0, epsilon=self.epsilon), self.values)}

    script = (bit,)

    def analyst(self):
        heard = yield parley.Ask(self.bit)
        return heard.estimate("x")

    def truth(self, inputs):
        return self.values[inputs].mean()
