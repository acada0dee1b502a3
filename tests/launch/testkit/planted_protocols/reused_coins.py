"""Planted fault: coins are used twice. Two answers are hidden by one coin, so that they tell more together."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import parley
from parley.emulator.randomizer import Randomizer


@dataclass(frozen=True, kw_only=True)
class TwoAnswers(Randomizer):
    """Whether the value is large, and whether it is odd: each bit hidden with half of epsilon."""

    epsilon: float
    coins = 8
    reply: ClassVar = {"large": (np.dtype(np.uint8), ()), "odd": (np.dtype(np.uint8), ())}

    @property
    def bit(self):
        return parley.OneBit(low=0.0, high=1.0, epsilon=self.epsilon / 2)

    def sample(self, inputs, coins):
        # Each answer needs a word of its own.
        return {name: self.bit.sample(inputs[:, place], coins)["bit"] for place, name in enumerate(self.reply)}

    def log_likelihood(self, reply, inputs):
        return sum(
            self.bit.log_likelihood({"bit": reply[name]}, inputs[:, place]) for place, name in enumerate(self.reply)
        )

    def check(self, reply):
        return (reply["large"] <= 1) & (reply["odd"] <= 1)

    def every_reply(self):
        return {"large": np.array([0, 0, 1, 1], np.uint8), "odd": np.array([0, 1, 0, 1], np.uint8)}

    def decode(self, reply):
        return self.bit.decode({"bit": reply["large"]})

    def total(self, reply):
        return self.bit.total({"bit": reply["large"]})

    unit = property(lambda self: self.bit.unit)
    offset = property(lambda self: self.bit.offset)
    variance = property(lambda self: self.bit.variance)


@dataclass(frozen=True, kw_only=True)
class ReusedCoins(parley.Protocol):
    name = "reused-coins"
    summary = "Two answers that are hidden by the same coin"
    inputs: int
    epsilon: float

    @property
    def values(self):
        every = np.arange(self.inputs)
        return np.stack([every >= self.inputs / 2, every % 2 == 1], axis=1).astype(float)

    @parley.sends
    def answers(self):
        """Each user sends two noisy bits."""
        return {"two": parley.Send(TwoAnswers(epsilon=self.epsilon), self.values)}

    script = (answers,)

    def analyst(self):
        heard = yield parley.Ask(self.answers)
        return heard.estimate("two")

    def truth(self, inputs):
        return self.values[inputs, 0].mean()
