"""A protocol as everybody can read it: a state machine of rounds, derived from its class.

From Asking(1) on, the states are: Asking(r), while users answer round r; then Asking(r + 1) or, after the last round,
Ended with the estimate. What moves from one to the next is the analyst, who hears the tallies of round r and nothing
else.
"""

import ast
import inspect
import math
import re
import textwrap
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Protocol
from parley.emulator.randomizer import Shape
from parley.emulator.round import Round
from parley.protocols.registry import design
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.gini import GiniDiversity, GiniMeanDifference
from parley.protocols.workloads.kendall import Kendall
from parley.protocols.workloads.workload import Levels, Workload

# A claim belongs to a protocol with parameters, so each is made for the smallest problem that it takes.
EXAMPLES: tuple[Workload | Levels, ...] = (
    Kendall(levels=(2, 2)),
    GiniMeanDifference(levels=2),
    GiniDiversity(levels=2),
    AreaUnderCurve(levels=2),
    Levels((4,)),
)
USERS = 1000


def example(name: str) -> Protocol:
    """The protocol with epsilon 1 for the first example that it can be used for."""
    for problem in EXAMPLES:
        with suppress(BadInput):
            return design(name, problem, epsilon=1.0, users=USERS)
    raise BadInput(f"{name} takes none of the example problems")


def outline(protocol: Protocol) -> dict[str, Any]:
    """Its claim, its rounds and its analyst's steps, as plain data."""
    claim, kind = protocol.claim, type(protocol)
    return {
        "name": protocol.name,
        "summary": getattr(protocol, "summary", ""),
        "says": said_of(kind),
        "claim": {name: getattr(claim, name) for name in ("epsilon", "delta", "rounds", "interaction", "trusts")},
        "states": [*(f"asking {number}: {step.name}" for number, step in enumerate(protocol.rounds, 1)), "ended"],
        "rounds": [_round(step, protocol.script[step.number - 1]) for step in protocol.rounds],
        "analyst": {"says": said_of(kind.analyst), "steps": source_of(kind.analyst, body=True)},
    }


def _round(step: Round, method: Callable[..., Any]) -> dict[str, Any]:
    def finite(epsilon: float) -> float | None:
        """None where a reply is bounded by nothing before it is shuffled."""
        return epsilon if math.isfinite(epsilon) else None

    def columns(shape: Shape) -> dict[str, str]:
        """Arrays as a type and lengths: float64[16]."""
        written = {name: f"[{', '.join(map(str, lengths))}]" if lengths else "" for name, (_, lengths) in shape.items()}
        return {name: f"{dtype}{written[name]}" for name, (dtype, _) in shape.items()}

    share = float(np.mean(step.participates(np.arange(USERS))))
    return {
        "number": step.number,
        "name": step.name,
        "says": said_of(method),
        "broadcast": columns(step.broadcast),
        "answers": "everybody" if share == 1 else f"{share:.0%} of the users, by their numbers",
        "epsilon": finite(step.epsilon),
        "sends": [
            {
                "name": name,
                "randomizer": type(send.randomizer).__name__,
                "epsilon": finite(send.randomizer.epsilon),
                "columns": columns(send.randomizer.reply),
            }
            for name, send in step.usual.items()
        ],
        "source": source_of(method),
    }


def said_of(thing: Any) -> str:
    return inspect.cleandoc(thing.__doc__ or "")


def source_of(function: Callable[..., Any], *, body: bool = False) -> str:
    """The lines of a function without its docstring; with `body`, what it does and no more.

    Imports inside it are left out too: they say where something lives and nothing about the algorithm.
    """
    text = textwrap.dedent(inspect.getsource(function))
    (tree,) = ast.parse(text).body
    assert isinstance(tree, ast.FunctionDef)
    lines = text.splitlines()
    dropped = [
        node
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str))
    ]
    hidden = {number for node in dropped for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    hidden |= {number for number, line in enumerate(lines, 1) if not line.strip() and number - 1 in hidden}
    first = tree.body[0].lineno if body else 1
    kept = [
        re.sub(r"  # (type: ignore|noqa|fmt:).*", "", line)
        for number, line in enumerate(lines, 1)
        if number >= first and number not in hidden
    ]
    return textwrap.dedent("\n".join(kept)).strip("\n")
