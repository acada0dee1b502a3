"""Planted fault: a reply differs with sharding. The value is dithered by its place in the batch, which is a matter of
how users are spread over processes."""

from dataclasses import dataclass

import numpy as np

import parley


@dataclass(frozen=True, kw_only=True)
class Dithered(parley.OneBit):
    def sample(self, inputs, coins):
        return super().sample(inputs + 0.2 * (np.arange(len(inputs)) % 2 - 0.5), coins)


@dataclass(frozen=True, kw_only=True)
class ShardDither(parley.Protocol):
    name = "shard-dither"
    summary = "A mean whose dither depends on the batch"
    inputs: int
    epsilon: float

    @property
    def values(self):
        return np.linspace(0.25, 0.75, self.inputs)

    @parley.sends
    def bit(self):
        """Each user sends one bit about its dithered value."""
        return {"x": parley.Send(Dithered(low=0.0, high=1.0, epsilon=self.epsilon), self.values)}

    script = (bit,)

    def analyst(self):
        heard = yield parley.Ask(self.bit)
        return heard.estimate("x")

    def truth(self, inputs):
        return self.values[inputs].mean()
