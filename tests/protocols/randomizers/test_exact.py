"""Bounds of e^x against 200-bit decimals, and order statistics against adaptive quadrature."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import beta, binom

from parley.emulator.errors import BadInput
from parley.protocols.randomizers.exact import (
    MOST_RANKS,
    WORTH_A_TABLE,
    Thresholds,
    TwoLevel,
    exponential_lower,
    exponential_upper,
    words,
)
from parley.protocols.randomizers.vectors.moments import top_moment
from tests.contracts.randomizer_contract import within


@given(st.floats(-32.0, 64.0))
def test_bounds_enclose_the_exponential(x: float) -> None:
    lower, upper = exponential_lower(Fraction(x)), exponential_upper(Fraction(x))
    with localcontext() as context:
        context.prec = 90
        exact = Fraction(Decimal(x).exp())
    slack = exact / 10**85
    assert lower <= exact + slack
    assert exact - slack <= upper
    assert upper - lower <= exact / 2**80


def test_within_is_decided_exactly() -> None:
    lower = exponential_lower(Fraction(1))
    assert within(lower.numerator, lower.denominator, 1.0)
    assert not within(lower.numerator + 2**100, lower.denominator, 1.0)


@given(st.integers(2, 300), st.floats(2.0**-20, 32.0), st.data())
def test_two_levels_keep_the_ratio_and_use_all_coins(outcomes: int, epsilon: float, data: st.DataObject) -> None:
    choice = TwoLevel(outcomes=outcomes, top=data.draw(st.integers(1, outcomes - 1)), epsilon=epsilon)
    assert 0 < choice.low <= choice.high
    assert choice.leftover >= 0
    assert within(choice.high, choice.low, epsilon)
    assert within(choice.weight(True, True), choice.weight(False, True), epsilon)
    assert (choice.log_table[1] - choice.log_table[0]).max() <= epsilon
    last = choice.rank(np.array([0, (1 << 64) - 1], dtype=np.uint64))
    assert last[0] == 0
    assert last[1] == (outcomes if choice.leftover else outcomes - 1)


def test_words_are_little_endian_and_of_the_right_width() -> None:
    assert words(np.arange(16, dtype=np.uint8).reshape(1, 16), 2)[0, 0] == 0x0706050403020100
    with pytest.raises(BadInput, match="coins"):
        words(np.zeros((1, 16), dtype=np.uint8), 1)


@pytest.mark.parametrize(
    ("dimension", "candidates", "top"),
    [(2, 2, 1), (3, 4, 1), (9, 16, 6), (65, 16, 13), (257, 64, 9), (513, 512, 3), (4097, 16, 8)],
)
@pytest.mark.parametrize("power", [1, 2])
def test_order_statistics(dimension: int, candidates: int, top: int, power: int) -> None:
    half, law = candidates // 2, beta(0.5, (dimension - 1) / 2)
    fewer = min(top, candidates - top)

    def integrand(share: float) -> float:
        return float(law.ppf(share) ** (power / 2) * binom.cdf(fewer - 1, half - 1, 1 - share))

    exact = half * quad(integrand, 0, 1, epsabs=1e-11, epsrel=1e-10, limit=400, points=[0.5, 0.9, 0.99, 0.999])[0]
    if power == 2 and top > half:
        exact = candidates / dimension - exact
    assert top_moment(dimension, candidates, top, power) == pytest.approx(exact, rel=1e-7)


def test_hemisphere_in_three_dimensions_by_hand() -> None:
    assert top_moment(3, 2, 1, 1) == pytest.approx(0.5, rel=1e-13)
    assert top_moment(3, 2, 1, 2) == pytest.approx(1 / 3, rel=1e-13)


@given(st.integers(0, 2**32 - 1), st.integers(1, 300), st.integers(1, 40), st.sampled_from([1, 8, 32, 48, 62, 64]))
@settings(deadline=None, max_examples=60)
def test_a_look_up_compares_with_every_threshold(seed: int, rows: int, columns: int, bits: int) -> None:
    """Coins at, below and above each sum, where a look-up could be off by one; and sums that are equal or crowded."""
    random = np.random.default_rng(seed)
    narrow = random.integers(0, 2 ** int(random.integers(1, 64)), (rows, columns), dtype=np.uint64, endpoint=True)
    sums = np.sort(narrow >> np.uint64(64 - bits), axis=1)
    row = np.repeat(np.arange(rows), columns)
    edges = [sums.reshape(-1) + np.uint64(1), sums.reshape(-1), np.maximum(sums.reshape(-1), 1) - np.uint64(1)]
    coin = np.concatenate(
        [*edges, random.integers(0, 2**64 - 1, WORTH_A_TABLE, dtype=np.uint64) >> np.uint64(64 - bits)]
    )
    coin &= np.uint64(2**bits - 1)
    row = np.concatenate([row, row, row, random.integers(0, rows, WORTH_A_TABLE)])
    expected = (sums[row] <= coin[:, None]).sum(axis=1)
    found = Thresholds(sums, bits)
    assert np.array_equal(found.reached(row, coin), expected)
    assert np.array_equal(found.reached(row[:5], coin[:5]), expected[:5])


@pytest.mark.parametrize(
    ("outcomes", "top", "epsilon"), [(2, 1, 1.0), (16, 5, 1.0), (MOST_RANKS, 3, 8.0), (64, 1, 30.0)]
)
def test_ranks_of_a_cohort_are_those_of_each_user(outcomes: int, top: int, epsilon: float) -> None:
    choice = TwoLevel(outcomes=outcomes, top=top, epsilon=epsilon)
    borders = [number * choice.high for number in range(top + 1)]
    borders += [borders[-1] + number * choice.low for number in range(1, outcomes - top + 1)]
    near = {min(2**64 - 1, max(0, border + off)) for border in borders for off in (-1, 0, 1)}
    random = np.random.default_rng(3).integers(0, 2**64 - 1, WORTH_A_TABLE, dtype=np.uint64, endpoint=True)
    coin = np.concatenate([np.array(sorted(near), dtype=np.uint64), random])
    each = [choice.rank(coin[place : place + 1])[0] for place in range(len(near))]
    assert choice.rank(coin)[: len(near)].tolist() == each
    assert np.array_equal(
        choice.rank(coin)[len(near) :], np.concatenate([choice.rank(part) for part in np.split(random, 4)])
    )
