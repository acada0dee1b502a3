"""Where an estimate tells less than the middle of the range does, it is pulled there; elsewhere it stays."""

import math

import numpy as np
import pytest

from parley.protocols.planning import fast_simulation
from parley.protocols.planning.families.tuned import shrunk
from parley.protocols.registry import design
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.gini import GiniMeanDifference
from parley.protocols.workloads.kendall import Kendall
from parley.protocols.workloads.workload import Workload

WIDTH = 2.0
PRIOR = WIDTH / math.sqrt(12)


def test_a_good_estimate_stays() -> None:
    assert shrunk(0.9, 0.99 * PRIOR, -1.0, 1.0) == 0.9


@pytest.mark.parametrize("rmse", [1.01 * PRIOR, 2 * PRIOR, 10 * PRIOR])
def test_wherever_the_truth_is_the_error_is_no_larger(rmse: float) -> None:
    factor = shrunk(1.0, rmse, -1.0, 1.0)
    for truth in np.linspace(-1, 1, 9):
        assert ((1 - factor) * truth) ** 2 + (factor * rmse) ** 2 < rmse**2


@pytest.mark.parametrize("workload", [Kendall(levels=(6, 9)), GiniMeanDifference(levels=20), AreaUnderCurve(levels=10)])
@pytest.mark.parametrize("name", ["one-round-tuned", "two-round-tuned"])
def test_every_statistic_is_pulled_where_hardly_anything_is_said(name: str, workload: Workload) -> None:
    """Ten users at epsilon .1 say nothing: estimates are near the middle, not at the ends."""
    protocol = design(name, workload, epsilon=0.1, users=10)
    counts = np.bincount(np.arange(10) * workload.size // 10, minlength=workload.size)
    low, high = workload.bounds
    for run in range(10):
        found = fast_simulation.play(protocol, counts, np.random.default_rng([8, run]))
        assert abs(found.value - (low + high) / 2) < (high - low) / 4


@pytest.mark.parametrize("name", ["one-round-tuned", "two-round-tuned"])
def test_few_users_who_say_little_cost_less_than_a_guess_at_an_end(name: str) -> None:
    """340 users at epsilon .39 say nothing about an area near 1/2: clipped values alone err by .4."""
    workload = AreaUnderCurve(levels=14)
    protocol = design(name, workload, epsilon=0.39, users=340)
    counts = np.full(workload.size, 340 // workload.size)
    counts[:4] += (340 - counts.sum()) // 4
    truth = workload.exact(np.repeat(np.arange(workload.size), counts))
    found = [fast_simulation.play(protocol, counts, np.random.default_rng([7, run])) for run in range(40)]
    assert np.sqrt(np.mean([(each.value - truth) ** 2 for each in found])) < 0.2
    assert all(0 <= each.interval95[0] <= each.value <= each.interval95[1] <= 1 for each in found)
    assert protocol.predicted_rmse(counts / counts.sum()) <= 1 / math.sqrt(12)
