"""What a protocol is: a script.

A protocol is one class. Its fields are the public parameters. Each round is a method that takes the broadcast and says
what every user sends: a name, and a `Send`, which is a randomizer and the value it hides *for every input x*. The
analyst is a generator that asks (`yield Ask(...)`), hears the tallies of the replies, and returns an `Estimate`:

    class Mean(Protocol):
        ...
        @sends
        def bit(self):
            return {"x": Send(OneBit(low=0.0, high=1.0, epsilon=self.epsilon), self.values)}

        script = (bit,)

        def analyst(self):
            heard = yield Ask(self.bit)
            return heard.estimate("x")

Users evaluate the method on the broadcast themselves. It sees no private input, so it cannot leak one, and what it
refuses (`require`) it refuses for every input alike. Replies, wire columns, exact likelihoods, tallies, the round's
epsilon, the parameters that travel in a Setup and the claim all follow from the class (`emulator.round`,
`emulator.parameters`). The generator hears integers only, so driven through the record again it says the same words.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, overload
from typing import Protocol as Interface

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import BadInput, LocalProtocolError, RemoteProtocolError
from parley.emulator.parameters import from_plain, to_plain
from parley.emulator.randomizer import Array, Columns, Floats, Integers, Randomizer, Shape
from parley.emulator.round import Round, Tally
from parley.emulator.wire.messages import Users

Inputs = NDArray[np.integer[Any]]
"""One input per user, in whichever integers hold all k."""
Broadcast = Mapping[str, NDArray[Any]]
Interaction = Literal["non-interactive", "sequentially interactive", "fully interactive"]
Trust = Literal["nobody", "shuffler"]
QUANTILE_95 = 1.959963984540054
# Randomizers stop short of their epsilon by more than the rounding of a sum of epsilons.
ROUNDING = 1e-12


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


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What the analyst says at the end, from public quantities alone."""

    value: float
    predicted_rmse: float
    interval95: tuple[float, float]
    details: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def normal(cls, value: float, rmse: float, details: Mapping[str, Any] | None = None) -> Self:
        """A value with the 95% interval of a normal error."""
        interval = (value - QUANTILE_95 * rmse, value + QUANTILE_95 * rmse)
        return cls(value=value, predicted_rmse=rmse, interval95=interval, details=dict(details or {}))


class Vectors(Interface):
    """A vector for every input, without having them all at once: column x is the vector of input x."""

    @property
    def rows(self) -> int: ...
    @property
    def inputs(self) -> int: ...
    def columns(self, indices: NDArray[np.int64]) -> Floats: ...


@dataclass(frozen=True, eq=False)
class Send:
    """One randomised function of the input: a randomizer, and the value it hides for every input x.

    `value` has one entry or row for each input, or is an operator whose columns are the values. `tallies` are further
    integers that the analyst wants besides the sum of the replies; one called "" takes the place of that sum. `given`
    makes the randomizer's public columns of users' numbers: public coins. They stand behind the value when it is
    randomised, and beside the reply when it is read.
    """

    randomizer: Randomizer
    value: Array | Vectors
    tallies: Mapping[str, Callable[[Columns], Integers]] = field(default_factory=dict)
    given: Callable[[Users], Columns] | None = None

    def at(self, inputs: Inputs) -> Floats:
        """The values of these inputs, one row each."""
        if isinstance(self.value, np.ndarray):
            return np.asarray(self.value[inputs])
        return self.value.columns(inputs.astype(np.int64, copy=False))

    @property
    def inputs(self) -> int:
        """k, the number of inputs it has a value for."""
        return len(self.value) if isinstance(self.value, np.ndarray) else self.value.inputs

    @property
    def numbers(self) -> int:
        """How many numbers a value has."""
        if isinstance(self.value, np.ndarray):
            return max(1, math.prod(self.value.shape[1:]))
        return self.value.rows


Sends = Mapping[str, Send]
Length = int | str


@dataclass(frozen=True)
class Numbers:
    """An array of a broadcast: its lengths, each a number or the name of an attribute of the protocol, and its type.

    `like` is a value it may have. With it the round is asked once when the protocol is made, which tells the columns
    of its replies and its epsilon before anything is broadcast.
    """

    lengths: tuple[Length, ...] = ()
    like: float = 0.0
    dtype: Any = np.float64


@dataclass(frozen=True)
class Question:
    """What a round's method declares: its name, the arrays of its broadcast, and what users do."""

    name: str
    arrays: Mapping[str, Numbers]
    summary: str


Method = Callable[..., Sends]


@overload
def sends(method: Method, /) -> Method: ...
@overload
def sends(**arrays: Numbers | Length | tuple[Length, ...]) -> Callable[[Method], Method]: ...
def sends(method: Method | None = None, /, **arrays: Any) -> Any:
    """Mark a method as a round. The keywords are the arrays of its broadcast: `mu="d"` is a vector of d float64."""
    declared = {
        name: each if isinstance(each, Numbers) else Numbers(each if isinstance(each, tuple) else (each,))
        for name, each in arrays.items()
    }

    def mark(function: Any) -> Any:
        title = function.__name__.strip("_").replace("_", " ")
        said = (function.__doc__ or "").strip().split("\n\n")[0]
        function.question = Question(title, declared, " ".join(said.split()))
        return function

    return mark if method is None else mark(method)


def require(condition: bool | np.bool_, otherwise: str) -> None:
    """The user's own check of a broadcast, over all inputs: refuse to answer unless it holds."""
    if not condition:
        raise RemoteProtocolError(otherwise)


@dataclass(frozen=True)
class Chosen:
    """A broadcast array that need not come out the same again, such as a solver's table.

    It is recorded once. An analyst that is driven through the record takes it from there, and what it goes on with is
    `heard.asked`; replay and audit check that the round's method accepts it.
    """

    value: Any


class Ask:
    """A question to all users: one of the protocol's rounds, and what is broadcast in it."""

    def __init__(self, method: Callable[..., Sends], /, **broadcast: Any) -> None:
        self.name: str = method.question.name  # type: ignore[attr-defined]
        self.chosen = frozenset(name for name, value in broadcast.items() if isinstance(value, Chosen))
        self.broadcast = {name: each.value if isinstance(each, Chosen) else each for name, each in broadcast.items()}


@dataclass(frozen=True)
class Heard:
    """What the analyst hears of a round: integer tallies, beside what was asked and what users sent."""

    asked: Broadcast
    sends: Sends
    tally: Tally

    @property
    def replies(self) -> int:
        """How many users replied; at least 1, so that means exist."""
        return max(1, self.tally.replies)

    def mean(self, name: str) -> Floats:
        """The mean of the decoded replies under this name: unbiased for the mean of what was hidden."""
        randomizer = self.sends[name].randomizer
        mean: Floats = self.tally.sums[name] * randomizer.unit / self.replies + randomizer.offset
        return mean

    def sum(self, name: str) -> Integers:
        """A tally as it is, in integers: `name`, or `name.tally` for a further one."""
        return self.tally.sums[name]

    def variance(self, name: str) -> float:
        """The largest variance that the mean of these replies can have, whatever the inputs are."""
        return self.sends[name].randomizer.variance / self.replies

    def estimate(self, name: str, **details: Any) -> Estimate:
        """The mean of a scalar with its 95% interval, for the largest variance there can be."""
        return Estimate.normal(float(self.mean(name)), math.sqrt(self.variance(name)), details)

    def part(self, name: str) -> "Heard":
        """What was heard of one of several protocols side by side (see `beside`)."""
        prefix = f"{name}."
        own = {each.removeprefix(prefix): send for each, send in self.sends.items() if each.startswith(prefix)}
        sums = {each.removeprefix(prefix): total for each, total in self.tally.sums.items() if each.startswith(prefix)}
        return Heard(self.asked, own, Tally(self.tally.replies, sums))


def beside(**parts: Sends) -> Sends:
    """What several protocols' users send, as one reply: names become `part.name`."""
    return {f"{part}.{name}": send for part, sent in parts.items() for name, send in sent.items()}


Analyst = Generator[Ask, Heard, Estimate]


class Protocol(ABC):
    """Frozen parameters, a script of rounds, and the analyst.

    `version` goes up when the same parameters come to mean something else; a node speaks the version it knows.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    script: ClassVar[Sequence[Method]] = ()

    if TYPE_CHECKING:
        # A field or a property of the protocol, whichever suits it.
        @property
        def inputs(self) -> int:
            """k: private inputs are the integers 0 .. k-1."""

        @property
        def epsilon(self) -> float:
            """What it claims."""

    @abstractmethod
    def analyst(self) -> Analyst:
        """Ask in rounds, hear tallies, return the estimate."""

    @cached_property
    def rounds(self) -> tuple[Round, ...]:
        """Everything that follows from the script, round by round."""
        return tuple(Round(self, number, method) for number, method in enumerate(self.script, 1))

    @property
    def column_levels(self) -> tuple[int, ...]:
        """The levels of each column that makes up an input; empty where only the number of inputs matters."""
        return ()

    @property
    def groups(self) -> int:
        """Into how many groups users fall."""
        return 1

    def group_of(self, users: Users) -> Integers:
        """The group of each user: a public function of its number."""
        return np.zeros(len(users), dtype=np.int64)

    @cached_property
    def counted(self) -> dict[tuple[int, int], Integers]:
        """How many of the users first .. end - 1 are in each group, as far as somebody asked (`group_sizes`)."""
        return {}

    def participates(self, number: int, group: int) -> bool:
        """Whether a group answers in the round with this number, 1 being the first."""
        return True

    def representatives(self, broadcasts: Mapping[int, list[Broadcast]]) -> Inputs:
        """Inputs that stand for all: after these broadcasts, no user's replies have other likelihoods under the rest.

        `broadcasts` holds all that were said in each round. Protocols whose users act on cells have few.
        """
        return np.arange(self.inputs)

    @property
    def claim(self) -> Claim:
        """Epsilon for the users of every group, in as many rounds as the script has."""
        return Claim(epsilon=self.epsilon, rounds=len(self.script), interaction=self.interaction)

    @property
    def interaction(self) -> Interaction:
        """Nobody hears others first; or nobody speaks twice; or neither."""
        if len(self.script) == 1:
            return "non-interactive"
        numbers = range(1, len(self.script) + 1)
        once = all(sum(self.participates(each, group) for each in numbers) <= 1 for group in range(self.groups))
        return "sequentially interactive" if once else "fully interactive"

    def delta_shown(self, replies: int) -> float:
        """The delta that so many replies show at the claim's epsilon; it matters where users hide among each other."""
        return self.claim.delta

    def parameters(self) -> Mapping[str, Any]:
        """Everything a stranger needs to build this protocol again: what Setup carries."""
        return to_plain(self)

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        """The protocol a Setup describes; BadInput for anything that is not exactly such a description."""
        return from_plain(cls, parameters)


Builder = Callable[[str, Mapping[str, Any]], Protocol]
"""Makes a protocol of its name and parameters."""


class Analysis:
    """The analyst's generator, held against the table of rounds: what it asks, and what it says at the end."""

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol
        self.chosen: frozenset[str] = frozenset()
        self._generator = protocol.analyst()
        self._asked = 0

    def open(self) -> Broadcast:
        """The broadcast of the first round."""
        return self._question(next(self._generator))

    def hear(self, public: Broadcast, tally: Tally) -> Broadcast | Estimate:
        """The next broadcast or the estimate, once the tally of the open round is whole.

        `public` is what was broadcast: what the analyst said, or, for a choice, what the record says.
        """
        heard = Heard(public, self.protocol.rounds[self._asked - 1].sends(public), tally)
        try:
            return self._question(self._generator.send(heard))
        except StopIteration as stop:
            if self._asked != len(self.protocol.rounds):
                ended = f"ended after round {self._asked} of {len(self.protocol.rounds)}"
                raise LocalProtocolError(f"{self.protocol.name} {ended}") from None
            if not isinstance(stop.value, Estimate):
                raise LocalProtocolError(f"the analyst of {self.protocol.name} returned no Estimate") from None
            return stop.value

    def _question(self, ask: Ask) -> Broadcast:
        if self._asked == len(self.protocol.rounds):
            raise LocalProtocolError(f"{self.protocol.name} asks more than its {self._asked} rounds")
        expected = self.protocol.rounds[self._asked]
        if ask.name != expected.name:
            raise LocalProtocolError(f"{self.protocol.name} asks {ask.name!r} in round {self._asked + 1}, where its "
                                     f"script has {expected.name!r}")  # fmt: skip
        for name in expected.broadcast:
            if name not in ask.broadcast:
                raise LocalProtocolError(f"the question {ask.name!r} lacks {name!r}")
        self._asked += 1
        self.chosen = ask.chosen
        return {name: np.asarray(ask.broadcast[name], dtype) for name, (dtype, _) in expected.broadcast.items()}


def spent(protocol: Protocol, rounds: Sequence[Round]) -> float:
    """The most that these rounds take from the users of any group."""
    return max(
        sum(each.epsilon for each in rounds if protocol.participates(each.number, group))
        for group in range(protocol.groups)
    )


def check_claim(protocol: Protocol) -> None:
    """Refuse a protocol whose rounds take more than it claims, or that has another number of them."""
    claim, rounds = protocol.claim, protocol.rounds
    if len(rounds) != claim.rounds or not rounds:
        raise BadInput(f"{protocol.name} claims {claim.rounds} rounds and has {len(rounds)}")
    if not all(each.reply for each in rounds):
        raise BadInput(f"{protocol.name} has a round in which users send nothing; give each round something to send")
    allowed = claim.epsilon_for("nobody")
    taken = spent(protocol, rounds)
    if not taken <= allowed * (1 + ROUNDING):
        raise BadInput(f"{protocol.name} claims epsilon {allowed:g}, but its rounds take {taken:g} from one user")


def check_arrays(what: str, arrays: Mapping[str, NDArray[Any]], shape: Shape, rows: int | None = None) -> None:
    """Names, dtypes, shapes and finiteness are as declared; with `rows`, each array has one row per user."""
    if set(arrays) != set(shape):
        raise RemoteProtocolError(f"{what}: expected the arrays {sorted(shape)}, got {sorted(arrays)}")
    for name, (dtype, trailing) in shape.items():
        expected = trailing if rows is None else (rows, *trailing)
        array = arrays[name]
        if array.dtype != dtype or array.shape != expected:
            raise RemoteProtocolError(f"{what}: {name} should be {dtype} {expected}, got {array.dtype} {array.shape}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise RemoteProtocolError(f"{what}: {name} holds a value that is not finite")
