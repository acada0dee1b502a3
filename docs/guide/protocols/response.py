"""Chapter 2: randomized response, and an analyst that takes out what chance put into the replies."""

from dataclasses import dataclass

import numpy as np

import parley


@dataclass(frozen=True, kw_only=True)
class Response(parley.Protocol):
    """The share of users with input 0.

    Formal guarantee: eps-LDP, from randomized response, which is used once.
    """

    name = "response"
    summary = "Chapter 2: randomized response"
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
        share = float(heard.mean("c")[0])
        oracle = heard.sends["c"].randomizer
        variance = oracle.variance_at(min(max(share, 0.0), 1.0)) / heard.replies
        return parley.Estimate.normal(share, variance**0.5)

    def truth(self, inputs):
        return np.mean(inputs == 0)
