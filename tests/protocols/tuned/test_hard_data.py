"""Data on which tuned protocols once failed: rare labels, and two points at a small epsilon."""

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from benchmarks.near_limit import scores, two_levels
from parley.emulator.protocol import Inputs
from parley.protocols import registry
from parley.protocols.planning import fast_simulation
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.gini import GiniMeanDifference
from parley.protocols.workloads.workload import Workload

ALPHA = 1e-6
RUNS = 150


@pytest.mark.parametrize("positive", [0.06, 0.02])
def test_intervals_hold_the_area_where_labels_are_rare(positive: float) -> None:
    """They once held it in 80% and 52% of all runs."""
    workload, users = AreaUnderCurve(levels=32), 10_000
    inputs = scores(positive)(32, users, np.random.default_rng(1000))
    counts, truth = workload.counts(inputs), workload.exact(inputs)
    protocol = registry.design("auto", workload, epsilon=1.0, users=users)
    generators = [np.random.default_rng([31, run]) for run in range(RUNS)]
    found = fast_simulation.play_all(protocol, counts, generators)
    held = sum(low <= truth <= high for low, high in (each.interval95 for each in found))
    least = binom.ppf(ALPHA, RUNS, 0.95)
    assert held >= least, f"{held} of {RUNS} intervals hold {truth:.4f}; at least {least:g} should"


def squares(name: str, workload: Workload, inputs: Inputs) -> np.ndarray:
    protocol = registry.design(name, workload, epsilon=0.3, users=len(inputs))
    counts, truth = workload.counts(inputs), workload.exact(inputs)
    generators = [np.random.default_rng([32, run]) for run in range(RUNS)]
    return np.array([(each.value - truth) ** 2 for each in fast_simulation.play_all(protocol, counts, generators)])


def test_auto_is_no_worse_than_a_histogram_on_two_points() -> None:
    """At a small epsilon its error was once three times that of subset selection, so its square nine times."""
    workload = GiniMeanDifference(levels=9)
    inputs = two_levels(9, 3000, np.random.default_rng(1000))
    ours, theirs = (squares(name, workload, inputs) for name in ("auto", "frequency-subset"))
    ratio = ours.mean() / theirs.mean()
    error = ratio * math.hypot(*(each.std() / each.mean() / math.sqrt(RUNS) for each in (ours, theirs)))
    threshold = 1.05**2 + norm.isf(ALPHA) * error
    assert ratio <= threshold, f"{ratio:.3f} of its squared error in {RUNS} runs, threshold {threshold:.3f}"
    assert threshold < 9
