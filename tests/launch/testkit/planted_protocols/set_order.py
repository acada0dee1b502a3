"""Planted fault: the analyst lists categories in the order of a set of names, which is another one in every process.
Killed and started again, or replayed by somebody else, it says another result."""

from dataclasses import dataclass

import numpy as np

import parley


@dataclass(frozen=True, kw_only=True)
class SetOrder(parley.Protocol):
    name = "set-order"
    summary = "The share of input 1, with a list of categories"
    test_problems = ({"levels": 12}, {"levels": 16})
    inputs: int
    epsilon: float

    @parley.sends
    def category(self):
        """Each user sends its category."""
        oracle = parley.RandomizedResponse(categories=self.inputs, epsilon=self.epsilon)
        return {"c": parley.Send(oracle, np.arange(self.inputs))}

    script = (category,)

    def analyst(self):
        heard = yield parley.Ask(self.category)
        shares = {f"category {number}": share for number, share in enumerate(heard.mean("c"))}
        # Each category once.
        names = list(set(shares))
        value = float(shares["category 1"])
        return parley.Estimate.normal(value, heard.variance("c") ** 0.5, {"categories": names})

    def truth(self, inputs):
        return np.mean(inputs == 1)
