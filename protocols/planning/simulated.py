"""The error of a protocol that nobody worked out a formula for: that of a few simulated runs, with a fixed seed."""

from typing import Any

import numpy as np

from parley.emulator.protocol import Protocol
from parley.emulator.randomizer import Floats, Integers
from parley.protocols.planned import truth_of
from parley.protocols.planning.fast_simulation import play_all
from parley.protocols.planning.planning import Planning, public_guesses
from parley.protocols.workloads.workload import Levels

RUNS = 24
# So many users show which share of all is in a group.
SAMPLE = 10_000
SEED = 20
# The truth depends on the shares of inputs alone, or hardly on how many users there are.
MOST_INPUTS = 10**6


class SimulatedPlanning(Planning[Any]):
    """What is needed for a statistic of pairs when a protocol brings nothing but its analyst."""

    @property
    def planned_replies(self) -> tuple[int, ...]:
        """The users of the groups that speak in a round."""
        return tuple(round(self.protocol.users * share) for share in shares_of_replies(self.protocol))

    def predicted_rmse(self, histogram: Floats | None = None) -> float:
        """That of a few runs; without a histogram, at the public guess with the greatest error."""
        return simulated_rmse(self.protocol, self.protocol.users, histogram)


def simulated_rmse(protocol: Protocol, users: int, histogram: Floats | None = None) -> float:
    """The root mean square of the errors; where the truth is not known, of what the analyst says of its error."""
    if histogram is None:
        return max(simulated_rmse(protocol, users, guess) for guess in public_guesses(Levels((protocol.inputs,))))
    generators = [np.random.default_rng([SEED, run]) for run in range(RUNS)]
    found = play_all(protocol, _counts(histogram, users), generators)
    truth = truth_of(protocol, np.repeat(np.arange(protocol.inputs), _counts(histogram, min(users, MOST_INPUTS))))
    errors = [each.predicted_rmse if truth is None else each.value - truth for each in found]
    return float(np.sqrt(np.mean(np.square(errors))))


def shares_of_replies(protocol: Protocol) -> list[float]:
    """Which share of the users speaks in each round."""
    some = np.arange(SAMPLE)
    return [float(np.mean(step.participates(some))) for step in protocol.rounds]


def _counts(histogram: Floats, users: int) -> Integers:
    """Whole numbers of users as near to these shares as can be."""
    return np.diff(np.rint(np.cumsum(histogram) * users), prepend=0.0).astype(np.int64)
