"""The protocols Parley speaks, by name. A protocol without an exact likelihood cannot be registered."""

import difflib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Self
from typing import Protocol as Interface

import numpy as np

from parley.emulator.errors import BadInput, LocalProtocolError
from parley.emulator.protocol import Protocol, Trust
from parley.emulator.round import Round
from parley.emulator.wire.codec import pack
from parley.protocols.baselines.frequency import FrequencyGrr, FrequencyOue, FrequencySubset
from parley.protocols.baselines.hierarchical import Hierarchical
from parley.protocols.baselines.quantise import Quantise
from parley.protocols.paper.linear_queries import MatrixMechanism
from parley.protocols.paper.linear_queries_by_reduction import Reduction
from parley.protocols.paper.one_round import OneRound
from parley.protocols.paper.three_round import ThreeRound
from parley.protocols.paper.two_round import TwoRound
from parley.protocols.paper.two_round_black_box import TwoRoundBlackBox
from parley.protocols.plugins import outside
from parley.protocols.shuffle.shuffled import Shuffled
from parley.protocols.shuffle.split_and_mix import SplitAndMix
from parley.protocols.tuned.one_round_tuned import OneRoundTuned
from parley.protocols.tuned.three_round_tuned import ThreeRoundTuned
from parley.protocols.tuned.two_round_tuned import TwoRoundTuned
from parley.protocols.work import check_work
from parley.protocols.workloads.workload import Workload, check_entries


class Registered(Interface):
    """What a protocol class offers besides the protocol itself."""

    name: ClassVar[str]
    summary: ClassVar[str]

    @classmethod
    def design(cls, workload: Workload, *, epsilon: float, users: int) -> Self: ...

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self: ...


MOST_BUILT = 4
MISREAD = (LookupError, TypeError, ValueError, AttributeError, MemoryError, ArithmeticError, LocalProtocolError)
_PROTOCOLS: dict[str, type[Any]] = {}
_BUILT: dict[tuple[type[Any], bytes], Protocol] = {}


def register(kind: type[Any]) -> type[Any]:
    """Make a protocol known under its name."""
    for needed in ("name", "from_parameters"):
        if not hasattr(kind, needed):
            raise BadInput(f"{kind.__name__} cannot be registered: it has no {needed}")
    if not issubclass(kind, Protocol) or getattr(kind, "__abstractmethods__", None):
        raise BadInput(f"{kind.__name__} cannot be registered: it is not a whole Protocol")
    _PROTOCOLS[kind.name] = kind
    return kind


def names(trust: Trust = "nobody") -> list[str]:
    """The registered names, in the order of registration; those from outside come last.

    Protocols that ask users to trust a shuffler are listed only to those who say they do.
    """
    for kind in outside():
        register(kind)
    return [name for name, kind in _PROTOCOLS.items() if trust == "shuffler" or not needs_shuffler(kind)]


def needs_shuffler(kind: type[Any]) -> bool:
    """Whether a protocol's replies must go through a shuffler."""
    return bool(getattr(kind, "needs_shuffler", False))


def lookup(name: str) -> type[Any]:
    """The class behind a name, or BadInput with the nearest one."""
    if name not in _PROTOCOLS and name not in names("shuffler"):
        near = difflib.get_close_matches(name, _PROTOCOLS, n=1)
        hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(_PROTOCOLS)}"
        raise BadInput(f"there is no protocol {name!r:.80}{hint}")
    return _PROTOCOLS[name]


def design(
    name: str,
    workload: Workload,
    *,
    epsilon: float,
    users: int,
    delta: float | None = None,
    crowd: int | None = None,
) -> Protocol:
    """The protocol for a workload with everything chosen that a person did not choose; `auto` chooses it too.

    `delta` and `crowd` are for protocols that trust a shuffler; the others promise epsilon without them.
    """
    check_entries(workload.name, workload.infinity_norm)
    if name == "auto":
        # The planner asks all protocols, so it can only be loaded once they are known.
        from parley.protocols.planning.plan import choose

        return check_rounds(choose(workload, epsilon, users))
    kind = lookup(name)
    given = {"delta": delta, "crowd": crowd} if needs_shuffler(kind) else {}
    chosen = {key: value for key, value in given.items() if value is not None}
    from parley.protocols.planning.table import design as designed

    protocol: Protocol = designed(kind, workload, epsilon=epsilon, users=users, **chosen)
    return check_rounds(protocol)


def build(name: str, parameters: Mapping[str, Any]) -> Protocol:
    """The protocol a Setup describes, or BadInput: the description comes from a stranger.

    Protocols are frozen, so equal descriptions give the same object: a node forked from one that has built it
    before need not do so again.
    """
    kind = lookup(name)
    with _reading(name):
        described = pack(parameters)
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
    protocol class says how by a class method `inputs_of`; one from outside that does not is built.
    """
    kind = lookup(name)
    if not hasattr(kind, "inputs_of"):
        return build(name, parameters).inputs
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
    """A protocol's rounds are whole, as many as it claims, and ask no more work of a user than `work.py` allows."""
    if len(protocol.rounds) != protocol.claim.rounds or not all(isinstance(each, Round) for each in protocol.rounds):
        raise BadInput(f"{protocol.name} claims {protocol.claim.rounds} rounds and has {len(protocol.rounds)}")
    check_work(protocol)
    return protocol


for _kind in (
    TwoRoundBlackBox,
    TwoRound,
    ThreeRound,
    ThreeRoundTuned,
    TwoRoundTuned,
    OneRound,
    OneRoundTuned,
    MatrixMechanism,
    FrequencyGrr,
    FrequencyOue,
    FrequencySubset,
    Reduction,
    Quantise,
    Hierarchical,
    Shuffled,
    SplitAndMix,
):
    register(_kind)
