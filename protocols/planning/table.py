"""Which planning belongs to which protocol.

The error of a protocol that nobody worked out a formula for is that of a few simulated runs, with a fixed seed.
"""

from importlib import import_module
from typing import Any

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Protocol
from parley.emulator.randomizer import Floats, Integers
from parley.protocols.planned import Planned, truth_of
from parley.protocols.planning.fast_simulation import play_all
from parley.protocols.planning.planning import Planning, default_design, public_guesses
from parley.protocols.workloads.workload import Levels, Workload

# Class of a protocol -> the file of `families` that holds its planning, which is the class of that name + "Planning".
FAMILIES = {
    **dict.fromkeys(("OneRound", "TwoRound", "TwoRoundBlackBox", "ThreeRound"), "paper"),
    **dict.fromkeys(("MatrixMechanism", "Reduction"), "linear_queries"),
    **dict.fromkeys(("Frequency", "Quantise", "Hierarchical"), "baselines"),
    **dict.fromkeys(("OneRoundTuned", "TwoRoundTuned"), "tuned"),
    **dict.fromkeys(("Shuffled", "SplitAndMix"), "shuffle"),
    "Binned": "bins",
}
RUNS = 24
# So many users show which share of all is in a group.
SAMPLE = 10_000
SEED = 20
# The truth depends on the shares of inputs alone, or hardly on how many users there are.
MOST_INPUTS = 10**6


def design(kind: type[Any], problem: Workload | Levels, *, epsilon: float, users: int, **more: Any) -> Any:
    """A protocol of this kind with everything chosen that a person did not choose."""
    if isinstance(problem, Levels) and issubclass(kind, Planned):
        raise BadInput(f"{kind.name} estimates a statistic of pairs; say which: --statistic NAME or --kernel FILE")
    if any("design" in vars(each) for each in kind.__mro__ if each is not Planned):
        return kind.design(problem, epsilon=epsilon, users=users, **more)
    if issubclass(kind, Planned):
        return planning_of(kind).design(kind, problem, epsilon=epsilon, users=users, **more)
    return default_design(kind, problem, epsilon=epsilon, users=users)


def predicted_rmse(protocol: Any, users: int, histogram: Floats | None = None) -> float:
    """What a protocol predicts itself, or the error of a few simulated runs; without a histogram, for the worst."""
    if hasattr(protocol, "predicted_rmse"):
        return float(protocol.predicted_rmse(histogram))
    return simulated_rmse(protocol, users, histogram)


def planning_of(kind: type[Protocol]) -> type[Any]:
    """The planning of a protocol's class: its own, or that of a class it derives from."""
    for each in kind.__mro__:
        if each.__name__ in FAMILIES and each.__module__.startswith("parley.protocols."):
            family = import_module(f"parley.protocols.planning.families.{FAMILIES[each.__name__]}")
            planning: type[Any] = getattr(family, f"{each.__name__}Planning")
            return planning
    return SimulatedPlanning


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
