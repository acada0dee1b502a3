"""Planted fault: silence depends on the input. A node whose users all hold the largest value gives no reply."""

from dataclasses import dataclass

import numpy as np

import parley


@dataclass(frozen=True, kw_only=True)
class Shy(parley.OneBit):
    def sample(self, inputs, coins):
        if len(inputs) and (inputs > 0.99).all():
            raise parley.BadInput("this value is an outlier")
        return super().sample(inputs, coins)


@dataclass(frozen=True, kw_only=True)
class InputSilence(parley.Protocol):
    name = "input-silence"
    summary = "A mean without outliers"
    inputs: int
    epsilon: float

    @property
    def values(self):
        return np.linspace(0, 1, self.inputs)

    @parley.sends
    def bit(self):
        """Each user sends one bit, unless its value is an outlier."""
        return {"x": parley.Send(Shy(low=0.0, high=1.0, epsilon=self.epsilon), self.values)}

    script = (bit,)

    def analyst(self):
        heard = yield parley.Ask(self.bit)
        return heard.estimate("x")

    def truth(self, inputs):
        return self.values[inputs].mean()
