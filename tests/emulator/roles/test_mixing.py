"""Permutations are uniform and take the operating system's randomness; columns are mixed as the rule says."""

import math
import os
from collections import Counter

import numpy as np
import pytest

from parley.emulator.errors import LocalProtocolError, RemoteProtocolError
from parley.emulator.roles.mixing import (
    Mixing,
    draw_seed_from_key,
    keyed_draw,
    keyed_draws,
    mix,
    permutation,
    system_draw,
    system_draws,
)


def test_all_permutations_are_equally_likely() -> None:
    draw = keyed_draw(bytes(31) + b"\x01")
    trials = 24_000
    counts = Counter(tuple(permutation(4, draw).tolist()) for _ in range(trials))
    statistic = sum((count - trials / 24) ** 2 / (trials / 24) for count in counts.values())
    assert len(counts) == math.factorial(4)
    assert statistic < 76.0, f"chi-square {statistic} with 23 degrees, n {trials}, threshold 76 (alpha 1e-6)"


def test_equal_keys_are_drawn_again() -> None:
    draws = iter([bytes(24), np.array([3, 1, 2], np.uint64).tobytes()])
    assert permutation(3, lambda size: next(draws)).tolist() == [1, 2, 0]


def test_the_operating_system_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    genuine = os.urandom

    def urandom(size: int) -> bytes:
        asked.append(size)
        return genuine(size)

    monkeypatch.setattr(os, "urandom", urandom)
    columns = {"value": np.arange(50), "shares": np.arange(600).reshape(50, 3, 4)}
    mix(columns, Mixing(crowd=1, axes={"shares": 1}), system_draw)
    assert asked == [8 * 50, 8 * 200, 8 * 200, 8 * 200]


def test_rows_move_together_and_entries_alone() -> None:
    columns = {
        "a": np.arange(40),
        "b": np.arange(80.0).reshape(40, 2),
        "shares": np.arange(40 * 3 * 4, dtype=np.uint64).reshape(40, 3, 4),
    }
    mixed = mix(columns, Mixing(crowd=1, axes={"shares": 1}), keyed_draw(bytes(32)))
    assert sorted(mixed["a"].tolist()) == list(range(40))
    assert not np.array_equal(mixed["a"], columns["a"])
    assert np.array_equal(mixed["b"], columns["b"][mixed["a"]])
    for coordinate in range(3):
        before, after = columns["shares"][:, coordinate], mixed["shares"][:, coordinate]
        assert np.array_equal(np.sort(before, axis=None), np.sort(after, axis=None))
        owners = (after // 12).astype(int)
        assert (owners == owners[:, :1]).all(axis=1).sum() < 5, "shares of a user stayed together"
    assert mixed["shares"].dtype == np.uint64


def test_coordinates_are_mixed_independently() -> None:
    column = np.repeat(np.arange(30)[:, None], 2, axis=1)[:, :, None]
    mixed = mix({"x": column}, Mixing(crowd=1, axes={"x": 1}), keyed_draw(bytes(32)))["x"]
    assert not np.array_equal(mixed[:, 0], mixed[:, 1])


def test_what_cannot_be_mixed_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="axes to keep apart"):
        mix({"x": np.arange(3)}, Mixing(crowd=1, axes={"x": 2}), system_draw)
    with pytest.raises(LocalProtocolError, match="key of 3 bytes"):
        keyed_draw(b"abc")


def test_each_round_of_a_repeated_experiment_has_draws_of_its_own() -> None:
    """A shuffler that was killed between two rounds draws for the second what it would have drawn."""
    first, second = keyed_draws(bytes(32)), keyed_draws(bytes(32))
    first(1)(1000)
    assert first(2)(64) == second(2)(64)
    assert first(1)(64) != first(2)(64)
    assert system_draws(1) is system_draw
    assert draw_seed_from_key(bytes(32)) != draw_seed_from_key(bytes(31) + b"\x01") != bytes(32)
    with pytest.raises(LocalProtocolError, match="key of 3 bytes"):
        keyed_draws(b"abc")
