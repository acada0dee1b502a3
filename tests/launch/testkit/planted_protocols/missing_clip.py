"""Planted fault: a clip is missing. The second round scales values by a broadcast number and adds noise for a range
of one, but nothing keeps the scaled values in that range."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import parley
from parley.emulator.randomizer import Randomizer

STEPS = 16


@dataclass(frozen=True, kw_only=True)
class Geometric(Randomizer):
    """Whole steps of 1/16 plus two-sided geometric noise, for values in a range of length one."""

    epsilon: float
    coins = 8
    reply: ClassVar = {"step": (np.dtype(np.int64), ())}
    unit = 1 / STEPS

    @property
    def decay(self):
        return self.epsilon / STEPS

    def sample(self, inputs, coins):
        uniform = (np.ascontiguousarray(coins).view("<u8")[:, 0].astype(float) + 0.5) / 2.0**64
        # The difference of two geometric numbers, by the inverse of its distribution function.
        r = math.exp(-self.decay)
        tail = np.where(uniform < 0.5, uniform, 1 - uniform) * (1 + r)
        size = np.maximum(0, np.ceil(np.log(tail) / math.log(r)) - 1)
        noise = np.where(tail > r, 0, np.where(uniform < 0.5, -1, 1) * np.maximum(1, size))
        return {"step": np.rint(inputs * STEPS).astype(np.int64) + noise.astype(np.int64)}

    def log_likelihood(self, reply, inputs):
        r = math.exp(-self.decay)
        distance = np.abs(reply["step"][:, None] - np.rint(inputs * STEPS))
        return math.log((1 - r) / (1 + r)) - self.decay * distance

    def check(self, reply):
        return np.ones(len(reply["step"]), dtype=bool)

    def decode(self, reply):
        return reply["step"] / STEPS

    def total(self, reply):
        return np.array(reply["step"].sum(), dtype=np.int64)

    @property
    def variance(self):
        r = math.exp(-self.decay)
        return 2 * r / (1 - r) ** 2 / STEPS**2


@dataclass(frozen=True, kw_only=True)
class MissingClip(parley.Protocol):
    name = "missing-clip"
    summary = "A mean in two rounds, the second on a scale that the analyst chooses"
    inputs: int
    epsilon: float

    @property
    def values(self):
        return np.linspace(0, 1, self.inputs)

    @parley.sends
    def first(self):
        """Each user sends its value with noise."""
        return {"x": parley.Send(Geometric(epsilon=self.epsilon / 2), self.values)}

    @parley.sends(centre=parley.Numbers(like=0.5), scale=parley.Numbers(like=1.0))
    def second(self, centre, scale):
        """Each user sends its scaled distance from the centre with noise."""
        parley.require(0 <= centre <= 1, f"the centre {centre:.3g} is not in [0, 1]")
        parley.require(abs(scale) < 1e6, f"the scale {scale:.3g} is too large")
        return {"x": parley.Send(Geometric(epsilon=self.epsilon / 2), (self.values - centre) * scale)}

    script = (first, second)

    def analyst(self):
        one = yield parley.Ask(self.first)
        centre = min(1.0, max(0.0, float(one.mean("x"))))
        two = yield parley.Ask(self.second, centre=centre, scale=1.0)
        return parley.Estimate.normal(centre + float(two.mean("x")), two.variance("x") ** 0.5)

    def truth(self, inputs):
        return self.values[inputs].mean()
