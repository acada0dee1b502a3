"""The fold over a record: rounds, replies and bytes are counted, never believed."""

import dataclasses

import numpy as np
import pytest

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Protocol
from parley.emulator.record.summary import MOST_COUNTED, Summary
from parley.emulator.simulate import conversation
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import Announce, Close, Event, Message, Ready, Reminder, Replies, Setup, wallet_event
from parley.protocols.registry import build, design
from parley.protocols.workloads.choice import make_workload

USERS = 50


def spoken(name: str = "three-round") -> Protocol:
    return design(name, make_workload("kendall", "2x2", None), epsilon=4.0, users=USERS)


@pytest.fixture(scope="module")
def messages() -> list[Message]:
    return [message for _, message in conversation(spoken(), np.arange(USERS) % 4, bytes(32), nodes=5, chunk=4)]


def summary(messages: list[Message], *, protocol: Protocol | None = None) -> Summary:
    counted = Summary(build if protocol is None else lambda name, parameters: protocol)
    for number, message in enumerate(messages):
        counted.hear(message, len(encode(message)), 100.0 + number)
    return counted


def test_rounds(messages: list[Message]) -> None:
    found = summary(messages)
    assert [each.number for each in found.rounds] == [1, 2, 3]
    for each in found.rounds:
        assert (each.replies, len(each.users), found.asked(each.number), each.missing) == (USERS, USERS, USERS, 0)
        assert {node: (turnout.replies, turnout.whole) for node, turnout in each.nodes.items()} == {
            f"node-{node}": (USERS // 5, True) for node in range(5)
        }
        times = [time for time, _ in each.arrivals]
        assert len(times) == 5 * 3
        assert each.opened < times[0] <= times[-1] < (each.closed or 0.0)
        assert each.seconds == 1 + len(times)
    assert (found.seconds, found.replied, found.highest) == (len(messages) - 1, USERS, USERS - 1)
    assert found.sent == {f"node-{node}": 3 * USERS // 5 for node in range(5)}


def test_a_round_is_observed_when_somebody_answers_it(messages: list[Message]) -> None:
    silent = [each for each in messages if not (isinstance(each, Replies) and each.round == 3)]
    assert summary(silent).observed == 2
    nobody = [
        dataclasses.replace(each, users=each.users[:0], columns={name: c[:0] for name, c in each.columns.items()})
        if isinstance(each, Replies) and each.round == 3
        else each
        for each in messages
    ]
    assert summary(nobody).observed == 2
    boasting = [dataclasses.replace(each, rounds=9) if isinstance(each, Setup) else each for each in messages]
    assert summary(boasting).observed == 3
    asked_twice = [word for each in messages for word in ([each] * 2 if isinstance(each, Announce) else [each])]
    assert summary(asked_twice).observed == 3


def test_who_speaks_in_two_rounds_makes_it_fully_interactive(messages: list[Message]) -> None:
    found = summary(messages)
    assert (found.interaction, found.again) == ("fully interactive", 2 * USERS)
    apart = [
        each
        for each in messages
        if not isinstance(each, Replies) or (each.round, each.node) in [(1, "node-0"), (2, "node-1")]
    ]
    assert (summary(apart).interaction, summary(apart).again) == ("sequentially interactive", 0)
    one = [each for each in apart if not isinstance(each, Replies) or each.round == 1]
    assert summary(one).interaction == "non-interactive"


def test_users_are_asked_in_their_own_rounds() -> None:
    protocol = spoken("two-round-tuned")
    said = [message for _, message in conversation(protocol, np.arange(USERS) % 4, bytes(32), nodes=2)]
    found = summary(said, protocol=protocol)
    asked = [found.asked(each.number) for each in found.rounds]
    assert asked == [each.replies for each in found.rounds] == [each.announce.speakers for each in found.rounds]
    assert found.replied == USERS


def test_a_seat_in_the_middle_may_stay_empty(messages: list[Message]) -> None:
    """A board that goes on without a node seats users with gaps between them."""
    without = [each for each in messages if getattr(each, "node", "") != "node-1"]
    found = summary(without)
    assert (found.replied, found.uncounted, found.asked(1)) == (USERS - 10, "", USERS - 10)


def test_strangers_and_too_many_users_are_not_counted(messages: list[Message]) -> None:
    stranger = next(each for each in messages if isinstance(each, Replies))
    found = summary([*messages, dataclasses.replace(stranger, users=stranger.users + USERS)])
    assert found.uncounted == f"{stranger.node} answers for user {USERS + 3}, who was never seated"
    assert found.replied is None
    crowd = summary([Ready(node="many", first=USERS, users=MOST_COUNTED, pid=1), *messages])
    assert "more than are counted" in crowd.uncounted
    assert crowd.replied is crowd.asked(1) is None


def test_reminders_are_transport(messages: list[Message]) -> None:
    reminder = Reminder(run="simulated", round=1, missing={"node-0": ()})
    assert summary([*messages, reminder]).bytes_down == summary(messages).bytes_down
    assert summary([*messages, reminder]).kinds["reminder"] == 1


def test_faults_and_silent_users() -> None:
    events = [Event(event="restart", node="board", round=1, detail="")] * 2 + [wallet_event("node-0", 2, 7)]
    found = summary([*events])
    assert found.faults == {"restart": 2, "wallet": 1}
    assert found.silent == {(2, "node-0"): 7}


def test_a_protocol_that_cannot_be_built_is_named(messages: list[Message]) -> None:
    assert summary([]).unbuilt == "the record holds no setup"

    def refuse(name: str, parameters: object) -> Protocol:
        raise BadInput("unknown")

    found = Summary(refuse)
    for message in messages:
        found.hear(message, 0, 0.0)
    assert found.unbuilt == "the protocol of the setup cannot be built: unknown"
    assert found.protocol is found.replied is found.asked(1) is found.step(1) is None
    assert found.observed == 3


def test_words_before_any_round_belong_to_none(messages: list[Message]) -> None:
    early = [each for each in messages if isinstance(each, Replies | Close)]
    found = summary(early)
    assert (found.rounds, found.observed, found.highest) == ([], 0, USERS - 1)
    assert found.sent.total() == 3 * USERS
