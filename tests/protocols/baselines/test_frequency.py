"""The histogram baselines under the contract; their moments against enumeration and against decoded replies."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from parley.emulator.coins import addressed, key_from_seed
from parley.emulator.protocol import Heard
from parley.protocols import registry
from parley.protocols.baselines.frequency import Frequency, FrequencyGrr, FrequencyOue, FrequencySubset
from parley.protocols.planning import fast_simulation
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.gini import GiniDiversity, GiniMeanDifference
from parley.protocols.workloads.kendall import Kendall
from parley.protocols.workloads.kernel import Kernel
from parley.protocols.workloads.synthetic import draw
from parley.protocols.workloads.workload import Workload
from tests.contracts.protocol_contract import ProtocolContract

KERNEL = Kernel(np.add.outer(np.arange(5.0), np.arange(5.0)) ** 1.5, shift=4.0)
KINDS = (FrequencyGrr, FrequencyOue, FrequencySubset)


class TestFrequencyGrr(ProtocolContract):
    protocol = "frequency-grr"
    flags = ("cautious",)


class TestFrequencyOue(ProtocolContract):
    protocol = "frequency-oue"
    flags = ("cautious",)


class TestFrequencySubset(ProtocolContract):
    protocol = "frequency-subset"
    flags = ("cautious",)


class TestFrequencyGrrOfAKernel(ProtocolContract):
    protocol = "frequency-grr"
    flags = ("cautious",)
    workload = KERNEL
    data = "uniform"


class TestFrequencyOueOfAKernel(ProtocolContract):
    protocol = "frequency-oue"
    flags = ("cautious",)
    workload = KERNEL
    data = "uniform"
    epsilon = 2.0


class TestFrequencySubsetOfAuc(ProtocolContract):
    protocol = "frequency-subset"
    flags = ("cautious",)
    workload = AreaUnderCurve(levels=4)
    data = "scores"
    users = 10_000
    trials = 100
    bias = 0.003


def replies_of(protocol: Frequency, inputs: Any) -> Any:
    (step,) = protocol.rounds
    return step.respond({}, inputs, addressed(key_from_seed(3), 1, 0, len(inputs), step.coins))


def test_randomized_response_takes_out_the_very_sum_of_pairs_with_oneself() -> None:
    protocol = FrequencyGrr(workload=KERNEL, epsilon=1.0, users=200)
    replies = replies_of(protocol, np.arange(200) % 5)
    heard = Heard({}, protocol.category(), protocol.rounds[0].tally({}, replies))
    decoded = protocol.oracle.decode({"category": replies["category.category"]})
    matrix = KERNEL.values - KERNEL.shift
    gram = decoded @ matrix @ decoded.T
    pairs = (gram.sum() - np.trace(gram)) / (200 * 199)
    assert protocol.form(heard) == pytest.approx(pairs, rel=1e-9)


def test_moments_of_unary_encoding_agree_with_enumeration() -> None:
    workload = Kernel(np.array([[1.0, 2.0, -1.0], [2.0, 0.5, 3.0], [-1.0, 3.0, 0.0]]))
    protocol = FrequencyOue(workload=workload, epsilon=1.3, users=10)
    own, other, unit, offset = (getattr(protocol.oracle, name) for name in ("own", "other", "unit", "offset"))
    for truth in range(3):
        moment = np.zeros((3, 3))
        for bits in itertools.product((0, 1), repeat=3):
            chances = [own if v == truth else other for v in range(3)]
            weight = np.prod([c if b else 1 - c for c, b in zip(chances, bits, strict=True)])
            decoded = offset + unit * np.array(bits)
            moment += weight * np.outer(decoded, decoded)
        assert protocol.own_pairs[truth] == pytest.approx(float((workload.values * moment).sum()), rel=1e-12)
        histogram = np.eye(3)[truth]
        diagonal, mixing = protocol.moments.covariance(histogram)
        basis = np.stack([np.ones(3), histogram], axis=1)
        covariance = np.diag(diagonal) + basis @ mixing @ basis.T
        assert covariance == pytest.approx(moment - np.outer(histogram, histogram), abs=1e-12)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_moments_are_those_of_the_replies(kind: type[Frequency]) -> None:
    protocol = kind(workload=GiniDiversity(levels=5), epsilon=1.0, users=40_000)
    replies = replies_of(protocol, np.full(40_000, 2))
    own = {name.removeprefix("category."): column for name, column in replies.items()}
    decoded = protocol.oracle.decode(own)
    diagonal, mixing = protocol.moments.covariance(np.eye(5)[2])
    basis = np.stack([np.ones(5), np.eye(5)[2]], axis=1)
    expected = np.diag(diagonal) + basis @ mixing @ basis.T
    errors = np.abs(np.cov(decoded.T) - expected)
    products = (decoded - decoded.mean(axis=0))[:, :, None] * (decoded - decoded.mean(axis=0))[:, None, :]
    assert np.all(errors <= 5.5 * products.std(axis=0) / 200 + 1e-3), errors.max()


def test_published_accuracy_of_unclipped_baselines() -> None:
    """measurements.md: .083 to .088 for Kendall 16x16, eps = 1, n = 1e5, with clipping taken out."""
    workload = Kendall(levels=(16, 16))
    histogram = workload.histogram(draw("correlated", workload, 100_000, np.random.default_rng(1)))
    for kind in (FrequencyOue, FrequencySubset):
        assert 0.065 < kind(workload=workload, epsilon=1.0, users=10**5).predicted_rmse(histogram) < 0.095


def test_the_interval_reaches_further_to_where_the_error_is_larger() -> None:
    """Near its least value, 0, a mean difference is known better than further up: the estimate is a parabola."""
    workload, users = GiniMeanDifference(levels=12), 5000
    counts = np.array([4600, 400, *[0] * 10])
    made: Any = registry.design("frequency-grr", workload, epsilon=0.3, users=users)
    bent = fast_simulation.play(made, counts, np.random.default_rng(1))
    even = fast_simulation.play(replace(made, cautious=None), counts, np.random.default_rng(1))
    (low, high), (left, right) = (np.array(each.interval95) - even.value for each in (bent, even))
    assert (bent.value, bent.predicted_rmse) == (even.value, even.predicted_rmse)
    assert left == pytest.approx(-right)
    assert high - low >= right - left
    assert -low > high


RANGES: tuple[tuple[str, Workload], ...] = (
    *((kind.name, workload) for kind in KINDS for workload in (GiniMeanDifference(levels=5), AreaUnderCurve(levels=4))),
    ("quantise", GiniMeanDifference(levels=16)),
    ("hierarchical", AreaUnderCurve(levels=4)),
)


@pytest.mark.parametrize(("name", "workload"), RANGES, ids=[f"{name}-{each.name}" for name, each in RANGES])
def test_what_is_estimated_is_possible(name: str, workload: Workload) -> None:
    """All users alike are at an end of the range, so that half of all estimates would lie beyond it."""
    made: Any = registry.design(name, workload, epsilon=1.0, users=400)
    counts = np.zeros(workload.size, dtype=np.int64)
    counts[0] = counts[-1] = 200 if workload.name == "auc" else 0
    counts[0] += 400 - counts.sum()
    generators = [np.random.default_rng([4, run]) for run in range(40)]
    found = fast_simulation.play_all(made, counts, generators)
    low, high = workload.bounds
    for each in found:
        assert low <= each.interval95[0] <= each.value <= each.interval95[1] <= high
    assert any(each.value in (low, high) for each in found)
    older = fast_simulation.play_all(replace(made, cautious=None), counts, generators)
    assert any(not low <= each.value <= high for each in older)
