"""What a user agreed to before the run. A node compares everything it hears with it before it looks at its input.

Formal guarantee: nothing in this file sees an input, so that accepting or refusing a setup cannot depend on one.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from parley.emulator.errors import BadInput, RemoteProtocolError
from parley.emulator.protocol import Claim, Protocol, Trust
from parley.emulator.wire.codec import pack, said_by
from parley.emulator.wire.messages import NAME, NONCE_BYTES, Abort, Announce, Message, Pledge, Result, Seating, Setup
from parley.emulator.wire.signatures import PUBLIC_BYTES

WILDCARDS = frozenset("*?[")
Domain = Mapping[str, Any]
"""What inputs mean, as plain data: see `domain_of`."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of the user's values: bins of a range of numbers or dates, or categories in their order.

    Dates are seconds since 1970 in UTC.
    """

    name: str
    levels: int
    low: float | None = None
    high: float | None = None
    categories: tuple[str, ...] = ()
    dates: bool = False
    # Where bins begin and end, if they are not equally wide.
    edges: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.levels < 2 or (self.categories and len(self.categories) != self.levels):
            raise BadInput(f"{self.name} cannot have {self.levels} levels; give at least 2, and one for each category")
        if len(set(self.categories)) != len(self.categories):
            raise BadInput(f"a category of {self.name} is declared twice")
        ends = (math.nan if self.low is None else self.low, math.nan if self.high is None else self.high)
        if not self.categories and not (math.isfinite(ends[1] - ends[0]) and ends[0] < ends[1]):
            raise BadInput(f"the column {self.name} has neither a finite range low < high nor categories; give one")
        if self.edges and (len(self.edges) != self.levels + 1 or (self.edges[0], self.edges[-1]) != ends):
            raise BadInput(f"the edges of {self.name} should be {self.levels + 1} numbers from its low to its high end")

    def record(self) -> dict[str, Any]:
        """As plain data, which is how setups and states carry it."""
        named: dict[str, Any] = {"name": self.name, "levels": self.levels}
        if self.categories:
            return named | {"type": "categories", "categories": self.categories}
        edges = {"edges": self.edges} if self.edges else {}
        return named | {"type": "date" if self.dates else "number", "low": self.low, "high": self.high, **edges}


def domain_of(inputs: int, columns: Sequence[Column] = ()) -> dict[str, Any]:
    """What inputs 0 .. k - 1 mean, as plain data: their number and, where they come from columns, the columns."""
    if len({column.name for column in columns}) != len(columns):
        raise BadInput(f"a column is declared twice: {', '.join(column.name for column in columns)}")
    if columns and math.prod(column.levels for column in columns) != inputs:
        raise BadInput(f"columns of {_by(column.levels for column in columns)} levels do not make {inputs} inputs")
    if inputs < 1:
        raise BadInput(f"a domain of {inputs} inputs is empty; give at least one")
    return {"inputs": inputs, **({"columns": tuple(column.record() for column in columns)} if columns else {})}


def column_levels(domain: Domain) -> tuple[int, ...]:
    """The levels of each column; empty where inputs are numbers and nothing else."""
    return tuple(each["levels"] for each in domain.get("columns", ()))


@dataclass(frozen=True, kw_only=True)
class Consent:
    """Which run, about which values, for at most how much, trusting whom, and whose word counts.

    `run` is a name, or a pattern of names such as `survey-*`. Keys are public Ed25519 keys; without one the word of
    that party counts whoever says it, which is for experiments on one machine. `shuffler_link` is the shuffler's public
    CURVE key: with it, the node sends its replies to nobody else. `head` is the key of the head board, where `board` is
    that of the shard called `shard`: with it, the node wants to see that its shard is part of the whole run.
    """

    run: str
    domain: Domain
    cap: float
    delta: float = 0.0
    trusts: Trust = "nobody"
    analyst: bytes = b""
    board: bytes = b""
    shuffler: bytes = b""
    shuffler_link: str = field(default="", repr=False)
    head: bytes = b""
    shard: str = ""

    def __post_init__(self) -> None:
        for what, value in (("cap", self.cap), ("delta", self.delta)):
            if not (math.isfinite(value) and value >= 0):
                raise BadInput(f"a {what} of {value} is not a valid limit; give a finite number, at least 0")
        if not self.is_pattern and not NAME.fullmatch(self.run):
            raise BadInput(f"{self.run[:80]!r} is neither the name of a run nor a pattern of names")
        if type(self.domain.get("inputs")) is not int or self.domain["inputs"] < 1:
            raise BadInput("a consent needs a domain with at least one input")
        keys = {"analyst": self.analyst, "board": self.board, "shuffler": self.shuffler, "head board": self.head}
        for what, key in keys.items():
            if len(key) not in (0, PUBLIC_BYTES):
                raise BadInput(f"the {what}'s key has {len(key)} bytes instead of {PUBLIC_BYTES}; see `parley keys`")
        if bool(self.analyst) != bool(self.board):
            raise BadInput("the keys of analyst and board belong together; give both or neither")
        if self.head and (not self.board or self.trusts != "nobody"):
            raise BadInput("users who know a head board must know their own board and trust nobody; give its key too")
        if bool(self.head) != bool(self.shard) or (self.shard and not NAME.fullmatch(self.shard)):
            raise BadInput("the head board's key and the name of a shard belong together; give both or neither")
        if self.trusts == "shuffler" and self.analyst and not self.shuffler:
            raise BadInput("users who trust a shuffler must know its key; give the shuffler's key too")

    @property
    def is_pattern(self) -> bool:
        return not WILDCARDS.isdisjoint(self.run)

    @property
    def inputs(self) -> int:
        return int(self.domain["inputs"])

    @property
    def wants_receipts(self) -> bool:
        """Whether the node goes on only if the board shows that its replies are on record."""
        return bool(self.board) and self.trusts == "nobody"

    @property
    def wants_seating(self) -> bool:
        """Whether the node speaks only once it was told, under a signature, that the seat under its name is its own."""
        return bool(self.board)

    def covers(self, run: str) -> bool:
        return fnmatchcase(run, self.run) if self.is_pattern else run == self.run

    def check_setup(self, setup: Setup) -> None:
        """Refuse a run, a domain or a nonce that was not agreed to; nothing is built for that."""
        if not self.covers(setup.run):
            raise RemoteProtocolError(f"the run {setup.run} is not one that these users agreed to ({self.run:.80})")
        # As bytes: values that merely compare as equal (4 and 4.0), or cannot be compared (arrays), are others.
        if pack(setup.domain) != pack(self.domain):
            raise RemoteProtocolError(f"the domain {_brief(setup.domain)} is not the agreed {_brief(self.domain)}")
        if len(setup.nonce) != NONCE_BYTES:
            raise RemoteProtocolError("the setup has no nonce")

    def check_size(self, setup: Setup, inputs: int) -> None:
        if inputs != self.inputs:
            raise RemoteProtocolError(f"{setup.protocol} has {inputs} inputs, but these users agreed to {self.inputs}")

    def check_columns(self, setup: Setup, levels: tuple[int, ...]) -> None:
        """Refuse a protocol that takes an input apart into other columns: 4 x 16 levels are as many inputs as 8 x 8."""
        agreed = column_levels(self.domain)
        if levels and agreed and levels != agreed:
            what = f"{setup.protocol} has columns of {_by(levels)} levels"
            raise RemoteProtocolError(f"{what}, but these users agreed to {_by(agreed)}")

    def check_claim(self, setup: Setup, claim: Claim, inputs: int) -> None:
        """Refuse a protocol for another domain, one that does not claim what it is, and one that costs too much."""
        self.check_size(setup, inputs)
        declared = (setup.epsilon, setup.delta, setup.rounds)
        actual = (claim.epsilon, claim.delta, claim.rounds)
        if declared != actual:
            raise RemoteProtocolError(f"the setup claims {declared} but {setup.protocol} is {actual}")
        epsilon = claim.epsilon_for(self.trusts)
        # Said this way round a cap that is not a number lets nothing through.
        if not epsilon <= self.cap:
            unless = "" if epsilon == claim.epsilon else f" for users who trust {self.trusts}"
            raise RemoteProtocolError(f"epsilon {epsilon}{unless} is above this user's cap {self.cap}")
        if not claim.delta <= self.delta:
            raise RemoteProtocolError(f"delta {claim.delta} is above this user's cap {self.delta}")

    def is_authentic(self, message: Message, frame: bytes, nonce: bytes) -> bool:
        """Whether a broadcast was said by whom it must come from; reminders are transport and prove themselves."""
        authors: dict[type[Message], tuple[bytes, ...]] = {
            **dict.fromkeys((Setup, Announce, Result), (self.analyst,)),
            Abort: (self.board, self.analyst, self.head),
            Pledge: (self.shuffler,),
            Seating: (self.board, self.shuffler),
        }
        keys = authors.get(type(message)) if self.analyst else None
        return keys is None or any(said_by(key, frame, message, nonce) for key in keys)


def consent_to(protocol: Protocol, run: str, domain: Domain | None = None) -> Consent:
    """The consent of users who agree to exactly this protocol in this run, and ask for no signatures."""
    claim, domain = protocol.claim, domain or domain_of(protocol.inputs)
    return Consent(run=run, domain=domain, cap=claim.epsilon, delta=claim.delta, trusts=claim.trusts)


def _by(levels: Iterable[int]) -> str:
    return " x ".join(map(str, levels))


def _brief(domain: Domain) -> str:
    columns = domain.get("columns", ())
    if isinstance(columns, tuple) and not columns:
        return f"of {domain.get('inputs')!r:.80} inputs"
    return f"{columns!r:.300}"
