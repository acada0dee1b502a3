"""Planted fault: each process shuffles its coins in an order of its own. A node that is killed and comes back gives
another reply to the same question, and whoever hears both learns more than the claim."""

from dataclasses import dataclass

import numpy as np

import parley

ORDER = np.random.default_rng().permutation(256).astype(np.uint8)


@dataclass(frozen=True, kw_only=True)
class Salted(parley.OneBit):
    def sample(self, inputs, coins):
        return super().sample(inputs, ORDER[coins])


@dataclass(frozen=True, kw_only=True)
class BootSalt(parley.Protocol):
    name = "boot-salt"
    summary = "A mean whose coins depend on the process"
    inputs: int
    epsilon: float

    @property
    def values(self):
        return np.linspace(0, 1, self.inputs)

    @parley.sends
    def bit(self):
        """Each user sends one bit."""
        return {"x": parley.Send(Salted(low=0.0, high=1.0, epsilon=self.epsilon), self.values)}

    script = (bit,)

    def analyst(self):
        heard = yield parley.Ask(self.bit)
        return heard.estimate("x")

    def truth(self, inputs):
        return self.values[inputs].mean()
