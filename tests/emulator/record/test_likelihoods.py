"""Likelihoods that are looked up are, bit for bit, those that are computed."""

from typing import Any

import numpy as np
import pytest

from parley.emulator.record import likelihoods as module
from parley.emulator.record.conversation import Answers
from parley.emulator.record.likelihoods import Likelihoods
from parley.emulator.simulate import conversation
from parley.emulator.wire.messages import Announce, Replies
from parley.protocols.registry import design, names
from parley.protocols.workloads.kendall import Kendall

KINDS = (
    "three-round",
    "two-round",
    "two-round-tuned",
    "one-round",
    "frequency-grr",
    "frequency-oue",
    "frequency-subset",
)


def recorded(name: str) -> list[Answers]:
    """All replies of a whole conversation of 300 users."""
    workload = Kendall(levels=(3, 3))
    protocol = design(name, workload, epsilon=1.0, users=300)
    inputs = np.random.default_rng(3).integers(0, protocol.inputs, 300)
    questions: dict[int, Any] = {}
    found = []
    for _, message in conversation(protocol, inputs, bytes(32), run="r", nodes=3):
        if isinstance(message, Announce):
            questions[message.round] = message.broadcast
        if isinstance(message, Replies):
            found.append(Answers.of(message, protocol.rounds[message.round - 1], questions[message.round]))
    return found


@pytest.mark.parametrize("name", [name for name in names() if name in KINDS])
@pytest.mark.parametrize("numbers", [0, 50, 1 << 22])
def test_tables_give_what_the_round_gives(name: str, numbers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables that hold nothing, too little, and everything."""
    monkeypatch.setattr(module, "TABLE_NUMBERS", numbers)
    tables = Likelihoods()
    for _ in range(2):
        for answers in recorded(name):
            expected = answers.step.log_likelihood(answers.public, answers.columns)
            assert np.array_equal(tables.of(answers), expected)


def test_another_broadcast_of_the_same_round_has_tables_of_its_own() -> None:
    last = [each for each in recorded("three-round") if each.round == 3]
    tables = Likelihoods()
    for scale in (1.0, 0.5, 1.0):
        for answers in last:
            public = {name: value * scale for name, value in answers.public.items()}
            other = Answers(**{**vars(answers), "public": public})
            expected = other.step.log_likelihood(public, other.columns)
            assert np.array_equal(tables.of(other), expected)
