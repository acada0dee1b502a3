"""The protocols Parley speaks, by name. A class is loaded when its name is first asked for: nodes carry only theirs."""

import difflib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from parley.emulator.errors import BadInput, LocalProtocolError
from parley.emulator.protocol import Protocol, Trust, check_claim
from parley.emulator.wire.codec import pack
from parley.protocols.limits import check_many, check_work
from parley.protocols.randomizers.exact import check_epsilon
from parley.protocols.workloads.workload import Levels, Workload, check_entries

# Name -> module below parley.protocols, and class.
BUILT_IN: Mapping[str, tuple[str, str]] = {
    "two-round-black-box": ("paper.two_round_black_box", "TwoRoundBlackBox"),
    "two-round": ("paper.two_round", "TwoRound"),
    "three-round": ("paper.three_round", "ThreeRound"),
    "two-round-tuned": ("tuned.two_round_tuned", "TwoRoundTuned"),
    "one-round": ("paper.one_round", "OneRound"),
    "one-round-tuned": ("tuned.one_round_tuned", "OneRoundTuned"),
    "linear-queries": ("paper.linear_queries", "MatrixMechanism"),
    "frequency-grr": ("baselines.frequency", "FrequencyGrr"),
    "frequency-oue": ("baselines.frequency", "FrequencyOue"),
    "frequency-subset": ("baselines.frequency", "FrequencySubset"),
    "linear-queries-by-reduction": ("paper.linear_queries_by_reduction", "Reduction"),
    "quantise": ("baselines.quantise", "Quantise"),
    "hierarchical": ("baselines.hierarchical", "Hierarchical"),
    "binned": ("bins.binned", "Binned"),
    "shuffled": ("shuffle.shuffled", "Shuffled"),
    "split-and-mix": ("shuffle.split_and_mix", "SplitAndMix"),
}
# Those whose users trust a shuffler.
SHUFFLED = ("shuffled", "split-and-mix")
MOST_BUILT = 4
MISREAD = (LookupError, TypeError, ValueError, AttributeError, MemoryError, ArithmeticError, LocalProtocolError)
# Protocols from outside, by name.
_OUTSIDE: dict[str, type[Any]] = {}
_BUILT: dict[tuple[type[Any], bytes], Protocol] = {}


def register(kind: type[Any]) -> type[Any]:
    """Make a protocol from outside known under its name."""
    if not issubclass(kind, Protocol) or not hasattr(kind, "name") or getattr(kind, "__abstractmethods__", None):
        raise BadInput(f"{kind.__name__} cannot be registered: it is not a whole Protocol with a name")
    if kind.name in BUILT_IN:
        raise BadInput(f"{kind.__name__} cannot be registered: {kind.name} is one of Parley's own names")
    _OUTSIDE[kind.name] = kind
    return kind


def names(trust: Trust = "nobody") -> list[str]:
    """All names, in the order of the table; those from outside come last.

    Protocols that ask users to trust a shuffler are listed only to those who say they do.
    """
    # A node that speaks one of Parley's own protocols need not know how others are found.
    from parley.protocols.plugins import outside

    for kind in outside():
        register(kind)
    listed = [name for name in BUILT_IN if trust == "shuffler" or name not in SHUFFLED]
    return listed + [name for name, kind in _OUTSIDE.items() if trust == "shuffler" or not needs_shuffler(kind)]


def needs_shuffler(kind: type[Any]) -> bool:
    """Whether a protocol's replies must go through a shuffler."""
    return bool(getattr(kind, "needs_shuffler", False))


def lookup(name: str) -> type[Any]:
    """The class behind a name, or BadInput with the nearest one."""
    if name in BUILT_IN:
        module, kind = BUILT_IN[name]
        found: type[Any] = getattr(import_module(f"parley.protocols.{module}"), kind)
        return found
    if name not in _OUTSIDE and name not in (known := names("shuffler")):
        near = difflib.get_close_matches(name.lower(), [*known, "auto"], n=1)
        hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(known)}"
        raise BadInput(f"there is no protocol {name!r:.80}{hint}")
    return _OUTSIDE[name]


def design(
    name: str,
    problem: Workload | Levels,
    *,
    epsilon: float,
    users: int,
    delta: float | None = None,
    crowd: int | None = None,
    **more: Any,
) -> Protocol:
    """The protocol for a problem with everything chosen that a person did not choose; `auto` chooses it too.

    The problem is a workload or, for protocols that estimate no statistic of pairs, the levels of the inputs. `delta`
    and `crowd` are for protocols that trust a shuffler; the others promise epsilon without them. What else is given is
    for the protocol's own design.
    """
    check_epsilon(epsilon)
    if not isinstance(problem, Levels):
        check_entries(problem.name, problem.infinity_norm)
    # The planner asks all protocols, and user nodes never come here.
    from parley.protocols.factorization.shift import with_best_shift
    from parley.protocols.planning.plan import choose
    from parley.protocols.planning.table import design as designed

    if not isinstance(problem, Levels):
        problem = with_best_shift(problem)
    if name == "auto":
        return check_rounds(choose(problem, epsilon, users))
    kind = lookup(name)
    given = {"delta": delta, "crowd": crowd} if needs_shuffler(kind) else {}
    chosen = {key: value for key, value in given.items() if value is not None}
    return check_rounds(designed(kind, problem, epsilon=epsilon, users=users, **chosen, **more))


def build(name: str, parameters: Mapping[str, Any]) -> Protocol:
    """The protocol a Setup describes, or BadInput: the description comes from a stranger.

    Protocols are frozen, so equal descriptions give the same object: a node forked from one that has built it
    before need not do so again.
    """
    kind = lookup(name)
    with _reading(name):
        described = pack(parameters)
        if hasattr(kind, "inputs_of") and not getattr(kind, "acts_on_cells", False):
            # Before anything is built, since a part may be small where the whole is not.
            check_many(kind.inputs_of(parameters))
        known = _BUILT.get((kind, described)) or check_rounds(kind.from_parameters(parameters))
        if hasattr(kind, "inputs_of") and kind.inputs_of(parameters) != known.inputs:
            raise BadInput(f"{name:.80} has {known.inputs} inputs, but its inputs_of says otherwise")
    _BUILT[kind, described] = known
    if len(_BUILT) > MOST_BUILT:
        del _BUILT[next(iter(_BUILT))]
    return known


def inputs_of(name: str, parameters: Mapping[str, Any]) -> int:
    """k, the number of inputs of the protocol a Setup describes, or BadInput; nothing heavy is computed.

    It equals `build(name, parameters).inputs`, and a description that cannot be built may have a k all the same. A
    protocol class says how by a class method `inputs_of`, or has a field `inputs`; one that has neither is built.
    """
    kind = lookup(name)
    if not hasattr(kind, "inputs_of"):
        given = parameters.get("inputs")
        return given if type(given) is int else build(name, parameters).inputs
    with _reading(name):
        return int(kind.inputs_of(parameters))


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Whatever a stranger's description breaks is the description's fault."""
    try:
        # A description made to overflow is a matter for the checks of the numbers it gives, not for a warning.
        with np.errstate(all="ignore"):
            yield
    except MISREAD as error:
        raise BadInput(f"the parameters of {name:.80} make no sense: {error!s:.200}") from error


def check_rounds(protocol: Protocol) -> Protocol:
    """A protocol has the rounds it claims, takes no more than it claims, and asks no more work than is allowed."""
    check_claim(protocol)
    check_work(protocol)
    return protocol
