"""PrivUnit: its law by integration over the inner product, its sampler by the probability integral transform."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammaln
from scipy.stats import beta

from benchmarks.reference.privunit import PrivUnit, cap_moments
from parley.emulator.errors import BadInput
from parley.emulator.protocol import check_arrays
from tests.contracts.randomizer_contract import COMMON_BAD, chi_square, random_coins, rows

CASES = [(1, 1.0), (2, 0.25), (8, 4.0), (64, 1.0), (64, 16.0)]


def density(dimension: int, z: float) -> float:
    """Of one coordinate of a uniform unit vector in R^dimension."""
    log_constant = gammaln(dimension / 2) - gammaln((dimension - 1) / 2) - 0.5 * math.log(math.pi)
    return math.exp(log_constant + (dimension - 3) / 2 * math.log1p(-z * z))


@pytest.mark.parametrize(("dimension", "epsilon"), [case for case in CASES if case[0] > 1])
def test_density_sums_to_one_and_has_the_stated_moments(dimension: int, epsilon: float) -> None:
    privunit = PrivUnit(dimension=dimension, radius=1.0, epsilon=epsilon)
    outside = 1.0 / (1.0 + privunit.cap * math.expm1(epsilon))

    def moment(power: int) -> float:
        parts = ((-1.0, privunit.height, outside), (privunit.height, 1.0, outside * math.exp(epsilon)))
        return sum(
            level * quad(lambda z: z**power * density(dimension + 1, z), low, high, epsabs=1e-14, limit=200)[0]
            for low, high, level in parts
        )

    assert moment(0) == pytest.approx(1.0, abs=1e-9)
    assert moment(1) == pytest.approx(privunit.moments.shrink, rel=1e-8)
    assert moment(2) == pytest.approx(privunit.moments.along, rel=1e-8)


@pytest.mark.parametrize(("dimension", "epsilon"), CASES)
def test_the_exact_condition_and_the_density_ratio(dimension: int, epsilon: float) -> None:
    privunit = PrivUnit(dimension=dimension, radius=2.0, epsilon=epsilon)
    p, q = privunit.inside, privunit.cap
    if epsilon <= 8:
        assert p * (1 - q) / (q * (1 - p)) == pytest.approx(math.exp(epsilon), rel=1e-10)
    points = np.random.default_rng(47).standard_normal((6, dimension))
    points *= 2.0 / np.linalg.norm(points, axis=1)[:, None]
    reply = privunit.sample(points, random_coins(privunit, 6, 53))
    logs = privunit.log_likelihood(reply, points)
    assert (logs.max(axis=1) - logs.min(axis=1)).max() <= epsilon * (1 + 1e-15)


@pytest.mark.parametrize(("dimension", "epsilon"), CASES)
def test_samples_follow_the_density(dimension: int, epsilon: float) -> None:
    """The inner product's law has 40 equally likely slices; so have the directions around the input."""
    privunit = PrivUnit(dimension=dimension, radius=1.0, epsilon=epsilon)
    draws = 20_000
    x = np.full(dimension, 0.6 / math.sqrt(dimension))
    reply = privunit.sample(np.tile(x, (draws, 1)), random_coins(privunit, draws, 59))
    lifted = np.append(x, 0.8)
    z = reply["direction"] @ lifted
    half = beta.sf(z**2, 0.5, dimension / 2) / 2
    tail = np.where(z > 0, half, 1 - half)
    cap, inside = privunit.cap, privunit.inside
    place = np.where(tail < cap, tail / cap * inside, inside + (tail - cap) / (1 - cap) * (1 - inside))
    observed = np.bincount(np.minimum((place * 40).astype(np.int64), 39), minlength=40)
    statistic, threshold = chi_square(observed, np.full(40, draws / 40))
    assert statistic <= threshold, (draws, statistic, threshold)
    around = reply["direction"] - z[:, None] * lifted
    angle = np.sign(around[:, 0]) > 0
    statistic, threshold = chi_square(np.bincount(angle, minlength=2), np.full(2, draws / 2))
    assert statistic <= threshold, (draws, statistic, threshold)


def test_known_variances_and_optimality() -> None:
    """mathematics.md: d >= 64, a unit vector."""
    for epsilon, variance in ((0.5, 25.1), (1.0, 6.3), (2.0, 1.62), (4.0, 0.44), (8.0, 0.13)):
        best = PrivUnit(dimension=128, radius=1.0, epsilon=epsilon)
        assert best.moments.variance_at(1.0) == pytest.approx(variance, rel=0.025)
        for factor in (0.9, 1.1):
            other = PrivUnit(dimension=128, radius=1.0, epsilon=epsilon, gamma=best.height * factor)
            assert best.variance < other.variance


def test_cap_moments_of_a_hemisphere() -> None:
    tail, first, second = cap_moments(3, 0.0)
    assert (tail, first, second) == pytest.approx((0.5, 0.25, 1 / 6))


def test_replies_shards_and_totals() -> None:
    privunit = PrivUnit(dimension=5, radius=2.0, epsilon=1.0)
    inputs = np.zeros((30, 5))
    inputs[:, 0] = np.linspace(-2, 2, 30)
    coins = random_coins(privunit, 30, 61)
    reply = privunit.sample(inputs, coins)
    check_arrays("reply", reply, privunit.reply, rows=30)
    assert privunit.check(reply).all()
    assert not privunit.check({"direction": reply["direction"].astype(np.float64) * 1.01}).any()
    second = privunit.sample(inputs[11:], coins[11:])
    np.testing.assert_array_equal(reply["direction"][11:], second["direction"])
    total = privunit.total(reply)
    np.testing.assert_array_equal(total, privunit.total(rows(reply, slice(0, 11))) + privunit.total(second))
    np.testing.assert_allclose(total * privunit.unit, privunit.decode(reply).sum(axis=0), rtol=0, atol=1e-9)


def test_bad_parameters_and_inputs_are_refused() -> None:
    good: Mapping[str, Any] = {"dimension": 3, "radius": 1.0, "epsilon": 1.0}
    bad: Sequence[Mapping[str, Any]] = [{"dimension": 0}, {"radius": 0.0}, {"gamma": 1.0}, {"gamma": -0.1}]
    for change in (*COMMON_BAD, *bad):
        with pytest.raises(BadInput):
            PrivUnit(**{**good, **change})
    privunit = PrivUnit(**good)
    with pytest.raises(BadInput, match="radius"):
        privunit.sample(np.full((2, 3), 0.7), random_coins(privunit, 2, 67))
    with pytest.raises(BadInput, match="coins"):
        privunit.sample(np.zeros((2, 3)), random_coins(privunit, 2, 67)[:, 1:])
