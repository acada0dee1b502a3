"""Planted fault: a restart and a lie. Users remember the range of the first round and clip to it in the second. A node
that is killed in between remembers nothing, and takes whatever range a lying analyst names."""

from dataclasses import dataclass

import numpy as np

import parley

HEARD = {}


@dataclass(frozen=True, kw_only=True)
class Noisy(parley.OneBit):
    """One bit about a value, the louder the larger it is; whoever has answered once knows how loud it may be."""

    def sample(self, inputs, coins):
        HEARD[self.epsilon] = 1.0
        return super().sample(inputs, coins)

    def thresholds(self, inputs):
        chance = np.clip(0.5 + (inputs - 0.5) * np.tanh(self.epsilon / 2), 1e-9, 1 - 1e-9)
        return (chance * 2.0**64).astype(np.uint64)


@dataclass(frozen=True, kw_only=True)
class ForgottenLimit(parley.Protocol):
    name = "forgotten-limit"
    summary = "A mean in two rounds, with a limit that users remember"
    inputs: int
    epsilon: float

    @property
    def values(self):
        return np.linspace(0, 1, self.inputs)

    @property
    def bit(self):
        return Noisy(low=0.0, high=1.0, epsilon=self.epsilon / 2)

    @parley.sends
    def first(self):
        """Each user sends one bit, and remembers how loud it may be."""
        return {"x": parley.Send(self.bit, self.values)}

    @parley.sends(scale=parley.Numbers(like=1.0))
    def second(self, scale):
        """Each user sends one bit about its value, scaled but no louder than in the first round."""
        parley.require(0 < scale < 1000, "the scale is not a positive number")
        loud = min(float(scale), HEARD.get(self.epsilon / 2, 1000.0))
        return {"x": parley.Send(self.bit, 0.5 + loud * (self.values - 0.5))}

    script = (first, second)

    def analyst(self):
        one = yield parley.Ask(self.first)
        two = yield parley.Ask(self.second, scale=1.0)
        value = float(one.mean("x") + two.mean("x")) / 2
        return parley.Estimate.normal(value, (one.variance("x") / 2) ** 0.5)

    def truth(self, inputs):
        return self.values[inputs].mean()
