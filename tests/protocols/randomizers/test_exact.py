"""Bounds of e^x against 200-bit decimals, and order statistics against adaptive quadrature."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import beta, binom

from parley.emulator.errors import BadInput
from parley.protocols.randomizers.exact import (
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
