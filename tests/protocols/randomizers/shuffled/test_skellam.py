"""Skellam noise: the table against Bessel functions, sums, moments, and the Renyi bound against exact divergences."""

import math

import numpy as np
import pytest
from scipy.special import ive

from parley.emulator.errors import BadInput
from parley.protocols.randomizers.shuffled.skellam import WHOLE, Skellam, delta_of_noise, least_variance, renyi_bound


def pmf(variance: float) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    noise = Skellam(variance)
    numbers = np.arange(-noise.reach, noise.reach + 1)
    return np.exp(noise.log_probability(numbers))


@pytest.mark.parametrize("variance", [1e-6, 0.3, 5.0, 160.0, 40_000.0])
def test_the_table_is_the_law(variance: float) -> None:
    noise = Skellam(variance)
    assert noise.reach < noise.most_reach
    assert noise._bounds[-1] == WHOLE
    numbers = np.arange(-noise.reach, noise.reach + 1)
    law = ive(np.abs(numbers), variance)
    assert np.abs(pmf(variance) - law).sum() < 1e-12
    assert float(pmf(variance) @ numbers**2.0) == pytest.approx(variance, rel=1e-12)
    assert noise.slack < 1e-30


@pytest.mark.parametrize("parts", [2, 3, 10])
def test_the_sum_of_parts_is_the_whole(parts: int) -> None:
    """What makes the noise distributable: exactly, by convolution."""
    each, law = pmf(2.0), np.ones(1)
    for _ in range(parts):
        law = np.convolve(law, each)
    whole = pmf(2.0 * parts)
    margin = (len(law) - len(whole)) // 2
    assert np.abs(law[margin : len(law) - margin] - whole).max() < 1e-13


def test_coins_pick_what_the_table_says() -> None:
    """Every bound of the table, from both sides: the low word decides where the high words agree."""
    noise = Skellam(3.0)
    for place, bound in enumerate(noise._bounds[:-1]):
        for coin, expected in ((bound - 1, place), (bound, place + 1)):
            high, low = np.array([coin >> 64], np.uint64), np.array([coin & (2**64 - 1)], np.uint64)
            assert int(noise.draw(high, low)[0]) == expected - noise.reach


def test_draws_have_the_variance() -> None:
    words = np.random.default_rng(7).integers(0, 2**64, size=(2, 200_000), dtype=np.uint64)
    for variance in (0.01, 4.0, 900.0):
        drawn = Skellam(variance).draw(words[0], words[1]).astype(float)
        fourth = 3 * variance**2 + variance
        error = 5 * math.sqrt((fourth - variance**2) / drawn.size)
        assert abs(float((drawn**2).mean()) - variance) < error
        assert abs(float(drawn.mean())) < 5 * math.sqrt(variance / drawn.size)


def renyi(order: int, variance: float, shift: int) -> float:
    """The exact divergence of order a, by summing where the terms are."""
    reach = int(40 * math.sqrt(variance)) + 60 * order
    numbers = np.arange(-reach, reach + 1)
    with np.errstate(divide="ignore"):
        one, other = np.log(ive(np.abs(numbers), variance)), np.log(ive(np.abs(numbers - shift), variance))
    seen = np.isfinite(one) & np.isfinite(other)
    terms = order * one[seen] - (order - 1) * other[seen]
    return float(np.logaddexp.reduce(terms)) / (order - 1)


@pytest.mark.parametrize("variance", [0.5, 1.0, 3.0, 10.0, 40.0])
@pytest.mark.parametrize("shift", [1, 2, 5])
def test_the_renyi_bound_holds(variance: float, shift: int) -> None:
    for order in (2, 3, 4, 8, 16):
        assert renyi(order, variance, shift) <= renyi_bound(order, variance, shift**2, shift)


@pytest.mark.parametrize(("epsilon", "shift"), [(0.5, 1), (1.0, 1), (1.0, 3), (2.0, 2)])
def test_the_noise_hides_a_shift(epsilon: float, shift: int) -> None:
    """The exact hockey-stick divergence of one coordinate is below the delta that is claimed."""
    for delta in (1e-3, 1e-6):
        variance = least_variance(epsilon, delta, shift**2, shift)
        law = pmf(variance)
        moved = np.concatenate([np.zeros(shift), law])[: len(law)]
        exact = float(np.maximum(law - math.exp(epsilon) * moved, 0).sum())
        assert exact <= delta
        assert delta_of_noise(epsilon, variance, shift**2, shift) <= delta
        assert delta_of_noise(epsilon, 0.99 * variance, shift**2, shift) > delta


@pytest.mark.parametrize("variance", [0.0, -1.0, math.nan, math.inf, 1e20])
def test_noise_that_cannot_be_drawn_is_refused(variance: float) -> None:
    with pytest.raises(BadInput, match="cannot be drawn"):
        Skellam(variance)
