"""What a user agreed to: every setup, claim and signature is held against it, and nothing else counts."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.emulator.errors import BadInput, RemoteProtocolError
from parley.emulator.protocol import Claim
from parley.emulator.roles.consent import Column, Consent, consent_to, domain_of
from parley.emulator.wire.codec import encode, pack, unpack
from parley.emulator.wire.messages import Abort, Announce, Close, Message, Pledge, Reminder, Result, Seating, Setup
from parley.emulator.wire.signatures import Signer, derived
from tests.emulator.samples import KEY, NONCE, RUN, consent, every_message, protocol, setup

KEYS = {name: derived(KEY, name) for name in ("analyst", "board", "shuffler", "node-0")}
PUBLIC = {name: signer.public for name, signer in KEYS.items()}
SIGNED = {"analyst": PUBLIC["analyst"], "board": PUBLIC["board"]}
CLAIM = Claim(epsilon=1.0, rounds=3, interaction="fully interactive")


def column(**changes: Any) -> Column:
    return Column(**{"name": "age", "levels": 4, "low": 18.0, "high": 90.0, **changes})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"cap": float("nan")}, "a cap of nan"),
        ({"cap": float("inf")}, "a cap of inf"),
        ({"cap": -1.0}, "a cap of -1.0"),
        ({"delta": float("nan")}, "a delta of nan"),
        ({"delta": -1e-9}, "a delta of -1e-09"),
        ({"run": ""}, "neither the name of a run nor a pattern"),
        ({"run": "a b"}, "neither the name of a run nor a pattern"),
        ({"domain": {}}, "a domain with at least one input"),
        ({"domain": {"inputs": 0}}, "a domain with at least one input"),
        ({"domain": {"inputs": True}}, "a domain with at least one input"),
        ({"domain": {"inputs": 3.0}}, "a domain with at least one input"),
        ({"analyst": bytes(32)}, "belong together"),
        ({"board": bytes(32)}, "belong together"),
        ({"analyst": bytes(31), "board": bytes(32)}, "the analyst's key has 31 bytes"),
        ({"analyst": bytes(32), "board": bytes(33)}, "the board's key has 33 bytes"),
        ({"shuffler": bytes(1)}, "the shuffler's key has 1 bytes"),
        ({**SIGNED, "trusts": "shuffler"}, "give the shuffler's key too"),
    ],
)
def test_a_consent_to_nothing_sensible_cannot_be_given(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        consent(**changes)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"levels": 0}, "age cannot have 0 levels"),
        ({"low": 90.0}, "neither a finite range low < high nor categories"),
        ({"low": None}, "neither a finite range low < high nor categories"),
        ({"high": float("nan")}, "neither a finite range low < high nor categories"),
        ({"categories": ("a", "b")}, "age cannot have 4 levels"),
    ],
)
def test_columns_that_mean_nothing_are_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        column(**changes)


def test_a_domain_has_as_many_inputs_as_its_columns_have_combinations() -> None:
    other = column(name="answer", levels=3, low=None, high=None, categories=("no", "maybe", "yes"))
    assert domain_of(12, [column(), other])["inputs"] == 12
    assert [each["name"] for each in domain_of(12, [column(), other])["columns"]] == ["age", "answer"]
    assert domain_of(12) == {"inputs": 12}
    with pytest.raises(BadInput, match="columns of 4 x 3 levels do not make 11 inputs"):
        domain_of(11, [column(), other])
    with pytest.raises(BadInput, match="is empty"):
        domain_of(0)


@pytest.mark.parametrize(
    ("run", "good", "bad"),
    [
        ("survey", ["survey"], ["survey-1", "Survey", "surve", "other"]),
        ("survey-*", ["survey-1", "survey-"], ["survey", "Survey-1", "other-survey-1"]),
        ("r?", ["r1", "rx"], ["r", "r12", "R1"]),
        ("[ab]1", ["a1", "b1"], ["c1", "[ab]1"]),
        ("*", ["anything", "r"], []),
    ],
)
def test_runs_are_those_that_were_named(run: str, good: list[str], bad: list[str]) -> None:
    agreed = consent(run=run)
    for name in good:
        assert agreed.covers(name)
        agreed.check_setup(setup(run=name))
    for name in bad:
        assert not agreed.covers(name)
        with pytest.raises(RemoteProtocolError, match="not one that these users agreed to"):
            agreed.check_setup(setup(run=name[:64] if name.isalnum() else "x"))


MEANT = domain_of(4, [column()])


@pytest.mark.parametrize(
    "other",
    [
        domain_of(4),
        domain_of(3),
        domain_of(4, [column(low=17.0)]),
        domain_of(4, [column(high=91.0)]),
        domain_of(4, [column(name="income")]),
        domain_of(4, [column(low=None, high=None, categories=("a", "b", "c", "d"))]),
        domain_of(8, [column(levels=8)]),
        {**MEANT, "more": 1},
        {},
    ],
    ids=str,
)
def test_a_setup_about_other_values_is_refused(other: dict[str, Any]) -> None:
    agreed = consent(domain=MEANT)
    agreed.check_setup(setup(domain=MEANT))
    # What came over the wire is compared as it comes.
    agreed.check_setup(setup(domain=unpack(pack(MEANT))))
    with pytest.raises(RemoteProtocolError, match="is not the agreed"):
        agreed.check_setup(setup(domain=other))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"epsilon": 1.5}, "the setup claims"),
        ({"delta": 0.1}, "the setup claims"),
        ({"rounds": 2}, "the setup claims"),
    ],
)
def test_a_setup_that_claims_something_else_than_its_protocol_is_refused(changes: dict[str, Any], reason: str) -> None:
    consent().check_claim(setup(), CLAIM, 3)
    with pytest.raises(RemoteProtocolError, match=reason):
        consent().check_claim(setup(**changes), CLAIM, 3)
    with pytest.raises(RemoteProtocolError, match=reason):
        consent().check_claim(setup(), replace(CLAIM, **changes), 3)


def test_a_protocol_about_another_number_of_inputs_is_refused() -> None:
    for inputs in (2, 4):
        with pytest.raises(RemoteProtocolError, match=f"has {inputs} inputs, but these users agreed to 3"):
            consent().check_claim(setup(), CLAIM, inputs)


@given(cap=st.floats(0, 4), epsilon=st.floats(1e-3, 4), delta_cap=st.floats(0, 1), delta=st.floats(0, 1))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_what_costs_more_than_the_cap_is_refused(cap: float, epsilon: float, delta_cap: float, delta: float) -> None:
    agreed, claim = consent(cap=cap, delta=delta_cap), replace(CLAIM, epsilon=epsilon, delta=delta)
    try:
        agreed.check_claim(setup(epsilon=epsilon, delta=delta), claim, 3)
    except RemoteProtocolError:
        assert epsilon > cap or delta > delta_cap
    else:
        assert epsilon <= cap
        assert delta <= delta_cap


def test_who_trusts_nobody_pays_the_local_price() -> None:
    shuffled = replace(CLAIM, delta=1e-6, trusts="shuffler", local_epsilon=5.0)
    asked = setup(delta=1e-6)
    consent(trusts="shuffler", delta=1e-6).check_claim(asked, shuffled, 3)
    with pytest.raises(RemoteProtocolError, match=r"epsilon 5.0 for users who trust nobody is above"):
        consent(delta=1e-6).check_claim(asked, shuffled, 3)
    with pytest.raises(RemoteProtocolError, match="epsilon inf"):
        consent(delta=1e-6).check_claim(asked, replace(shuffled, local_epsilon=float("inf")), 3)


def signed(message: Message, signer: Signer | None, nonce: bytes = NONCE) -> bytes:
    return encode(message, signer, nonce)


RESULT = Result(run=RUN, estimate=0.0, predicted_rmse=1.0, low=0.0, high=1.0, replied=1)
ABORT = Abort(run=RUN, outcome="failed", reason="so", nonce=NONCE)
SAYS: dict[type[Message], tuple[str, ...]] = {
    Setup: ("analyst",),
    Announce: ("analyst",),
    Result: ("analyst",),
    Abort: ("analyst", "board"),
    Pledge: ("shuffler",),
    Seating: ("board", "shuffler"),
}


@pytest.mark.parametrize("message", every_message(), ids=lambda each: each.kind)
def test_what_must_be_signed_counts_only_from_who_may_say_it(message: Message) -> None:
    agreed = consent(**SIGNED, trusts="shuffler", shuffler=PUBLIC["shuffler"])
    allowed = SAYS.get(type(message))
    for name, signer in KEYS.items():
        expected = allowed is None or name in allowed
        assert agreed.is_authentic(message, signed(message, signer), NONCE) == expected, name
    assert agreed.is_authentic(message, signed(message, None), NONCE) == (allowed is None)
    assert consent().is_authentic(message, signed(message, None), NONCE), "without keys everybody's word counts"


def test_a_word_of_another_run_does_not_count() -> None:
    agreed = consent(**SIGNED)
    for message in (Announce(run=RUN, round=1, broadcast={}), RESULT):
        frame = signed(message, KEYS["analyst"], bytes(16))
        assert not agreed.is_authentic(message, frame, NONCE)
    # An abort ends those too who know no nonce, and carries its own.
    for nonce in (b"", NONCE):
        assert agreed.is_authentic(ABORT, signed(ABORT, KEYS["board"], b""), nonce)
    other = replace(ABORT, nonce=bytes(16))
    assert not agreed.is_authentic(other, signed(ABORT, KEYS["board"]), NONCE), "its signature covers the nonce"


def test_closes_and_reminders_prove_themselves_elsewhere() -> None:
    agreed = consent(**SIGNED)
    for message in (Close(run=RUN, round=1, replies=0, missing=0), Reminder(run=RUN, round=1, missing={})):
        assert agreed.is_authentic(message, signed(message, None), NONCE)


def test_receipts_are_wanted_where_the_board_signs_and_the_node_speaks_to_it() -> None:
    assert consent(**SIGNED).wants_receipts
    assert not consent().wants_receipts
    assert not consent(**SIGNED, trusts="shuffler", shuffler=PUBLIC["shuffler"]).wants_receipts


def test_a_consent_is_read_back_from_the_state() -> None:
    for agreed in (consent(), consent(**SIGNED, domain=MEANT, run="a-*", shuffler_link="key")):
        assert Consent(**unpack(pack(vars(agreed)))) == agreed
    record = vars(consent())
    for wrong in ({}, {**record, "more": 1}, {"run": RUN}, {**record, "run": 5}, {**record, "cap": "a"}):
        with pytest.raises((BadInput, TypeError)):
            Consent(**wrong)


def test_a_consent_to_a_protocol_is_to_exactly_that() -> None:
    agreed = consent_to(protocol(), RUN)
    assert (agreed.run, agreed.cap, agreed.delta, agreed.inputs, agreed.trusts) == (RUN, 1.0, 0.0, 3, "nobody")
    agreed.check_setup(setup())
    assert consent_to(protocol(), RUN, domain_of(3)).domain == {"inputs": 3}
