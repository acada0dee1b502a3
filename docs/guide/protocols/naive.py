"""Chapter 2: randomized response, and an analyst that takes the noisy replies for the truth."""

from dataclasses import dataclass

import numpy as np

import parley


@dataclass(frozen=True, kw_only=True)
class Naive(parley.Protocol):
    """The share of users with input 0, without taking out what chance put there.

    Formal guarantee: eps-LDP, from randomized response, which is used once.
    """

    name = "naive"
    summary = "Chapter 2: noisy replies taken for the truth"
    inputs: int
    epsilon: float

    @parley.sends
    def response(self):
        """Each user sends its category or, sometimes, another one."""
        oracle = parley.RandomizedResponse(categories=self.inputs, epsilon=self.epsilon)
        return {"c": parley.Send(oracle, np.arange(self.inputs))}

    script = (response,)

    def analyst(self):
        heard = yield parley.Ask(self.response)
        share = heard.sum("c")[0] / heard.replies
        return parley.Estimate.normal(float(share), (share * (1 - share) / heard.replies) ** 0.5)

    def truth(self, inputs):
        return np.mean(inputs == 0)
