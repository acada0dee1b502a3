"""Roles as conversations: what is said, what is refused, and that order and framing change nothing."""

from collections.abc import Iterable

import numpy as np
import pytest

from emulator.codec import decode, encode
from emulator.errors import LocalProtocolError, RemoteProtocolError
from emulator.messages import Abort, Announce, Close, Message, Reminder, Replies, Result, Roster, Setup
from emulator.roles import ANALYST, COHORT, Analyst, AnalystRole, Cohort, Commit
from tests.emulator.samples import INPUTS, RUN, cohort, every_message, protocol, setup


def messages(said: Iterable[Message | Commit]) -> list[Message]:
    return [each for each in said if not isinstance(each, Commit)]


def announce(number: int = 1, **broadcast: np.ndarray) -> Announce:
    return Announce(run=RUN, round=number, broadcast=broadcast)


@pytest.mark.parametrize("state", list(Cohort))
@pytest.mark.parametrize("message", every_message(), ids=lambda each: each.kind)
def test_a_cohort_moves_by_its_table_or_raises(state: Cohort, message: Message) -> None:
    role = cohort()
    if state is not Cohort.WAITING:
        messages(role.hear(setup()))
    role.state = state
    expected = COHORT.get((state, type(message)))
    if expected is None:
        with pytest.raises(RemoteProtocolError, match=state.name):
            role.hear(message)
        assert role.state is state
    else:
        messages(role.hear(message))
        assert role.state is expected


@pytest.mark.parametrize("state", list(Analyst))
@pytest.mark.parametrize("message", every_message(), ids=lambda each: each.kind)
def test_an_analyst_raises_what_its_table_does_not_know(state: Analyst, message: Message) -> None:
    role = AnalystRole(protocol(), RUN)
    role.state = state
    if (state, type(message)) not in ANALYST or isinstance(message, Setup | Announce | Result):
        with pytest.raises(RemoteProtocolError):
            role.hear(message)


def test_a_cohort_answers_once_and_the_same_bytes_again_when_reminded() -> None:
    role = cohort()
    assert messages(role.hear(setup())) == []
    said = list(role.hear(announce()))
    assert isinstance(said[0], Commit)
    first = [encode(each) for each in messages(said)]
    assert len(first) == 3
    assert messages(role.hear(announce())) == []
    again = messages(role.hear(Reminder(run=RUN, round=1, missing={"n": (1,)})))
    assert [encode(each) for each in again] == first[1:2]
    everything = messages(role.hear(Reminder(run=RUN, round=1, missing={"n": ()})))
    assert [encode(each) for each in everything] == first
    assert messages(role.hear(Reminder(run=RUN, round=1, missing={"other": ()}))) == []


def test_a_restarted_cohort_gives_the_same_replies_and_does_not_commit_again() -> None:
    before = cohort()
    messages(before.hear(setup()))
    said = list(before.hear(announce()))
    after = cohort(run=RUN, commitments=before.commitments)
    messages(after.hear(setup()))
    repeated = list(after.hear(announce()))
    assert not any(isinstance(each, Commit) for each in repeated)
    assert [encode(each) for each in messages(repeated)] == [encode(each) for each in messages(said)]


def test_a_restarted_cohort_refuses_another_broadcast_for_an_answered_round() -> None:
    role = cohort(run=RUN, commitments={2: b"another digest"})
    messages(role.hear(setup()))
    with pytest.raises(RemoteProtocolError, match="second, different broadcast"):
        role.hear(announce(2, mu=np.zeros(3)))


def test_a_round_out_of_order_is_refused() -> None:
    role = cohort(run=RUN, commitments={2: b"digest"})
    messages(role.hear(setup()))
    with pytest.raises(RemoteProtocolError, match="out of order"):
        role.hear(announce(1))


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (setup(epsilon=0.5), "claims"),
        (setup(rounds=2), "claims"),
        (setup(delta=0.1), "claims"),
        (setup(parameters={"epsilon": 1.0}), "missing"),
        (setup(protocol="no-such"), "no protocol"),
    ],
)
def test_terms_that_lie_are_refused(broken: Setup, reason: str) -> None:
    from emulator.errors import ParleyError

    with pytest.raises(ParleyError, match=reason):
        cohort().hear(broken)


def test_more_epsilon_than_the_cap_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match=r"above this user's cap 0\.5"):
        cohort(cap=0.5).hear(setup())
    with pytest.raises(RemoteProtocolError, match="above this user's cap nan"):
        cohort(cap=float("nan")).hear(setup())


def test_a_second_different_setup_and_another_run_are_refused() -> None:
    role = cohort()
    messages(role.hear(setup()))
    assert messages(role.hear(setup())) == []
    with pytest.raises(RemoteProtocolError, match="second, different setup"):
        role.hear(setup(parameters={**protocol(users=11).parameters()}))
    with pytest.raises(RemoteProtocolError, match="belong to run"):
        cohort(run="older").hear(setup())
    with pytest.raises(RemoteProtocolError, match="a broadcast of run"):
        role.hear(Announce(run="other", round=1, broadcast={}))


@pytest.mark.parametrize(
    ("broadcast", "reason"),
    [
        ({}, "expected the arrays"),
        ({"mu": np.zeros(2)}, "should be float64"),
        ({"mu": np.zeros(3, dtype=np.float32)}, "should be float64"),
        ({"mu": np.array([0.0, np.nan, 0.0])}, "not finite"),
        ({"mu": np.array([0.0, 2.0, 0.0])}, "not in R"),
        ({"mu": np.zeros(3), "more": np.zeros(3)}, "expected the arrays"),
    ],
)
def test_a_malformed_broadcast_is_refused(broadcast: dict[str, np.ndarray], reason: str) -> None:
    role = cohort()
    messages(role.hear(setup()))
    messages(role.hear(announce()))
    with pytest.raises(RemoteProtocolError, match=reason):
        role.hear(Announce(run=RUN, round=2, broadcast=broadcast))
    assert 2 not in role.commitments


@pytest.mark.parametrize("number", [0, 4])
def test_rounds_that_do_not_exist_are_refused(number: int) -> None:
    role = cohort()
    messages(role.hear(setup()))
    with pytest.raises(RemoteProtocolError, match=f"round {number} of 3"):
        role.hear(Announce(run=RUN, round=number, broadcast={}))


def test_an_input_outside_the_domain_is_our_own_fault() -> None:
    with pytest.raises(LocalProtocolError, match="outside"):
        cohort(inputs=np.array([0, 3])).hear(setup())


def first_round() -> tuple[AnalystRole, list[Replies]]:
    analyst, users = AnalystRole(protocol(), RUN), cohort()
    for said in analyst.hear(Roster(run=RUN, nodes=1, users=10)):
        analyst.hear(decode(encode(said)))
        replies = messages(users.hear(said))
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
    bad["right.index"][1] = 255
    analyst.hear(Replies(**{**vars(replies[0]), "columns": bad}))
    assert analyst.rejected == 1
    analyst.hear(Replies(**{**vars(replies[1]), "columns": {"right.seed": replies[1].columns["right.seed"]}}))
    assert analyst.rejected == 1 + len(replies[1].users)


def test_an_analyst_that_hears_itself_misquoted_stops() -> None:
    analyst = AnalystRole(protocol(), RUN)
    said = analyst.hear(Roster(run=RUN, nodes=1, users=10))
    assert [type(each) for each in said] == [Setup, Announce]
    with pytest.raises(RemoteProtocolError, match="another setup"):
        analyst.hear(setup(epsilon=0.5))


def test_a_round_without_replies_ends_the_run() -> None:
    analyst, _ = first_round()
    (said,) = analyst.hear(Close(run=RUN, round=1, replies=0, missing=10))
    assert isinstance(said, Abort)
    assert analyst.state is Analyst.ENDED


def test_inputs_never_show_in_what_a_role_prints() -> None:
    assert str(INPUTS.tolist()) not in repr(cohort())
