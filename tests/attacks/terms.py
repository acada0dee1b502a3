"""Attacks on what a node agrees to: other terms than those its users know, and the honest run to compare with."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tests.attacks.parties import (
    BOARD,
    OWN,
    STRANGER,
    abort,
    result,
    setup_of,
    spoken,
    unchecked,
)
from tests.attacks.stage import Batches, Stage
from tests.attacks.table import OTHER, attack, harmless, refused


@harmless
def honest(stage: Stage) -> Batches:
    yield from stage.seat()
    yield from stage.rounds(1)
    yield from stage.end()


@harmless
def everything_in_one_breath(stage: Stage) -> Batches:
    """A setup and its first question in one batch: the question is bound to a nonce that the setup only brings."""
    yield [sealed for batch in stage.seat() for sealed in batch] + [stage.said(stage.announces[0])]
    yield from stage.account(1)
    yield from stage.rounds(2)
    yield from stage.end()


def _terms(stage: Stage, **changed: Any) -> Batches:
    """Another setup in the place of the honest one, and then the questions as if it had been accepted."""
    yield from stage.seat(unchecked(stage.setup, **changed))  # type: ignore[arg-type]
    yield from stage.rounds(1)


@refused
def more_inputs_than_agreed(stage: Stage) -> Batches:
    larger = spoken(stage.name, inputs=8)
    yield from stage.seat(setup_of(larger))
    # The same protocol under the domain that was agreed to.
    yield from stage.seat(setup_of(larger, domain=stage.setup.domain))
    yield from stage.rounds(1)


@refused
def fewer_inputs_than_agreed(stage: Stage) -> Batches:
    smaller = spoken(stage.name, inputs=8 if stage.name in ("hierarchical", "binned") else 2)
    yield from stage.seat(setup_of(smaller))
    yield from stage.seat(setup_of(smaller, domain=stage.setup.domain))
    yield from stage.rounds(1)


@refused
def another_meaning_of_the_inputs(stage: Stage) -> Batches:
    column = {"name": "age", "levels": 4, "type": "number", "low": 0.0, "high": 1.0}
    yield from _terms(stage, domain={"inputs": 4, "columns": (column,)})


@refused
def a_domain_of_another_type(stage: Stage) -> Batches:
    for inputs in (4.0, True, "4", None, (4,), {"4": 4}, np.array([4]), np.array([4, 4]), np.array(4), np.zeros(0)):
        yield from stage.seat(replace(stage.setup, domain={"inputs": inputs}))
    yield from stage.seat(replace(stage.setup, domain={"inputs": 4, "columns": np.zeros((2, 2))}))
    yield from _terms(stage, domain={})


@refused
def another_run(stage: Stage) -> Batches:
    yield from _terms(stage, run="another")


@refused
def nonces_of_other_lengths(stage: Stage) -> Batches:
    for nonce in (b"", b"\1", bytes(8), bytes(15), bytes(17), bytes(200)):
        yield from stage.seat(unchecked(stage.setup, nonce=nonce))  # type: ignore[arg-type]
    yield from stage.rounds(1)


@refused
def another_version(stage: Stage) -> Batches:
    yield from stage.seat(replace(stage.setup, version=0))
    yield from _terms(stage, version=stage.setup.version + 1)


@refused
def epsilon_above_the_cap(stage: Stage) -> Batches:
    yield from stage.seat(setup_of(spoken(stage.name, epsilon=1.125)))
    yield from stage.rounds(1)


@refused
def delta_above_the_cap(stage: Stage) -> Batches:
    yield from _terms(stage, delta=0.5)


@refused
def claims_that_lie(stage: Stage) -> Batches:
    for changed in ({"epsilon": 0.5}, {"epsilon": 1e-320}, {"rounds": stage.last + 1}, {"rounds": 0}):
        yield from stage.seat(replace(stage.setup, **changed))
    yield from stage.seat(setup_of(spoken(stage.name, epsilon=8.0), epsilon=1.0))
    yield from stage.rounds(1)


@refused
def no_such_protocol(stage: Stage) -> Batches:
    yield from _terms(stage, protocol="no-such-protocol")


def _other_types(parameters: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every parameter in turn left out, of another type, or beyond all bounds; those within parameters too."""
    strange = (None, -1, 0, 2**62, 1e308, 5e-324, "text", (), {}, np.zeros((2, 2)), np.array([2**63 - 1]), True)
    for name, value in parameters.items():
        yield {key: each for key, each in parameters.items() if key != name}
        yield from ({**parameters, name: each} for each in strange)
        if isinstance(value, Mapping):
            yield from ({**parameters, name: each} for each in _other_types(value))


@refused
def parameters_of_other_types(stage: Stage) -> Batches:
    """With a claim that no such protocol makes: however much of it can be built, it is refused."""
    for parameters in _other_types(stage.setup.parameters):
        yield from stage.seat(replace(stage.setup, parameters=parameters, epsilon=0.125))
    yield from stage.rounds(1)


@attack("none", refuses=True, code=3)
def an_abort_after_terms_that_were_refused(stage: Stage) -> Batches:
    """The abort names a nonce that the node has only heard from a setup it did not accept."""
    yield from stage.seat(replace(stage.setup, epsilon=0.5))
    yield [stage.said(abort(), signer) for signer in (None, STRANGER, OWN)]
    yield from ([stage.said(each), stage.said(result())] for each in stage.announces)
    yield [stage.said(abort(), BOARD)]


@refused
def words_without_end(stage: Stage) -> Batches:
    """Names and texts of the longest kind, with lines that look like those of a log."""
    line = "\n2026-01-01 00:00:00,000 the run is over\n"
    many = {f"{each:06}{line}": each for each in range(200)}
    yield from stage.seat(replace(stage.setup, parameters={**many, **stage.setup.parameters}))
    yield from stage.seat(replace(stage.setup, parameters={"workload": many}))
    yield from stage.seat(replace(stage.setup, domain={"inputs": "1" * 4000 + line}))
    yield from stage.seat(replace(stage.setup, domain={"inputs": 4, "columns": tuple(line * 90 for _ in range(99))}))
    yield from stage.seat(replace(stage.setup, domain={"inputs": tuple(line for _ in range(300))}))
    yield [stage.said(replace(stage.announces[0], broadcast={f"{each}{line}": np.zeros(1) for each in range(300)}))]
    yield from stage.rounds(1)


@attack("all", refuses=True, code=0)
def a_second_setup(stage: Stage) -> Batches:
    yield from stage.seat()
    yield from stage.rounds(1, stage.last - 1)
    for changed in ({"nonce": OTHER}, {"epsilon": 2.0}, {"run": "another"}, {"parameters": {}}):
        yield from stage.seat(replace(stage.setup, **changed))  # type: ignore[arg-type]
    yield from stage.rounds(stage.last)
    yield from stage.end()


@harmless
def the_setup_again_and_again(stage: Stage) -> Batches:
    yield from stage.seat()
    for number in range(1, stage.last + 1):
        yield [stage.said(stage.setup)] * 3
        yield from stage.ask(number)
    yield [stage.said(stage.setup)]
    yield from stage.end()
