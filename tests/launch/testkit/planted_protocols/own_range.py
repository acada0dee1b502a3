"""Planted fault: the range is taken from the input. Each user sends the power of two above its value in the clear, as
if a scale told nothing, and one noisy bit about where in that range the value lies."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import parley
from parley.emulator.randomizer import Randomizer

SCALES = (0.25, 0.5, 1.0)


@dataclass(frozen=True, kw_only=True)
class Scaled(Randomizer):
    epsilon: float
    coins = 8
    reply: ClassVar = {"scale": (np.dtype(np.uint8), ()), "bit": (np.dtype(np.uint8), ())}

    def bit(self, scale):
        return parley.OneBit(low=0.0, high=SCALES[scale], epsilon=self.epsilon)

    def sample(self, inputs, coins):
        scale = np.searchsorted(SCALES, inputs).astype(np.uint8)
        bits = np.stack([self.bit(each).sample(inputs, coins)["bit"] for each in range(len(SCALES))])
        return {"scale": scale, "bit": bits[scale, np.arange(len(inputs))]}

    def log_likelihood(self, reply, inputs):
        logs = np.stack([self.bit(each).log_likelihood(reply, inputs) for each in range(len(SCALES))])
        return logs[reply["scale"], np.arange(len(reply["bit"]))]

    def check(self, reply):
        return (reply["scale"] < len(SCALES)) & (reply["bit"] <= 1)

    def decode(self, reply):
        return np.asarray(SCALES)[reply["scale"]] / 2

    def total(self, reply):
        return np.array(np.rint(8 * self.decode(reply).sum()), dtype=np.int64)

    unit = 1 / 8
    variance = 0.25


@dataclass(frozen=True, kw_only=True)
class OwnRange(parley.Protocol):
    name = "own-range"
    summary = "Each user chooses the range of its noise by its own value"
    inputs: int
    epsilon: float

    @property
    def values(self):
        return np.linspace(0, 1, self.inputs)

    @parley.sends
    def scaled(self):
        """Each user sends a scale and a bit."""
        return {"x": parley.Send(Scaled(epsilon=self.epsilon), self.values)}

    script = (scaled,)

    def analyst(self):
        heard = yield parley.Ask(self.scaled)
        return heard.estimate("x")
