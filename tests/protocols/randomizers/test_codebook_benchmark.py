"""The codebook benchmark on a small job: its ratio is the quotient of what it reports."""

import pytest

from benchmarks.codebook import measure


def test_the_figures_belong_together() -> None:
    figures = measure(users=200, dimension=16, epsilon=1.0, candidates=4, repeats=1)
    assert min(figures.encode, figures.decode, figures.normals) > 0
    assert figures.ratio == pytest.approx((figures.encode + figures.decode) / figures.normals)
