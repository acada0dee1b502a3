"""Private pairwise statistics as real conversations: `parley.problem(...)`, then `.plan`, `.simulate` or `.run`.

Names are loaded when they are first used, so that a user's node carries only what it needs.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parley.launch.api import Problem as Problem
    from parley.launch.api import coded_problem as coded_problem
    from parley.launch.api import problem as problem
    from parley.launch.results.answer import Answer as Answer

_PLACES = {
    "Answer": "parley.launch.results.answer",
    "Problem": "parley.launch.api",
    "coded_problem": "parley.launch.api",
    "problem": "parley.launch.api",
}

__all__ = [*_PLACES, "__version__"]

try:
    __version__ = version("parley-ldp")
except PackageNotFoundError:
    __version__ = "0+unknown"


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"parley has no {name!r}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
