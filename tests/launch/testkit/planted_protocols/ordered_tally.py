"""Planted fault: a tally depends on the order of replies. It counts how often neighbouring replies differ."""

from dataclasses import dataclass

import numpy as np

import parley


def changes(columns):
    """How often a bit differs from the one before it."""
    return np.array(np.count_nonzero(np.diff(columns["bit"].astype(np.int64))), dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class OrderedTally(parley.Protocol):
    name = "ordered-tally"
    summary = "A mean, with a guess of its spread from neighbouring replies"
    inputs: int
    epsilon: float

    @property
    def values(self):
        return np.linspace(0, 1, self.inputs)

    @parley.sends
    def bit(self):
        """Each user sends one bit."""
        randomizer = parley.OneBit(low=0.0, high=1.0, epsilon=self.epsilon)
        return {"x": parley.Send(randomizer, self.values, {"changes": changes})}

    script = (bit,)

    def analyst(self):
        heard = yield parley.Ask(self.bit)
        return heard.estimate("x", changes=int(heard.sum("x.changes")))

    def truth(self, inputs):
        return self.values[inputs].mean()
