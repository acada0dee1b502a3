"""Planted fault: one user is not like the others. User 0, "the tester", sends its value almost in the clear, and the
likelihood does not say so."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import parley


@dataclass(frozen=True, kw_only=True)
class Tested(parley.OneBit):
    public: ClassVar = {"tester": (np.dtype(np.uint8), ())}

    def sample(self, inputs, coins):
        bit = super().sample(inputs[:, 0], coins)["bit"]
        return {"bit": np.where(inputs[:, 1] > 0, inputs[:, 0] > 0.5, bit).astype(np.uint8)}

    def check(self, reply):
        return super().check({"bit": reply["bit"]})


@dataclass(frozen=True, kw_only=True)
class FirstUser(parley.Protocol):
    name = "first-user"
    summary = "A mean with one user who shows whether it works"
    inputs: int
    epsilon: float

    @property
    def values(self):
        return np.linspace(0, 1, self.inputs)

    @staticmethod
    def tester(users):
        return {"tester": (np.asarray(users) == 0).astype(np.uint8)}

    @parley.sends
    def bit(self):
        """Each user sends one bit."""
        randomizer = Tested(low=0.0, high=1.0, epsilon=self.epsilon)
        return {"x": parley.Send(randomizer, self.values, given=self.tester)}

    script = (bit,)

    def analyst(self):
        heard = yield parley.Ask(self.bit)
        return heard.estimate("x")

    def truth(self, inputs):
        return self.values[inputs].mean()
