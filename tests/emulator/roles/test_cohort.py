"""A user node as a conversation: what it answers, what it refuses, and that only replies depend on inputs."""

import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from parley.emulator.coins import question_of, setup_digest, terms_of
from parley.emulator.errors import BadInput, LocalProtocolError, ParleyError, RemoteProtocolError
from parley.emulator.roles.cohort import COHORT, Cohort, CohortRole, Said
from parley.emulator.roles.consent import Column, domain_of
from parley.emulator.roles.node_memory import Answered, Distrust, Evidence, Finished, Memory, Seated
from parley.emulator.roles.replies import chunk_for
from parley.emulator.wire.codec import decode, encode
from parley.emulator.wire.messages import (
    Abort,
    Announce,
    Inquiry,
    Message,
    Pledge,
    Receipt,
    Refusal,
    Reminder,
    Replies,
    Result,
    Setup,
)
from parley.protocols.registry import design
from parley.protocols.workloads.choice import make_workload
from parley.protocols.workloads.gini import GiniDiversity
from tests.emulator.ledger import BOARD, NODE, SIGNED, Ledger, seating
from tests.emulator.samples import INPUTS, KEY, NONCE, RUN, cohort, consent, every_message, protocol, receipt, setup

# The factor of Gini diversity has one row less than there are categories.
ZERO = np.zeros(2)
ARRAYS = {1: {}, 2: {"mu": ZERO}, 3: {"mu": ZERO, "Y": ZERO}}
RESULT = Result(run=RUN, estimate=0.5, predicted_rmse=0.1, low=0.3, high=0.7, replied=10)


def messages(said: Iterable[Said]) -> list[Message]:
    return [each for each in said if isinstance(each, Message)]


def frames(said: Iterable[Said]) -> list[bytes]:
    return [encode(each) for each in messages(said)]


def announce(number: int = 1, **broadcast: np.ndarray) -> Announce:
    return Announce(run=RUN, round=number, broadcast=broadcast or ARRAYS.get(number, {}), speakers=10)


def question(number: int = 1) -> bytes:
    return question_of(terms_of(setup()), announce(number))


def seated(**changes: object) -> CohortRole:
    role = cohort(**changes)
    assert [type(each) for each in role.hear(setup())] == [Seated]
    return role


@pytest.mark.parametrize("state", list(Cohort))
@pytest.mark.parametrize("message", every_message(), ids=lambda each: each.kind)
def test_a_cohort_moves_by_its_table_or_raises(state: Cohort, message: Message) -> None:
    role = cohort() if state is Cohort.WAITING else seated()
    role.state = state
    expected = COHORT.get((state, type(message)))
    if expected is None:
        with pytest.raises(RemoteProtocolError, match=state.name):
            list(role.hear(message))
        assert role.state is state
    else:
        list(role.hear(message))
        # Without receipts there is nothing to wait for once the result is there.
        leaves = state is Cohort.SEATED and isinstance(message, Result)
        assert role.state is (Cohort.DONE if leaves else expected)


def test_a_cohort_answers_once_and_the_same_bytes_again_when_reminded() -> None:
    role = seated()
    said = list(role.hear(announce()))
    assert isinstance(said[0], Answered)
    first = frames(said)
    assert len(first) == 3
    assert list(role.hear(announce())) == []
    assert frames(role.hear(Reminder(run=RUN, round=1, missing={"n": (1,)}))) == first[1:2]
    assert frames(role.hear(Reminder(run=RUN, round=1, missing={"n": ()}))) == first
    for quiet in (
        Reminder(run=RUN, round=1, missing={"other": ()}),
        Reminder(run="other", round=1, missing={"n": ()}),
        Reminder(run=RUN, round=2, missing={"n": ()}),
    ):
        assert list(role.hear(quiet)) == []


def test_what_is_to_be_on_disk_comes_before_what_depends_on_it() -> None:
    role = cohort()
    (sat,) = role.hear(setup())
    assert sat == Seated(run=RUN, digest=setup_digest(setup()), nonce=NONCE)
    answer = role.hear(announce())
    assert next(answer) == Answered(
        round=1, question=question(), announce=encode(announce()), inputs=role._speakers.mark
    )
    assert all(isinstance(each, Replies) and each.question == question() for each in answer)
    assert list(role.hear(RESULT)) == [Finished(run=RUN)]


def test_a_restarted_cohort_gives_the_same_replies_and_does_not_commit_again() -> None:
    before = seated()
    said = list(before.hear(announce()))
    after = cohort(memory=before.memory)
    assert list(after.hear(setup())) == []
    repeated = list(after.hear(announce()))
    assert not any(isinstance(each, Answered) for each in repeated)
    assert frames(repeated) == frames(said)


def remembering(*rounds: int, **changes: object) -> Memory:
    """A node that sat down to the setup and answered these rounds."""
    memory = Memory()
    memory.note(Seated(run=RUN, digest=setup_digest(setup()), nonce=NONCE))
    for number in rounds:
        fields: dict[str, object] = {"question": question(number), "announce": encode(announce(number)), **changes}
        memory.note(Answered(round=number, **fields))  # type: ignore[arg-type]
    return memory


def test_a_restarted_cohort_refuses_another_broadcast_for_an_answered_round() -> None:
    role = cohort(memory=remembering(1, 2))
    assert list(role.hear(setup())) == []
    with pytest.raises(RemoteProtocolError, match="second, different broadcast"):
        list(role.hear(announce(2, mu=ZERO + 0.25)))
    assert len(frames(role.hear(announce(2)))) == 3


@pytest.mark.parametrize("number", [1, 2])
def test_a_round_out_of_order_is_refused(number: int) -> None:
    role = cohort(memory=remembering(3))
    assert list(role.hear(setup())) == []
    with pytest.raises(RemoteProtocolError, match="out of order"):
        list(role.hear(announce(number)))


@pytest.mark.parametrize("number", [2, 3])
def test_a_round_that_is_skipped_ahead_is_refused(number: int) -> None:
    role = seated()
    with pytest.raises(RemoteProtocolError, match=f"round {number} comes after round 0; none may be left out"):
        list(role.hear(announce(number)))
    assert role.memory.answered == {}
    assert len(frames(role.hear(announce(1)))) == 3


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (setup(epsilon=0.5), "claims"),
        (setup(rounds=2), "claims"),
        (setup(delta=0.1), "claims"),
        (setup(parameters={"epsilon": 1.0}), "missing"),
        (setup(protocol="no-such"), "no protocol"),
        (setup(version=2), "of version 2; this node speaks 1"),
        (setup(nonce=b""), "no nonce"),
        (setup(run="other"), "the run other is not one that these users agreed to"),
        (setup(domain=domain_of(4)), "the domain of 4 inputs is not the agreed of 3 inputs"),
        (setup(domain={}), "the domain"),
        (
            setup(domain=domain_of(3, [Column(name="age", levels=3, low=0.0, high=9.0)])),
            "age.* is not the agreed of 3 inputs",
        ),
    ],
)
def test_terms_that_lie_are_refused(broken: Setup, reason: str) -> None:
    role = cohort()
    with pytest.raises(ParleyError, match=reason):
        list(role.hear(broken))
    assert role.memory == Memory()
    assert role.state is Cohort.WAITING


def test_a_protocol_for_fewer_values_than_agreed_is_refused() -> None:
    """Its setup may say what it likes about the domain: what is built counts."""
    smaller = design("three-round", GiniDiversity(levels=2), epsilon=1.0, users=10)
    with pytest.raises(RemoteProtocolError, match="2 inputs, but these users agreed to 3"):
        list(cohort().hear(setup(parameters=smaller.parameters())))


def test_more_epsilon_than_the_cap_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match=r"above this user's cap 0\.5"):
        list(cohort(consent=consent(cap=0.5)).hear(setup()))
    with pytest.raises(BadInput, match="a cap of nan is not a valid limit"):
        consent(cap=float("nan"))


def test_a_second_different_setup_and_another_run_are_refused() -> None:
    role = seated()
    assert list(role.hear(setup())) == []
    for other in (setup(parameters={**protocol(users=11).parameters()}), setup(nonce=bytes(16)), setup(run="other")):
        with pytest.raises(RemoteProtocolError, match="second, different setup"):
            list(role.hear(other))
    with pytest.raises(RemoteProtocolError, match="a broadcast of run"):
        list(role.hear(Announce(run="other", round=1, broadcast={})))
    restarted = cohort(memory=role.memory)
    with pytest.raises(RemoteProtocolError, match="second, different setup"):
        list(restarted.hear(setup(nonce=bytes(16))))


def test_a_run_that_is_over_is_not_taken_up_again() -> None:
    role = seated(consent=consent(run="*"))
    list(role.hear(RESULT))
    assert role.state is Cohort.DONE
    again = cohort(consent=consent(run="*"), memory=role.memory)
    with pytest.raises(RemoteProtocolError, match="the run r is over"):
        list(again.hear(setup()))
    assert [type(each) for each in again.hear(setup(run="another"))] == [Seated]


@pytest.mark.parametrize(
    ("broadcast", "reason"),
    [
        ({}, "expected the arrays"),
        ({"mu": np.zeros(3)}, "should be float64"),
        ({"mu": np.zeros(2, dtype=np.float32)}, "should be float64"),
        ({"mu": np.array([0.0, np.nan])}, "not finite"),
        ({"mu": np.array([0.0, 2.0])}, "not in R"),
        ({"mu": ZERO, "more": ZERO}, "expected the arrays"),
    ],
)
def test_a_malformed_broadcast_is_refused(broadcast: dict[str, np.ndarray], reason: str) -> None:
    role = seated()
    list(role.hear(announce()))
    with pytest.raises(RemoteProtocolError, match=reason):
        list(role.hear(Announce(run=RUN, round=2, broadcast=broadcast)))
    assert 2 not in role.memory.answered
    assert len(frames(role.hear(announce(2)))) == 3


@pytest.mark.parametrize("number", [0, 4])
def test_rounds_that_do_not_exist_are_refused(number: int) -> None:
    role = seated()
    with pytest.raises(RemoteProtocolError, match=f"round {number} of 3"):
        list(role.hear(Announce(run=RUN, round=number, broadcast={})))


def test_a_result_before_the_setup_ends_nothing() -> None:
    role = cohort()
    assert list(role.hear(RESULT)) == []
    assert role.state is Cohort.WAITING
    assert role.ending is None
    assert [type(each) for each in role.hear(setup())] == [Seated]


def test_an_end_of_another_run_ends_nothing() -> None:
    role = seated()
    for other in (dataclasses.replace(RESULT, run="other"), Abort(run="other", outcome="failed", reason="so")):
        assert list(role.hear(other)) == []
        assert role.state is Cohort.SEATED
    assert list(role.hear(Abort(run=RUN, outcome="failed", reason="so", nonce=NONCE))) == [Finished(run=RUN)]
    assert role.state is Cohort.DONE


def test_an_abort_that_names_another_nonce_ends_only_who_knows_none() -> None:
    """An old abort of a run of the same name is signed as well as any."""
    old = [Abort(run=RUN, outcome="failed", reason="so", nonce=nonce) for nonce in (bytes(16), b"")]
    for role in (seated(), cohort(memory=seated().memory)):
        before = role.state
        for each in old:
            assert list(role.hear(each)) == []
            assert (role.state, role.ending) == (before, None)
    for each in old:
        role = cohort()
        assert list(role.hear(each)) == []
        assert (role.state, role.ending) == (Cohort.DONE, each)
    for told, over in ((seating(bytes(32)), True), (seating(run="other"), True), (seating(), False)):
        for each in old:
            role = cohort(consent=consent(**SIGNED), signer=NODE)
            assert [*role.hear(told), *role.hear(each)] == []
            assert (role.state is Cohort.DONE) == over


def test_inputs_never_show_in_what_a_role_prints() -> None:
    assert str(INPUTS.tolist()) not in repr(cohort())


SMALLER = design("three-round", GiniDiversity(levels=2), epsilon=1.0, users=10)
SCRIPTS: dict[str, list[Message]] = {
    "honest": [setup(), announce(1), announce(2), announce(3), RESULT],
    "reminded": [setup(), announce(1), announce(1), Reminder(run=RUN, round=1, missing={"n": (2, 0)})],
    "fewer values": [setup(parameters=SMALLER.parameters(), domain=domain_of(2)), announce(1)],
    "fewer values under the agreed name": [setup(parameters=SMALLER.parameters()), announce(1)],
    "more values": [setup(domain=domain_of(4)), announce(1)],
    "lies": [setup(epsilon=0.5), announce(1), setup(), announce(2), announce(1, mu=ZERO), announce(1)],
    "broadcasts": [setup(), announce(1), announce(2, mu=np.full(2, 1e300)), announce(2, mu=ZERO + 0.5), announce(2)],
    "abort": [setup(), announce(1), Abort(run=RUN, outcome="failed", reason="so", nonce=NONCE), announce(2)],
}


def seen(inputs: np.ndarray, script: list[Message]) -> Iterator[object]:
    """Everything about a conversation that can be seen but the content of replies."""
    role = cohort(inputs=inputs, signer=NODE)
    for message in script:
        try:
            for said in role.hear(message):
                if isinstance(said, Replies):
                    shapes = {name: (column.dtype, column.shape) for name, column in said.columns.items()}
                    blank = {name: np.zeros_like(column) for name, column in said.columns.items()}
                    yield encode(dataclasses.replace(said, columns=blank)), shapes, len(role.frame(said))
                elif isinstance(said, Answered):
                    # It stays on the node's own disk, and tells only who has the coin key.
                    yield dataclasses.replace(said, inputs=bytes(len(said.inputs)))
                else:
                    yield encode(said) if isinstance(said, Message) else said
        except ParleyError as error:
            yield type(error), str(error)
        yield role.state, role.inquiry() is None


@pytest.mark.parametrize("script", SCRIPTS)
def test_what_is_visible_besides_replies_is_the_same_for_every_input(script: str) -> None:
    """A node that falls silent, or complains, for some inputs alone has told them."""
    crowds = [np.full(10, value) for value in range(3)] + [np.arange(10) % 3, np.arange(10)[::-1] % 3]
    traces = [list(seen(np.asarray(crowd, dtype=np.int64), SCRIPTS[script])) for crowd in crowds]
    assert all(trace == traces[0] for trace in traces)
    assert traces[0]


def test_a_protocol_that_fails_at_an_input_makes_nobody_say_which() -> None:
    """Neither a refusal nor a word: the node stops, and what it says of itself holds no input."""
    role = seated(inputs=np.full(10, 977))
    said = role.hear(announce())
    assert isinstance(next(said), Answered)
    with pytest.raises(LocalProtocolError, match="gave no reply in round 1") as caught:
        list(said)
    assert "977" not in str(caught.value)


def test_only_replies_hold_what_depends_on_inputs() -> None:
    """The other half: replies do differ, so the test above compares something."""
    said = [b"".join(frames(seated(inputs=np.full(10, value)).hear(announce()))) for value in range(3)]
    assert len(set(said)) == 3


class Signed:
    """A node that wants receipts, and the record it is shown."""

    def __init__(self, role: CohortRole | None = None) -> None:
        self.ledger = Ledger()
        self.role = role or cohort(consent=consent(**SIGNED), signer=NODE)
        list(self.role.hear(seating()))
        list(self.role.hear(setup()))

    def hear(self, message: Message) -> list[Said]:
        said = list(self.role.hear(message))
        for each in said:
            if isinstance(each, Replies):
                self.ledger.put("n", each, self.role.frame(each))
        return said


def kinds(said: list[Said]) -> list[type]:
    return list(dict.fromkeys(type(each) for each in said))


def test_a_round_is_answered_only_after_the_one_before_is_shown_to_be_on_record() -> None:
    table = Signed()
    assert kinds(table.hear(announce(1))) == [Answered, Replies]
    table.ledger.close(1)
    (asked,) = table.hear(announce(2))
    assert isinstance(asked, Inquiry)
    assert (asked.run, asked.round, asked.node) == (RUN, 1, "n")
    assert table.hear(announce(2)) == [], "it asks again when time has passed, not for each repetition"
    assert table.role.inquiry() is not None
    said = table.hear(table.ledger.receipt(1))
    assert kinds(said) == [Answered, Replies]
    assert isinstance(said[0], Answered)
    assert said[0].round == 2
    assert (said[0].size, said[0].root) == (4, table.ledger.tree.root(4))
    assert table.role.inquiry() is None
    table.ledger.close(2)
    # A receipt may come before the broadcast as well.
    assert table.hear(table.ledger.receipt(2)) == []
    assert kinds(table.hear(announce(3))) == [Answered, Replies]
    table.ledger.close(3)
    assert kinds(table.hear(RESULT)) == [Inquiry]
    assert table.role.state is Cohort.LEAVING
    assert table.hear(table.ledger.receipt(3)) == [Finished(run=RUN)]
    assert table.role.state is Cohort.DONE


def test_a_round_may_be_skipped_only_where_the_board_declared_the_node_absent() -> None:
    table = Signed()
    table.ledger.close(1, absent=("n", "other"))
    assert kinds(table.hear(announce(2))) == [Inquiry]
    assert kinds(table.hear(table.ledger.receipt(1))) == [Answered, Replies]
    assert set(table.role.memory.answered) == {2}
    with pytest.raises(RemoteProtocolError, match="out of order"):
        table.hear(announce(1))


def test_a_reply_that_was_declared_missing_is_evidence_and_no_end() -> None:
    table = Signed()
    sent = [table.role.frame(each) for each in table.hear(announce(1)) if isinstance(each, Replies)]
    close = table.ledger.close(1, absent=("n",))
    (kept,) = table.hear(table.ledger.receipt(1))
    assert isinstance(kept, Evidence)
    assert kept.reason == "it answered, and the board declared its reply missing"
    assert (kept.close, kept.frames) == (close, tuple(sent))
    assert kinds(table.hear(announce(2))) == [Answered, Replies]


def test_a_board_that_forgets_a_reply_is_caught() -> None:
    table = Signed()
    list(table.role.hear(announce(1)))
    table.ledger.close(1)
    with pytest.raises(Distrust, match="not on record") as caught:
        table.hear(table.ledger.receipt(1))
    assert len(caught.value.evidence.frames) == 3


def test_a_board_that_knows_an_answer_the_node_forgot_is_caught() -> None:
    """A state from a backup must not answer what was answered before."""
    table = Signed()
    table.hear(announce(1))
    table.ledger.close(1)
    forgetful = Signed()
    forgetful.ledger = table.ledger
    assert kinds(forgetful.hear(announce(2))) == [Inquiry]
    with pytest.raises(Distrust, match="does not remember"):
        forgetful.hear(table.ledger.receipt(1))


def test_a_record_that_was_rewritten_between_two_closes_is_caught() -> None:
    table = Signed()
    first = table.hear(announce(1))
    table.ledger.close(1)
    assert table.hear(table.ledger.receipt(1)) == []
    second = table.hear(announce(2))
    forged = Ledger()
    forged.put("n", announce(1), b"something else")
    for each in (*first, *second):
        if isinstance(each, Replies):
            forged.put("n", each, table.role.frame(each))
    # The same replies under another beginning.
    forged.close(1)
    forged.close(2)
    with pytest.raises(Distrust, match="does not extend"):
        table.hear(forged.receipt(2))


@pytest.mark.parametrize("chunk", range(3))
def test_each_chunk_must_be_shown(chunk: int) -> None:
    table = Signed()
    table.hear(announce(1))
    table.ledger.close(1)
    good = table.ledger.receipt(1)
    without = [place for place in range(3) if place != chunk]
    cut = {
        name: tuple(getattr(good, name)[place] for place in without)
        for name in ("chunks", "sequences", "times", "paths")
    }
    with pytest.raises(Distrust, match="not on record"):
        table.hear(dataclasses.replace(good, **cut))
    for name, wrong in (("sequences", 7), ("times", 7), ("paths", bytes(64))):
        values = list(getattr(good, name))
        values[chunk] = wrong
        with pytest.raises(Distrust, match="not on record"):
            table.hear(dataclasses.replace(good, **{name: tuple(values)}))
    assert table.hear(good) == []


def test_a_receipt_proves_itself() -> None:
    table = Signed()
    table.hear(announce(1))
    table.ledger.close(1)
    good = table.ledger.receipt(1)
    unsigned = encode(_close_of(good))
    for wrong, reason in (
        (dataclasses.replace(good, close=unsigned), "did not sign"),
        (dataclasses.replace(good, close=encode(_close_of(good), NODE, NONCE)), "did not sign"),
        (dataclasses.replace(good, close=encode(_close_of(good), BOARD, bytes(16))), "did not sign"),
        (dataclasses.replace(good, close=encode(announce(1), BOARD, NONCE)), "without the close"),
        (dataclasses.replace(good, close=encode(_close_of(good, round=2), BOARD, NONCE)), "without the close"),
        (dataclasses.replace(good, close=encode(_close_of(good, run="x"), BOARD, NONCE)), "without the close"),
        (dataclasses.replace(good, close=b"noise"), "checksum"),
    ):
        with pytest.raises(RemoteProtocolError, match=reason):
            table.hear(wrong)
    for ignored in (receipt(round=2), receipt(node="other"), receipt(run="other")):
        assert table.hear(ignored) == []
    assert table.hear(good) == []
    assert table.hear(good) == [], "a second time it says nothing"


def _close_of(shown: Receipt, **changes: object) -> Message:
    return dataclasses.replace(decode(shown.close), **changes)  # type: ignore[arg-type]


def test_a_restarted_node_checks_the_receipt_of_what_it_sent_in_an_earlier_life() -> None:
    table = Signed()
    table.hear(announce(1))
    table.ledger.close(1)
    table.hear(table.ledger.receipt(1))
    table.hear(announce(2))
    table.ledger.close(2)
    later = Signed(cohort(consent=consent(**SIGNED), signer=NODE, memory=table.role.memory))
    later.ledger = table.ledger
    assert kinds(later.hear(announce(3))) == [Inquiry]
    assert kinds(later.hear(table.ledger.receipt(2))) == [Answered, Replies]


def test_a_node_behind_a_shuffler_waits_for_its_pledge() -> None:
    spoken = design("shuffled", make_workload("gini-diversity", "3", None), epsilon=1.0, users=1000)
    claim = spoken.claim
    asked = setup(
        protocol=spoken.name,
        parameters=spoken.parameters(),
        epsilon=claim.epsilon,
        delta=claim.delta,
        rounds=claim.rounds,
        version=spoken.version,
    )
    agreed = consent(cap=claim.epsilon, delta=claim.delta, trusts="shuffler", shuffler=BOARD.public, **SIGNED)
    role = cohort(consent=agreed)
    with pytest.raises(RemoteProtocolError, match="has not pledged itself to this setup"):
        list(role.hear(asked))
    list(role.hear(Pledge(run=RUN, setup=bytes(32))))
    with pytest.raises(RemoteProtocolError, match="has not pledged itself to this setup"):
        list(role.hear(asked))
    list(role.hear(Pledge(run=RUN, setup=setup_digest(asked))))
    assert [type(each) for each in role.hear(asked)] == [Seated]


def test_coins_follow_the_question_and_not_the_run_or_the_shard() -> None:
    """The same question gives the same reply, whichever run or node it is asked in; another nonce, another reply."""
    here = frames(seated().hear(announce()))
    part = seated(node="m", first=4, inputs=INPUTS[4:8])
    columns = [each.columns for each in messages(part.hear(announce())) if isinstance(each, Replies)]
    whole = [each.columns for each in messages(seated().hear(announce())) if isinstance(each, Replies)]
    for name, column in columns[0].items():
        assert np.array_equal(column, whole[1][name])
    other = cohort()
    list(other.hear(setup(nonce=bytes(16))))
    there = frames(other.hear(announce()))
    assert here != there
    assert KEY not in b"".join(here)


OTHER_KEY = bytes([9]) * 32


def listening(**changes: object) -> CohortRole:
    """A node in a signed run that has not been told whose its seat is."""
    return cohort(**{"consent": consent(**SIGNED), "signer": NODE, **changes})


def test_nothing_is_answered_before_the_seat_is_known_to_be_its_own() -> None:
    role = listening()
    list(role.hear(setup()))
    (asked,) = role.hear(announce())
    assert isinstance(asked, Inquiry)
    assert (asked.round, asked.node) == (0, "n")
    assert not role.seat.is_known
    old = [seating(key, nonce=bytes(16)) for key in (NODE.public, OTHER_KEY)]
    for stranger in (*old, seating(node="m"), seating(OTHER_KEY, run="s")):
        assert list(role.hear(stranger)) == [], "what is about another run or node proves nothing"
        inquiry = role.inquiry()
        assert inquiry is not None
        assert inquiry.round == 0
    assert kinds(list(role.hear(seating()))) == [Answered, Replies]
    assert role.inquiry() is None


@pytest.mark.parametrize("order", ["before the setup", "after the setup", "while it holds a question"])
def test_a_node_whose_seat_is_held_by_another_key_stops(order: str) -> None:
    role, said = listening(), list[Said]()
    words: list[Message] = [setup(), announce()]
    words.insert(["before the setup", "after the setup", "while it holds a question"].index(order), seating(OTHER_KEY))

    def converse() -> None:
        for message in words:
            said.extend(role.hear(message))

    with pytest.raises(LocalProtocolError, match="held by another signing key than that of this state"):
        converse()
    assert not {Answered, Replies, Refusal} & {type(each) for each in said}
    assert not role.seat.is_known


def test_a_state_that_has_answered_asks_for_no_seat() -> None:
    table = Signed()
    table.hear(announce())
    again = listening(memory=table.role.memory)
    assert again.seat.is_known
    list(again.hear(setup()))
    assert kinds(list(again.hear(announce()))) == [Replies]
    unanswered = Signed()
    later = listening(memory=unanswered.role.memory)
    list(later.hear(setup()))
    assert kinds(list(later.hear(announce()))) == [Inquiry]
    assert kinds(list(later.hear(seating()))) == [Answered, Replies]


def test_a_run_that_ends_before_it_is_told_of_its_seat_is_no_success() -> None:
    role = listening()
    list(role.hear(setup()))
    list(role.hear(announce()))
    said = role.hear(RESULT)
    assert next(said) == Finished(run=RUN)
    with pytest.raises(LocalProtocolError, match="nothing was answered"):
        next(said)


def test_where_nobody_signs_nobody_is_told_of_seats() -> None:
    role = seated()
    assert role.seat.is_known
    assert list(role.hear(seating(OTHER_KEY))) == []
    assert kinds(list(role.hear(announce()))) == [Answered, Replies]


def test_behind_a_shuffler_a_node_waits_for_its_seat_too() -> None:
    agreed = consent(trusts="shuffler", shuffler=BOARD.public, **SIGNED)
    role = listening(consent=agreed)
    list(role.hear(setup()))
    assert kinds(list(role.hear(announce()))) == [Inquiry]
    assert kinds(list(role.hear(seating()))) == [Answered, Replies]


@pytest.mark.parametrize(
    ("users", "chunk"), [(1, 4096), (250_000, 4096), (300_000, 8192), (2_500_000, 65_536), (25_000_000, 65_536)]
)
def test_large_cohorts_send_larger_frames(users: int, chunk: int) -> None:
    assert chunk_for(users) == chunk
