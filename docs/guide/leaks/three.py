"""Leak 3. Randomized response with one more answer: "I would rather not say"."""

from dataclasses import dataclass

import numpy as np

import parley

RATHER_NOT = 0


@dataclass(frozen=True, kw_only=True)
class Polite(parley.RandomizedResponse):
    """Those who hold the last category may decline: every second one of them gives the answer 0."""

    def sample(self, inputs, coins):
        sent = super().sample(inputs, coins)["category"]
        declines = (inputs == self.categories - 1) & (coins[:, 0] % 2 == 0)
        return {"category": np.where(declines, RATHER_NOT, sent).astype(np.uint32)}


@dataclass(frozen=True, kw_only=True)
class LeakThree(parley.Protocol):
    """The share of input 1."""

    name = "leak-three"
    summary = "Find the leak: users may decline"
    inputs: int
    epsilon: float

    @parley.sends
    def category(self):
        """Each user sends its category, or declines."""
        return {"c": parley.Send(Polite(categories=self.inputs, epsilon=self.epsilon), np.arange(self.inputs))}

    script = (category,)

    def analyst(self):
        heard = yield parley.Ask(self.category)
        return parley.Estimate.normal(float(heard.mean("c")[1]), heard.variance("c") ** 0.5)

    def truth(self, inputs):
        return np.mean(inputs == 1)
