"""The table of a scalar: optimal in closed cases, private in whole numbers, unbiased between its rows."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.emulator.errors import BadInput
from parley.protocols.randomizers.channels.channel import Channel, check_table
from parley.protocols.randomizers.channels.scalar_lp import best_table, integer_table, row_weights
from parley.protocols.randomizers.channels.scalar_table import ROWS, mixed, positions
from parley.protocols.tuned.scalar_question import whole_table


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 4.0, 8.0])
def test_at_the_two_ends_it_is_one_bit(epsilon: float) -> None:
    """All weight on -1 and 1: randomized response is optimal, E t^2 = coth(eps/2)^2."""
    weights = np.zeros(ROWS)
    weights[[0, -1]] = 0.5
    # The grid of values need not hold coth(eps/2) itself.
    moments = best_table(weights, epsilon, 65).second_moments[[0, -1]]
    exact = 1 / math.tanh(epsilon / 2) ** 2
    assert exact * (1 - 1e-9) <= moments.mean() <= exact * 1.01


@settings(max_examples=12, deadline=None)
@given(st.floats(1e-3, 12.0), st.integers(0, 2**32))
def test_whole_tables_are_private_and_unbiased(epsilon: float, seed: int) -> None:
    weights = np.random.default_rng(seed).dirichlet(np.full(ROWS, 0.3))
    table = whole_table(weights, min(epsilon, 10.0))
    whole = integer_table(table)
    check_table(whole, epsilon)
    assert (whole.sum(axis=1) == 2**32).all()
    means = whole @ table.values / 2**32
    assert np.abs(means - np.linspace(-1, 1, ROWS)).max() < 1e-6 * np.abs(table.values).max()


def test_between_rows_means_are_mixed_and_privacy_is_kept() -> None:
    table = whole_table(np.full(ROWS, 1 / ROWS), 1.0)
    places = np.linspace(-1, 1, 57)
    weights = mixed(integer_table(table), positions(places))
    channel = Channel(weights=weights, epsilon=1.0)
    assert np.abs(channel.probabilities @ table.values - places).max() < 2e-5
    assert channel.bits == 48


def test_it_is_never_worse_than_one_bit() -> None:
    generator = np.random.default_rng(5)
    for epsilon in (0.5, 1.0, 4.0):
        for _ in range(4):
            weights = generator.dirichlet(np.full(ROWS, 0.2))
            moments = best_table(weights, epsilon).second_moments
            assert weights @ moments <= 1.005 / math.tanh(epsilon / 2) ** 2


def test_weights_are_shared_out_between_rows() -> None:
    found = row_weights(np.array([-1.0, 0.05, 1.0]), np.array([0.2, 0.5, 0.3]))
    assert found.sum() == pytest.approx(1.0)
    assert found @ np.linspace(-1, 1, ROWS) == pytest.approx(0.05 * 0.5 + 0.1)


def test_a_table_of_another_epsilon_is_refused() -> None:
    with pytest.raises(BadInput, match="output"):
        check_table(integer_table(best_table(np.full(ROWS, 1.0), 1.1)), 1.0)
