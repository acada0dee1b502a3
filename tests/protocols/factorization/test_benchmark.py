"""The benchmark on small jobs: both ways bound the same number, and its ratio is the quotient of what it reports."""

import pytest

from benchmarks.factorization import apply_kendall, certify, compare, project


@pytest.mark.parametrize("matrix", ["random signs", "lower triangular"])
def test_the_figures_belong_together(matrix: str) -> None:
    figures = compare(matrix, 12)
    assert figures.ratio == pytest.approx(figures.solver / figures.fixed_point)
    assert figures.fixed_point_bounds[0] <= figures.solver_bounds[1]
    assert figures.solver_bounds[0] <= figures.fixed_point_bounds[1]
    assert certify(matrix, 12).gap <= 1e-3


def test_structured_factors_and_projections_are_measured() -> None:
    assert apply_kendall(8, 10).peak_bytes >= 64 * 10 * 8
    assert project(8).relative_gap <= 1e-8
