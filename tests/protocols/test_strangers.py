"""A stranger's setup or broadcast: a user's node refuses it in one sentence, or answers it for every input alike."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest

from parley.emulator.coins import addressed, key_from_seed
from parley.emulator.errors import BadInput, LocalProtocolError, RemoteProtocolError
from parley.emulator.protocol import (
    Analysis,
    Analyst,
    Ask,
    Broadcast,
    Estimate,
    Protocol,
    Send,
    Sends,
    check_arrays,
    sends,
)
from parley.emulator.round import Round
from parley.emulator.wire.codec import pack
from parley.protocols import registry
from parley.protocols.factorization import closed_forms
from parley.protocols.limits import MOST_REPLY
from parley.protocols.randomizers.categories.randomized_response import RandomizedResponse
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.gini import GiniDiversity, GiniMeanDifference
from parley.protocols.workloads.kendall import Kendall, Untied
from parley.protocols.workloads.kernel import Kernel
from parley.protocols.workloads.lipschitz import Lipschitz
from parley.protocols.workloads.workload import Workload

NAMES = registry.names("shuffler")
KEY = key_from_seed(7)
USERS = 300
# Inputs of a domain that a mutation made larger are not all tried.
MOST_TRIED = 64
KERNEL = Kernel(np.array([[1.0, 0.5, -1.0], [0.5, -2.0, 0.0], [-1.0, 0.0, 3.0]]), shift=0.25)
WORKLOADS: dict[str, Workload] = {
    "kendall": Kendall(levels=(3, 2)),
    "auc": AreaUnderCurve(levels=3),
    "kernel": KERNEL,
    "lipschitz": Lipschitz("gaussian", levels=4),
    "gini": GiniMeanDifference(levels=4),
    "diversity": GiniDiversity(levels=3),
    "untied": Untied(levels=(2, 2), axis=0),
}
NUMBERS: tuple[Any, ...] = (
    *(None, True, "?", "", (), {}, -1, 0, 1, 2, 3, 17, 255, 256, 2**20, 2**31, 2**62, -(2**62), 10**10),
    *(-1.0, -0.0, 0.0, 0.5, 1.0, 16.5, 64.0, 1e6, 5e-324, 1e-300, 1e-20, 2.0**-10, 1e100, 1e300, -1e308, 1e308),
)


@cache
def made(name: str, problem: str) -> Protocol | None:
    """The protocol designed for a problem; None where it is not for that one."""
    try:
        return registry.design(name, WORKLOADS[problem], epsilon=2.0, users=USERS)
    except BadInput:
        return None


PROBLEMS = [(name, problem) for name in NAMES for problem in WORKLOADS if made(name, problem) is not None]


def arrays_like(array: np.ndarray[Any, Any]) -> Iterator[Any]:
    """Arrays of the same shape with other numbers, and of other shapes and types."""
    whole = array.dtype.kind in "iu"
    fills = (0, 1, -1, 2**62) if whole else (0.0, -0.0, 1.0, 5e-324, 1e-300, 1e-110, 1e99, 1e150, 1e308, -1e308)
    for each in fills:
        # What an unsigned array cannot hold becomes one of its largest numbers.
        value = np.array(each).astype(array.dtype)
        yield np.full_like(array, value)
        changed = array.copy()
        changed.flat[0] = value
        yield changed
        yield np.where(np.arange(array.size).reshape(array.shape) % 2, -value, value).astype(array.dtype)
    yield from (array[..., None], array.astype(np.float32), np.concatenate([array.reshape(-1), array.reshape(-1)]))
    if array.ndim > 0:
        yield from (array[:0], array[:1], array.reshape(-1), array[:, None], np.concatenate([array, array]))
    if array.ndim == 2:
        yield from (array[:, :1], array[:, :0], np.tile(array, (5, 1)), np.tile(array, (400, 1)))


def mutations(value: Any) -> Iterator[Any]:
    """Other values in place of one parameter, however deep."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            for each in mutations(inner):
                yield {**value, key: each}
            yield {name: kept for name, kept in value.items() if name != key}
        yield {**value, "unknown": 1}
        return
    if isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            for each in mutations(inner):
                yield (*value[:place], each, *value[place + 1 :])
        yield from (value[:-1], (*value, *value))
        return
    if isinstance(value, np.ndarray):
        yield from arrays_like(value)
    yield from NUMBERS


def answer(step: Round, public: Broadcast, inputs: int) -> None:
    """Everything that is done with a round, for every input, by a user, an analyst and an auditor."""
    tried = np.arange(inputs) if inputs <= MOST_TRIED else np.array([0, inputs // 2, inputs - 1])
    replies = step.respond(public, tried, addressed(KEY, 1, 0, len(tried), step.coins))
    check_arrays("replies", replies, step.reply, len(tried))
    for alone in (0, len(tried) - 1):
        flips = addressed(KEY, 1, alone, 1, step.coins)
        one = step.respond(public, tried[alone : alone + 1], flips, np.array([alone]))
        assert {name: column.tobytes() for name, column in one.items()} == {
            name: column[alone : alone + 1].tobytes() for name, column in replies.items()
        }
    if "sealed" in step.reply:
        return
    replies = step.complete(public, np.arange(len(tried)), replies)
    assert step.check(public, replies).all()
    assert step.tally(public, replies).replies == len(tried)
    if inputs <= MOST_TRIED:
        losses = step.log_likelihood(public, replies)
        assert losses.shape == (len(tried), inputs)
        assert not np.isnan(losses).any()


@pytest.mark.parametrize(("name", "problem"), PROBLEMS)
def test_a_setup_is_refused_or_can_be_answered(name: str, problem: str) -> None:
    protocol = made(name, problem)
    assert protocol is not None
    given = protocol.parameters()
    if name == "shuffled":
        given = {**given, "seal": "09" + 62 * "0"}
    built = refused = 0
    for parameters in mutations(given):
        try:
            pack(parameters)
        except LocalProtocolError:
            continue
        try:
            found = registry.build(name, parameters)
        except BadInput:
            refused += 1
            continue
        built += 1
        assert registry.inputs_of(name, parameters) == found.inputs
        assert max(step.work for step in found.rounds) <= MOST_REPLY
        opening = Analysis(found).open()
        found.rounds[0].check_broadcast(opening)
        answer(found.rounds[0], opening, found.inputs)
    assert built > 0
    assert refused > 0


def later_rounds(protocol: Protocol) -> Iterator[tuple[Round, Broadcast]]:
    """The rounds after the first with an honest analyst's broadcasts."""
    inputs = np.arange(USERS) % protocol.inputs
    users = np.arange(USERS)
    analysis = Analysis(protocol)
    public = analysis.open()
    for number, step in enumerate(protocol.rounds, 1):
        if number > 1 and step.broadcast:
            yield step, public
        speaking = step.participates(users)
        flips = addressed(KEY, number, 0, USERS, step.coins)[speaking]
        said = step.respond(public, inputs[speaking], flips, users[speaking])
        following = analysis.hear(public, step.tally(public, step.complete(public, users[speaking], said)))
        if isinstance(following, Estimate):
            return
        public = following


INTERACTIVE = [(name, problem) for name, problem in PROBLEMS if len(made(name, problem).rounds) > 1]  # type: ignore[union-attr]


@pytest.mark.parametrize(("name", "problem"), INTERACTIVE)
def test_a_broadcast_is_refused_or_answered_for_every_input(name: str, problem: str) -> None:
    protocol = made(name, problem)
    assert protocol is not None
    answered = refused = 0
    for step, public in later_rounds(protocol):
        for changed in [public, *mutations(public)]:
            try:
                # As `CohortRole` does: the form first, then the round's own check.
                if not all(isinstance(each, np.ndarray) for each in changed.values()):
                    continue
                check_arrays("broadcast", changed, step.broadcast)
                with np.errstate(all="ignore"):
                    step.check_broadcast(changed)
            except RemoteProtocolError:
                refused += 1
                continue
            answer(step, changed, protocol.inputs)
            answered += 1
    assert answered > 1
    assert refused > 1


@pytest.mark.parametrize(("name", "problem"), PROBLEMS)
def test_inputs_are_read_without_building(name: str, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    protocol = made(name, problem)
    assert protocol is not None
    parameters = protocol.parameters()
    assert registry.build(name, parameters).inputs == protocol.inputs

    def heavy(*_: object, **__: object) -> None:
        raise AssertionError("something heavy was computed")

    monkeypatch.setattr(type(protocol), "from_parameters", heavy)
    monkeypatch.setattr(closed_forms, "skew_circulant", heavy)
    monkeypatch.setattr(closed_forms, "symmetric", heavy)
    assert registry.inputs_of(name, parameters) == protocol.inputs
    if "workload" in parameters and "levels" in parameters["workload"] and problem != "untied":
        many = {"kendall": (2**10, 2**10), "auc": 2**19}.get(problem, 2**20)
        large = {**parameters, "workload": {**parameters["workload"], "levels": many}}
        assert registry.inputs_of(name, large) == 2**20


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("parameters", [{}, {"workload": 3}, {"workload": {}}, {"oracle": [], "first": 1}])
def test_inputs_of_nonsense_are_refused(name: str, parameters: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        registry.inputs_of(name, parameters)


HUGE = (
    {"statistic": "kendall", "levels": (2**12, 2**12)},
    {"statistic": "auc", "levels": 2**23},
    {"statistic": "gini-mean-difference", "levels": 2**24},
    {"statistic": "gini-diversity", "levels": 2**24},
    {"statistic": "lipschitz", "function": "huber", "levels": 2**14, "constant": 1.0},
    {"statistic": "lipschitz", "function": "huber", "levels": 2**24, "constant": 1.0},
    {"statistic": "untied", "levels": (2**12, 2**12), "axis": 0},
)


@pytest.mark.parametrize("workload", HUGE, ids=lambda workload: f"{workload['statistic']}-{workload['levels']}")
@pytest.mark.parametrize(("name", "problem"), [pair for pair in PROBLEMS if pair[1] in ("kendall", "auc", "lipschitz")])
def test_too_much_work_is_refused_before_it_is_done(
    name: str, problem: str, workload: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol = made(name, problem)
    assert protocol is not None
    parameters = dict(protocol.parameters())

    def heavy(*_: object, **__: object) -> None:
        raise AssertionError("a factor or a matrix was computed")

    monkeypatch.setattr(closed_forms, "skew_circulant", heavy)
    monkeypatch.setattr(closed_forms, "symmetric", heavy)
    monkeypatch.setattr(Lipschitz, "matrix", heavy)
    if workload["levels"] == 2**24:
        monkeypatch.setattr(Lipschitz, "_values", heavy)
    monkeypatch.setattr(Untied, "matrix", heavy)
    for key in ("workload", "first", "second", "queries"):
        if key == "workload" and key in parameters:
            parameters[key] = workload
        elif isinstance(parameters.get(key), Mapping):
            parameters[key] = {**parameters[key], "workload": workload}
    try:
        found = registry.build(name, parameters)
    except BadInput:
        return
    # What has no factors may well serve so many inputs, within the limits.
    assert max(step.work for step in found.rounds) <= MOST_REPLY


def test_candidates_times_dimension_are_bounded() -> None:
    protocol = made("one-round", "gini")
    assert protocol is not None
    large = {**protocol.parameters(), "workload": GiniMeanDifference(levels=2**18).parameters()}
    with pytest.raises(BadInput, match="more than the limit"):
        registry.build("one-round", large)
    small = {**large, "workload": GiniMeanDifference(levels=2**14).parameters()}
    assert registry.build("one-round", small).inputs == 2**14


@pytest.mark.parametrize("name", ["one-round-tuned", "two-round-tuned", "shuffled"])
def test_tuned_tables_are_bounded(name: str) -> None:
    protocol = made(name, "gini")
    assert protocol is not None
    given = {**protocol.parameters(), "power": 2.0, "seeds": 512, "candidates": 16, "top": 5}
    given.pop("strategy", None)
    large = {**given, "workload": GiniMeanDifference(levels=2**14).parameters()}
    with pytest.raises(BadInput, match="at most 2048 inputs, got 16384"):
        registry.build(name, large)
    with pytest.raises(BadInput, match="counts"):
        registry.build(name, {**given, "seeds": 4096, "candidates": 16, "top": 2})
    with pytest.raises(BadInput, match="eigenvalues"):
        registry.build(name, {**given, "workload": GiniMeanDifference(levels=1024).parameters(), "power": 1.5})


@dataclass(frozen=True, kw_only=True)
class Outside(Protocol):
    """A protocol from outside that knows nothing of `inputs_of`."""

    name: ClassVar[str] = "from-outside"
    inputs: int
    epsilon: float

    @sends
    def category(self) -> Sends:
        """Each user sends its input through randomized response."""
        oracle = RandomizedResponse(categories=self.inputs, epsilon=self.epsilon)
        return {"x": Send(oracle, np.arange(self.inputs, dtype=float))}

    script = (category,)

    def analyst(self) -> Analyst:
        heard = yield Ask(self.category)
        return Estimate.normal(float(heard.mean("x")[0]), 1.0)


def test_a_protocol_from_outside_is_built_to_read_its_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._OUTSIDE, Outside.name, Outside)
    parameters = Outside(inputs=3, epsilon=1.0).parameters()
    assert registry.inputs_of(Outside.name, parameters) == 3
    with pytest.raises(BadInput):
        registry.inputs_of(Outside.name, {})


def test_a_protocol_that_lies_about_its_inputs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lying(Outside):
        name = "lying"

        @classmethod
        def inputs_of(cls, parameters: Mapping[str, Any]) -> int:
            return 2

    monkeypatch.setitem(registry._OUTSIDE, Lying.name, Lying)
    parameters = Lying(inputs=3, epsilon=1.0).parameters()
    with pytest.raises(BadInput, match="says otherwise"):
        registry.build(Lying.name, parameters)


@pytest.mark.parametrize("name", [name for name, problem in PROBLEMS if problem == "kernel"])
def test_entries_whose_powers_overflow_are_refused(name: str) -> None:
    large = Kernel(1e101 * np.eye(3))
    with pytest.raises(BadInput, match="rescale"):
        registry.design(name, large, epsilon=1.0, users=USERS)
    protocol = made(name, "kernel")
    assert protocol is not None
    if "workload" in protocol.parameters():
        with pytest.raises(BadInput, match="rescale"):
            registry.build(name, {**protocol.parameters(), "workload": large.parameters()})
    with pytest.raises(BadInput, match="shift"):
        Kernel(np.eye(3), shift=1e101)
