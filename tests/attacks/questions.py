"""Attacks in the questions: broadcasts of other shapes, of numbers that are none, and rounds out of order."""

from dataclasses import replace
from typing import Any

import numpy as np

from parley.emulator.wire.codec import encode, envelope
from parley.emulator.wire.messages import Reminder
from tests.attacks.parties import (
    ANALYST,
    NODE,
    NONCE,
    RUN,
    spoiled,
)
from tests.attacks.stage import Batches, Script, Stage
from tests.attacks.table import ATTACKS, Attack, attack, harmless


def _last_question(stage: Stage, *frames: bytes) -> Batches:
    """Everything honest up to the last round, which is asked with these frames."""
    yield from stage.seat()
    yield from stage.rounds(1, stage.last - 1)
    for frame in frames:
        yield [envelope(0, "analyst", frame)]
    yield [stage.said(Reminder(run=RUN, round=stage.last, missing={NODE: ()}), None)]


def _asked(stage: Stage, **broadcast: Any) -> bytes:
    return encode(replace(stage.announces[-1], broadcast=broadcast), ANALYST, NONCE)


def _floats(stage: Stage, value: float) -> dict[str, Any]:
    return {name: np.full_like(array, value) for name, array in stage.announces[-1].broadcast.items()}


@attack("before", refuses=True, code=None)
def arrays_of_another_shape(stage: Stage) -> Batches:
    honest = stage.announces[-1].broadcast
    longer = {name: np.zeros(9) for name in honest} or {"mu": np.zeros(1)}
    deeper = {name: np.zeros((4, 1)) for name in honest} or {"": np.zeros(())}
    yield from _last_question(
        stage, _asked(stage, **longer), _asked(stage, **deeper), _asked(stage, **honest, more=np.zeros(4))
    )


@attack("before", refuses=True, code=None)
def arrays_of_another_type(stage: Stage) -> Batches:
    names = list(stage.announces[-1].broadcast) or ["mu"]
    kinds = ("f4", "i8", "u1", "?", "u8")
    yield from _last_question(
        stage, *(_asked(stage, **{name: np.zeros(4, dtype=kind) for name in names}) for kind in kinds)
    )


@attack("before", refuses=True, code=None)
def numbers_that_are_not_finite(stage: Stage) -> Batches:
    wrong = (float("nan"), float("inf"), -float("inf"))
    yield from _last_question(stage, *(spoiled(stage.announces[-1], value) for value in wrong))


def _extreme(value: float) -> Script:
    def script(stage: Stage) -> Batches:
        yield from _last_question(stage, _asked(stage, **_floats(stage, value)))
        yield from stage.account(stage.last)
        yield from stage.end()

    return script


for _name, _value in {
    "numbers_that_overflow": 1e308,
    "negative_numbers_that_overflow": -1.7e308,
    "numbers_whose_squares_overflow": 1e155,
    "numbers_without_leading_digits": 5e-324,
    "numbers_whose_squares_vanish": -1e-160,
    "negative_zeros": -0.0,
}.items():
    ATTACKS[_name] = Attack(_extreme(_value), "any", False, 0)


@attack("any", refuses=False, code=0)
def one_large_number_for_each_input(stage: Stage) -> Batches:
    """Numbers that would tell the inputs apart if the answer overflowed for some of them."""
    for each in range(stage.protocol.inputs):
        arrays = {
            name: np.where(np.arange(array.size) == each, 1e308, 0.0).reshape(array.shape)
            for name, array in stage.announces[-1].broadcast.items()
        }
        yield from (
            _last_question(stage, _asked(stage, **arrays))
            if not each
            else [[envelope(0, "analyst", _asked(stage, **arrays))]]
        )
    yield from stage.account(stage.last)
    yield from stage.end()


@attack("all", refuses=True, code=0)
def rounds_that_do_not_exist(stage: Stage) -> Batches:
    yield from stage.seat()
    for number in (0, stage.last + 1, 2**32, 2**62 - 1):
        yield [stage.said(replace(stage.announces[0], round=number))]
    yield from stage.rounds(1)
    for number in (0, stage.last + 1):
        yield [stage.said(replace(stage.announces[0], round=number))]
    yield from stage.end()


@attack("none", refuses=False, code=None)
def questions_before_the_setup(stage: Stage) -> Batches:
    for announce in stage.announces:
        yield [stage.said(announce, nonce=nonce) for nonce in (b"", NONCE)]
    yield [stage.said(Reminder(run=RUN, round=1, missing={NODE: ()}), None)]


@attack("any", refuses=False, code=None)
def the_last_round_first(stage: Stage) -> Batches:
    """Where there is one round only, it is the first, and answered."""
    yield from stage.seat()
    yield [stage.said(stage.announces[-1])]
    for number in range(1, stage.last):
        yield [stage.said(stage.announces[number - 1])]
    yield [stage.said(Reminder(run=RUN, round=stage.last, missing={NODE: ()}), None)]


@attack("all", refuses=True, code=0)
def another_question_in_the_same_round(stage: Stage) -> Batches:
    yield from stage.seat()
    for number in range(1, stage.last + 1):
        yield from stage.ask(number)
        honest = stage.announces[number - 1]
        changed = {name: array * 0.5 for name, array in honest.broadcast.items()} or {"mu": np.zeros(1)}
        yield [stage.said(replace(honest, broadcast=changed)), stage.said(replace(honest, run="another"))]
    yield from stage.end()


@harmless
def the_same_question_again(stage: Stage) -> Batches:
    yield from stage.seat()
    for number in range(1, stage.last + 1):
        yield [stage.said(stage.announces[number - 1])] * 4
        yield [stage.said(stage.announces[number - 1], nonce=NONCE)]
        yield from stage.account(number)
        yield [stage.said(stage.announces[number - 1])]
    yield from stage.end()
