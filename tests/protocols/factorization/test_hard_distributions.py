"""The hard data of the lower bound: a dual witness that proves gamma_2, and histograms whose answers lie far apart."""

import numpy as np
import pytest

from parley.emulator.errors import BadInput
from parley.protocols.factorization.factors import factorize, infinity_norm, shifted
from parley.protocols.factorization.hard_distributions import TOLERANCE, hard_distributions
from parley.protocols.factorization.shift import with_best_shift
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.gini import GiniDiversity, GiniMeanDifference
from parley.protocols.workloads.kendall import Kendall
from parley.protocols.workloads.kernel import Kernel
from parley.protocols.workloads.synthetic import draw, names
from parley.protocols.workloads.workload import Workload

SIGNS = np.sign(np.random.default_rng(6).standard_normal((12, 12)))
WORKLOADS: tuple[Workload, ...] = (
    Kendall(levels=(4, 4)),
    GiniMeanDifference(levels=8),
    GiniDiversity(levels=5),
    Kernel(np.triu(SIGNS) + np.triu(SIGNS, 1).T),
)
every = pytest.mark.parametrize("workload", WORKLOADS, ids=lambda each: each.name)


@every
def test_the_witness_proves_gamma(workload: Workload) -> None:
    found, target = hard_distributions(workload), shifted(with_best_shift(workload))
    gamma = factorize(with_best_shift(workload)).upper
    assert (1 - 2 * TOLERANCE) * gamma <= float(np.sum(found.witness * target)) <= gamma * (1 + 1e-9)
    # gamma_2*(G) <= 1 means <G, xy'> <= 1 for all signs x, y.
    generator = np.random.default_rng(1)
    for _ in range(200):
        x, y = np.sign(generator.standard_normal((2, workload.size)))
        assert x @ found.witness @ y <= 1 + 1e-9


@every
def test_answers_lie_far_apart(workload: Workload) -> None:
    """Lemma hard-dist-original (ii), in the mean over pi."""
    found, target = hard_distributions(workload), shifted(with_best_shift(workload))
    for rows in (found.above, found.below):
        assert rows.min() >= 0
        assert np.allclose(rows.sum(axis=1), 1)
    assert found.queries.sum() == pytest.approx(1)
    high = np.einsum("vx,vx->v", target, found.above)
    low = np.einsum("vx,vx->v", target, found.below)
    assert found.queries @ (high - low) >= 0.2 * infinity_norm(with_best_shift(workload))


@every
def test_they_are_data(workload: Workload) -> None:
    assert {"hard-low", "hard-high"} <= set(names(workload))
    found = hard_distributions(workload)
    users = 20_000
    for name, mixture in (("hard-low", 0.0), ("hard-high", 1.0)):
        inputs = draw(name, workload, users, np.random.default_rng(3))
        expected = found.histogram(found.hardest, mixture)
        shares = np.bincount(inputs, minlength=workload.size) / users
        # Six standard deviations of a share of one half.
        assert np.abs(shares - expected).max() <= 6 * 0.5 / np.sqrt(users)
        assert shares[found.hardest] >= 0.45
    gap = workload.form(found.histogram(found.hardest, 1.0)) - workload.form(found.histogram(found.hardest, 0.0))
    assert abs(gap) > 0.05 * infinity_norm(workload)


def test_mixtures_move_the_form_from_one_to_the_other() -> None:
    """Lemma hard-dist-easy: the answer is linear in the mixture."""
    workload = Kendall(levels=(4, 4))
    found = hard_distributions(workload)
    row = workload.matrix()[found.hardest]
    ends = [float(row @ found.histogram(found.hardest, mixture)) for mixture in (0.0, 1.0)]
    assert row @ found.histogram(found.hardest, 0.25) == pytest.approx(0.75 * ends[0] + 0.25 * ends[1])
    with pytest.raises(BadInput, match="mixture"):
        found.histogram(found.hardest, 1.5)


def test_what_has_no_hard_data_is_refused() -> None:
    with pytest.raises(BadInput, match="fewer levels"):
        draw("hard-low", GiniDiversity(levels=1000), 10, np.random.default_rng(0))
    with pytest.raises(BadInput, match="constant"):
        hard_distributions(Kernel(np.ones((3, 3))))
    assert "hard-low" not in names(AreaUnderCurve(levels=4))
