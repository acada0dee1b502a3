"""The best free shift: no other shift does better, and the certificate says so."""

import numpy as np
import pytest

from benchmarks.reference import sdp
from parley.protocols.factorization.fixed_point import fixed_point
from parley.protocols.factorization.shift import best_shift

GENERATOR = np.random.Generator(np.random.PCG64(11))
LEVELS = np.abs(np.subtract.outer(np.arange(16), np.arange(16))) / 15
MATRICES = {
    "lower triangular": np.tril(np.ones((16, 16))),
    "squared difference": LEVELS**2,
    "exponential": np.exp(-3 * LEVELS),
    "gaussian": GENERATOR.standard_normal((20, 20)) + 0.7,
    "rectangular": 1e6 * (GENERATOR.standard_normal((20, 5)) + 2),
    "binary": (GENERATOR.random((15, 15)) < 0.3).astype(float),
}


@pytest.mark.parametrize("name", MATRICES)
def test_the_shift_is_optimal_and_its_bounds_hold(name: str) -> None:
    workload = MATRICES[name]
    shift, lower, upper = best_shift(workload)
    largest = float(np.max(np.abs(workload)))
    assert lower <= upper <= (1 + 1e-3) * lower
    found = fixed_point(workload - shift)
    np.testing.assert_allclose(found.dense() + shift, workload, atol=1e-10 * largest)
    assert found.lower <= upper * (1 + 1e-12)
    assert lower <= found.upper * (1 + 1e-12)
    assert upper <= fixed_point(workload).upper
    for other in (shift - 0.1 * largest, shift - 0.01 * largest, shift + 0.01 * largest, shift + 0.1 * largest):
        assert fixed_point(workload - other).upper >= lower


@pytest.mark.parametrize("name", ["lower triangular", "squared difference", "rectangular"])
def test_sdp_agrees(name: str) -> None:
    workload = MATRICES[name]
    _, lower, upper = best_shift(workload)
    optimum = sdp.shifted_gamma(workload)
    assert lower <= optimum.upper * (1 + 1e-9)
    assert optimum.lower <= upper * (1 + 1e-9)


def test_known_shifts_are_found() -> None:
    shift, _, upper = best_shift(LEVELS)
    assert (shift, upper) == pytest.approx((0.5, 0.5), rel=1e-3)
    # I - J/k is a projection: a little better than sending for the identity alone.
    shift, _, upper = best_shift(1 - np.eye(10))
    assert (shift, upper) == pytest.approx((0.9, 0.9), rel=1e-3)


def test_constant_matrices_need_nothing_but_the_shift() -> None:
    assert best_shift(np.full((3, 4), -2.5)) == (-2.5, 0.0, 0.0)
