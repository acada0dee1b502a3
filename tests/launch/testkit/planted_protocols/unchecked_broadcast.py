"""Planted fault: a broadcast is not checked. The analyst says how likely a user is to send its true bit, and users
believe it."""

from dataclasses import dataclass

import numpy as np

import parley


@dataclass(frozen=True, kw_only=True)
class Flip(parley.OneBit):
    """1 with a probability from 1 - keep at the low end to keep at the high one."""

    keep: float

    def thresholds(self, inputs):
        place = np.clip((inputs - self.low) / (self.high - self.low), 0, 1)
        chance = 1 - self.keep + place * (2 * self.keep - 1)
        return (np.clip(chance, 1e-9, 1 - 1e-9) * 2.0**64).astype(np.uint64)


@dataclass(frozen=True, kw_only=True)
class UncheckedBroadcast(parley.Protocol):
    name = "unchecked-broadcast"
    summary = "A mean in two rounds, the second with noise that the analyst chooses"
    inputs: int
    epsilon: float

    @property
    def values(self):
        return np.linspace(0, 1, self.inputs)

    @property
    def safe(self):
        return 1 / (1 + np.exp(-self.epsilon / 2))

    @parley.sends
    def first(self):
        """Each user sends one bit."""
        return {"x": parley.Send(parley.OneBit(low=0.0, high=1.0, epsilon=self.epsilon / 2), self.values)}

    @parley.sends(keep=parley.Numbers(like=0.5))
    def second(self, keep):
        """Each user sends one bit, true with the probability that was broadcast."""
        return {"x": parley.Send(Flip(low=0.0, high=1.0, epsilon=self.epsilon / 2, keep=float(keep)), self.values)}

    script = (first, second)

    def analyst(self):
        one = yield parley.Ask(self.first)
        yield parley.Ask(self.second, keep=self.safe)
        return one.estimate("x")

    def truth(self, inputs):
        return self.values[inputs].mean()
