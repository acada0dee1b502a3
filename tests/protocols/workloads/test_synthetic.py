"""Synthetic data: in the domain, reproducible, and as described."""

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import chi2, norm

from parley.emulator.errors import BadInput
from parley.protocols.workloads import synthetic
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.gini import GiniDiversity
from parley.protocols.workloads.kendall import Kendall, KendallTauB
from parley.protocols.workloads.lipschitz import Lipschitz
from parley.protocols.workloads.synthetic import draw, names
from parley.protocols.workloads.workload import Workload


def generator(seed: int = 11) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_every_data_set_lies_in_the_domain_and_follows_its_seed(workload: Workload) -> None:
    for name in names(workload):
        inputs = draw(name, workload, 200, generator())
        assert inputs.dtype == np.min_scalar_type(workload.size - 1)
        assert inputs.shape == (200,)
        assert inputs.min() >= 0
        assert inputs.max() < workload.size
        assert np.array_equal(inputs, draw(name, workload, 200, generator()))
        # Where one input alone speaks against another, hard data are constant too.
        assert name in ("constant", "hard-low", "hard-high") or not np.array_equal(
            inputs, draw(name, workload, 200, generator(12))
        )
        assert np.isfinite(workload.exact(draw(name, workload, 2, generator())))


def test_data_do_not_depend_on_how_many_are_drawn_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody's first column, then everybody's noise: as one draw of all of them gives it."""
    workload, users = Kendall(levels=(16, 16)), 1000
    first, noise = generator().standard_normal((2, users))
    shares = norm.cdf(first), norm.cdf(0.5 * first + np.sqrt(0.75) * noise)
    expected = [np.minimum((each * 16).astype(np.int64), 15) for each in shares]
    for size in (1 << 18, 7):
        monkeypatch.setattr(synthetic, "BLOCK_USERS", size)
        drawn = draw("correlated", workload, users, generator())
        assert np.array_equal(drawn, expected[0] * 16 + expected[1])


def test_drawing_builds_no_matrix() -> None:
    workload = Lipschitz("huber", levels=2**20)
    assert draw("uniform", workload, 100, generator()).max() < 2**20


def test_unknown_names_are_refused_with_the_nearest_one() -> None:
    with pytest.raises(BadInput, match=r"'corelated' for kendall; did you mean 'correlated'\?"):
        draw("corelated", Kendall(levels=(4, 4)), 10, generator())
    with pytest.raises(BadInput, match="choose one of scores, separable"):
        draw("zipf", AreaUnderCurve(levels=4), 10, generator())
    with pytest.raises(BadInput, match="at least 2 users"):
        draw("uniform", GiniDiversity(levels=4), 1, generator())


ALPHA = 1e-6
USERS = 20_000
# Hoeffding for U-statistics with kernel in [-1, 1]: P[|U - E U| > t] <= 2 exp(-floor(n/2) t^2 / 2) = alpha.
DEVIATION = float(np.sqrt(2 * np.log(2 / ALPHA) / (USERS // 2)))


@pytest.mark.parametrize(
    ("name", "expected"), [("correlated", 1 / 3), ("anticorrelated", -1 / 3), ("independent", 0.0), ("sorted", 1 / 3)]
)
def test_pairs_have_the_tau_they_promise(name: str, expected: float) -> None:
    """On 1024 levels a pair ties in one column with probability below 1/512, which moves tau by no more."""
    tau = Kendall(levels=(1024, 1024))
    found = tau.exact(draw(name, tau, USERS, generator()))
    assert abs(found - expected) <= DEVIATION + 2 / 1024, (USERS, found, expected, DEVIATION)


def test_monotone_and_reversed_pairs_are_perfect() -> None:
    tau = Kendall(levels=(16, 16))
    perfect = KendallTauB(levels=(16, 16))
    assert perfect.exact(draw("monotone", tau, 500, generator())) == pytest.approx(1.0, abs=1e-12)
    assert perfect.exact(draw("reversed", tau, 500, generator())) == pytest.approx(-1.0, abs=1e-12)


def test_areas_are_as_promised() -> None:
    area = AreaUnderCurve(levels=64)
    assert area.exact(draw("separable", area, 500, generator())) == 1.0
    # Hanley and McNeil: the area's standard error is at most sqrt(A (1-A) / min(n+, n-)).
    for name, expected in (("scores", norm.cdf(1 / np.sqrt(2))), ("uninformative", 0.5)):
        found = area.exact(draw(name, area, USERS, generator()))
        allowed = norm.isf(ALPHA / 2) * np.sqrt(expected * (1 - expected) / (0.47 * USERS)) + 1 / 64
        assert abs(found - expected) <= allowed, (USERS, found, expected, allowed)
    rare = draw("rare", area, USERS, generator()) % 2
    assert abs(rare.mean() - 0.05) <= norm.isf(ALPHA / 2) * np.sqrt(0.05 * 0.95 / USERS)


@pytest.mark.parametrize(
    ("name", "probabilities"),
    [("uniform", np.full(8, 1 / 8)), ("zipf", (1 / np.arange(1, 9)) / np.sum(1 / np.arange(1, 9)))],
)
def test_scalars_follow_their_distribution(name: str, probabilities: np.ndarray) -> None:
    workload = GiniDiversity(levels=8)
    counts = workload.counts(draw(name, workload, USERS, generator()))
    statistic = float(np.sum((counts - USERS * probabilities) ** 2 / (USERS * probabilities)))
    threshold = float(chi2.isf(ALPHA, 7))
    assert statistic <= threshold, (USERS, statistic, threshold)


def test_shapes_of_normal_bimodal_and_sorted() -> None:
    workload = GiniDiversity(levels=16)
    normal, bimodal = (workload.counts(draw(name, workload, USERS, generator())) for name in ("normal", "bimodal"))
    assert normal[7:9].sum() > normal[3:5].sum() > normal[:2].sum()
    assert bimodal[3:5].sum() > 3 * bimodal[7:9].sum()
    assert bimodal[11:13].sum() > 3 * bimodal[7:9].sum()
    in_order = draw("sorted", workload, 500, generator())
    assert (np.diff(in_order) >= 0).all()
    assert np.array_equal(workload.counts(in_order), workload.counts(draw("normal", workload, 500, generator())))


@pytest.mark.parametrize("levels", [1, 2, 3, 16, 64])
def test_comparing_with_borders_bins_like_the_distribution_function(levels: int) -> None:
    """At every border and its neighbour below, and in between."""
    border = synthetic._borders(levels)
    places = np.concatenate([border, np.nextafter(border, -np.inf), generator().standard_normal(10_000)])
    expected = np.minimum((ndtr(places) * levels).astype(np.int64), levels - 1)
    assert np.array_equal(synthetic._normal_bins(places, levels), expected)
