"""Leak 4. One bit per user, and a checksum so that broken replies are noticed."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import parley


@dataclass(frozen=True, kw_only=True)
class Summed(parley.OneBit):
    """The checksum covers what the reply was made from."""

    reply: ClassVar = {**parley.OneBit.reply, "checksum": (np.dtype(np.uint8), ())}

    def sample(self, inputs, coins):
        bit = super().sample(inputs, coins)
        checksum = (coins[:, -1] + np.rint(inputs * 255).astype(np.int64)) % 256
        return {**bit, "checksum": checksum.astype(np.uint8)}


@dataclass(frozen=True, kw_only=True)
class LeakFour(parley.Protocol):
    """The mean of a value in [0, 1]."""

    name = "leak-four"
    summary = "Find the leak: a checksum"
    inputs: int
    epsilon: float

    @property
    def values(self):
        return np.linspace(0, 1, self.inputs)

    @parley.sends
    def bit(self):
        """Each user sends one bit and a checksum."""
        return {"x": parley.Send(Summed(low=0.0, high=1.0, epsilon=self.epsilon), self.values)}

    script = (bit,)

    def analyst(self):
        heard = yield parley.Ask(self.bit)
        return heard.estimate("x")

    def truth(self, inputs):
        return self.values[inputs].mean()
