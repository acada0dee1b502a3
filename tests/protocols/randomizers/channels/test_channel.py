"""Explicit channels: the contract, tables that are refused with the entry that fails, and exact decoding."""

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Columns, Floats, Randomizer
from parley.protocols.randomizers.categories.subset_selection import SubsetSelection
from parley.protocols.randomizers.channels.channel import (
    Channel,
    check_table,
    exact_loss,
    response,
    subsets,
)
from parley.protocols.randomizers.exact import exponential_lower, guarded
from tests.contracts.randomizer_contract import RandomizerContract

SMALL = np.array([[4, 2, 2, 0], [2, 4, 2, 0], [2, 2, 4, 0]], dtype=np.int64)


def shares(rough: Floats) -> Floats:
    """The same with rows that add up to one."""
    return np.asarray(rough / rough.sum(axis=1, keepdims=True))


class TestChannel(RandomizerContract):
    def randomizers(self) -> Sequence[Randomizer]:
        rough = shares(np.random.default_rng(1).uniform(1.0, 2.0, (5, 7)))
        return [
            Channel(weights=SMALL, epsilon=1.0),
            response(4, 1.0),
            subsets(5, 2, 2.0),
            Channel.from_probabilities(rough, 2.5),
            response(3, 12.0),
        ]

    def inputs(self, randomizer: Any) -> NDArray[Any]:
        return np.arange(float(randomizer.inputs))

    def expected(self, randomizer: Any, inputs: NDArray[Any]) -> Floats:
        return np.asarray(randomizer.probabilities[inputs.astype(int)])

    def outcomes(self, randomizer: Any) -> Iterable[Columns]:
        return [{"output": np.flatnonzero(randomizer.used).astype(np.uint8)}]

    def weights(self, randomizer: Any) -> Iterable[Sequence[int]]:
        return [column.tolist() for column in randomizer.weights.T if column.any()]

    def bad_parameters(self) -> Sequence[Mapping[str, Any]]:
        wrong = (SMALL.astype(float), SMALL[0], SMALL * 3, SMALL - 3, SMALL[:, :0], [[1, 1]])
        return [{"weights": table} for table in wrong]

    def bad_inputs(self, randomizer: Any) -> Sequence[NDArray[Any]]:
        return [np.array([0.0, 9.0]), np.array([-1.0]), np.array([0.5]), np.array([np.nan])]


REFUSED = {
    "output 0 has the weight 2 under input 1 and 8 under input 0": [[8, 4, 4], [2, 8, 6]],
    "output 2 has the weight 0 under input 1 and 1 under input 0": [[8, 7, 1], [8, 8, 0]],
    "the weights of input 1 add up to 15, those of input 0 to 16": [[8, 8], [8, 7]],
    "the weights of input 0 add up to 12; give a power of two": [[6, 6], [6, 6]],
    "output 1 of input 0 has the weight -1": [[9, -1], [4, 4]],
}


@pytest.mark.parametrize("reason", REFUSED)
def test_a_table_is_refused_with_the_entry_that_fails(reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        check_table(np.array(REFUSED[reason], dtype=np.int64), 1.0)


OWN = {
    "output 1 has the probability 0.1 under input 0 and 0.4 under input 1": [[0.9, 0.1], [0.6, 0.4]],
    "output 0 has the probability 0 under input 1 and 0.2 under input 0": [[0.2, 0.8], [0.0, 1.0]],
    "the probabilities of input 1 add up to 0.9; make it 1": [[0.5, 0.5], [0.5, 0.4]],
    "output 1 of input 0 has the probability -0.1": [[1.1, -0.1], [0.5, 0.5]],
    "output 0 of input 1 has the probability nan": [[0.5, 0.5], [np.nan, 0.5]],
    "a channel is a table of probabilities": [0.5, 0.5],
}


@pytest.mark.parametrize("reason", OWN)
def test_a_mechanism_of_ones_own_is_refused_with_the_entry_that_fails(reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        Channel.from_probabilities(np.array(OWN[reason]), 1.0)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0])
def test_a_mechanism_that_uses_up_epsilon_passes(epsilon: float) -> None:
    """Rounding alone would put it above its claim: whole numbers decide, and a billionth is given up for them."""
    own = shares(1 + math.expm1(epsilon) * np.eye(5))
    channel = Channel.from_probabilities(own, epsilon)
    assert exact_loss(channel.weights) <= exponential_lower(guarded(epsilon))
    assert np.abs(channel.probabilities - own).max() < 2e-9


def test_whole_numbers_decide_next_to_the_limit() -> None:
    """The largest weight that e^eps allows passes, one more does not."""
    low = 10**12
    bound = int(exponential_lower(guarded(1.0)) * low)
    for high, good in ((bound, True), (bound + 1, False)):
        rest = (1 << 50) - low - high
        table = np.array([[low, high, rest], [high, low, rest]], dtype=np.int64)
        if good:
            check_table(table, 1.0)
        else:
            with pytest.raises(BadInput, match="output"):
                check_table(table, 1.0)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 6), st.integers(2, 9), st.floats(0.2, 4.0), st.integers(0, 2**32))
def test_rounded_tables_keep_epsilon(inputs: int, outputs: int, epsilon: float, seed: int) -> None:
    generator = np.random.default_rng(seed)
    base = generator.uniform(0.2, 1.0, outputs)
    rough = base * np.exp(generator.uniform(0, epsilon * 0.45, (inputs, outputs)))
    channel = Channel.from_probabilities(shares(rough), epsilon)
    assert exact_loss(channel.weights) <= Fraction(np.exp(epsilon))
    assert np.abs(channel.probabilities - shares(rough)).max() < 1e-8


def test_subsets_are_those_of_subset_selection() -> None:
    oracle = SubsetSelection(categories=6, epsilon=1.0)
    channel = subsets(6, oracle.size, 1.0)
    held = channel.weights[0] > channel.weights[0].min() + 10**6
    own = float(channel.probabilities[0, held].sum())
    assert own == pytest.approx(oracle.own, rel=1e-9)


def test_decoding_is_unbiased_for_every_histogram_and_has_the_stated_covariance() -> None:
    channel = subsets(4, 2, 1.0)
    decoding = channel.decoding()
    target, histogram = np.array([1.0, -2.0, 0.5, 3.0]), np.array([0.1, 0.2, 0.3, 0.4])
    values = decoding.values(target)
    np.testing.assert_allclose(channel.probabilities @ values, target, atol=1e-9)
    by_input = channel.probabilities @ values**2 - target**2
    assert decoding.variance(target, histogram) == pytest.approx(float(histogram @ by_input))
    covariance = decoding.covariance(histogram)
    assert float(target @ covariance @ target) == pytest.approx(decoding.variance(target, histogram))
    counts = histogram @ channel.probabilities
    np.testing.assert_allclose(decoding.histogram(counts), histogram, atol=1e-9)


def test_no_other_unbiased_decoding_has_less_variance_at_its_guess() -> None:
    channel = Channel.from_probabilities(shares(np.random.default_rng(3).uniform(1, 2, (3, 6))), 1.0)
    guess = np.array([0.2, 0.3, 0.5])
    decoding = channel.decoding(guess)
    target = np.array([1.0, 0.0, -1.0])
    values, chances = decoding.values(target), guess @ channel.probabilities
    _, _, basis = np.linalg.svd(channel.probabilities)
    for free in basis[3:]:
        for step in (-0.1, 0.1):
            other = values + step * free
            np.testing.assert_allclose(channel.probabilities @ other, target, atol=1e-9)
            assert chances @ other**2 > chances @ values**2


def test_what_a_channel_does_not_determine_is_refused() -> None:
    channel = Channel(weights=np.array([[3, 1], [1, 3], [1, 3]], dtype=np.int64), epsilon=2.0)
    decoding = channel.decoding()
    decoding.values(np.array([1.0, 0.0, 0.0]))
    with pytest.raises(BadInput, match=r"does not determine what is asked: it cannot tell input [12]"):
        decoding.values(np.array([0.0, 1.0, 0.0]))


def test_running_sums_are_what_a_coin_is_compared_with() -> None:
    channel = Channel(weights=SMALL, epsilon=1.0)
    coins = (np.arange(8, dtype=np.uint64) << np.uint64(61)).astype("<u8").view(np.uint8).reshape(8, 8)
    drawn = channel.sample(np.zeros(8), coins)["output"]
    assert drawn.tolist() == [0, 0, 0, 0, 1, 1, 2, 2]
    assert all(a <= b for a, b in pairwise(drawn.tolist()))
