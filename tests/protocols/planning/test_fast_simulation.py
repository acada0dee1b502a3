"""The sweep's fast simulation against the real roles: the same mean and spread of estimates, protocol by protocol."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, chi2, norm

from parley.emulator.coins import key_from_seed
from parley.emulator.protocol import Sends, sends
from parley.emulator.round import group_sizes
from parley.emulator.simulate import simulate
from parley.protocols import registry
from parley.protocols.pairwise import Pairwise
from parley.protocols.planning import fast_simulation
from parley.protocols.randomizers.categories.subset_selection import SubsetSelection
from parley.protocols.randomizers.scalars.grid_laplace import GridLaplace
from parley.protocols.tuned.one_round_tuned import OneRoundTuned
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.gini import GiniMeanDifference
from parley.protocols.workloads.kendall import Kendall
from parley.protocols.workloads.synthetic import draw, names
from parley.protocols.workloads.workload import Workload

ALPHA = 1e-6
USERS = 1000
SHORT, REAL = 300, 60


def pairwise() -> list[str]:
    return [name for name in registry.names() if issubclass(registry.lookup(name), Pairwise)]


def same_law(short: np.ndarray, real: np.ndarray) -> None:
    """Means differ by chance alone (z), and so do variances (z of their logarithms, with the sample's kurtosis)."""
    bound = float(norm.isf(ALPHA / 2))
    error = math.sqrt(short.var(ddof=1) / len(short) + real.var(ddof=1) / len(real))
    assert abs(short.mean() - real.mean()) <= bound * error, f"means {short.mean()} {real.mean()}, error {error}"
    both = np.concatenate([(each - each.mean()) / each.std() for each in (short, real)])
    kurtosis = max(3.0, float(np.mean(both**4)))
    spread = math.sqrt((kurtosis - 1) * (1 / len(short) + 1 / len(real)))
    ratio = math.log(short.var(ddof=1) / real.var(ddof=1))
    assert abs(ratio) <= bound * spread, f"log ratio of variances {ratio}, threshold {bound * spread}"


SPECIAL: dict[str, Workload] = {"quantise": GiniMeanDifference(levels=9), "hierarchical": AreaUnderCurve(levels=4)}
CASES = [(name, SPECIAL.get(name, Kendall(levels=(3, 3)))) for name in pairwise()]
CASES += [(name, AreaUnderCurve(levels=3)) for name in ("one-round-tuned", "two-round-tuned", "frequency-subset")]


@pytest.mark.parametrize(("name", "workload"), CASES, ids=[f"{name}-{each.name}" for name, each in CASES])
def test_estimates_have_the_law_of_the_roles(name: str, workload: Workload) -> None:
    generator = np.random.default_rng(7)
    inputs = draw(names(workload)[0], workload, USERS, generator)
    protocol = registry.design(name, workload, epsilon=2.0, users=USERS)
    counts = workload.counts(inputs)
    short = np.array([fast_simulation.play(protocol, counts, generator).value for _ in range(SHORT)])
    real = np.array(
        [
            simulate(protocol, generator.permutation(inputs), key_from_seed(trial), chunk=USERS).estimate
            for trial in range(REAL)
        ]
    )
    same_law(short, real)


def test_speakers_are_a_partition_of_the_users() -> None:
    protocol = registry.design("two-round-tuned", Kendall(levels=(2, 2)), epsilon=1.0, users=1000)
    counts = np.array([400, 300, 200, 100])
    sizes = group_sizes(protocol, 0, 1000)
    groups = fast_simulation.speakers(protocol, counts, sizes, np.random.default_rng(1))
    assert np.array_equal(sum(groups), counts)
    real = [step.participates(np.arange(1000)) for step in protocol.rounds]
    assert np.array_equal(np.sum(real, axis=0), np.ones(1000))
    assert [group.sum() for group in groups] == sizes.tolist() == [speaking.sum() for speaking in real]


@pytest.mark.parametrize("name", ["two-round-tuned", "one-round-tuned", "frequency-subset"])
def test_many_runs_at_once_are_the_runs_one_by_one(name: str) -> None:
    workload = Kendall(levels=(3, 3))
    protocol = registry.design(name, workload, epsilon=1.0, users=USERS)
    counts = workload.counts(draw("correlated", workload, USERS, np.random.default_rng(1)))
    generators = [[np.random.default_rng([3, trial]) for trial in range(10)] for _ in range(2)]
    many = fast_simulation.play_all(protocol, counts, generators[0])
    alone = [fast_simulation.play(protocol, counts, generator) for generator in generators[1]]
    for one, other in zip(many, alone, strict=True):
        assert one.value == pytest.approx(other.value, rel=1e-9, abs=1e-9)
        assert one.interval95 == pytest.approx(other.interval95, rel=1e-9, abs=1e-9)


class Counted(OneRoundTuned):
    """With a tally of its own."""

    @sends
    def one_index(self) -> Sends:
        (send,) = super().one_index().values()
        return {"candidate": replace(send, tallies={"odd": lambda reply: np.asarray((reply["index"] % 2).sum())})}

    script = (one_index,)


def test_tallies_that_nobody_knows_are_taken_from_replies() -> None:
    workload = Kendall(levels=(2, 2))
    protocol = Counted(workload=workload, epsilon=1.0, users=400, power=2.0, seeds=8, candidates=4, top=1, folds=2)
    tally = fast_simulation.tally(protocol.rounds[0], {}, np.array([100, 100, 100, 100]), np.random.default_rng(1))
    assert tally.sums["candidate"].shape == (2, 8, 4)
    assert 100 < tally.sums["candidate.odd"] < 300


@pytest.mark.parametrize("width", [1, 3, 9])
def test_rare_events_have_their_own_law(width: int) -> None:
    """Large epsilon, few users: who is named by mistake is binomial, far from normal. The failure prints chi-square."""
    oracle = SubsetSelection(categories=20, epsilon=8.0, size=width)
    counts, runs, generator = np.eye(1, 20, dtype=np.int64)[0] * 40, 20_000, np.random.default_rng(3)
    drawn = np.array([fast_simulation.total(oracle, np.arange(20.0), counts, generator) for _ in range(runs)])
    assert drawn.min() >= 0
    assert (drawn.sum(axis=1) == 40 * width).all()
    for category, chance in ((0, oracle.own), (7, oracle.other)):
        assert_binomial(drawn[:, category], 40, chance)


def assert_binomial(drawn: np.ndarray, users: int, chance: float) -> None:
    expected = binom.pmf(np.arange(users + 1), users, chance) * len(drawn)
    seen = np.bincount(drawn, minlength=users + 1)
    often = expected >= 10
    pairs = [*zip(seen[often], expected[often], strict=True), (seen[~often].sum(), expected[~often].sum())]
    statistic = sum((one - two) ** 2 / max(two, 1.0) for one, two in pairs)
    threshold = float(chi2.isf(ALPHA, len(pairs)))
    assert statistic <= threshold, f"chi-square {statistic} of {len(drawn)} runs, threshold {threshold}"


def test_few_vectors_and_scalars_are_summed_reply_by_reply() -> None:
    """Two users' Laplace noise is no normal noise: its fourth moment is 4.5 times its squared variance, not 3."""
    laplace = GridLaplace(low=-1.0, high=1.0, epsilon=1.0)
    generator = np.random.default_rng(5)
    drawn = [fast_simulation.total(laplace, np.zeros(1), np.array([2]), generator) for _ in range(20_000)]
    centred = (np.array(drawn) - np.mean(drawn)) / np.std(drawn)
    kurtosis, spread = float(np.mean(centred**4)), float(np.std(centred**4)) / math.sqrt(len(drawn))
    bound = float(norm.isf(ALPHA / 2))
    assert abs(kurtosis - 4.5) <= bound * spread, f"kurtosis {kurtosis} of {len(drawn)}, threshold {bound * spread}"
    assert abs(kurtosis - 3) > bound * spread
