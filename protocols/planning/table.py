"""Which planning belongs to which protocol."""

from collections.abc import Mapping
from typing import Any

from parley.emulator.protocol import Protocol
from parley.protocols.pairwise import Pairwise
from parley.protocols.paper.one_round import OneRound
from parley.protocols.paper.three_round import ThreeRound
from parley.protocols.planning.paper import OneRoundPlanning, ThreeRoundPlanning
from parley.protocols.planning.planning import Planning, default_design
from parley.protocols.workloads.workload import Workload

TABLE: Mapping[type[Protocol], type[Planning[Any]]] = {
    OneRound: OneRoundPlanning,
    ThreeRound: ThreeRoundPlanning,
}


def planning_of(protocol: Pairwise) -> Planning[Any]:
    """The planning of a protocol: its own, or that of a class it derives from."""
    return _kind(type(protocol))(protocol)


def design(kind: type[Any], workload: Workload, *, epsilon: float, users: int, **more: Any) -> Any:
    """A protocol of this kind with everything chosen that a person did not choose."""
    if "design" in dir(kind):
        return kind.design(workload, epsilon=epsilon, users=users, **more)
    if issubclass(kind, Pairwise):
        return _kind(kind).design(kind, workload, epsilon=epsilon, users=users, **more)
    return default_design(kind, workload, epsilon=epsilon, users=users)


def _kind(kind: type[Protocol]) -> type[Planning[Any]]:
    return next((TABLE[each] for each in kind.__mro__ if each in TABLE), Planning)
