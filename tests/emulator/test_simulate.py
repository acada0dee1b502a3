"""Runs in memory: sharding and framing change no byte of any reply."""

from typing import TypeVar

import numpy as np
import pytest

from parley.emulator.coins import question_of, terms_of
from parley.emulator.errors import LocalProtocolError
from parley.emulator.roles.consent import Column, domain_of
from parley.emulator.simulate import conversation, simulate
from parley.emulator.wire.messages import Announce, Message, Replies, Result, Setup
from tests.emulator.samples import KEY, protocol

M = TypeVar("M", bound=Message)
INPUTS = np.arange(100, dtype=np.int64) % 3


def replies(said: list[Message]) -> dict[tuple[int, int], bytes]:
    """Every user's reply of every round, as bytes."""
    return {
        (message.round, int(user)): b"".join(message.columns[name][row].tobytes() for name in sorted(message.columns))
        for message in said
        if isinstance(message, Replies)
        for row, user in enumerate(message.users)
    }


@pytest.mark.parametrize(("nodes", "chunk"), [(1, 7), (2, 100), (7, 3), (100, 1)])
def test_sharding_changes_nothing(nodes: int, chunk: int) -> None:
    whole = [message for _, message in conversation(protocol(100), INPUTS, KEY)]
    parts = [message for _, message in conversation(protocol(100), INPUTS, KEY, nodes=nodes, chunk=chunk)]
    assert replies(whole) == replies(parts)
    assert len(replies(whole)) == 300
    assert isinstance(whole[-1], Result)
    assert isinstance(parts[-1], Result)
    assert whole[-1].estimate == parts[-1].estimate


def test_three_rounds_are_three_broadcasts() -> None:
    said = [message for _, message in conversation(protocol(100), INPUTS, KEY)]
    assert [message.round for message in said if isinstance(message, Announce)] == [1, 2, 3]


def test_every_reply_names_the_question_it_answers() -> None:
    said = [message for _, message in conversation(protocol(100), INPUTS, KEY, nodes=3)]
    asked = {message.round: question_of(terms_of(setup_in(said)), message) for message in said_of(Announce, said)}
    answers = said_of(Replies, said)
    assert all(message.question == asked[message.round] for message in answers)
    assert len(set(asked.values())) == 3
    assert [message.speakers for message in said_of(Announce, said)] == [100] * 3


def said_of(kind: type[M], said: list[Message]) -> list[M]:
    return [message for message in said if isinstance(message, kind)]


def setup_in(said: list[Message]) -> Setup:
    return said_of(Setup, said)[0]


def test_the_name_of_the_run_changes_no_reply() -> None:
    one = [message for _, message in conversation(protocol(100), INPUTS, KEY, run="one")]
    other = [message for _, message in conversation(protocol(100), INPUTS, KEY, run="other")]
    assert replies(one) == replies(other)


def test_what_inputs_mean_is_part_of_the_question() -> None:
    meaning = domain_of(3, [Column(name="answer", levels=3, categories=("no", "maybe", "yes"))])
    one = [message for _, message in conversation(protocol(100), INPUTS, KEY)]
    other = [message for _, message in conversation(protocol(100), INPUTS, KEY, domain=meaning)]
    assert replies(one).keys() == replies(other).keys()
    assert replies(one) != replies(other)
    assert setup_in(other).domain == meaning


def test_another_key_gives_other_noise() -> None:
    one, other = simulate(protocol(100), INPUTS, KEY), simulate(protocol(100), INPUTS, bytes(32))
    assert one.estimate != other.estimate


def test_a_run_that_fails_says_so() -> None:
    with pytest.raises(LocalProtocolError, match="gave no reply in round 1") as caught:
        simulate(protocol(3), np.array([0, 1, 9]), KEY)
    assert "9" not in str(caught.value)
