"""Short versions of docs/accuracy.md: the promised ratios as predicted, coverage and separation as measured."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

from benchmarks.grid import data, designed, problems
from benchmarks.separation import curves, separations
from parley.protocols import registry
from parley.protocols.planning import fast_simulation
from parley.protocols.planning.limit import limit
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.gini import GiniDiversity
from parley.protocols.workloads.kendall import Kendall
from parley.protocols.workloads.workload import Workload

ALPHA = 1e-6
RUNS = 200

# What two rounds reach: (levels, epsilon, users) -> RMSE over the limit.
KNOWN = {
    (16, 1.0, 1_000_000): 1.15,
    (8, 0.5, 10_000): 1.45,
    (8, 1.0, 100_000): 1.2,
    (8, 2.0, 1_000_000): 1.15,
}


@pytest.mark.parametrize(("levels", "epsilon", "users"), KNOWN)
def test_two_tuned_rounds_are_near_the_limit(levels: int, epsilon: float, users: int) -> None:
    workload = Kendall(levels=(levels, levels))
    protocol: Any = registry.design("two-round-tuned", workload, epsilon=epsilon, users=users)
    histogram = workload.histogram(data(workload, users))
    ratio = protocol.predicted_rmse(histogram) / limit(workload, histogram, epsilon, users)
    assert 1.0 <= ratio <= KNOWN[levels, epsilon, users]


@pytest.mark.parametrize("users", [10_000, 1_000_000])
def test_one_tuned_round_is_a_quarter_better(users: int) -> None:
    workload = Kendall(levels=(16, 16))
    histogram = workload.histogram(data(workload, users))
    plain, tuned = (
        registry.lookup(name).design(workload, epsilon=1.0, users=users).predicted_rmse(histogram)
        for name in ("one-round", "one-round-tuned")
    )
    assert tuned <= 0.75 * plain


@pytest.mark.parametrize("title", ["Kendall 8x8", "diversity 64", "random signs 64"])
def test_auto_is_at_most_a_twentieth_worse_than_the_best(title: str) -> None:
    workload, users = problems()[title], 10_000
    histogram = workload.histogram(data(workload, users))
    errors = {name: protocol.predicted_rmse(histogram) for name, protocol in designed(workload, 1.0, users).items()}
    chosen = registry.design("auto", workload, epsilon=1.0, users=users).name
    assert errors[chosen] <= 1.05 * min(errors.values()), f"{chosen}: {errors}"


INTERACTIVE = [
    ("two-round-black-box", Kendall(levels=(4, 4))),
    ("two-round", Kendall(levels=(4, 4))),
    ("three-round", GiniDiversity(levels=8)),
    ("two-round-tuned", Kendall(levels=(4, 4))),
    ("two-round-tuned", AreaUnderCurve(levels=4)),
    ("two-round-tuned", GiniDiversity(levels=8)),
]


@pytest.mark.parametrize(("name", "workload"), INTERACTIVE, ids=[f"{name}-{each.name}" for name, each in INTERACTIVE])
def test_intervals_hold_the_truth(name: str, workload: Workload) -> None:
    protocol = registry.design(name, workload, epsilon=1.0, users=20_000)
    inputs, generator = data(workload, 20_000), np.random.default_rng(4)
    counts, truth = workload.counts(inputs), workload.exact(inputs)
    found = [fast_simulation.play(protocol, counts, generator).interval95 for _ in range(RUNS)]
    held = sum(low <= truth <= high for low, high in found)
    least, most = binom.ppf(ALPHA / 2, RUNS, 0.93), binom.isf(ALPHA / 2, RUNS, 0.97)
    assert least <= held <= most, f"{held} of {RUNS}, should be {least} to {most}"


SEEN = [
    ("two-round", AreaUnderCurve(levels=32)),
    ("two-round", Kendall(levels=(4, 4))),
    ("two-round-black-box", AreaUnderCurve(levels=16)),
    ("two-round-black-box", Kendall(levels=(4, 4))),
]


@pytest.mark.parametrize(("name", "workload"), SEEN, ids=[f"{name}-{each.name}" for name, each in SEEN])
def test_intervals_are_as_wide_as_the_error_is_large(name: str, workload: Workload) -> None:
    """The variance behind an interval is, on average, the predicted one: noise does not make it wider."""
    protocol: Any = registry.design(name, workload, epsilon=1.0, users=20_000)
    counts, generator = workload.counts(data(workload, 20_000)), np.random.default_rng(6)
    seen = np.array([fast_simulation.play(protocol, counts, generator).predicted_rmse ** 2 for _ in range(60)])
    ratio = seen / protocol.predicted_rmse(counts / 20_000) ** 2
    error = float(ratio.std() / math.sqrt(len(ratio)))
    # A tenth is what the estimate of |Ah|^2, which cannot be negative, may add.
    assert abs(ratio.mean() - 1) <= 0.1 + float(norm.isf(ALPHA / 2)) * error, f"{ratio.mean()} +- {error}"


def test_interaction_beats_every_single_round_on_random_signs() -> None:
    found, floors = curves(32, 1.0, (100_000,), 40, 1)
    inner, inside, outer, outside = separations(found)[100_000]
    # 40 runs know an RMSE to a ninth.
    assert inside < 0.75 * outside, f"{inner} {inside}, {outer} {outside}"
    assert floors[0] < outside
