"""The fixed point: bounds that hold, factors that are exact, agreement with the SDP."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from benchmarks.reference import sdp
from parley.emulator.errors import BadInput
from parley.protocols.factorization.fixed_point import fixed_point
from parley.protocols.factorization.model import signed


def _generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def _levels(size: int) -> np.ndarray:
    return np.abs(np.subtract.outer(np.arange(size), np.arange(size))) / size


MATRICES = {
    "random signs": np.sign(_generator(1).standard_normal((48, 48))),
    "lower triangular": np.tril(np.ones((64, 64))),
    "symmetric": (lambda g: g + g.T)(_generator(2).standard_normal((40, 40))),
    "rectangular": _generator(3).standard_normal((40, 12)),
    "low rank": _generator(4).standard_normal((40, 3)) @ _generator(5).standard_normal((3, 40)),
    "sparse": np.where(_generator(6).random((40, 40)) < 0.06, 1.0, 0.0) + 1e-3 * np.eye(40),
    "squared difference": _levels(50) ** 2,
    "square root of difference": np.sqrt(_levels(50)),
    "one large row": np.vstack([100 * np.ones(20), _generator(7).standard_normal((19, 20))]),
    "zero rows and columns": np.pad(_generator(8).standard_normal((10, 10)), ((3, 5), (8, 0))),
    "symmetric but for zeros": np.array([[0.0, 1.0, 2.0], [0.0, 2.0, 5.0]]),
    "one entry": np.array([[-3.0]]),
    "huge": 1e150 * _generator(9).standard_normal((10, 10)),
    "tiny": 1e-150 * _generator(9).standard_normal((10, 10)),
}


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("tolerance", [1e-3, 1e-5])
def test_factors_are_exact_and_bounds_close(name: str, tolerance: float) -> None:
    workload = MATRICES[name]
    found = fixed_point(workload, tolerance)
    largest = float(np.max(np.abs(workload)))
    assert np.max(np.abs(found.dense() - workload)) <= 1e-10 * largest
    assert found.gap <= tolerance
    assert found.left.radius == pytest.approx(found.radius, rel=1e-9)
    assert found.right.radius == pytest.approx(found.radius, rel=1e-9)
    assert largest * (1 - 1e-12) <= found.upper


def test_lower_triangular_ones_have_the_known_value() -> None:
    found = fixed_point(np.tril(np.ones((64, 64))), 1e-4)
    assert found.lower <= 2.1114 + 5e-5
    assert found.upper >= 2.1114 - 5e-5


@pytest.mark.parametrize("name", ["random signs", "rectangular", "squared difference"])
def test_sdp_agrees(name: str) -> None:
    optimum = sdp.gamma(MATRICES[name])
    found = fixed_point(MATRICES[name], 1e-4)
    assert found.lower <= optimum.upper * (1 + 1e-9)
    assert optimum.lower <= found.upper * (1 + 1e-9)


@pytest.mark.parametrize("name", ["symmetric", "squared difference", "square root of difference"])
def test_symmetric_matrices_get_signed_factors_without_more_rows(name: str) -> None:
    workload = MATRICES[name]
    found = fixed_point(workload)
    single = signed(found)
    assert single.rows == np.linalg.matrix_rank(workload)
    np.testing.assert_allclose(single.dense(), workload, atol=1e-10)
    assert single.radius**2 <= found.upper * (1 + 1e-12)


def test_the_zero_matrix_needs_nothing() -> None:
    for shape in ((4, 4), (3, 5)):
        found = fixed_point(np.zeros(shape))
        assert (found.lower, found.upper, found.gap) == (0.0, 0.0, 0.0)
        np.testing.assert_array_equal(found.dense(), np.zeros(shape))


@settings(max_examples=60, deadline=None)
@given(
    workload=arrays(
        np.float64,
        st.tuples(st.integers(1, 7), st.integers(1, 7)),
        elements=st.integers(-4, 4).map(float),
    )
)
def test_small_matrices_of_every_kind(workload: np.ndarray) -> None:
    found = fixed_point(workload)
    largest = float(np.max(np.abs(workload)))
    assert found.gap <= 1e-3
    assert largest * (1 - 1e-9) <= found.upper <= largest * np.sqrt(min(workload.shape)) * (1 + 2e-3)
    np.testing.assert_allclose(found.dense(), workload, atol=1e-10)


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        (np.array([[1.0, np.nan]]), "finite, got nan at row 1, column 2"),
        (np.array([[1.0], [np.inf]]), "finite, got inf at row 2, column 1"),
        (np.ones(3), "must be a matrix"),
        (np.ones((0, 3)), "at least one entry"),
        ([["a"]], "real numbers"),
        ([[1.0], [1.0, 2.0]], "must be a matrix"),
        (np.broadcast_to(np.ones(1), (10**6, 10**6)), "GiB"),
    ],
)
def test_bad_matrices_are_refused_before_work_starts(workload: object, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        fixed_point(workload)  # type: ignore[arg-type]


@pytest.mark.parametrize("tolerance", [0.0, -1.0, float("nan"), float("inf")])
def test_a_tolerance_must_be_reachable(tolerance: float) -> None:
    with pytest.raises(BadInput, match="tolerance"):
        fixed_point(np.eye(2), tolerance)
