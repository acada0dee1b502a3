"""Closed forms: the values, exact products, balanced norms, and optimality against the SDP."""

import tracemalloc

import numpy as np
import pytest

from benchmarks.reference import sdp
from parley.emulator.errors import BadInput
from parley.protocols.factorization import closed_forms
from parley.protocols.factorization.fixed_point import fixed_point
from parley.protocols.factorization.model import Factorization, balanced, signed
from parley.protocols.factorization.operator import Dense


def sign_matrix(levels: int) -> np.ndarray:
    return np.sign(np.subtract.outer(np.arange(levels), np.arange(levels))).T.astype(float)


def paper_sign_matrix(levels: int) -> np.ndarray:
    return np.triu(np.full((levels, levels), 2.0)) - 1


CASES: dict[str, tuple[np.ndarray, Factorization]] = {
    **{f"S_{m}": (sign_matrix(m), closed_forms.sign_matrix(m)) for m in (2, 3, 8, 15, 64)},
    **{f"U_{m}": (paper_sign_matrix(m), closed_forms.skew_circulant(np.ones(m))) for m in (2, 3, 16, 17)},
    **{
        f"Kendall {a}x{b}": (np.kron(sign_matrix(a), sign_matrix(b)), closed_forms.kendall(a, b))
        for a, b in ((2, 2), (4, 8), (3, 6), (6, 3), (5, 7))
    },
    "AUC": (np.kron(sign_matrix(9), sign_matrix(2)), closed_forms.kendall(9, 2)),
    "Gini mean difference": (
        np.abs(np.subtract.outer(np.arange(9), np.arange(9))) / 8 - 0.5,
        closed_forms.gini_mean_difference(9),
    ),
    "Gini diversity": (1 / 6 - np.eye(6), closed_forms.gini_diversity(6)),
    "Gini diversity of two": (1 / 2 - np.eye(2), closed_forms.gini_diversity(2)),
}


@pytest.mark.parametrize(("workload", "factorization"), CASES.values(), ids=CASES.keys())
def test_products_and_norms_are_exact(workload: np.ndarray, factorization: Factorization) -> None:
    np.testing.assert_allclose(factorization.dense(), workload, atol=1e-10)
    assert factorization.left.radius == pytest.approx(factorization.radius, rel=1e-12)
    assert factorization.right.radius == pytest.approx(factorization.radius, rel=1e-12)
    assert factorization.gap <= 1e-12
    histogram = np.random.Generator(np.random.PCG64(4)).dirichlet(np.ones(len(workload)))
    form = factorization.left.apply(histogram) @ factorization.right.apply(histogram)
    assert form == pytest.approx(histogram @ workload @ histogram, abs=1e-12)


@pytest.mark.parametrize(("workload", "factorization"), CASES.values(), ids=CASES.keys())
def test_signed_factorization_gives_the_symmetric_part(workload: np.ndarray, factorization: Factorization) -> None:
    single = signed(factorization)
    np.testing.assert_allclose(single.dense(), (workload + workload.T) / 2, atol=1e-10)
    assert single.radius**2 <= factorization.upper * (1 + 1e-12)
    histogram = np.random.Generator(np.random.PCG64(5)).dirichlet(np.ones(len(workload)))
    image = single.factor.apply(histogram)
    assert single.bilinear(image, image) == pytest.approx(histogram @ workload @ histogram, abs=1e-12)


@pytest.mark.parametrize(("workload", "factorization"), CASES.values(), ids=CASES.keys())
def test_no_factorization_is_better(workload: np.ndarray, factorization: Factorization) -> None:
    """The fixed point's lower bound, computed from the dense matrix, meets the closed form's value."""
    assert fixed_point(workload, tolerance=1e-4).lower >= factorization.upper * (1 - 2e-4)


@pytest.mark.parametrize(
    ("levels", "value"), [(4, 1.4142), (8, 1.8478), (16, 2.2870), (64, 3.169), (256, 4.051), (1024, 4.934)]
)
def test_sign_matrix_values(levels: int, value: float) -> None:
    angles = (2 * np.arange(levels) + 1) * np.pi / (2 * levels)
    upper = closed_forms.sign_matrix(levels).upper
    assert upper == pytest.approx(np.mean(np.abs(1 / np.tan(angles))), rel=1e-10)
    assert upper == pytest.approx(value, abs=6e-4)


@pytest.mark.parametrize(("levels", "value"), [(16, 2.7278), (64, 3.6102)])
def test_paper_sign_matrix_values(levels: int, value: float) -> None:
    angles = (2 * np.arange(levels) + 1) * np.pi / (2 * levels)
    upper = closed_forms.skew_circulant(np.ones(levels)).upper
    assert upper == pytest.approx(np.mean(1 / np.sin(angles)), rel=1e-10)
    assert upper == pytest.approx(value, abs=6e-5)


def test_kendall_is_the_product_and_auc_its_first_factor() -> None:
    upper = closed_forms.sign_matrix(16).upper
    assert closed_forms.kendall(16, 16).upper == pytest.approx(upper**2, rel=1e-12)
    assert closed_forms.kendall(16, 2).upper == pytest.approx(upper, rel=1e-12)


@pytest.mark.parametrize(("first", "second", "rank"), [(8, 8, 64), (7, 8, 48), (7, 5, 24)])
def test_kendall_has_as_few_rows_as_its_rank(first: int, second: int, rank: int) -> None:
    assert signed(closed_forms.kendall(first, second)).rows == rank
    assert np.linalg.matrix_rank(np.kron(sign_matrix(first), sign_matrix(second))) == rank


def test_shifts_make_up_for_what_was_taken_away() -> None:
    factorization = closed_forms.gini_mean_difference(5)
    levels = np.arange(5) / 4
    np.testing.assert_allclose(0.5 + factorization.dense(), np.abs(np.subtract.outer(levels, levels)), atol=1e-12)
    assert factorization.upper == pytest.approx(0.5)
    factorization = closed_forms.gini_diversity(5)
    np.testing.assert_allclose(0.8 + factorization.dense(), 1 - np.eye(5), atol=1e-12)
    assert factorization.upper == pytest.approx(0.8, rel=1e-15)


def test_sdp_agrees_with_kendall() -> None:
    optimum = sdp.gamma(np.kron(sign_matrix(4), sign_matrix(3)))
    upper = closed_forms.kendall(4, 3).upper
    assert optimum.lower - 1e-6 <= upper <= optimum.upper + 1e-6


def test_kendall_on_4096_inputs_never_builds_the_matrix() -> None:
    """1,000 vectors through A and A' within 1 GiB, checked against S H S' applied one side at a time."""
    tracemalloc.start()
    try:
        single = signed(closed_forms.kendall(64, 64))
        vectors = np.random.Generator(np.random.PCG64(6)).standard_normal((4096, 1000))
        images = single.factor.apply(vectors)
        back = single.factor.transpose_apply(single.signs[:, None] * images)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert single.factor.shape == (4096, 4096)
    assert peak < 2**30
    signs = sign_matrix(64)
    expected = np.einsum("ab,bcv,dc->adv", signs, vectors.reshape(64, 64, 1000)[:, :, :3], signs)
    np.testing.assert_allclose(back.reshape(64, 64, 1000)[:, :, :3], expected, atol=1e-8)


@pytest.mark.parametrize("levels", [0, 1, -3, 2.0, True])
def test_levels_must_be_whole_and_at_least_two(levels: object) -> None:
    with pytest.raises(BadInput, match="levels"):
        closed_forms.kendall(levels, 4)  # type: ignore[arg-type]


def test_factorizations_are_checked_when_made() -> None:
    with pytest.raises(BadInput, match="rows"):
        Factorization(left=Dense(np.eye(3)), right=Dense(np.eye(4)), lower=1.0, upper=1.0)
    with pytest.raises(BadInput, match="lower <= upper"):
        Factorization(left=Dense(np.eye(3)), right=Dense(np.eye(3)), lower=2.0, upper=1.0)
    with pytest.raises(BadInput, match="square"):
        signed(balanced(np.ones((2, 3)), np.ones((2, 4)), 0.0))
