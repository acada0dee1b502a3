"""The way back from what a Setup carries to the workload itself; its class is loaded when it is asked for."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from parley.emulator.errors import BadInput
from parley.protocols.workloads.workload import Workload

# name -> (module of this folder, class, the parameters it must be given, those it may be given)
REGISTRY: Mapping[str, tuple[str, str, tuple[str, ...], tuple[str, ...]]] = {
    "kendall": ("kendall", "Kendall", ("levels",), ()),
    "untied": ("kendall", "Untied", ("levels", "axis"), ()),
    "auc": ("auc", "AreaUnderCurve", ("levels",), ()),
    "gini-mean-difference": ("gini", "GiniMeanDifference", ("levels",), ()),
    "gini-diversity": ("gini", "GiniDiversity", ("levels",), ()),
    "kernel": ("kernel", "Kernel", ("matrix", "shift"), ()),
    "lipschitz": ("lipschitz", "Lipschitz", ("function", "levels", "constant"), ("width",)),
}


def workload_from(parameters: Mapping[str, Any]) -> Workload:
    """The strict inverse of `Workload.parameters`: nothing missing, nothing unknown."""
    name = parameters.get("statistic")
    if not isinstance(name, str) or name not in REGISTRY:
        raise BadInput(f"unknown statistic {name!r:.80}; known are {', '.join(REGISTRY)}")
    module, kind, required, optional = REGISTRY[name]
    given = {key: value for key, value in parameters.items() if key != "statistic"}
    if not set(required) <= set(given) <= {*required, *optional}:
        expected = (*required, *optional)
        raise BadInput(f"{name} takes the parameters {', '.join(expected)}, got {', '.join(map(str, given)) or 'none'}")
    workload: Workload = getattr(import_module(f"parley.protocols.workloads.{module}"), kind)(**given)
    return workload
