"""Chapter 1: every user sends its value as it is, and claims that this costs epsilon."""

from dataclasses import dataclass

import numpy as np

import parley


@dataclass(frozen=True, kw_only=True)
class Plain(parley.RandomizedResponse):
    """Randomized response that forgot to randomize."""

    def sample(self, inputs, coins):
        return {"category": inputs.astype(np.uint32)}

    def log_likelihood(self, reply, inputs):
        with np.errstate(divide="ignore"):
            return np.log((reply["category"][:, None] == inputs).astype(float))


@dataclass(frozen=True, kw_only=True)
class Clear(parley.Protocol):
    """The share of users with input 0, from replies that hide nothing."""

    name = "clear"
    summary = "Chapter 1: values in the clear"
    inputs: int
    epsilon: float

    @parley.sends
    def value(self):
        """Each user sends its value."""
        return {"c": parley.Send(Plain(categories=self.inputs, epsilon=self.epsilon), np.arange(self.inputs))}

    script = (value,)

    def analyst(self):
        heard = yield parley.Ask(self.value)
        return parley.Estimate.normal(heard.sum("c")[0] / heard.replies, 0.5 / heard.replies**0.5)

    def truth(self, inputs):
        return np.mean(inputs == 0)
