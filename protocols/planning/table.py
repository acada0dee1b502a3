"""Which planning belongs to which protocol."""

from importlib import import_module
from typing import Any

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Protocol
from parley.emulator.randomizer import Floats
from parley.protocols.planned import Planned
from parley.protocols.planning.planning import default_design
from parley.protocols.planning.simulated import SimulatedPlanning, simulated_rmse
from parley.protocols.workloads.workload import Levels, Workload

# Class of a protocol -> the file of `families` that holds its planning, which is the class of that name + "Planning".
FAMILIES = {
    **dict.fromkeys(("OneRound", "TwoRound", "TwoRoundBlackBox", "ThreeRound"), "paper"),
    **dict.fromkeys(("MatrixMechanism", "Reduction"), "linear_queries"),
    **dict.fromkeys(("Frequency", "Quantise", "Hierarchical"), "baselines"),
    **dict.fromkeys(("OneRoundTuned", "SplitUsers"), "tuned"),
    **dict.fromkeys(("Shuffled", "SplitAndMix"), "shuffle"),
}


def planning_of(protocol: Protocol) -> Any:
    """The planning of a protocol: its own, or that of a class it derives from."""
    return _kind(type(protocol))(protocol)


def design(kind: type[Any], problem: Workload | Levels, *, epsilon: float, users: int, **more: Any) -> Any:
    """A protocol of this kind with everything chosen that a person did not choose."""
    if isinstance(problem, Levels) and issubclass(kind, Planned):
        raise BadInput(f"{kind.name} estimates a statistic of pairs; say which: --statistic NAME or --kernel FILE")
    if any("design" in vars(each) for each in kind.__mro__ if each is not Planned):
        return kind.design(problem, epsilon=epsilon, users=users, **more)
    if issubclass(kind, Planned):
        return _kind(kind).design(kind, problem, epsilon=epsilon, users=users, **more)
    return default_design(kind, problem, epsilon=epsilon, users=users)


def predicted_rmse(protocol: Any, users: int, histogram: Floats | None = None) -> float:
    """What a protocol predicts itself, or the error of a few simulated runs; without a histogram, for the worst."""
    if hasattr(protocol, "predicted_rmse"):
        return float(protocol.predicted_rmse(histogram))
    return simulated_rmse(protocol, users, histogram)


def _kind(kind: type[Protocol]) -> type[Any]:
    for each in kind.__mro__:
        if each.__name__ in FAMILIES and each.__module__.startswith("parley.protocols."):
            family = import_module(f"parley.protocols.planning.families.{FAMILIES[each.__name__]}")
            planning: type[Any] = getattr(family, f"{each.__name__}Planning")
            return planning
    return SimulatedPlanning
