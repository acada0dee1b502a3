"""The two-point bound step by step and against protocols on its own data; the scale of one round against the SDP."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from benchmarks.reference import sdp
from parley.emulator.errors import BadInput
from parley.protocols import registry
from parley.protocols.factorization.closed_forms import kendall
from parley.protocols.factorization.fixed_point import fixed_point
from parley.protocols.planning import fast_simulation
from parley.protocols.planning.lower_bounds import (
    HardPair,
    contraction,
    hard_pairs,
    scale,
    two_point_bound,
    users_for_separation,
    zeta_bound,
)
from parley.protocols.planning.plan import floor
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.gini import GiniDiversity, GiniMeanDifference
from parley.protocols.workloads.kendall import Kendall
from parley.protocols.workloads.kernel import Kernel
from parley.protocols.workloads.workload import Workload

SIGMAS = float(norm.isf(1e-6))
SPEAK_ONCE = ("one-round", "frequency-subset", "frequency-grr")
WORKLOADS: tuple[Workload, ...] = (
    Kendall(levels=(3, 3)),
    GiniMeanDifference(levels=5),
    GiniDiversity(levels=4),
    AreaUnderCurve(levels=4),
    Kernel(np.array([[1.0, 0.5, -1.0], [0.5, -2.0, 0.0], [-1.0, 0.0, 3.0]])),
)


@given(
    st.floats(0.05, 8.0),
    st.floats(0.0, 1.0),
    st.lists(st.tuples(st.integers(0, 7), st.floats(0.01, 1.0)), min_size=2, max_size=8),
)
def test_a_reply_keeps_its_affinity(epsilon: float, distance: float, outcomes: list[tuple[int, float]]) -> None:
    """Extreme channels of three inputs: each outcome is e^eps times likelier under some of the inputs."""
    favoured = np.array([[kind >> x & 1 for x in range(3)] for kind, _ in outcomes])
    weights = np.array([weight for _, weight in outcomes])[:, None] * np.exp(epsilon * favoured)
    channel = weights / weights.sum(axis=0)
    # Dividing by the columns' sums may spend up to twice as much; what was really spent is what counts.
    spent = float(np.log(channel.max(axis=1) / channel.min(axis=1)).max())
    first, second = (channel @ [1 - distance, *tail] for tail in ((distance, 0.0), (0.0, distance)))
    assert np.sqrt(first * second).sum() >= 1 - contraction(spent) * distance**2 - 1e-12


def test_the_contraction_is_attained_for_small_epsilon() -> None:
    """Randomised response of b and c, with a in the middle, is as far apart as step 1 allows."""
    epsilon, distance = 0.01, 0.5
    likely = math.exp(epsilon) / (1 + math.exp(epsilon))
    laws = [
        np.array([0.5 + sign * distance * (likely - 0.5), 0.5 - sign * distance * (likely - 0.5)]) for sign in (1, -1)
    ]
    lost = 1 - np.sqrt(laws[0] * laws[1]).sum()
    assert lost == pytest.approx(contraction(epsilon) * distance**2, rel=0.02)


@given(st.lists(st.tuples(st.floats(1e-6, 1.0), st.floats(1e-6, 1.0)), min_size=1, max_size=6))
def test_two_points_cannot_both_be_estimated(laws: list[tuple[float, float]]) -> None:
    """The best estimate under each transcript is the posterior mean; its error is at least that of step 3."""
    p, q = (np.array(each) / sum(each) for each in zip(*laws, strict=True))
    best = q / (p + q)
    error = (p * best**2 + q * (1 - best) ** 2).sum()
    assert error >= np.sqrt(p * q).sum() ** 2 / 2 - 1e-12


def test_sampling_of_a_mean_over_pairs_is_exact() -> None:
    """The deviation of the users' own statistic, by enumeration of four users with two inputs."""
    pair = max(hard_pairs(GiniMeanDifference(levels=2), 4, 0.3), key=lambda each: each.bound)
    share = pair.high[1] if pair.high[1] not in (0.0, 1.0) else pair.low[1]
    assert 0 < share < 1
    chances = [math.comb(4, ones) * share**ones * (1 - share) ** (4 - ones) for ones in range(5)]
    values = np.array([ones * (4 - ones) / 6 for ones in range(5)])
    mean = float(np.dot(chances, values))
    assert mean == pytest.approx(2 * share * (1 - share))
    from parley.protocols.planning import lower_bounds

    spread = lower_bounds._sampling(np.array([[1 - share, share]]), np.array([[0.0, 1.0], [1.0, 0.0]]), 4)
    assert spread[0] ** 2 == pytest.approx(float(np.dot(chances, (values - mean) ** 2)))


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda each: each.name)
def test_no_protocol_beats_it_on_its_data(workload: Workload, epsilon: float) -> None:
    users, trials = 300, 40
    pair = max(hard_pairs(workload, users, epsilon), key=lambda each: each.bound)
    assert pair.bound > 0
    for name in SPEAK_ONCE:
        protocol = registry.design(name, workload, epsilon=epsilon, users=users)
        worst = max(measured(protocol, workload, each, users, trials) for each in (pair.low, pair.high))
        assert worst >= pair.bound, f"{name}: {worst} in {trials} trials, bound {pair.bound}"


def measured(protocol: object, workload: Workload, shares: np.ndarray, users: int, trials: int) -> float:
    """The RMSE and what chance may have taken from it, against the statistic of the users drawn."""
    generator = np.random.default_rng(12)
    squares = []
    for _ in range(trials):
        counts = drawn(workload, shares, users, generator)
        value = fast_simulation.play(protocol, counts, generator).value  # type: ignore[arg-type]
        squares.append((value - workload.exact(np.repeat(np.arange(workload.size), counts))) ** 2)
    return math.sqrt(np.mean(squares) + SIGMAS * np.std(squares) / math.sqrt(trials))


def drawn(workload: Workload, shares: np.ndarray, users: int, generator: np.random.Generator) -> np.ndarray:
    """Users at random; for the AUC the negatives are fixed, as the proof has them."""
    if not isinstance(workload, AreaUnderCurve):
        return generator.multinomial(users, shares).astype(np.int64)
    fixed = np.zeros(workload.size, dtype=np.int64)
    fixed[::2] = np.rint(shares[::2] * users)
    others = np.where(np.arange(workload.size) % 2, shares, 0.0)
    return fixed + generator.multinomial(users - int(fixed.sum()), others / others.sum())


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda each: each.name)
def test_it_lies_below_the_floor_of_its_data_and_above_what_was_printed_before(workload: Workload) -> None:
    for users in (10**4, 10**7):
        pair: HardPair = max(hard_pairs(workload, users, 0.5), key=lambda each: each.bound)
        single = max(floor(workload, each, 0.5, users) for each in (pair.low, pair.high))
        assert single / 4 < pair.bound < single
        assert pair.low.sum() == pytest.approx(1)
        assert pair.high.sum() == pytest.approx(1)
        repeated = two_point_bound(workload, users, 0.5, repeated=True)
        assert 0.35 * pair.bound < repeated < pair.bound


def test_the_constant_in_the_documentation() -> None:
    """0.43 range / sqrt(c n), 3.0e-4 for the Gini mean difference at eps 1 and 10^7 users."""
    found = two_point_bound(GiniMeanDifference(levels=16), 10**7, 1.0)
    assert found == pytest.approx(3.0e-4, rel=0.02)
    assert found == pytest.approx(0.43 / math.sqrt(contraction(1.0) * 10**7), rel=0.05)


def test_bounds_fall_with_users_and_epsilon_and_grow_with_the_kernel() -> None:
    workload = Kendall(levels=(4, 4))
    by_users = [two_point_bound(workload, users, 0.5) for users in (100, 10**4, 10**6)]
    by_epsilon = [two_point_bound(workload, 10**4, epsilon) for epsilon in (0.1, 1.0, 4.0)]
    assert by_users == sorted(by_users, reverse=True)
    assert by_epsilon == sorted(by_epsilon, reverse=True)
    twice = two_point_bound(Kernel(2 * workload.matrix()), 10**4, 0.5)
    assert twice == pytest.approx(2 * two_point_bound(workload, 10**4, 0.5))


def test_a_constant_has_no_lower_bound() -> None:
    assert two_point_bound(Kernel(np.full((3, 3), 2.0)), 1000, 1.0) == 0.0


@pytest.mark.parametrize("users", [2, 30, 2000])
def test_the_scale_is_below_that_of_zeta(users: int) -> None:
    workload = np.sign(np.random.Generator(np.random.PCG64(42)).standard_normal((10, 10)))
    assert zeta_bound(fixed_point(workload), users, 0.5) <= sdp.zeta(workload, users, 0.5).upper
    found = scale(kendall(8, 8), users, 0.5)
    assert found <= kendall(8, 8).upper / (0.5 * math.sqrt(users))


def test_the_condition_for_the_separation_is_the_papers() -> None:
    assert users_for_separation(4.0, 1.0, 256, 1.0) == pytest.approx(
        256 * math.log(256) * math.log(40 * math.log(256)), rel=1e-12
    )
    assert users_for_separation(4.0, 2.0, 256, 0.5) == pytest.approx(
        16 * math.log(256) * 4 * math.log(40 * math.log(256)), rel=1e-12
    )


@pytest.mark.parametrize(("users", "epsilon"), [(0, 1.0), (5, 0.0), (5, float("nan"))])
def test_bad_arguments_are_refused(users: int, epsilon: float) -> None:
    with pytest.raises(BadInput, match="at least one user"):
        two_point_bound(Kendall(levels=(2, 2)), users, epsilon)
