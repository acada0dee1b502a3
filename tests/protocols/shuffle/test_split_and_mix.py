"""Split-and-mix under the contract; its inequalities; through the shuffler; its gain over the local protocols."""

import math
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from benchmarks.reference.simulate_shuffled import shuffled_conversation, simulate_shuffled
from parley.emulator.coins import addressed, key_from_seed
from parley.emulator.errors import BadInput
from parley.emulator.simulate import simulate
from parley.emulator.wire.messages import Replies
from parley.protocols import registry
from parley.protocols.paper.one_round import OneRound
from parley.protocols.planning import fast_simulation
from parley.protocols.shuffle.split_and_mix import SplitAndMix, sensitivity
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.gini import GiniDiversity, GiniMeanDifference
from parley.protocols.workloads.kendall import Kendall
from parley.protocols.workloads.kernel import Kernel
from parley.protocols.workloads.workload import Workload
from tests.contracts.protocol_contract import ProtocolContract

KERNEL = Kernel(np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0))) + np.diag(np.arange(6.0)))
WORKLOAD = Kendall(levels=(3, 3))


class TestSplitAndMix(ProtocolContract):
    protocol = "split-and-mix"
    trials = 60
    # Rounding moves the form by at most a fifth of the noise.
    bias = 0.003
    lenient: ClassVar[tuple[str, ...]] = ("variance", "weight")

    def test_it_is_registered_under_its_name(self) -> None:
        """Listed to those who trust a shuffler, and to nobody else."""
        assert self.protocol in registry.names("shuffler")
        assert self.protocol not in registry.names()

    def test_every_user_loses_at_most_epsilon(self) -> None:
        """A reply before it is mixed gives its input away; the claim says so."""
        total = self.losses(100)
        assert (total.argmax(axis=1) == self.inputs[:100]).mean() >= 0.95
        assert self.made.claim.local_epsilon == math.inf
        assert "from both together by nothing" in self.made.claim.protects_from

    def test_likelihoods_are_those_of_the_sampler(self) -> None:
        """Vectors are far apart compared with one user's noise, so ratios say nothing; places in the law do."""
        made = SplitAndMix.design(WORKLOAD, epsilon=1.0, users=2000)
        own = [
            float(made.rounds[0].log_likelihood({}, columns)[np.arange(len(spoke)), self.inputs[spoke]].mean())
            for _, _, spoke, columns in self.rounds_played(1000)
        ]
        noise = made.encoder.noise
        numbers = np.arange(-noise.reach, noise.reach + 1)
        logs = noise.log_probability(numbers)
        law, uniform = np.exp(logs), (made.shares - 1) * made.bits * math.log(2)
        expected = made.encoder.dimension * (float(law @ logs) - uniform)
        spread = math.sqrt(made.encoder.dimension * float(law @ (logs - law @ logs) ** 2) / 1000)
        assert abs(own[0] - expected) < 5 * spread


class TestSplitAndMixOfAuc(TestSplitAndMix):
    workload = AreaUnderCurve(levels=6)
    data = "rare"
    bias = 0.01

    def test_likelihoods_are_those_of_the_sampler(self) -> None:
        """As above; the AUC's label is one more coordinate."""
        assert self.made.rounds[0].reply["shares"][1][0] == self.made.factors.rows + 1  # type: ignore[attr-defined]

    def test_the_worst_histogram_is_no_better_than_this_one(self) -> None:
        """The worst is meant among balanced ones; here one label is rare."""
        assert self.predicted(self.made, self.inputs) > 0


class TestSplitAndMixOfAKernel(TestSplitAndMix):
    """A diagonal that is not constant is one more coordinate."""

    workload = KERNEL
    data = "uniform"
    trials = 40
    bias = 0.02
    lenient = ("variance", "weight", "factor", "signs")

    def test_likelihoods_are_those_of_the_sampler(self) -> None:
        """As above; the diagonal is one more coordinate."""
        assert self.made.rounds[0].reply["shares"][1][0] == self.made.factors.rows + 1  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def made() -> SplitAndMix:
    return SplitAndMix.design(WORKLOAD, epsilon=1.0, users=2000)


def test_too_few_shares_are_refused_with_the_inequality(made: SplitAndMix) -> None:
    with pytest.raises(BadInput, match=r"m >= \(2 sigma \+ log2 Q\) / \(log2 n - log2 e\) \+ 2 fails"):
        replace(made, shares=made.shares - 1)


def test_an_overflow_is_refused_with_the_inequality(made: SplitAndMix) -> None:
    with pytest.raises(BadInput, match=r"n max\|A 1_x\| \+ 14 deviations < Q/2 fails"):
        replace(made, bits=made.bits - 1)


def test_too_little_noise_is_refused_with_the_inequality(made: SplitAndMix) -> None:
    with pytest.raises(BadInput, match=r"delta_0 \+ .* <= delta fails"):
        replace(made, variance=0.9 * made.variance)
    with pytest.raises(BadInput, match="fails"):
        replace(made, shuffle=replace(made.shuffle, crowd=1700))


def test_too_few_users_are_refused_with_the_inequality() -> None:
    with pytest.raises(BadInput, match="n >= 19 fails: 10 users"):
        SplitAndMix.design(WORKLOAD, epsilon=1.0, users=10)


def test_vectors_that_fit_no_frame_are_refused() -> None:
    with pytest.raises(BadInput, match="bytes fails"):
        SplitAndMix.design(Kendall(levels=(20, 20)), epsilon=1.0, users=10_000)


def test_users_compute_the_sensitivity_themselves(made: SplitAndMix) -> None:
    """The exact diameter of the vectors, so an analyst's word does not enter it."""
    numbers = made.numbers.astype(float)
    apart = numbers[:, None] - numbers[None]
    assert made.sensitivity.square == pytest.approx(float((apart**2).sum(axis=2).max()))
    assert made.sensitivity.absolute == pytest.approx(float(np.abs(apart).sum(axis=2).max()))
    many = np.random.default_rng(1).normal(size=(1500, 3))
    exact = max(float(((many - row) ** 2).sum(axis=1).max()) for row in many)
    assert sensitivity(many).square >= exact


def test_the_shuffler_mixes_shares_and_the_estimate_stays() -> None:
    made = SplitAndMix.design(WORKLOAD, epsilon=1.0, users=300)
    inputs, key = np.random.default_rng(2).integers(0, 9, 300), key_from_seed(5)
    assert simulate_shuffled(made, inputs, key, nodes=3, chunk=40).estimate == simulate(made, inputs, key).estimate
    seen = [
        message.columns["shares"]
        for _, message in shuffled_conversation(made, inputs, key, nodes=3)
        if isinstance(message, Replies)
    ]
    mixed = np.concatenate(seen)
    logs = made.rounds[0].log_likelihood({}, {"shares": mixed})
    assert np.isneginf(logs).mean() > 0.99, "rows of mixed shares must not belong to anybody"


@pytest.mark.parametrize(
    "workload",
    [Kendall(levels=(8, 8)), GiniMeanDifference(levels=64), AreaUnderCurve(levels=32)],
    ids=lambda workload: workload.name,
)
def test_the_gain_over_one_round_is_a_tenth_of_n(workload: Workload) -> None:
    users = 10**5
    one_round = OneRound.design(workload, epsilon=1.0, users=users)
    mixed = SplitAndMix.design(workload, epsilon=1.0, users=users, delta=1e-6)
    for histogram in (None, np.full(workload.size, 1 / workload.size)):
        gain = (one_round.predicted_rmse(histogram) / mixed.predicted_rmse(histogram)) ** 2
        assert gain >= users / 10, f"{gain:.0f} for n = {users}"


def test_it_takes_the_other_statistics() -> None:
    made = SplitAndMix.design(GiniDiversity(levels=8), epsilon=1.0, users=1000)
    inputs = np.random.default_rng(4).integers(0, 8, 1000)
    found = simulate(made, inputs, key_from_seed(1))
    assert abs(found.estimate - made.workload.exact(inputs)) < 5 * found.predicted_rmse


def test_the_sweeps_fast_simulation_has_the_law_of_the_real_sum() -> None:
    """Sums of real shares and drawn sums: the same mean and the same variance."""
    made = SplitAndMix.design(WORKLOAD, epsilon=1.0, users=400)
    inputs = np.random.default_rng(3).integers(0, 9, 400)
    counts, generator, step = np.bincount(inputs, minlength=9), np.random.default_rng(6), made.rounds[0]
    exact = made.numbers[inputs].sum(axis=0)
    real, drawn = [], []
    for trial in range(60):
        flips = addressed(key_from_seed(trial), 1, 0, 400, step.coins)
        real.append(made.encoder.centred(step.tally({}, step.respond({}, inputs, flips)).sums["shares"]) - exact)
        drawn.append(fast_simulation.tally(step, {}, counts, generator).sums["shares"] - exact)
    for noise in (np.array(real, dtype=float), np.array(drawn, dtype=float)):
        expected = 400 * made.variance
        assert abs(noise.mean()) < 5 * math.sqrt(expected / noise.size)
        assert abs((noise**2).mean() - expected) < 5 * expected * math.sqrt(2 / noise.size)


def test_a_constant_statistic_and_vectors_too_long_for_whole_numbers_are_refused() -> None:
    with pytest.raises(BadInput, match="the same vector"):
        SplitAndMix.design(Kernel(np.ones((4, 4))), epsilon=1.0, users=300)
    with pytest.raises(BadInput, match="fixed point"):
        SplitAndMix.design(Kernel(1e60 * np.eye(4)), epsilon=1.0, users=300)
