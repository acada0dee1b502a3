"""Planted fault: the noise is too small in one branch. Users of category 0 answer with three times the epsilon."""

from dataclasses import dataclass

import numpy as np

import parley


@dataclass(frozen=True, kw_only=True)
class Response(parley.RandomizedResponse):
    def sample(self, inputs, coins):
        honest = super().sample(inputs, coins)["category"]
        weak = parley.RandomizedResponse(categories=self.categories, epsilon=3 * self.epsilon)
        return {"category": np.where(inputs == 0, weak.sample(inputs, coins)["category"], honest)}


@dataclass(frozen=True, kw_only=True)
class WeakBranch(parley.Protocol):
    name = "weak-branch"
    summary = "The share of category 0, with too little noise for those who hold it"
    inputs: int
    epsilon: float

    @parley.sends
    def category(self):
        """Each user sends its category by randomized response."""
        return {"c": parley.Send(Response(categories=self.inputs, epsilon=self.epsilon), np.arange(self.inputs))}

    script = (category,)

    def analyst(self):
        heard = yield parley.Ask(self.category)
        return parley.Estimate.normal(float(heard.mean("c")[0]), heard.variance("c") ** 0.5)

    def truth(self, inputs):
        return np.mean(inputs == 0)
