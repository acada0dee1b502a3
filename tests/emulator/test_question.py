"""The digest of a question: another for everything that changes what is asked, the same for everything else."""

from dataclasses import replace

import numpy as np
import pytest

from parley.emulator.coins import question_of, setup_digest, terms_of
from parley.emulator.roles.consent import Column, domain_of
from parley.emulator.wire.messages import Announce, Setup
from tests.emulator.samples import NONCE, RUN, protocol, setup

TERMS = terms_of(setup())
ASKED = Announce(run=RUN, round=2, broadcast={"mu": np.zeros(3)}, speakers=10)
COLUMNS = [Column(name="answer", levels=3, categories=("no", "maybe", "yes"))]
OTHER_COLUMNS = [Column(name="answer", levels=3, categories=("yes", "maybe", "no"))]
OTHERS: dict[str, Setup] = {
    "protocol": setup(protocol="two-round"),
    "version": setup(version=2),
    "parameters": setup(parameters=protocol(users=11).parameters()),
    "inputs": setup(domain=domain_of(4)),
    "meaning": setup(domain=domain_of(3, COLUMNS)),
    "order of categories": setup(domain=domain_of(3, OTHER_COLUMNS)),
    "epsilon": setup(epsilon=0.5),
    "delta": setup(delta=1e-9),
    "rounds": setup(rounds=2),
    "nonce": setup(nonce=bytes(16)),
    "no nonce": setup(nonce=b""),
}


def test_everything_that_is_asked_makes_another_question() -> None:
    terms = {terms_of(each) for each in OTHERS.values()} | {TERMS}
    assert len(terms) == len(OTHERS) + 1
    assert len({question_of(each, ASKED) for each in terms}) == len(terms)
    assert all(len(each) == 32 for each in terms)


@pytest.mark.parametrize(
    "other",
    [
        replace(ASKED, round=3),
        replace(ASKED, broadcast={}),
        replace(ASKED, broadcast={"mu": np.array([0.0, 0.0, -0.0])}),
        replace(ASKED, broadcast={"mu": np.array([0.0, 0.0, 2.0**-1074])}),
        replace(ASKED, broadcast={"mu": np.zeros(3, dtype=np.float32)}),
        replace(ASKED, broadcast={"mu": np.zeros((3, 1))}),
        replace(ASKED, broadcast={"nu": np.zeros(3)}),
        replace(ASKED, broadcast={"mu": np.zeros(3), "nu": np.zeros(3)}),
    ],
    ids=lambda each: f"{each.round} {each.broadcast}",
)
def test_another_round_or_broadcast_is_another_question(other: Announce) -> None:
    assert question_of(TERMS, other) != question_of(TERMS, ASKED)


def test_the_name_of_the_run_and_how_many_speak_are_no_part_of_the_question() -> None:
    assert terms_of(setup(run="other")) == TERMS
    assert question_of(TERMS, replace(ASKED, run="other", speakers=7)) == question_of(TERMS, ASKED)


def test_terms_and_questions_are_never_taken_for_each_other() -> None:
    assert question_of(TERMS, ASKED) not in (TERMS, setup_digest(setup()))


def test_a_setup_is_told_from_every_other_down_to_the_name_of_its_run() -> None:
    digests = {setup_digest(each) for each in (*OTHERS.values(), setup(), setup(run="other"))}
    assert len(digests) == len(OTHERS) + 2
    assert setup_digest(setup()) == setup_digest(setup())


def test_questions_stay_as_they_are() -> None:
    """Coins are bound to them: a state from today must answer the same tomorrow."""
    asked = Setup(
        run=RUN, protocol="p", parameters={"a": 1}, epsilon=1.0, delta=0.0, rounds=2, domain=domain_of(3), nonce=NONCE
    )
    assert terms_of(asked).hex() == "3c812f4bad12dfa4b5e78d612acaad99cc826c472b09d053ab7fc7719b6f5be4"
    assert (
        question_of(terms_of(asked), ASKED).hex() == "ed43c78efcf3d7f0389e9c50185e00d62ab032e4d54d6b1a9f1a7fee0810982b"
    )
