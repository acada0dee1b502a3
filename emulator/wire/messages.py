"""The closed set of messages. Each is frozen and checks itself when made, on whichever side it is made."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import RemoteProtocolError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")
LONGEST_TEXT = 4096
LARGEST_COUNT = 2**62
DIGEST_BYTES = 32
NONCE_BYTES = 16
Outcome = Literal["completed", "failed", "aborted"]
Users = NDArray[np.int64]
_LENGTHS = {"nonce": NONCE_BYTES, "question": DIGEST_BYTES, "setup": DIGEST_BYTES, "root": DIGEST_BYTES, "key": 32}
"""How long digests and keys are; an empty one says that there is none."""


@dataclass_transform(frozen_default=True, kw_only_default=True, eq_default=False)
@dataclass(frozen=True, kw_only=True, eq=False)
class Message:
    """Common checks: names are names, counts are counts, text is short, numbers are finite.

    Every kind of message is a frozen dataclass of keywords, as this class is.
    """

    kind: ClassVar[str]
    """How frames call it: the name of its class in small letters."""
    names: ClassVar[tuple[str, ...]] = ("run", "node", "protocol")
    optional_names: ClassVar[tuple[str, ...]] = ()
    since_format_2: ClassVar[tuple[str, ...]] = ()
    """Fields that frames of format 1 do not have."""

    def __init_subclass__(cls) -> None:
        cls.kind = cls.__name__.lower()
        dataclass(frozen=True, kw_only=True, eq=False)(cls)

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, str):
                is_name = name in self.names or (name in self.optional_names and value)
                if is_name and not NAME.fullmatch(value):
                    raise RemoteProtocolError(f"{self.kind}: {name} is not a name: {value[:80]!r}")
                if len(value) > LONGEST_TEXT:
                    raise RemoteProtocolError(f"{self.kind}: {name} is {len(value)} characters long")
            elif type(value) is int and not 0 <= value < LARGEST_COUNT:
                raise RemoteProtocolError(f"{self.kind}: {name} is negative or too large: {value}")
            elif isinstance(value, float) and not math.isfinite(value):
                raise RemoteProtocolError(f"{self.kind}: {name} is not finite: {value}")
            elif isinstance(value, bytes) and name in _LENGTHS and len(value) not in (0, _LENGTHS[name]):
                raise RemoteProtocolError(f"{self.kind}: {name} has {len(value)} bytes instead of {_LENGTHS[name]}")


class Ready(Message):
    """A user node is there: which users it hosts, its process, the run it waits for and the key it signs with.

    `run` is empty where the node waits for any run of a pattern.
    """

    names = ("node",)
    optional_names = ("run",)
    since_format_2 = ("run", "key")
    node: str
    first: int
    users: int
    pid: int
    run: str = ""
    key: bytes = b""


class Roster(Message):
    """The barrier: the board has heard from every node it waits for. Only now the nonce of the run is drawn."""

    since_format_2 = ("nonce",)
    run: str
    nodes: int
    users: int
    nonce: bytes = b""


class Setup(Message):
    """Which protocol is spoken, its version and parameters, the domain it is about, and what it claims."""

    since_format_2 = ("version", "domain", "nonce")
    run: str
    protocol: str
    parameters: Mapping[str, Any]
    epsilon: float
    delta: float
    rounds: int
    version: int = 1
    domain: Mapping[str, Any] = field(default_factory=dict)
    nonce: bytes = b""


class Announce(Message):
    """The analyst's broadcast that opens a round, and how many users are to answer it. Rounds count from 1."""

    since_format_2 = ("speakers",)
    run: str
    round: int
    broadcast: Mapping[str, NDArray[Any]]
    speakers: int = 0


class Replies(Message):
    """A chunk of a cohort's replies in columns: row i is the reply of users[i] to the question with this digest."""

    since_format_2 = ("question",)
    run: str
    round: int
    node: str
    chunk: int
    chunks: int
    users: Users
    columns: Mapping[str, NDArray[Any]]
    question: bytes = b""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.chunk < self.chunks:
            raise RemoteProtocolError(f"replies: chunk {self.chunk} of {self.chunks}")
        users = self.users
        if users.dtype != np.int64 or users.ndim != 1:
            raise RemoteProtocolError(f"replies: user numbers are {users.dtype} in {users.ndim} dimensions")
        if (len(users) and users[0] < 0) or (len(users) > 1 and (users[1:] <= users[:-1]).any()):
            raise RemoteProtocolError("replies: user numbers are not increasing")
        for name, column in self.columns.items():
            if column.ndim < 1 or len(column) != len(users):
                raise RemoteProtocolError(f"replies: column {name} has shape {column.shape} for {len(users)} users")


class Refusal(Message):
    """A user node will not answer this broadcast, and why."""

    run: str
    round: int
    node: str
    reason: str


class Close(Message):
    """The board closes a round: how many replies it holds, how many are missing, which nodes owe some.

    `root` is the head of the tree over all records before this one, of which there are `size`.
    """

    since_format_2 = ("absent", "size", "root")
    run: str
    round: int
    replies: int
    missing: int
    absent: tuple[str, ...] = ()
    size: int = 0
    root: bytes = b""


class Result(Message):
    """The analyst's last word."""

    run: str
    estimate: float
    predicted_rmse: float
    low: float
    high: float
    replied: int
    details: Mapping[str, Any] = field(default_factory=dict)


class Abort(Message):
    """The run ends without a result. The nonce is the run's, and empty where none has been drawn yet."""

    since_format_2 = ("nonce",)
    run: str
    outcome: Outcome
    reason: str
    nonce: bytes = b""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.outcome not in ("failed", "aborted"):
            raise RemoteProtocolError(f"abort: outcome is {self.outcome!r}")


class Reminder(Message):
    """The board still misses these chunks of these nodes (an empty tuple: all of them). Transport, not protocol."""

    run: str
    round: int
    missing: Mapping[str, tuple[int, ...]]


class Resume(Message):
    """The analyst asks for `count` records from this number on (0: all there are). Transport, never on record."""

    sequence: int
    count: int


class Event(Message):
    """Something that happened to a message or a process, with its cause: a drop, an injected fault, a restart."""

    names = ()
    event: str
    node: str
    round: int
    detail: str


class Receipt(Message):
    """The board shows a node that its frames of a closed round are on record. Transport, never on record.

    For each chunk: where its record is, when it was written, and the path from it to the root in `close`, which is the
    frame of the signed close. `before` is the size of the tree at the close before, `consistency` the proof that this
    tree extends that one.
    """

    run: str
    round: int
    node: str
    close: bytes
    chunks: tuple[int, ...]
    sequences: tuple[int, ...]
    times: tuple[int, ...]
    paths: tuple[bytes, ...]
    before: int
    consistency: bytes

    def __post_init__(self) -> None:
        super().__post_init__()
        if len({len(self.chunks), len(self.sequences), len(self.times), len(self.paths)}) != 1:
            raise RemoteProtocolError("receipt: chunks, sequences, times and paths differ in number")
        for each in (*self.paths, self.consistency):
            if len(each) % DIGEST_BYTES:
                raise RemoteProtocolError(f"receipt: a path of {len(each)} bytes is not a list of digests")


class Inquiry(Message):
    """A node asks for the receipt of a round again; in round 0 for its seating. Transport, never on record."""

    run: str
    round: int
    node: str


class Pledge(Message):
    """The shuffler says, under its own signature, that it serves this run and this setup. Never on record."""

    run: str
    setup: bytes


class Seating(Message):
    """Whoever gives out the seats tells a node which signing key holds the seat under its name. Never on record.

    A node with a fresh state learns from it that it has no seat. The nonce is the run's.
    """

    run: str
    node: str
    key: bytes
    nonce: bytes


class Shard(Message):
    """A shard is there: which users sit at its board, and the frame of that board's roster. Its sub-analyst says so.

    A row of `stretches` is a first user and the one behind the last. There is one, or more where a node never came.
    """

    run: str
    node: str
    stretches: NDArray[Any]
    pid: int
    roster: bytes
    key: bytes = b""

    def __post_init__(self) -> None:
        super().__post_init__()
        found = self.stretches
        if found.dtype != np.int64 or found.ndim != 2 or found.shape[1] != 2 or not len(found):
            raise RemoteProtocolError(f"shard: stretches of {found.dtype} in the shape {found.shape} are not pairs")
        if found[0, 0] < 0 or found[-1, 1] >= LARGEST_COUNT or (np.diff(found.reshape(-1)) <= 0).any():
            raise RemoteProtocolError("shard: its stretches of users are empty, or touch each other")

    @property
    def users(self) -> int:
        """How many users sit at its board."""
        return int((self.stretches[:, 1] - self.stretches[:, 0]).sum())

    @property
    def first(self) -> int:
        return int(self.stretches[0, 0])

    @property
    def end(self) -> int:
        return int(self.stretches[-1, 1])


class Tally(Message):
    """A sub-analyst's answer to a round: the sums over its shard's replies, and the frame of its board's close.

    `rejected`: replies of each node that count for nothing; `silent`: users whose wallets refuse.
    """

    run: str
    round: int
    node: str
    replies: int
    sums: Mapping[str, NDArray[Any]]
    rejected: Mapping[str, int]
    silent: int
    close: bytes
    question: bytes = b""

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(total.dtype.kind not in "iu" for total in self.sums.values()):
            raise RemoteProtocolError("tally: a sum is not made of whole numbers")
        if any(not 0 < count < LARGEST_COUNT for count in self.rejected.values()):
            raise RemoteProtocolError("tally: a node with fewer than one rejected reply")
        if not all(map(NAME.fullmatch, self.rejected)):
            raise RemoteProtocolError("tally: rejected replies of what is not the name of a node")


class Tie(Message):
    """A sub-analyst shows its shard that the shard's head is under the head of the whole run.

    `tally` is the frame of its answer, which holds the close of the shard's board; `receipt` is that of the head board
    for this answer.
    """

    run: str
    round: int
    node: str
    tally: bytes
    receipt: bytes


WALLET = "wallet"
"""The event by which a node says how many of its users stay silent because their wallets refuse."""


def wallet_event(node: str, number: int, silent: int) -> Event:
    """So many users of a node are asked in this round and do not answer."""
    return Event(event=WALLET, node=node, round=number, detail=f"{silent} users stay silent: their wallets refuse")


def silent_users(event: Event) -> int:
    """How many users an event says stay silent; 0 if it is about something else."""
    first = event.detail.split(" ", 1)[0]
    return int(first) if event.event == WALLET and first.isascii() and first.isdigit() and len(first) < 16 else 0


MESSAGES: tuple[type[Message], ...] = tuple(Message.__subclasses__())
"""In the order of this file, which gives each its tag: a new kind stands last."""
KINDS_OF_FORMAT_1 = 12
"""A frame of format 1 holds one of the first so many kinds."""
KINDS: tuple[str, ...] = tuple(each.kind for each in MESSAGES)

BROADCASTS: tuple[type[Message], ...] = (Roster, Setup, Announce, Close, Reminder, Result, Abort, Tie)
"""What is said to all; replies, refusals and events are for the analyst and for observers."""

NOTICES: tuple[type[Message], ...] = (Roster, Close)
"""Of these, what calls for nothing on a user node's side: it need not wake up for them."""
