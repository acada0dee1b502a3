"""Sealed boxes: opened by their key and by no other, the same bytes from the same coins, damage noticed."""

import stat
from pathlib import Path

import numpy as np
import pytest

from parley.emulator.coins import coins, key_from_seed
from parley.emulator.errors import BadInput
from parley.emulator.wire.sealing import OVERHEAD, load_secret, new_secret, open_boxes, public_of, save_secret, seal

MESSAGES = np.random.default_rng(1).integers(0, 256, size=(20, 9), dtype=np.uint8)
COINS = coins(key_from_seed(4), bytes(32), 0, 20, 32)
EXPECTED = (
    "13be4feaeaf204c7fd3358fc9c00721881d174278128227ec674f37f7fe97b6dd6869b93a354447af266513f367103d740d7e85ac9e012e814"
)


def test_only_the_holder_of_the_key_opens() -> None:
    secret = new_secret()
    boxes = seal(public_of(secret), MESSAGES, COINS)
    assert boxes.shape == (20, 9 + OVERHEAD)
    found, good = open_boxes(secret, boxes)
    assert good.all()
    assert np.array_equal(found, MESSAGES)
    assert not open_boxes(new_secret(), boxes)[1].any()


def test_the_same_coins_give_the_same_boxes_and_others_do_not() -> None:
    public = public_of(new_secret())
    assert np.array_equal(seal(public, MESSAGES, COINS), seal(public, MESSAGES, COINS))
    other = coins(key_from_seed(5), bytes(32), 0, 20, 32)
    assert not (seal(public, MESSAGES, COINS)[:, 32:] == seal(public, MESSAGES, other)[:, 32:]).all(axis=1).any()


def test_equal_messages_look_different() -> None:
    boxes = seal(public_of(new_secret()), np.zeros((20, 9), np.uint8), COINS)
    assert len({box.tobytes() for box in boxes}) == 20


@pytest.mark.parametrize("place", [0, 31, 32, 40, 41, 56])
def test_a_spoilt_byte_is_noticed(place: int) -> None:
    secret = new_secret()
    boxes = seal(public_of(secret), MESSAGES, COINS)
    boxes[3, place] ^= 1
    found, good = open_boxes(secret, boxes)
    assert np.flatnonzero(~good).tolist() == [3]
    assert not found[3].any()


def test_a_point_without_a_secret_is_no_accident() -> None:
    """The zero point shares a secret with nobody; whoever sends it is left out."""
    boxes = seal(public_of(secret := new_secret()), MESSAGES, COINS)
    boxes[0, :32] = 0
    assert not open_boxes(secret, boxes)[1][0]


def test_the_construction_stays_as_it_is() -> None:
    """A record must be readable next year: one box, byte for byte."""
    secret = bytes(range(32))
    box = seal(public_of(secret), np.arange(9, dtype=np.uint8)[None], np.full((1, 32), 7, np.uint8))
    assert box[0].tobytes().hex() == EXPECTED


def test_secrets_are_kept_private(tmp_path: Path) -> None:
    path, secret = tmp_path / "opening.key", new_secret()
    save_secret(path, secret)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_secret(path) == secret
    for content in ("", "zz", secret.hex()[:-2]):
        path.write_text(content)
        with pytest.raises(BadInput) as caught:
            load_secret(path)
        assert secret.hex()[:16] not in str(caught.value)
