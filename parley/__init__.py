"""Local-differential-privacy protocols as real conversations between processes.

`parley.problem(...)` takes a statistic of private columns, and then `.plan`, `.simulate` or `.run`. `parley.plan` and
`parley.sweep` need no data, `parley.audit` and `parley.replay` look at the record of a run. `parley.Protocol`
with `Send`, `Ask` and the randomizers is all that a protocol of your own needs (docs/own-protocol.md). Names are loaded
when they are first used, so that a user's node carries only what it needs.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parley.emulator.errors import BadInput as BadInput
    from parley.emulator.protocol import Analyst as Analyst
    from parley.emulator.protocol import Ask as Ask
    from parley.emulator.protocol import Chosen as Chosen
    from parley.emulator.protocol import Estimate as Estimate
    from parley.emulator.protocol import Heard as Heard
    from parley.emulator.protocol import Numbers as Numbers
    from parley.emulator.protocol import Protocol as Protocol
    from parley.emulator.protocol import Send as Send
    from parley.emulator.protocol import Sends as Sends
    from parley.emulator.protocol import require as require
    from parley.emulator.protocol import sends as sends
    from parley.launch.api import Problem as Problem
    from parley.launch.api import coded_problem as coded_problem
    from parley.launch.api import problem as problem
    from parley.launch.notebook import audit as audit
    from parley.launch.notebook import plan as plan
    from parley.launch.notebook import replay as replay
    from parley.launch.notebook import sweep as sweep
    from parley.launch.results.answer import Answer as Answer
    from parley.protocols.factorization.factors import factorize as factorize
    from parley.protocols.factorization.model import signed as signed
    from parley.protocols.pairwise import Pairwise as Pairwise
    from parley.protocols.randomizers.categories.oue import OptimisedUnaryEncoding as OptimisedUnaryEncoding
    from parley.protocols.randomizers.categories.randomized_response import RandomizedResponse as RandomizedResponse
    from parley.protocols.randomizers.categories.subset_selection import SubsetSelection as SubsetSelection
    from parley.protocols.randomizers.channels.channel import Channel as Channel
    from parley.protocols.randomizers.scalars.grid_laplace import GridLaplace as GridLaplace
    from parley.protocols.randomizers.scalars.one_bit import OneBit as OneBit
    from parley.protocols.randomizers.vectors.codebook import Codebook as Codebook
    from parley.protocols.workloads.auc import AreaUnderCurve as AreaUnderCurve
    from parley.protocols.workloads.gini import GiniDiversity as GiniDiversity
    from parley.protocols.workloads.gini import GiniMeanDifference as GiniMeanDifference
    from parley.protocols.workloads.kendall import Kendall as Kendall
    from parley.protocols.workloads.kendall import KendallTauB as KendallTauB
    from parley.protocols.workloads.kernel import Kernel as Kernel
    from parley.protocols.workloads.lipschitz import Lipschitz as Lipschitz
    from parley.protocols.workloads.workload import Workload as Workload

# Module -> the names it gives. A test holds this table to what type checkers see above.
_PLACES = {
    "parley.emulator.errors": ("BadInput",),
    "parley.emulator.protocol": (
        *("Analyst", "Ask", "Chosen", "Estimate", "Heard", "Numbers", "Protocol", "Send", "Sends", "require", "sends"),
    ),
    "parley.launch.api": ("Problem", "coded_problem", "problem"),
    "parley.launch.notebook": ("audit", "plan", "replay", "sweep"),
    "parley.launch.results.answer": ("Answer",),
    "parley.protocols.factorization.factors": ("factorize",),
    "parley.protocols.factorization.model": ("signed",),
    "parley.protocols.pairwise": ("Pairwise",),
    "parley.protocols.randomizers.categories.oue": ("OptimisedUnaryEncoding",),
    "parley.protocols.randomizers.categories.randomized_response": ("RandomizedResponse",),
    "parley.protocols.randomizers.categories.subset_selection": ("SubsetSelection",),
    "parley.protocols.randomizers.channels.channel": ("Channel",),
    "parley.protocols.randomizers.scalars.grid_laplace": ("GridLaplace",),
    "parley.protocols.randomizers.scalars.one_bit": ("OneBit",),
    "parley.protocols.randomizers.vectors.codebook": ("Codebook",),
    "parley.protocols.workloads.auc": ("AreaUnderCurve",),
    "parley.protocols.workloads.gini": ("GiniDiversity", "GiniMeanDifference"),
    "parley.protocols.workloads.kendall": ("Kendall", "KendallTauB"),
    "parley.protocols.workloads.kernel": ("Kernel",),
    "parley.protocols.workloads.lipschitz": ("Lipschitz",),
    "parley.protocols.workloads.workload": ("Workload",),
}
_MODULES = {name: module for module, names in _PLACES.items() for name in names}

__all__ = [*sorted(_MODULES), "__version__"]

try:
    __version__ = version("parley-ldp")
except PackageNotFoundError:
    __version__ = "0+unknown"


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"parley has no {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
