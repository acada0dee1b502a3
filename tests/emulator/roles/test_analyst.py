"""The analyst as a conversation: what is said, what is refused, and that order and framing change nothing."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.reference.simulate_shuffled import shuffled_conversation
from parley.emulator.errors import RemoteProtocolError
from parley.emulator.roles.analyst import ANALYST, Analyst, AnalystRole
from parley.emulator.roles.consent import Column, domain_of
from parley.emulator.simulate import conversation
from parley.emulator.wire.codec import decode, encode
from parley.emulator.wire.messages import Abort, Announce, Close, Message, Ready, Replies, Result, Roster, Setup
from parley.protocols.registry import design
from parley.protocols.workloads.gini import GiniDiversity
from tests.emulator.samples import KEY, NONCE, RUN, cohort, every_message, protocol, setup

ROSTER = Roster(run=RUN, nodes=1, users=10, nonce=NONCE)


@pytest.mark.parametrize("state", list(Analyst))
@pytest.mark.parametrize("message", every_message(), ids=lambda each: each.kind)
def test_an_analyst_raises_what_its_table_does_not_know(state: Analyst, message: Message) -> None:
    role = AnalystRole(protocol(), RUN)
    role.state = state
    if (state, type(message)) not in ANALYST or isinstance(message, Setup | Announce | Result):
        with pytest.raises(RemoteProtocolError):
            role.hear(message)
        assert role.state is state


def first_round() -> tuple[AnalystRole, list[Replies]]:
    analyst, users = AnalystRole(protocol(), RUN), cohort()
    for said in analyst.hear(ROSTER):
        analyst.hear(decode(encode(said)))
        replies = list(users.hear(said))
    return analyst, [each for each in replies if isinstance(each, Replies)]


def test_delivery_order_does_not_matter() -> None:
    outcomes = set()
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        analyst, replies = first_round()
        for each in order:
            assert analyst.hear(replies[each]) == []
        (following,) = analyst.hear(Close(run=RUN, round=1, replies=10, missing=0))
        outcomes.add(encode(following))
    assert len(outcomes) == 1


def test_replies_outside_the_output_space_are_left_out_and_counted() -> None:
    analyst, replies = first_round()
    bad = {name: column.copy() for name, column in replies[0].columns.items()}
    bad["y_R.index"][1] = 255
    analyst.hear(Replies(**{**vars(replies[0]), "columns": bad}))
    assert analyst.rejected == 1
    analyst.hear(Replies(**{**vars(replies[1]), "columns": {"y_R.seed": replies[1].columns["y_R.seed"]}}))
    assert analyst.rejected == 1 + len(replies[1].users)


def test_an_analyst_that_hears_itself_misquoted_stops() -> None:
    analyst = AnalystRole(protocol(), RUN)
    said = analyst.hear(ROSTER)
    assert [type(each) for each in said] == [Setup, Announce]
    with pytest.raises(RemoteProtocolError, match="a different setup"):
        analyst.hear(setup(epsilon=0.5))


def test_a_round_without_replies_ends_the_run() -> None:
    analyst, _ = first_round()
    (said,) = analyst.hear(Close(run=RUN, round=1, replies=0, missing=10))
    assert isinstance(said, Abort)
    assert said.nonce == NONCE
    assert analyst.state is Analyst.ENDED


@pytest.mark.parametrize("rounds", [0, 1])
def test_a_board_that_gives_up_ends_an_analyst_that_has_just_spoken(rounds: int) -> None:
    """A word that came too late is on no record, so the analyst does not wait to hear it back."""
    analyst, replies = first_round()
    for each in replies:
        analyst.hear(each)
    analyst.hear(Close(run=RUN, round=1, replies=10, missing=0))
    if rounds == 0:
        analyst = AnalystRole(protocol(), RUN)
        analyst.hear(ROSTER)
    assert analyst.pending
    assert analyst.hear(Abort(run=RUN, outcome="failed", reason="the analyst said nothing", nonce=NONCE)) == []
    assert analyst.state is Analyst.ENDED
    assert not analyst.pending


def test_a_result_that_came_too_late_is_not_waited_for() -> None:
    spoken = design("one-round", GiniDiversity(levels=3), epsilon=1.0, users=10)
    said = [message for _, message in conversation(spoken, np.arange(10) % 3, KEY, run=RUN)]
    analyst = AnalystRole(spoken, RUN)
    for message in said[:-1]:
        analyst.hear(message)
    assert analyst.state is Analyst.DONE
    analyst.hear(Abort(run=RUN, outcome="failed", reason="the analyst said nothing", nonce=NONCE))
    assert analyst.state is Analyst.ENDED
    assert not analyst.pending


def test_the_setup_says_what_is_asked_down_to_the_nonce_of_the_roster() -> None:
    said, _ = AnalystRole(protocol(), RUN).hear(ROSTER)
    assert encode(said) == encode(setup())
    other, _ = AnalystRole(protocol(), RUN).hear(Roster(run=RUN, nodes=1, users=10, nonce=bytes(16)))
    assert isinstance(other, Setup)
    assert other.nonce == bytes(16)
    meaning = domain_of(3, [Column(name="answer", levels=3, categories=("no", "maybe", "yes"))])
    meant, _ = AnalystRole(protocol(), RUN, meaning).hear(ROSTER)
    assert isinstance(meant, Setup)
    assert meant.domain == meaning


@pytest.mark.parametrize("seats", [[(0, 10)], [(0, 4), (4, 6)], [(4, 6)], [(0, 1), (9, 1)]])
def test_a_broadcast_says_how_many_of_those_seated_are_to_answer(seats: list[tuple[int, int]]) -> None:
    """In the tuned protocol a user speaks in one round alone, so the speakers of both make up all users."""
    spoken = design("two-round-tuned", GiniDiversity(levels=3), epsilon=1.0, users=10)
    analyst = AnalystRole(spoken, RUN)
    for number, (first, users) in enumerate(seats):
        analyst.hear(Ready(node=f"n{number}", first=first, users=users, pid=1))
    _, announce = analyst.hear(ROSTER)
    assert isinstance(announce, Announce)
    here = np.concatenate([np.arange(first, first + users) for first, users in seats])
    assert announce.speakers == int(spoken.rounds[0].participates(here).sum())
    assert 0 < announce.speakers <= len(here)


def test_in_format_1_nobody_said_how_many_are_to_answer() -> None:
    analyst = AnalystRole(protocol(), RUN, {}, format=1)
    analyst.hear(Ready(node="n", first=0, users=10, pid=1))
    said, announce = analyst.hear(Roster(run=RUN, nodes=1, users=10))
    assert isinstance(announce, Announce)
    assert isinstance(said, Setup)
    assert (announce.speakers, said.domain, said.nonce) == (0, {}, b"")


def test_a_batch_that_is_not_whole_ends_the_run() -> None:
    """Sums of shares mean nothing unless all shares are there, whatever the quorum says."""
    mixed = design("split-and-mix", GiniDiversity(levels=3), epsilon=1.0, users=40)
    inputs = np.arange(40) % 3
    batch = [
        message
        for _, message in shuffled_conversation(mixed, inputs, KEY, run=RUN)
        if isinstance(message, Ready | Roster | Replies)
    ]
    (replies,) = (each for each in batch if isinstance(each, Replies))
    for chunks, expected in ((1, Result), (3, Abort)):
        analyst = AnalystRole(mixed, RUN)
        for message in batch:
            if isinstance(message, Replies):
                message = replace(replies, chunks=chunks)
            for said in analyst.hear(message):
                analyst.hear(said)
        (last,) = analyst.hear(Close(run=RUN, round=1, replies=40, missing=0))
        assert isinstance(last, expected)
        assert not isinstance(last, Abort) or "2 frames are missing" in last.reason
