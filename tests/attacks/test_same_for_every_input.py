"""Nothing but the content of a reply depends on the input: every attack on every protocol, for every input.

A node once answered or fell silent depending on its input when it was asked about fewer inputs than it had. So each
attack is played to a node with each input of its domain, and everything that is visible of it must be the same.
"""

from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import parley.nodes.user
from parley.emulator.protocol import Protocol
from parley.emulator.roles.consent import Column, domain_of
from parley.emulator.roles.wallet.entries import Terms
from parley.nodes.state.wallet import StoredWallet
from parley.protocols.baselines.frequency import FrequencyGrr
from parley.protocols.bins.binned import Binned
from parley.protocols.registry import names
from parley.protocols.workloads.kendall import Kendall
from tests.attacks.parties import (
    BOARD,
    HOSTED,
    INPUTS,
    NONCE,
    RUN,
    USERS,
    abort,
    consent_for,
    result,
    seating,
    setup_of,
    spoken,
)
from tests.attacks.scripts import ATTACKS
from tests.attacks.stage import CHUNK, Batches, Stage, Visible, play
from tests.attacks.table import OTHER

FRAMES = -(-HOSTED // CHUNK)


def answered(visible: Visible) -> set[int]:
    """The rounds in which a reply was sent."""
    places = [each[2] for each in visible.sent if isinstance(each, tuple) and each[0] == "replies"]
    return {place[1] for place in places}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("name", names("shuffler"))
def test_nothing_but_the_content_of_a_reply_depends_on_the_input(name: str, attack: str, tmp_path: Path) -> None:
    expected, rounds = ATTACKS[attack], len(spoken(name).rounds)
    seen = [play(expected.script, name, each, tmp_path / str(each)) for each in range(INPUTS)]
    mixed = np.arange(HOSTED, dtype=np.int64) % INPUTS
    seen.append(play(expected.script, name, mixed, tmp_path / "mixed"))
    for other in seen[1:]:
        assert other == seen[0]
    assert seen[0].code == expected.code, (seen[0].errors, seen[0].log)
    assert all(len(line) < 1000 and "\n" not in line for line in seen[0].log)
    assert not expected.refuses or seen[0].count("refusal")
    wanted = {"all": rounds, "none": 0, "before": rounds - 1}.get(expected.answers)
    assert wanted is None or answered(seen[0]) == set(range(1, wanted + 1))


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("name", ["three-round", "two-round-tuned", "frequency-grr", "shuffled"])
def test_a_second_life_tells_no_more_and_draws_nothing_anew(name: str, attack: str, tmp_path: Path) -> None:
    """A node that was attacked and killed is started again, and hears an honest run on another record."""
    seen = []
    for each in range(INPUTS):
        first, second = Stage(name), Stage(name)
        play(ATTACKS[attack].script, name, each, tmp_path / str(each), stage=first)
        seen.append(play(ATTACKS["honest"].script, name, each, tmp_path / str(each), stage=second))
        for number in range(1, first.last + 1):
            said = [*first.replies(number), *second.replies(number)]
            frames = {frame for frame, _ in said}
            assert len(frames) == len({replies.chunk for _, replies in said})
    assert all(each == seen[0] for each in seen)


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("name", ["three-round", "two-round-tuned", "frequency-grr", "split-and-mix"])
def test_nor_where_nobody_signs(name: str, attack: str, tmp_path: Path) -> None:
    """In an experiment without keys everybody is believed to be who they say, and the input still does not show."""
    consent = consent_for(spoken(name), analyst=b"", board=b"", shuffler=b"")
    seen = [play(ATTACKS[attack].script, name, each, tmp_path / str(each), consent=consent) for each in range(INPUTS)]
    assert all(each == seen[0] for each in seen)
    assert seen[0].code in (None, 0, 3)


def test_who_waits_for_any_run_of_a_pattern_is_ended_by_none_that_is_over_or_another(tmp_path: Path) -> None:
    consent = consent_for(spoken("frequency-grr"), run="attack*")
    stage, purse = Stage("frequency-grr"), tmp_path / "purse"
    honest = ATTACKS["honest"].script
    without = play(honest, stage.name, 1, tmp_path / "without", consent=consent)
    assert (without.code, without.sent) == (2, ())
    assert "need a wallet" in without.errors
    StoredWallet.create(purse, Terms(users=HOSTED, mode="sum", cap=100.0, delta_cap=0.0, inputs=0, domain={}))
    assert play(honest, stage.name, 1, tmp_path / "node", consent=consent, stage=stage, wallet=purse).code == 0

    def replayed(stage: Stage) -> Batches:
        yield [stage.said(stage.setup), stage.said(stage.announces[0])]
        for run in (RUN, "another"):
            yield [stage.said(abort(run, nonce), BOARD) for nonce in (b"", NONCE)] + [stage.said(result(run))]

    visible = play(replayed, stage.name, 1, tmp_path / "node", wallet=purse)
    assert (visible.code, visible.count("replies"), visible.count("refusal")) == (None, 0, 1)
    assert "is over, and nothing of it is answered again" in visible.log[0]

    def fresh(stage: Stage) -> Batches:
        stage.setup = replace(stage.setup, run="attacked-again", nonce=bytes(16))
        yield [stage.said(seating(run="attacked-again", nonce=bytes(16)), BOARD), stage.said(stage.setup)]
        question = replace(stage.announces[0], run="attacked-again")
        yield [stage.said(question, nonce=bytes(16))]

    again = Stage("frequency-grr")
    assert play(fresh, stage.name, 1, tmp_path / "node", stage=again, wallet=purse).count("replies") == FRAMES
    # Another run, other coins: no reply is that of the run before.
    assert {each.question for _, each in stage.replies(1)} != {each.question for _, each in again.replies(1)}


def test_another_domain_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    def script(stage: Stage) -> Batches:
        yield from stage.seat(replace(stage.setup, domain={"inputs": 2**20}))
        yield from stage.seat(replace(stage.setup, run="another"))

    with mock.patch.object(parley.nodes.user, "build", side_effect=AssertionError("it was built")):
        visible = play(script, "frequency-grr", 1, tmp_path / "node")
    assert (visible.code, visible.count("refusal")) == (None, 2)


def test_a_question_for_one_setup_is_not_answered_under_another(tmp_path: Path) -> None:
    """Its signature was found good once, for the nonce of the setup that was not accepted."""

    def script(stage: Stage) -> Batches:
        yield from stage.seat(replace(stage.setup, epsilon=0.5, nonce=OTHER))
        asked = stage.said(stage.announces[0], nonce=OTHER)
        yield [asked]
        yield from stage.seat()
        yield [asked]
        answered.append(len(stage.replies(1)))
        yield from stage.rounds(1)
        yield from stage.end()

    answered: list[int] = []
    visible = play(script, "three-round", 1, tmp_path / "node")
    assert answered == [0]
    assert (visible.code, visible.count("refusal"), visible.count("replies")) == (0, 0, 3 * FRAMES)


def test_as_many_inputs_in_other_columns_are_refused(tmp_path: Path) -> None:
    """2 x 8 levels are as many inputs as 4 x 4: replies would be about values that nobody declared."""
    columns = [Column(name=name, levels=4, low=0.0, high=1.0) for name in ("age", "score")]
    cells = Kendall(levels=(2, 2))
    inner = FrequencyGrr(workload=cells, epsilon=1.0, users=USERS)
    asked: list[Protocol] = [FrequencyGrr(workload=Kendall(levels=(2, 8)), epsilon=1.0, users=USERS)]
    asked += [Binned(statistic="kendall", fine=(2, 8), share=0.1, users=USERS, inner=inner)]
    for number, protocol in enumerate(asked):
        meant = domain_of(16, columns)

        def script(stage: Stage) -> Batches:
            yield from stage.seat(stage.setup)

        stage, folder = Stage("frequency-grr"), tmp_path / str(number)
        stage.setup = setup_of(protocol, domain=meant)
        consent = consent_for(protocol, domain=meant)
        visible = play(script, stage.name, 1, folder, consent=consent, stage=stage)
        assert (visible.code, visible.count("refusal")) == (None, 1)
        assert "has columns of 2 x 8 levels, but these users agreed to 4 x 4" in visible.log[0]


@pytest.mark.parametrize("name", names("shuffler"))
def test_whatever_is_asked_for_again_the_same_bytes_come(name: str, tmp_path: Path) -> None:
    for attack in ("reminders_of_other_things", "the_same_question_again"):
        stage = Stage(name)
        play(ATTACKS[attack].script, name, 1, tmp_path / attack, stage=stage)
        for number in range(1, stage.last + 1):
            frames = {(each.chunk, frame) for frame, each in stage.replies(number)}
            assert len(frames) == FRAMES
