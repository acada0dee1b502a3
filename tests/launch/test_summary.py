"""The result record is counted from the record, not believed."""

import dataclasses

import numpy as np
import pytest

from emulator.codec import encode
from emulator.errors import LocalProtocolError, TranscriptError
from emulator.messages import Message, Reminder, Replies, Result, Setup
from emulator.simulate import conversation
from launch.summary import Summary
from protocols.registry import design
from protocols.workloads.problem import make_workload

USERS = 50


@pytest.fixture(scope="module")
def messages() -> list[Message]:
    protocol = design("three-round", make_workload("kendall", "2x2", None), epsilon=4.0, users=USERS)
    inputs = np.arange(USERS) % 4
    return [message for _, message in conversation(protocol, inputs, bytes(32), nodes=5)]


def summary(messages: list[Message]) -> Summary:
    counted = Summary()
    for number, message in enumerate(messages):
        counted.take(message, len(encode(message)), 100.0 + number)
    return counted


def test_counts(messages: list[Message]) -> None:
    record = summary(messages).record()
    assert record["rounds"] == {"declared": 3, "observed": 3}
    assert (record["users"], record["replied"]) == (USERS, USERS)
    assert record["seconds"] == len(messages) - 1
    sizes = [len(encode(message)) for message in messages if isinstance(message, Replies)]
    assert record["bytes_up"] == sum(sizes) / USERS


def test_reminders_are_not_counted(messages: list[Message]) -> None:
    reminder = Reminder(run="simulated", round=1, missing={"node-0": ()})
    assert summary([*messages, reminder]).record()["bytes_down"] == summary(messages).record()["bytes_down"]


def test_rounds_are_observed_not_declared(messages: list[Message]) -> None:
    silent = [each for each in messages if not (isinstance(each, Replies) and each.round == 3)]
    assert summary(silent).record()["rounds"] == {"declared": 3, "observed": 2}
    boasting = [dataclasses.replace(each, rounds=9) if isinstance(each, Setup) else each for each in messages]
    assert summary(boasting).record()["rounds"] == {"declared": 9, "observed": 3}


def test_who_misses_one_round_has_not_replied(messages: list[Message]) -> None:
    fewer = [each for each in messages if not (isinstance(each, Replies) and each.round == 2 and each.node == "node-3")]
    record = summary(fewer).record()
    assert record["replied"] == USERS - 10
    assert record["rounds"]["observed"] == 3


def test_no_result(messages: list[Message]) -> None:
    with pytest.raises(LocalProtocolError, match="no result"):
        summary([each for each in messages if not isinstance(each, Result)]).record()


def test_a_user_who_was_never_seated(messages: list[Message]) -> None:
    stranger = next(each for each in messages if isinstance(each, Replies))
    moved = dataclasses.replace(stranger, users=stranger.users + USERS)
    with pytest.raises(TranscriptError, match="never seated"):
        summary([*messages, moved])
