"""The paper's tree factorization of Lipschitz kernels."""

import numpy as np
import pytest

from benchmarks.reference.tree import lipschitz_tree
from parley.emulator.errors import BadInput


def _kernel(size: int) -> np.ndarray:
    """1-Lipschitz in each argument on the levels 1..k."""
    levels = np.arange(size)
    return np.abs(np.subtract.outer(levels, levels)) + np.sin(np.add.outer(levels, levels)) / 10


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 8, 15, 16, 20, 63, 100, 127])
def test_the_product_is_the_kernel(size: int) -> None:
    workload = _kernel(size)
    shift, found = lipschitz_tree(workload)
    np.testing.assert_allclose(found.dense() + shift, workload, atol=1e-10)
    assert found.left.radius == pytest.approx(found.right.radius, rel=1e-9)
    assert found.rows <= 2 * size


def test_gamma_grows_like_k_and_not_faster() -> None:
    """Lemma: gamma_2 <= O(Gk). The weights' geometric sums give the constant: |R|^2 <= 36/11, |L|^2 <= c (Gk)^2."""
    shares = [lipschitz_tree(_kernel(size))[1].upper / size for size in (15, 31, 63, 127, 255, 511)]
    assert max(shares) < 2.5
    assert shares[-1] / shares[-2] < 1.05


def test_rows_have_the_paper_weights() -> None:
    """k = 3: root 2, leaves 1 and 3; R before balancing is (5/6)^depth on the path."""
    _, found = lipschitz_tree(_kernel(3))
    right = found.right.dense()
    scale = right[1, 1]
    np.testing.assert_allclose(right / scale, [[5 / 6, 0, 0], [1, 1, 1], [0, 0, 5 / 6]], atol=1e-12)


def test_only_square_matrices_have_a_tree() -> None:
    with pytest.raises(BadInput, match="square"):
        lipschitz_tree(np.ones((3, 4)))
