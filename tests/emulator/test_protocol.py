"""A protocol is a script: what follows from the class, and what is refused."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ClassVar

import numpy as np
import pytest

from parley.emulator.coins import key_from_seed
from parley.emulator.errors import BadInput, LocalProtocolError, RemoteProtocolError
from parley.emulator.parameters import STAYS_HERE
from parley.emulator.protocol import (
    Analysis,
    Analyst,
    Ask,
    Chosen,
    Estimate,
    Numbers,
    Protocol,
    Send,
    Sends,
    beside,
    check_claim,
    require,
    sends,
)
from parley.emulator.randomizer import Floats, Integers
from parley.emulator.roles.analyst import AnalystRole
from parley.emulator.round import Tally
from parley.emulator.simulate import conversation
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import Announce, Message, Result, Users
from parley.protocols.randomizers.scalars.one_bit import OneBit

KEY = key_from_seed(8)
_turns = count()


@dataclass(frozen=True, kw_only=True)
class Refined(Protocol):
    """A mean in two rounds: the second asks within the range that the first suggests."""

    name: ClassVar[str] = "refined"
    inputs: int
    epsilon: float
    asked: int = 2
    spends: float = 0.5
    secret: bytes = field(default=b"", metadata=STAYS_HERE)

    @property
    def values(self) -> Floats:
        return np.linspace(0.0, 1.0, self.inputs)

    @sends
    def coarse(self) -> Sends:
        """Each user sends x."""
        return {"x": Send(OneBit(low=0.0, high=1.0, epsilon=self.spends * self.epsilon), self.values)}

    @sends(low=Numbers(), high=Numbers(like=1.0))
    def fine(self, low: float, high: float) -> Sends:
        """Each user sends x, clipped to the range."""
        require(low < high, "the range is empty")
        bit = OneBit(low=low, high=high, epsilon=self.spends * self.epsilon)
        return {"x": Send(bit, np.clip(self.values, low, high))}

    script = (coarse, fine)

    def analyst(self) -> Analyst:
        one = yield Ask(self.coarse)
        middle = float(one.mean("x"))
        # A choice that comes out another each time, as a solver's may.
        width = 0.5 + 0.01 * (next(_turns) % 7)
        two = yield Ask(self.fine, low=Chosen(middle - width), high=Chosen(middle + width))
        for _ in range(self.asked - 2):
            yield Ask(self.fine, low=0.0, high=1.0)
        assert two.asked["low"] < two.asked["high"]
        return two.estimate("x", width=float(two.asked["high"] - two.asked["low"]))


@dataclass(frozen=True, kw_only=True)
class Split(Refined):
    """The same, by halves of the users with all of epsilon each."""

    name: ClassVar[str] = "split"
    spends: float = 1.0

    @property
    def groups(self) -> int:
        return 2

    def group_of(self, users: Users) -> Integers:
        return users % 2

    def participates(self, number: int, group: int) -> bool:
        return number == group + 1


MADE = Refined(inputs=5, epsilon=2.0)
INPUTS = np.arange(300) % 5


def messages(protocol: Protocol = MADE) -> list[tuple[str, Message]]:
    return list(conversation(protocol, INPUTS, KEY, nodes=2, chunk=64))


def driven(said: Iterator[Message] | list[Message], protocol: Protocol = MADE) -> AnalystRole:
    role = AnalystRole(protocol, "simulated")
    for message in said:
        role.hear(message)
    return role


def test_what_follows_from_the_class() -> None:
    assert [step.name for step in MADE.rounds] == ["coarse", "fine"]
    assert MADE.rounds[1].broadcast == {"low": (np.dtype(float), ()), "high": (np.dtype(float), ())}
    assert MADE.rounds[0].reply == {"x.bit": (np.dtype(np.uint8), ())}
    assert (MADE.claim.epsilon, MADE.claim.rounds, MADE.claim.interaction) == (2.0, 2, "fully interactive")
    assert Split(inputs=5, epsilon=2.0).claim.interaction == "sequentially interactive"
    assert MADE.parameters() == {"inputs": 5, "epsilon": 2.0, "asked": 2, "spends": 0.5}
    assert Refined.from_parameters(MADE.parameters()) == MADE


@pytest.mark.parametrize(
    ("name", "value"), [("inputs", 5.0), ("inputs", True), ("epsilon", 2), ("epsilon", float("nan")), ("secret", b"x")]
)
def test_parameters_are_read_to_the_letter(name: str, value: Any) -> None:
    with pytest.raises(BadInput):
        Refined.from_parameters({**MADE.parameters(), name: value})


def test_a_run_gives_its_estimate() -> None:
    last = messages()[-1][1]
    assert isinstance(last, Result)
    assert abs(last.estimate - 0.5) < 6 * last.predicted_rmse


def test_users_are_asked_by_their_group() -> None:
    made = Split(inputs=5, epsilon=2.0)
    check_claim(made)
    users = np.arange(10)
    assert made.rounds[0].participates(users).tolist() == [True, False] * 5
    assert made.rounds[1].participates(users).tolist() == [False, True] * 5
    assert [step.speakers(1, 10) for step in made.rounds] == [4, 5]


def test_rounds_that_take_more_than_the_claim_are_refused() -> None:
    check_claim(MADE)
    with pytest.raises(BadInput, match="its rounds take 4"):
        check_claim(Refined(inputs=5, epsilon=2.0, spends=1.0))
    with pytest.raises(BadInput, match="its rounds take 3"):
        check_claim(Split(inputs=5, epsilon=2.0, spends=1.5))


def test_questions_out_of_order_are_refused() -> None:
    class Backwards(Refined):
        def analyst(self) -> Analyst:
            two = yield Ask(self.fine, low=0.0, high=1.0)
            return two.estimate("x")

    with pytest.raises(LocalProtocolError, match="where its script has"):
        Analysis(Backwards(inputs=5, epsilon=2.0)).open()


def played(protocol: Protocol) -> Estimate:
    """The analyst alone, who hears the same tally in every round."""
    analysis = Analysis(protocol)
    said = analysis.open()
    while True:
        heard = analysis.hear(said, Tally(4, {"x": np.array(2)}))
        if isinstance(heard, Estimate):
            return heard
        said = heard


@pytest.mark.parametrize(("asked", "match"), [(3, "asks more than its 2 rounds"), (1, "ended after round 1 of 2")])
def test_too_many_or_too_few_questions_are_refused(asked: int, match: str) -> None:
    class Hasty(Refined):
        def analyst(self) -> Analyst:
            one = yield Ask(self.coarse)
            if asked == 1:
                return one.estimate("x")
            return (yield from super().analyst())

    made = Refined(inputs=5, epsilon=2.0, asked=3) if asked == 3 else Hasty(inputs=5, epsilon=2.0)
    with pytest.raises(LocalProtocolError, match=match):
        played(made)


def test_a_broadcast_that_the_method_refuses_is_refused_for_everybody() -> None:
    step = MADE.rounds[1]
    with pytest.raises(RemoteProtocolError, match="round 2: the range is empty"):
        step.check_broadcast({"low": np.array(1.0), "high": np.array(0.0)})


def test_a_broadcast_may_not_change_what_is_sent() -> None:
    class Greedy(Refined):
        @sends(low=Numbers(), high=Numbers(like=1.0))
        def fine(self, low: float, high: float) -> Sends:
            bit = OneBit(low=0.0, high=1.0, epsilon=self.epsilon * (8.0 if high > 1 else 0.5))
            return {"x": Send(bit, self.values)}

        script = (Refined.coarse, fine)

    step = Greedy(inputs=5, epsilon=2.0).rounds[1]
    step.check_broadcast({"low": np.array(0.0), "high": np.array(1.0)})
    with pytest.raises(RemoteProtocolError, match="other replies than were agreed"):
        step.check_broadcast({"low": np.array(0.0), "high": np.array(2.0)})


def test_a_choice_is_taken_from_the_record_when_the_analyst_is_driven_again() -> None:
    said = [message for _, message in messages()]
    role = driven(said)
    assert not role.pending
    again = driven(said[:-1])
    # The estimate follows from the recorded choice, bit for bit, though a fresh one would be another.
    assert [encode(each) for each in again.pending] == [encode(said[-1])]


@pytest.mark.parametrize(
    "edit",
    [
        lambda public: {"low": public["high"], "high": public["low"]},
        lambda public: {**public, "low": np.array(np.nan)},
        lambda public: {"low": public["low"]},
    ],
)
def test_a_choice_that_users_would_refuse_is_refused(edit: Callable[[Any], Any]) -> None:
    said = [message for _, message in messages()]
    place = next(index for index, each in enumerate(said) if isinstance(each, Announce) and each.round == 2)
    announce = said[place]
    assert isinstance(announce, Announce)
    changed = Announce(run=announce.run, round=2, broadcast=edit(announce.broadcast), speakers=announce.speakers)
    with pytest.raises(RemoteProtocolError):
        driven([*said[:place], changed])


def test_protocols_side_by_side_keep_their_own_names() -> None:
    sent = beside(one=MADE.coarse(), two=MADE.coarse())
    assert list(sent) == ["one.x", "two.x"]
