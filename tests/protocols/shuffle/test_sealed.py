"""Sealed replies: users answer without the key, the analyst estimates as ever, the shuffler reads nothing."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.reference.simulate_shuffled import shuffled_conversation, simulate_shuffled
from parley.emulator.arithmetic import one_thread
from parley.emulator.coins import addressed, key_from_seed, recorded_coins
from parley.emulator.errors import BadInput, LocalProtocolError
from parley.emulator.protocol import Analysis, Estimate
from parley.emulator.roles.cohort import CohortRole
from parley.emulator.roles.consent import consent_to
from parley.emulator.wire.messages import Announce, Replies, Result, Setup
from parley.emulator.wire.sealing import KEY_BYTES, new_secret
from parley.protocols import registry
from parley.protocols.shuffle.sealed import sealed, unsealed
from parley.protocols.shuffle.shuffled import Shuffled
from parley.protocols.workloads.kendall import Kendall
from tests.attacks.parties import setup_of

USERS = 300
KEY = key_from_seed(2)
INPUTS = np.random.default_rng(2).integers(0, 9, USERS)


@pytest.fixture(scope="module")
def plain() -> Shuffled:
    return Shuffled.design(Kendall(levels=(3, 3)), epsilon=1.0, users=USERS)


def test_the_estimate_is_that_of_open_replies(plain: Shuffled) -> None:
    """Sealed replies are another question, so they come from other coins: with these, open ones say the same."""
    boxed = sealed(plain, new_secret())
    said = [message for _, message in shuffled_conversation(boxed, INPUTS, KEY, nodes=2, chunk=64)]
    setup = next(each for each in said if isinstance(each, Setup))
    announce = next(each for each in said if isinstance(each, Announce))
    step = plain.rounds[0]
    flips = recorded_coins(setup, announce, KEY)(0, USERS, boxed.rounds[0].coins)
    replies = step.respond({}, INPUTS, np.ascontiguousarray(flips[:, : step.coins]))
    with one_thread():
        analysis = Analysis(plain)
        analysis.open()
        expected = analysis.hear({}, step.tally({}, replies))
    assert isinstance(expected, Estimate)
    assert isinstance(said[-1], Result)
    assert said[-1].estimate == expected.value
    assert simulate_shuffled(boxed, INPUTS, KEY, nodes=2, chunk=64).estimate == expected.value


def test_a_stranger_can_answer_and_not_read(plain: Shuffled) -> None:
    secret = new_secret()
    boxed = sealed(plain, secret)
    assert secret.hex() not in str(boxed.parameters())
    stranger = registry.build("shuffled", boxed.parameters())
    step, known = stranger.rounds[0], boxed.rounds[0]
    flips = addressed(KEY, 1, 0, USERS, step.coins)
    replies = step.respond({}, INPUTS, flips)
    assert replies["sealed"].tobytes() == known.respond({}, INPUTS, flips)["sealed"].tobytes()
    for read in (step.tally, step.check, step.log_likelihood):
        with pytest.raises(LocalProtocolError, match="sealed for the analyst"):
            read({}, replies)
    assert unsealed(stranger, secret).rounds[0].tally({}, replies).replies == USERS
    with pytest.raises(BadInput, match="not the one"):
        unsealed(stranger, new_secret())


def test_likelihoods_are_those_of_what_is_inside(plain: Shuffled) -> None:
    boxed = sealed(plain, new_secret())
    flips = addressed(KEY, 1, 0, USERS, boxed.rounds[0].coins)
    step = plain.rounds[0]
    inside = step.respond({}, INPUTS, np.ascontiguousarray(flips[:, : step.coins]))
    replies = boxed.rounds[0].respond({}, INPUTS, flips)
    assert np.array_equal(boxed.rounds[0].log_likelihood({}, replies), step.log_likelihood({}, inside))


def ephemeral_keys(setup: Setup, boxed: Shuffled) -> set[bytes]:
    """The public keys at the head of the boxes of a node that has this state and hears this setup."""
    role = CohortRole(
        node="n", first=0, inputs=INPUTS, key=KEY, consent=consent_to(boxed, setup.run), build=registry.build
    )
    list(role.hear(setup))
    (said,) = [each for each in role.hear(Announce(run=setup.run, round=1, broadcast={})) if isinstance(each, Replies)]
    return {box[:KEY_BYTES].tobytes() for box in said.columns["sealed"]}


def test_copies_of_a_state_seal_with_other_keys_for_another_setup(plain: Shuffled) -> None:
    """One ephemeral key for two plaintexts would give away how they differ."""
    secret = new_secret()
    boxed, other = (sealed(replace(plain, local_epsilon=each), secret) for each in (plain.local_epsilon, 0.5))
    setups = [(setup_of(boxed), boxed), (setup_of(boxed, nonce=bytes(16)), boxed), (setup_of(other), other)]
    keys = [ephemeral_keys(setup, protocol) for setup, protocol in setups]
    assert len(set.union(*keys)) == len(setups) * USERS
    assert ephemeral_keys(*setups[0]) == keys[0]


def test_spoilt_boxes_are_left_out(plain: Shuffled) -> None:
    boxed = sealed(plain, new_secret())
    replies = boxed.rounds[0].respond({}, INPUTS, addressed(KEY, 1, 0, USERS, boxed.rounds[0].coins))
    boxes = np.array(replies["sealed"], dtype=np.uint8)
    boxes[[5, 7], 40] ^= 1
    assert np.flatnonzero(~boxed.rounds[0].check({}, {"sealed": boxes})).tolist() == [5, 7]


def test_the_shuffler_carries_boxes_of_one_size(plain: Shuffled) -> None:
    boxed = sealed(plain, new_secret())
    batches = [
        message.columns for _, message in shuffled_conversation(boxed, INPUTS, KEY) if isinstance(message, Replies)
    ]
    assert [(set(batch), batch["sealed"].shape) for batch in batches] == [({"sealed"}, (USERS, 51))]
    assert "sealed boxes" in boxed.claim.protects_from


@pytest.mark.parametrize("key", ["", "00", "g" * 64, b"\x00" * 32, None])
def test_nonsense_keys_are_refused(plain: Shuffled, key: object) -> None:
    with pytest.raises(BadInput):
        registry.build("shuffled", {**plain.parameters(), "seal": key})


def test_protocols_without_whole_replies_cannot_be_sealed() -> None:
    with pytest.raises(BadInput, match="cannot be sealed"):
        sealed(registry.design("one-round", Kendall(levels=(3, 3)), epsilon=1.0, users=100), new_secret())


# All points of small order on the curve and its twist, in every encoding (RFC 7748 ignores the highest bit).
PRIME = 2**255 - 19
EIGHTH = 325606250916557431795983626356110631294008115727848805560023387167927233504
OTHER = 39382357235489614581723060781553021112529911719440698176882885853963445705823
SMALL = sorted({point + top for point in (0, 1, EIGHTH, OTHER, PRIME - 1, PRIME, PRIME + 1) for top in (0, 2**255)})


@pytest.mark.parametrize("point", SMALL)
def test_a_key_that_gives_no_secret_is_refused(plain: Shuffled, point: int) -> None:
    key = point.to_bytes(32, "little").hex()
    with pytest.raises(BadInput, match="small order"):
        registry.build("shuffled", {**plain.parameters(), "seal": key})


@pytest.mark.parametrize("point", [2, 9, PRIME - 2, PRIME + 9, 2**255 - 1])
def test_any_other_point_seals(plain: Shuffled, point: int) -> None:
    """On the curve, on its twist, in canonical form or not."""
    key = point.to_bytes(32, "little").hex()
    step = registry.build("shuffled", {**plain.parameters(), "seal": key}).rounds[0]
    flips = addressed(KEY, 1, 0, 9, step.coins)
    assert step.respond({}, np.arange(9), flips)["sealed"].shape == (9, *step.reply["sealed"][1])
