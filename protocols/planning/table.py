"""Which planning belongs to which protocol."""

from collections.abc import Mapping
from typing import Any

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Protocol
from parley.emulator.randomizer import Floats
from parley.protocols.baselines.frequency import Frequency
from parley.protocols.baselines.hierarchical import Hierarchical
from parley.protocols.baselines.quantise import Quantise
from parley.protocols.paper.linear_queries import MatrixMechanism
from parley.protocols.paper.linear_queries_by_reduction import Reduction
from parley.protocols.paper.one_round import OneRound
from parley.protocols.paper.three_round import ThreeRound
from parley.protocols.paper.two_round import TwoRound
from parley.protocols.paper.two_round_black_box import TwoRoundBlackBox
from parley.protocols.planned import Planned
from parley.protocols.planning.families.baselines import FrequencyPlanning, HierarchicalPlanning, QuantisePlanning
from parley.protocols.planning.families.linear_queries import MatrixMechanismPlanning, ReductionPlanning
from parley.protocols.planning.families.paper import (
    BlackBoxPlanning,
    OneRoundPlanning,
    ThreeRoundPlanning,
    TwoRoundPlanning,
)
from parley.protocols.planning.families.shuffle import ShuffledPlanning, SplitAndMixPlanning
from parley.protocols.planning.families.tuned import OneRoundTunedPlanning, SplitUsersPlanning
from parley.protocols.planning.planning import default_design
from parley.protocols.planning.simulated import SimulatedPlanning, simulated_rmse
from parley.protocols.shuffle.shuffled import Shuffled
from parley.protocols.shuffle.split_and_mix import SplitAndMix
from parley.protocols.tuned.one_round_tuned import OneRoundTuned
from parley.protocols.tuned.split_users import SplitUsers
from parley.protocols.workloads.workload import Levels, Workload

TABLE: Mapping[Any, type[Any]] = {
    OneRound: OneRoundPlanning,
    TwoRound: TwoRoundPlanning,
    TwoRoundBlackBox: BlackBoxPlanning,
    MatrixMechanism: MatrixMechanismPlanning,
    Reduction: ReductionPlanning,
    ThreeRound: ThreeRoundPlanning,
    Frequency: FrequencyPlanning,
    Quantise: QuantisePlanning,
    Hierarchical: HierarchicalPlanning,
    OneRoundTuned: OneRoundTunedPlanning,
    SplitUsers: SplitUsersPlanning,
    Shuffled: ShuffledPlanning,
    SplitAndMix: SplitAndMixPlanning,
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
    return next((TABLE[each] for each in kind.__mro__ if each in TABLE), SimulatedPlanning)
