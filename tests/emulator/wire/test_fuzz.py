"""Fuzzing the roles: whatever is said to them, in whatever order, they keep their promises.

The same examples on every machine and a bounded number of them; benchmarks/fuzz.py goes on for as long as it is let.
"""

import asyncio
import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

import parley.nodes.board
from benchmarks.fuzz import NAMES as NAMES_OF_TARGETS
from benchmarks.fuzz import plain
from parley.emulator.audit.integrity import check_integrity
from parley.emulator.coins import addressed
from parley.emulator.errors import BadInput, RemoteProtocolError
from parley.emulator.roles.analyst import Analyst, AnalystRole
from parley.emulator.roles.board import BoardRole, Terms
from parley.emulator.roles.cohort import CohortRole, Said
from parley.emulator.roles.node_memory import Answered, Finished, Memory, Seated
from parley.emulator.transport.memory import MemoryTransport
from parley.emulator.transport.ports import Received
from parley.emulator.wire.codec import decode, encode
from parley.emulator.wire.messages import (
    Abort,
    Announce,
    Close,
    Event,
    Inquiry,
    Message,
    Pledge,
    Ready,
    Refusal,
    Reminder,
    Replies,
    Result,
    Resume,
    Roster,
)
from parley.nodes.board import BoardNode
from parley.nodes.state.reopen import open_record
from parley.protocols.registry import design, names
from parley.protocols.workloads.choice import make_workload
from tests.emulator.samples import KEY, NONCE, RUN, cohort, consent, protocol, receipt, setup
from tests.emulator.wire.test_codec import any_message, mutated, steady

NAMES = ("node-0", "node-1", "analyst", "board", "launcher")
small = st.integers(0, 4)
runs = st.sampled_from([RUN, RUN, RUN, "other"])
who = st.sampled_from(NAMES)
floats = hnp.arrays(np.float64, 3, elements=st.floats(-2, 2) | st.sampled_from([1e300, -1e300, 1e-300, 0.0, -0.0]))


@st.composite
def chunks(draw: st.DrawFn) -> Replies:
    """Replies that look like those of a round, of the right shape or not, with values from everywhere."""
    users = np.array(sorted(draw(st.sets(st.integers(0, 12), max_size=8))), dtype=np.int64)
    step = protocol().rounds[draw(st.integers(0, 2))]
    columns: dict[str, Any] = {}
    for name, (dtype, trailing) in step.reply.items():
        finite: dict[str, Any] = {"allow_nan": False, "allow_infinity": False} if dtype.kind == "f" else {}
        elements = hnp.from_dtype(np.dtype(dtype), **finite)
        columns[name] = draw(hnp.arrays(dtype, (len(users), *trailing), elements=elements))
    chunk, more = draw(st.integers(0, 2)), draw(st.integers(1, 2))
    where: dict[str, Any] = {"run": draw(runs), "round": draw(small), "node": draw(who)}
    where["question"] = draw(st.sampled_from([b"", bytes(32)]))
    return Replies(**where, chunk=chunk, chunks=chunk + more, users=users, columns=columns)


announces = st.builds(
    Announce,
    run=runs,
    round=small,
    broadcast=st.just({}) | st.fixed_dictionaries({"mu": floats}) | st.fixed_dictionaries({"mu": floats, "Y": floats}),
    speakers=st.integers(0, 12),
)
plausible: st.SearchStrategy[Message] = st.one_of(
    st.builds(Ready, node=who, first=st.integers(0, 10), users=st.integers(0, 10), pid=small, run=st.just("") | runs),
    st.sampled_from([Ready(node="node-0", first=0, users=5, pid=1), Ready(node="node-1", first=5, users=5, pid=1)]),
    st.builds(Roster, run=runs, nodes=small, users=st.integers(0, 12), nonce=st.sampled_from([b"", NONCE])),
    st.just(setup()),
    st.builds(lambda epsilon: setup(epsilon=epsilon), st.sampled_from([0.5, 2.0])),
    st.builds(lambda run, nonce: setup(run=run, nonce=nonce), runs, st.sampled_from([b"", bytes(16), NONCE])),
    announces,
    chunks(),
    st.builds(Refusal, run=runs, round=small, node=who, reason=st.just("no")),
    st.builds(Close, run=runs, round=small, replies=st.integers(0, 12), missing=st.integers(0, 12)),
    st.builds(lambda number: receipt(round=number), small),
    st.builds(Inquiry, run=runs, round=small, node=who),
    st.builds(Pledge, run=runs, setup=st.just(bytes(32))),
    st.builds(Reminder, run=runs, round=small, missing=st.just({"n": ()}) | st.just({"n": (0, 1, 7)})),
    st.just(Result(run=RUN, estimate=0.0, predicted_rmse=1.0, low=0.0, high=1.0, replied=3)),
    st.builds(Abort, run=runs, outcome=st.just("aborted"), reason=st.just("so")),
    st.builds(Resume, sequence=small, count=small),
    st.builds(Event, event=st.just("e"), node=who | st.text(max_size=5), round=small, detail=st.text(max_size=5)),
)
frames = st.one_of(plausible.map(encode), plausible.map(encode), any_message.map(encode), mutated(), st.binary())
senders = st.none() | who


async def talk(folder: Path, said: list[tuple[str | None, bytes]]) -> None:
    """Everything is said to a board; then it closes its record."""
    transcript, transport = folder / "transcript.parley", MemoryTransport()
    role = BoardRole(Terms(run=RUN, users=10, nodes=2, quorum=0.1))
    node = BoardNode(role, transport.board(), open_record(transcript, RUN), transcript)
    for sender, frame in said:
        if not role.over:
            await node.take(Received(frame, sender))
    if not role.over:
        await node.put(role.hear("board", role.abort("aborted", "enough"), 0.0))
    assert node.writer is not None
    ending = role.ending
    node.writer.close(*(ending.outcome, ending.reason) if isinstance(ending, Abort) else ("completed",))


@given(st.lists(st.tuples(senders, frames), max_size=30))
@steady(200)
def test_whatever_is_said_the_board_writes_a_record_of_an_honest_run(said: list[tuple[str | None, bytes]]) -> None:
    before, parley.nodes.board.SUBSCRIBE_SECONDS = parley.nodes.board.SUBSCRIBE_SECONDS, 0.0
    try:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(talk(Path(folder), said))
            verdict = check_integrity(Path(folder) / "transcript.parley")
    finally:
        parley.nodes.board.SUBSCRIBE_SECONDS = before
    assert verdict.verdict == "pass", verdict


@given(st.lists(chunks(), max_size=8))
@steady(200)
def test_whatever_users_reply_the_analyst_ends_with_a_word(said: list[Replies]) -> None:
    analyst = AnalystRole(protocol(), RUN)
    waiting: list[Message] = [Roster(run=RUN, nodes=1, users=10)]
    while waiting:
        message = waiting.pop(0)
        waiting += analyst.hear(message)
        if isinstance(message, Announce):
            here = [each for each in said if each.round == message.round]
            waiting += [*here, Close(run=RUN, round=message.round, replies=len(here), missing=0)]
    assert analyst.state in (Analyst.DONE, Analyst.ENDED)
    # What it said can be sent: finite, and within the limits of a frame.
    assert analyst.pending == []


@given(st.lists(plausible, max_size=12))
@steady(400)
def test_whatever_is_on_the_record_the_analyst_moves_or_refuses(said: list[Message]) -> None:
    analyst = AnalystRole(protocol(), RUN)
    for message in said:
        before = analyst.state
        try:
            analyst.hear(message)
        except RemoteProtocolError:
            assert analyst.state is before


WORKLOAD = make_workload("kendall", "3x3", None)
ASKING = ("two-round-black-box", "two-round", "three-round", "two-round-tuned", "binned")
extreme = st.sampled_from([0.0, -0.0, 1e-320, 1.0, -3.0, 1e150, -1e150, 1e300, 1.7e308, -1.7e308]) | st.floats(-10, 10)


def test_every_protocol_that_asks_is_asked() -> None:
    asking = set()
    for name in names():
        with suppress(BadInput):
            if any(step.broadcast for step in design(name, WORKLOAD, epsilon=2.0, users=50).rounds):
                asking.add(name)
    assert asking == set(ASKING)


@pytest.mark.parametrize("name", ASKING)
def test_whatever_is_asked_nobody_loses_more_than_was_promised(name: str) -> None:
    """Each round alone: the node refuses, or its reply's exact loss is at most the claim."""
    spoken = design(name, WORKLOAD, epsilon=2.0, users=50)
    inputs = np.arange(spoken.inputs, dtype=np.int64)

    @given(st.data())
    @steady(60)
    def check(data: st.DataObject) -> None:
        for number, step in enumerate(spoken.rounds, 1):
            public = {
                array: data.draw(hnp.arrays(dtype, shape, elements=extreme if dtype.kind == "f" else None), array)
                for array, (dtype, shape) in step.broadcast.items()
            }
            try:
                with np.errstate(all="ignore"):
                    step.check_broadcast(public)
            except RemoteProtocolError:
                continue
            replies = step.respond(public, inputs, addressed(KEY, number, 0, len(inputs), step.coins))
            replies = step.complete(public, np.arange(len(inputs)), replies)
            assert step.check(public, replies).all()
            likelihood = step.log_likelihood(public, replies)
            assert np.isfinite(likelihood).all()
            assert np.ptp(likelihood, axis=1).max() <= spoken.claim.epsilon * (1 + 1e-9)

    check()


class LyingAnalyst(RuleBasedStateMachine):
    """A user node hears anything, dies and comes back at any time; each user answers each round once.

    Its users agreed to several runs, so that the runs are told apart as well. What is on disk is what was written, and
    dying between writing and sending loses what was to be sent.
    """

    def __init__(self) -> None:
        super().__init__()
        self.memory = Memory()
        self.over: set[str] = set()
        self.given: dict[tuple[str, int, int], bytes] = {}
        self.role: CohortRole = self.alive()

    def alive(self) -> CohortRole:
        memory = Memory(self.memory.seated, dict(self.memory.answered), set(self.memory.finished))
        return cohort(consent=consent(run="*"), memory=memory)

    @rule(message=plausible)
    def hear(self, message: Message) -> None:
        try:
            for said in self.role.hear(decode(encode(message))):
                self._note(said)
        except (RemoteProtocolError, BadInput):
            return

    @rule(run=runs, nonce=st.sampled_from([NONCE, NONCE, bytes(16)]))
    def accept(self, run: str, nonce: bytes) -> None:
        self.hear(setup(run=run, nonce=nonce))

    @rule(run=runs, number=st.integers(1, 3), mu=floats)
    def ask(self, run: str, number: int, mu: Any) -> None:
        arrays = {1: {}, 2: {"mu": mu}, 3: {"mu": mu, "Y": mu}}[number]
        self.hear(Announce(run=run, round=number, broadcast=arrays))

    @precondition(lambda self: self.memory.answered)
    @rule(run=runs, number=st.integers(1, 3))
    def remind(self, run: str, number: int) -> None:
        self.hear(Reminder(run=run, round=number, missing={"n": ()}))

    @rule()
    def die_and_come_back(self) -> None:
        self.role = self.alive()

    @rule(number=st.integers(1, 3), mu=floats)
    def die_before_sending(self, number: int, mu: Any) -> None:
        arrays = {1: {}, 2: {"mu": mu}, 3: {"mu": mu, "Y": mu}}[number]
        asked = Announce(run=self.role.run or RUN, round=number, broadcast=arrays)
        with suppress(RemoteProtocolError, BadInput):
            for said in self.role.hear(asked):
                if not isinstance(said, Message):
                    self._note(said)
                break
        self.role = self.alive()

    def _note(self, said: Said) -> None:
        if isinstance(said, Seated):
            assert self.memory.seated is None, "a second setup"
            assert said.run not in self.over, "a run that is over goes on"
        elif isinstance(said, Answered):
            assert self.memory.seated is not None
            assert said.round not in self.memory.answered, "a second commitment for one round"
            assert said.round == max(self.memory.answered, default=0) + 1, "a round was left out"
        elif isinstance(said, Finished):
            self.over.add(said.run)
        if isinstance(said, Seated | Answered | Finished):
            self.memory.note(said)
            return
        assert isinstance(said, Replies)
        assert self.memory.seated is not None
        assert said.run == self.memory.seated.run
        assert said.round in self.memory.answered, "an answer that is not on disk"
        assert said.question == self.memory.answered[said.round].question
        for place, reply in spelled(said):
            assert self.given.setdefault(place, reply) == reply, "another answer for the same user and round"


def spelled(replies: Replies) -> Iterator[tuple[tuple[str, int, int], bytes]]:
    for row, user in enumerate(replies.users):
        whole = b"".join(replies.columns[name][row].tobytes() for name in sorted(replies.columns))
        yield (replies.run, replies.round, int(user)), hashlib.sha256(whole).digest()


LyingAnalyst.TestCase.settings = settings(max_examples=150, stateful_step_count=25, deadline=None, derandomize=True)
TestLyingAnalyst = LyingAnalyst.TestCase


@pytest.mark.parametrize("target", NAMES_OF_TARGETS)
def test_a_short_version_of_the_fuzzer(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parley.nodes.board, "SUBSCRIBE_SECONDS", 0.0)
    assert plain(target, seconds=60.0, seed=2, most=150) == 150
