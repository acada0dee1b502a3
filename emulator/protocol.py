"""What a protocol is: frozen parameters, a tuple of rounds, a claim.

A round has pure functions, vectorised over users. `respond` and `log_likelihood` belong together: the first
draws a reply, the second says exactly how likely it was under each of the k inputs, which is what makes exact
audits possible. `tally` and `conclude` are the analyst's half: tallies are integers, so they add up to the same
number in whatever order replies arrive and however they were cut into frames.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import RemoteProtocolError
from parley.emulator.randomizer import Coins, Columns, Floats, Integers, Shape
from parley.emulator.wire.messages import Users

Inputs = NDArray[np.int64]
Broadcast = Mapping[str, NDArray[Any]]
Interaction = Literal["non-interactive", "sequentially interactive", "fully interactive"]
Trust = Literal["nobody", "shuffler"]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a protocol promises every user, whatever the analyst does.

    Where users must trust a shuffler, `local_epsilon` is what is left to those who do not: the loss to one who sees
    replies before they are shuffled, infinite where nothing is left. Elsewhere it is epsilon.
    """

    epsilon: float
    delta: float = 0.0
    rounds: int
    interaction: Interaction
    protects_from: str = "everyone who sees the transcript"
    trusts: Trust = "nobody"
    local_epsilon: float | None = None

    def epsilon_for(self, trust: Trust) -> float:
        """What a user loses who trusts nobody, or the shuffler."""
        return self.epsilon if self.trusts in ("nobody", trust) or self.local_epsilon is None else self.local_epsilon


@dataclass(frozen=True)
class Tally:
    """Integer sums over replies. Addition is exact, so order and framing never matter."""

    replies: int
    sums: Mapping[str, Integers]

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.replies + other.replies,
            {name: total + other.sums[name] for name, total in self.sums.items()},
        )


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What the analyst says at the end, from public quantities alone."""

    value: float
    predicted_rmse: float
    interval95: tuple[float, float]
    details: Mapping[str, Any] = field(default_factory=dict)


class Round(ABC):
    """One broadcast and the replies to it."""

    name: ClassVar[str]

    @property
    @abstractmethod
    def broadcast(self) -> Shape:
        """The arrays the announcement carries: name -> (dtype, shape)."""

    @property
    @abstractmethod
    def reply(self) -> Shape:
        """The columns of the replies: name -> (dtype, trailing shape of one user's entry)."""

    @property
    @abstractmethod
    def coins(self) -> int:
        """Bytes of coins one user needs in this round."""

    def speaks(self, users: Users) -> NDArray[np.bool_]:
        """Who answers in this round: a public function of the user's number alone. By default everybody."""
        return np.ones(len(users), dtype=np.bool_)

    def admit(self, public: Broadcast) -> None:
        """The user's own check of a well-formed, finite broadcast; raise RemoteProtocolError to refuse it."""

    @abstractmethod
    def respond(self, public: Broadcast, inputs: Inputs, coins: Coins) -> Columns:
        """Every user's reply to the broadcast."""

    @abstractmethod
    def check(self, public: Broadcast, replies: Columns) -> NDArray[np.bool_]:
        """Which replies lie in the output space of an honest user."""

    @abstractmethod
    def log_likelihood(self, public: Broadcast, replies: Columns) -> Floats:
        """Exact log p(reply i | input x) for all k inputs x: an n x k matrix."""

    @property
    def epsilon(self) -> float | None:
        """The most that one reply gives away; None where the round does not say, and the claim stands for it."""
        return None

    def outcomes(self, public: Broadcast) -> Columns | None:
        """Every reply that a user can send, each once, where there are at most MOST_OUTCOMES; None where not."""
        return None

    @abstractmethod
    def tally(self, public: Broadcast, replies: Columns) -> Tally:
        """The sums the analyst keeps of these replies; it keeps no reply."""


class Protocol(ABC):
    """Frozen parameters, rounds and a claim. `conclude` is the analyst's step between rounds.

    `version` goes up when the same parameters come to mean something else; a node speaks the version it knows.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1

    @property
    @abstractmethod
    def claim(self) -> Claim: ...

    @property
    @abstractmethod
    def rounds(self) -> tuple[Round, ...]: ...

    def delta_shown(self, replies: int) -> float:
        """The delta that so many replies show at the claim's epsilon; it matters where users hide among each other."""
        return self.claim.delta

    @property
    @abstractmethod
    def inputs(self) -> int:
        """k: private inputs are the integers 0 .. k-1."""

    @abstractmethod
    def parameters(self) -> Mapping[str, Any]:
        """Everything a stranger needs to build this protocol again: what Setup carries."""

    @abstractmethod
    def opening(self) -> Broadcast:
        """The broadcast of the first round."""

    @abstractmethod
    def conclude(self, heard: tuple[tuple[Broadcast, Tally], ...]) -> Broadcast | Estimate:
        """From the rounds heard so far, the next broadcast or, after the last round, the estimate."""


def check_arrays(what: str, arrays: Mapping[str, NDArray[Any]], shape: Shape, rows: int | None = None) -> None:
    """Names, dtypes, shapes and finiteness are as declared; with `rows`, each array has one row a user."""
    if set(arrays) != set(shape):
        raise RemoteProtocolError(f"{what}: expected the arrays {sorted(shape)}, got {sorted(arrays)}")
    for name, (dtype, trailing) in shape.items():
        expected = trailing if rows is None else (rows, *trailing)
        array = arrays[name]
        if array.dtype != dtype or array.shape != expected:
            raise RemoteProtocolError(f"{what}: {name} should be {dtype} {expected}, got {array.dtype} {array.shape}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise RemoteProtocolError(f"{what}: {name} holds a value that is not finite")
