"""The answer is counted from the record, not believed."""

import dataclasses

import numpy as np
import pytest

from parley.emulator.errors import LocalProtocolError, TranscriptError
from parley.emulator.record.summary import Summary
from parley.emulator.simulate import conversation
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import Message, Replies, Result
from parley.launch.api import coded_problem
from parley.launch.results.answer import Answer
from parley.protocols.paper.linear_queries import MatrixMechanism
from parley.protocols.paper.linear_queries_by_reduction import Reduction
from parley.protocols.planned import truth_of
from parley.protocols.registry import build, design
from parley.protocols.workloads.choice import make_workload
from parley.protocols.workloads.gini import GiniDiversity
from tests.launch.conftest import Parley

USERS = 50


@pytest.fixture(scope="module")
def messages() -> list[Message]:
    protocol = design("three-round", make_workload("kendall", "2x2", None), epsilon=4.0, users=USERS)
    inputs = np.arange(USERS) % 4
    return [message for _, message in conversation(protocol, inputs, bytes(32), nodes=5)]


def answer(messages: list[Message]) -> Answer:
    summary = Summary(build)
    for number, message in enumerate(messages):
        summary.hear(message, len(encode(message)), 100.0 + number)
    return Answer.of(summary)


def test_counts(messages: list[Message]) -> None:
    record = answer(messages).record()
    assert record["rounds"] == {"declared": 3, "observed": 3}
    assert (record["users"], record["replied"]) == (USERS, USERS)
    assert record["seconds"] == len(messages) - 1
    sizes = [len(encode(message)) for message in messages if isinstance(message, Replies)]
    assert record["bytes_up"] == sum(sizes) / USERS


def test_who_misses_one_round_has_not_replied(messages: list[Message]) -> None:
    fewer = [each for each in messages if not (isinstance(each, Replies) and each.round == 2 and each.node == "node-3")]
    record = answer(fewer).record()
    assert record["replied"] == USERS - 10
    assert record["rounds"]["observed"] == 3


def test_no_result(messages: list[Message]) -> None:
    with pytest.raises(LocalProtocolError, match="no result"):
        answer([each for each in messages if not isinstance(each, Result)])


def test_a_user_who_was_never_seated(messages: list[Message]) -> None:
    stranger = next(each for each in messages if isinstance(each, Replies))
    moved = dataclasses.replace(stranger, users=stranger.users + USERS)
    with pytest.raises(TranscriptError, match="never seated"):
        answer([*messages, moved])


@pytest.mark.parametrize("protocol", ["linear-queries", "linear-queries-by-reduction"])
def test_linear_queries_are_compared_with_what_they_answer(protocol: str) -> None:
    asked = coded_problem(np.minimum(np.arange(2000) % 5, 3), "kendall", levels=(2, 2))
    answer = asked.simulate(epsilon=8.0, protocol=protocol, seed=1)
    made = design(protocol, asked.question, epsilon=8.0, users=asked.users)
    assert isinstance(made, MatrixMechanism | Reduction)
    assert answer.truth == made.truth(asked.inputs) != asked.truth()
    assert answer.error is not None
    assert abs(answer.error) < 6 * answer.predicted_rmse


def test_a_run_of_linear_queries_is_too(parley: Parley) -> None:
    flags = ("--statistic", "kendall", "--levels", "2x2", "--epsilon", 8, "--protocol", "linear-queries")
    said = parley("run", *flags, "--users", 1000, "--processes", 2, "--seed", 3, "--json", "--quiet")
    assert said.code == 0, said.err
    assert abs(said.record["error"]) < 6 * said.record["predicted_rmse"]


def test_statistics_are_compared_with_themselves() -> None:
    made = design("one-round-tuned", GiniDiversity(levels=4), epsilon=1.0, users=USERS)
    inputs = np.arange(USERS) % 4
    assert truth_of(made, inputs) == GiniDiversity(levels=4).exact(inputs)
