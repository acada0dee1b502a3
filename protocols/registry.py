"""The protocols Parley speaks, by name. A protocol without an exact likelihood cannot be registered."""

import difflib
from collections.abc import Mapping
from typing import Any, ClassVar, Self
from typing import Protocol as Interface

from emulator.codec import pack
from emulator.errors import BadInput, LocalProtocolError
from emulator.protocol import Protocol, Round, Trust
from protocols.frequency import FrequencyGrr, FrequencyOue, FrequencySubset
from protocols.hierarchical import Hierarchical
from protocols.linear_queries import MatrixMechanism
from protocols.linear_queries_by_reduction import Reduction
from protocols.one_round import OneRound
from protocols.one_round_tuned import OneRoundTuned
from protocols.outside import outside
from protocols.quantise import Quantise
from protocols.shuffled import Shuffled
from protocols.split_and_mix import SplitAndMix
from protocols.three_round import ThreeRound
from protocols.three_round_tuned import ThreeRoundTuned
from protocols.two_round import TwoRound
from protocols.two_round_black_box import TwoRoundBlackBox
from protocols.two_round_tuned import TwoRoundTuned
from protocols.workloads.workload import Workload


class Registered(Interface):
    """What a protocol class offers besides the protocol itself."""

    name: ClassVar[str]
    summary: ClassVar[str]

    @classmethod
    def design(cls, workload: Workload, *, epsilon: float, users: int) -> Self: ...

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self: ...


MOST_BUILT = 4
_PROTOCOLS: dict[str, type[Any]] = {}
_BUILT: dict[tuple[type[Any], bytes], Protocol] = {}


def register(kind: type[Any]) -> type[Any]:
    """Make a protocol known under its name."""
    for needed in ("name", "summary", "design", "from_parameters"):
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
    if name == "auto":
        # The planner asks all protocols, so it can only be loaded once they are known.
        from protocols.planner import choose

        return check_rounds(choose(workload, epsilon, users))
    kind = lookup(name)
    given = {"delta": delta, "crowd": crowd} if needs_shuffler(kind) else {}
    chosen = {key: value for key, value in given.items() if value is not None}
    protocol: Protocol = kind.design(workload, epsilon=epsilon, users=users, **chosen)
    return check_rounds(protocol)


def build(name: str, parameters: Mapping[str, Any]) -> Protocol:
    """The protocol a Setup describes, or BadInput: the description comes from a stranger.

    Protocols are frozen, so equal descriptions give the same object: a node forked from one that has built it
    before need not do so again.
    """
    kind = lookup(name)
    try:
        described = pack(parameters)
        known = _BUILT.get((kind, described)) or check_rounds(kind.from_parameters(parameters))
    except (
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        MemoryError,
        ArithmeticError,
        LocalProtocolError,
    ) as error:
        raise BadInput(f"the parameters of {name:.80} make no sense: {error!s:.200}") from error
    _BUILT[kind, described] = known
    if len(_BUILT) > MOST_BUILT:
        del _BUILT[next(iter(_BUILT))]
    return known


def check_rounds(protocol: Protocol) -> Protocol:
    """A protocol's rounds are whole and as many as it claims."""
    if len(protocol.rounds) != protocol.claim.rounds or not all(isinstance(each, Round) for each in protocol.rounds):
        raise BadInput(f"{protocol.name} claims {protocol.claim.rounds} rounds and has {len(protocol.rounds)}")
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
