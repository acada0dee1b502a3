"""The statistics by name, and the way back from what a Setup message carries to the workload itself."""

from collections.abc import Callable, Mapping
from typing import Any

from parley.emulator.errors import BadInput
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.domain import nearest
from parley.protocols.workloads.gini import GiniDiversity, GiniMeanDifference
from parley.protocols.workloads.kendall import Kendall, KendallTauB, Untied
from parley.protocols.workloads.kernel import Kernel, load_kernel
from parley.protocols.workloads.linear import LinearQueries
from parley.protocols.workloads.lipschitz import Lipschitz
from parley.protocols.workloads.workload import Structure, Workload

__all__ = [
    "AreaUnderCurve",
    "GiniDiversity",
    "GiniMeanDifference",
    "Kendall",
    "KendallTauB",
    "Kernel",
    "LinearQueries",
    "Lipschitz",
    "Structure",
    "Untied",
    "Workload",
    "load_kernel",
    "workload_from",
]

Builder = Callable[..., Workload]

# name -> (constructor, the parameters it must be given, those it may be given)
REGISTRY: Mapping[str, tuple[Builder, tuple[str, ...], tuple[str, ...]]] = {
    Kendall.name: (Kendall, ("levels",), ()),
    Untied.name: (Untied, ("levels", "axis"), ()),
    AreaUnderCurve.name: (AreaUnderCurve, ("levels",), ()),
    GiniMeanDifference.name: (GiniMeanDifference, ("levels",), ()),
    GiniDiversity.name: (GiniDiversity, ("levels",), ()),
    Kernel.name: (Kernel, ("matrix", "shift"), ()),
    Lipschitz.name: (Lipschitz, ("function", "levels", "constant"), ("width",)),
}


def workload_from(parameters: Mapping[str, Any]) -> Workload:
    """The strict inverse of `Workload.parameters`: nothing missing, nothing unknown."""
    name = parameters.get("statistic")
    if not isinstance(name, str) or name not in REGISTRY:
        raise BadInput(f"unknown statistic {name!r}{nearest(str(name), list(REGISTRY))}")
    build, required, optional = REGISTRY[name]
    given = {key: value for key, value in parameters.items() if key != "statistic"}
    if not set(required) <= set(given) <= {*required, *optional}:
        expected = (*required, *optional)
        raise BadInput(f"{name} takes the parameters {', '.join(expected)}, got {', '.join(map(str, given)) or 'none'}")
    return build(**given)
