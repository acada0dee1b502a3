"""Listing, losses and comparisons on laws that are known."""

import math
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import parley
from parley.emulator.protocol import Send
from parley.launch.testkit.contract.laws import (
    ALPHA,
    all_coins,
    chi_square,
    compare,
    compare_posteriors,
    keys,
    largest_losses,
    likelihoods,
    listing,
    sums,
)

SENDS = {
    "one bit": Send(parley.OneBit(low=0.0, high=1.0, epsilon=1.0), np.linspace(0, 1, 4)),
    "response": Send(parley.RandomizedResponse(categories=5, epsilon=1.0), np.arange(5)),
    "unary": Send(parley.OptimisedUnaryEncoding(categories=5, epsilon=1.0), np.arange(5)),
    "subset": Send(parley.SubsetSelection(categories=5, epsilon=1.0), np.arange(5)),
    "laplace": Send(parley.GridLaplace(low=0.0, high=1.0, epsilon=1.0), np.linspace(0, 1, 4)),
    "codebook": Send(parley.Codebook(dimension=3, radius=1.0, epsilon=1.0), np.eye(3)),
}


def generator(*seed: int) -> np.random.Generator:
    return np.random.default_rng([7, *seed])


def test_the_loss_of_a_table_is_its_largest_ratio() -> None:
    table = np.array([[0.5, 0.25, 0.0], [0.5, 0.75, 1.0]])
    with np.errstate(divide="ignore"):
        losses = largest_losses(np.log(table))
    assert losses[0, 1] == pytest.approx(math.log(2))
    assert losses[1, 0] == pytest.approx(math.log(1.5))
    assert losses[0, 2] == math.inf
    # A reply that an input cannot send tells nothing about it: only those that it can send count.
    assert losses[2, 0] == pytest.approx(math.log(2))


@pytest.mark.parametrize("name", SENDS)
def test_built_in_laws_agree_with_their_samplers(name: str) -> None:
    send = SENDS[name]
    listed = listing(send, generator(1), 8)
    log = likelihoods(send, listed.replies)
    assert float(largest_losses(log).max()) <= 1.0 + 1e-9
    # Unary encoding leaves out a factor that is the same for every input.
    if listed.group > 1 and name != "unary":
        assert_allclose(sums(log, listed.group), 1.0, rtol=0, atol=1e-9)
    for x in range(send.inputs):
        for found in compare(send, x, listed, log, 5000, generator(2, x), ALPHA):
            assert found.agrees, (x, found)
    assert compare_posteriors(send, 5000, generator(3), ALPHA).agrees


class Leaking(parley.OneBit):
    """Its reply carries the input's sign in a column that the likelihood says nothing about."""

    reply: ClassVar = {**parley.OneBit.reply, "mark": (np.dtype(np.uint8), ())}

    def sample(self, inputs, coins):
        return {**super().sample(inputs, coins), "mark": (inputs > 0.5).astype(np.uint8)}

    def every_reply(self):
        return None


def test_a_column_that_likelihoods_leave_out_is_seen() -> None:
    leaking = Send(Leaking(low=0.0, high=1.0, epsilon=1.0), np.linspace(0, 1, 4))
    assert not compare_posteriors(leaking, 2000, generator(4), ALPHA).agrees


class TwoBytes(parley.OneBit):
    """One bit that is decided by two bytes of coins; `off` of the 65,536 go the wrong way."""

    coins = 2
    off = 0

    def thresholds(self, inputs):
        return (np.uint64(20_000) + (inputs * 25_536).astype(np.uint64)) << np.uint64(48)

    def sample(self, inputs, coins):
        coin = coins[:, 0] + 256 * coins[:, 1].astype(np.int64)
        return {"bit": (coin + self.off < (self.thresholds(inputs) >> np.uint64(48)).astype(np.int64)).astype(np.uint8)}


@pytest.mark.parametrize(("off", "agrees"), [(0, True), (1, False)])
def test_with_two_bytes_of_coins_every_coin_is_tried(off: int, agrees: bool) -> None:
    send = Send(type("Off", (TwoBytes,), {"off": off})(low=0.0, high=1.0, epsilon=1.0), np.array([0.0, 1.0]))
    listed = listing(send, generator(5), 1)
    (found,) = compare(send, 1, listed, likelihoods(send, listed.replies), 10, generator(6), ALPHA)
    assert (found.how, found.draws, found.agrees) == ("every coin there is", 65_536, agrees)


def test_all_coins_are_all() -> None:
    assert len(np.unique(all_coins(2), axis=0)) == 65_536
    assert all_coins(0).shape == (1, 0)


@settings(deadline=None)
@given(st.lists(st.integers(0, 400), min_size=2, max_size=300))
def test_groups_of_chi_square_expect_enough(expected: list[int]) -> None:
    means = np.array(expected, dtype=float)
    counts = np.array(expected)
    statistic, threshold = chi_square(counts, means)
    assert statistic == 0.0
    assert threshold >= 0.0


def test_chi_square_sees_what_is_too_often() -> None:
    means = np.full(100, 50.0)
    counts = np.full(100, 50)
    counts[3] += 60
    statistic, threshold = chi_square(counts, means)
    assert statistic == pytest.approx(72.0)
    assert statistic < threshold
    counts[3] += 90
    statistic, threshold = chi_square(counts, means)
    assert statistic > threshold


@given(st.lists(st.tuples(st.integers(0, 255), st.integers(0, 255)), min_size=1, max_size=50))
def test_keys_tell_replies_apart(rows: list[tuple[int, int]]) -> None:
    columns = {"a": np.array([a for a, _ in rows], np.uint8), "b": np.array([b for _, b in rows], np.uint8)}
    assert len(np.unique(keys(columns, len(rows)))) == len(set(rows))
