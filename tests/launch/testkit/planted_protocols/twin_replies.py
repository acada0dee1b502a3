"""Planted fault: a duplicate and a shuffler's habit. Equal replies are taken for duplicates, and are counted once."""

from dataclasses import dataclass

import numpy as np

import parley


@dataclass(frozen=True, kw_only=True)
class Once(parley.RandomizedResponse):
    """Two replies of one reader that are the same and come one after the other are one that came twice."""

    def total(self, reply):
        sent = reply["category"]
        fresh = np.r_[True, sent[1:] != sent[:-1]] if len(sent) else np.zeros(0, bool)
        return super().total({"category": sent[fresh]})


@dataclass(frozen=True, kw_only=True)
class TwinReplies(parley.Protocol):
    name = "twin-replies"
    summary = "The share of input 1, without duplicates"
    inputs: int
    epsilon: float

    @parley.sends
    def category(self):
        """Each user sends its category."""
        return {"c": parley.Send(Once(categories=self.inputs, epsilon=self.epsilon), np.arange(self.inputs))}

    script = (category,)

    def analyst(self):
        heard = yield parley.Ask(self.category)
        return parley.Estimate.normal(float(heard.mean("c")[1]), heard.variance("c") ** 0.5)

    def truth(self, inputs):
        return np.mean(inputs == 1)
