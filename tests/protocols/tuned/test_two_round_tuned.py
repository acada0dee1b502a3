"""The tuned two-round protocol owes what every protocol owes; its tables are checked in whole numbers by its users."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from parley.emulator.coins import key_from_seed
from parley.emulator.errors import BadInput, RemoteProtocolError
from parley.emulator.protocol import Analysis
from parley.emulator.simulate import conversation
from parley.emulator.wire.messages import Announce, Replies
from parley.protocols import registry
from parley.protocols.planning import fast_simulation
from parley.protocols.planning.families.first_channels import codebook_for, codebooks, decodable
from parley.protocols.planning.families.tuned import Fraction, draws_of
from parley.protocols.tuned import decoder
from parley.protocols.tuned.codebook_round import forget_tables
from parley.protocols.tuned.objective import Objective
from parley.protocols.tuned.one_round_tuned import OneRoundTuned
from parley.protocols.tuned.two_round_tuned import TwoRoundTuned
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.gini import GiniDiversity, GiniMeanDifference
from parley.protocols.workloads.kendall import Kendall
from parley.protocols.workloads.kernel import Kernel
from parley.protocols.workloads.synthetic import draw
from tests.contracts.protocol_contract import ProtocolContract


class TestTwoRoundTuned(ProtocolContract):
    protocol = "two-round-tuned"
    lenient = ("salt",)


class TestRatio(ProtocolContract):
    protocol = "two-round-tuned"
    workload = AreaUnderCurve(levels=4)
    data = "scores"
    lenient = ("salt",)
    # The ratio's own second-order error.
    bias = 0.01


class TestKernelWithDiagonal(ProtocolContract):
    protocol = "two-round-tuned"
    workload = Kernel(np.array([[1.0, 0.5, -1.0], [0.5, -2.0, 0.0], [-1.0, 0.0, 3.0]]))
    data = "zipf"
    lenient = ("salt",)


class TestDefiniteForm(ProtocolContract):
    """Without the correction of the second order its bias is many standard errors; the first channel is a codebook."""

    protocol = "two-round-tuned"
    workload = GiniMeanDifference(levels=40)
    data = "normal"
    lenient = ("salt",)


class TestAskedAgain(ProtocolContract):
    """On even shares the diversity index has no slope: everybody is asked for an index."""

    protocol = "two-round-tuned"
    workload = GiniDiversity(levels=6)
    data = "uniform"
    lenient = ("salt",)
    # A prediction for shares that are even but for chance; the analyst sees others.
    ratio = (0.5, 1.15)


MADE: Any = registry.design("two-round-tuned", Kendall(levels=(3, 3)), epsilon=1.0, users=2000)


def asked() -> dict[str, Any]:
    """What the analyst broadcasts after some replies."""
    analysis, generator = Analysis(MADE), np.random.default_rng(1)
    opening = analysis.open()
    counts = np.full(9, 80)
    said: Any = analysis.hear(opening, fast_simulation.tally(MADE.rounds[0], opening, counts, generator))
    return dict(said)


def test_a_reply_is_one_byte() -> None:
    sizes = [sum(dtype.itemsize for dtype, _ in step.reply.values()) for step in MADE.rounds]
    assert sizes == [1, 1]


def test_public_coins_say_who_speaks_when_and_where() -> None:
    users = np.arange(200_000)
    made: Any = registry.design("two-round-tuned", Kendall(levels=(6, 6)), epsilon=1.0, users=2000)
    groups, places = made.group_of(users), made.places(users)["place"].astype(np.int64)
    share = made.share
    assert abs(np.mean(groups == 0) - share) <= 5 * math.sqrt(share * (1 - share) / len(users))
    cells = np.bincount(places[groups == 0], minlength=made.codebook.places)
    mean = cells.sum() / made.codebook.places
    assert cells.min() > 0
    assert abs(cells.var() / mean - 1) < 0.2
    part = np.array([7, 123, 199_999])
    assert np.array_equal(made.group_of(part), groups[part])
    other = replace(made, salt=1)
    assert np.mean(other.places(users)["place"] == places) < 0.01


def test_replies_do_not_depend_on_how_users_are_numbered_among_nodes() -> None:
    inputs = draw("correlated", MADE.workload, 300, np.random.default_rng(2))
    said = [
        {
            (message.round, int(user)): tuple(int(column[row]) for column in message.columns.values())
            for _, message in conversation(MADE, inputs, key_from_seed(3), nodes=nodes)
            if isinstance(message, Replies)
            for row, user in enumerate(message.users)
        }
        for nodes in (1, 4)
    ]
    assert said[0] == said[1]
    assert len(said[0]) == 300


def test_the_solver_s_table_is_taken_from_the_record() -> None:
    inputs = draw("correlated", MADE.workload, 2000, np.random.default_rng(2))
    announced = [m for _, m in conversation(MADE, inputs, key_from_seed(3)) if isinstance(m, Announce)]
    assert set(announced[1].broadcast) == {"again", "table", "position", "values"}
    assert not announced[1].broadcast["again"]
    assert (announced[1].broadcast["table"].sum(axis=1, dtype=np.uint64) == 2**32).all()


HOSTILE = {
    "a ratio above e^eps": lambda table: _move(table, 4, int(np.argmax(table[4])), 7),
    "an entry of 0": lambda table: _move(table, 3, int(np.argmax(table[3])), 0),
    "a row that does not add up": lambda table: table.__setitem__((2, int(np.argmax(table[2]))), 5),
}


def _move(table: Any, row: int, column: int, left: int) -> None:
    rest = int(table[row, column]) - left
    table[row, column] = left
    table[row, (column + 1) % table.shape[1]] += rest


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_tables_are_refused_for_every_input(what: str) -> None:
    public = asked()
    step = MADE.rounds[1]
    step.check_broadcast(public)
    bad = {name: array.copy() for name, array in public.items()}
    bad["position"][:] = np.linspace(0, 20 << 16, 9).astype(np.uint32)
    HOSTILE[what](bad["table"])
    with pytest.raises(RemoteProtocolError, match=r"round 2.*(output|input) \d"):
        step.check_broadcast(bad)


def test_positions_beyond_the_table_are_refused() -> None:
    bad = asked()
    bad["position"] = np.full(9, (20 << 16) + 1, dtype=np.uint32)
    with pytest.raises(RemoteProtocolError, match="position"):
        MADE.rounds[1].check_broadcast(bad)


EVEN: Any = registry.design("two-round-tuned", GiniDiversity(levels=12), epsilon=2.1, users=3100)


def even_run(seed: int) -> tuple[list[Any], dict[str, Any]]:
    """Both tallies of a run on even shares, and the second question."""
    generator, analysis = np.random.default_rng([9, seed]), Analysis(EVEN)
    heard: list[Any] = []
    said: Any = analysis.open()
    sizes = fast_simulation.group_sizes(EVEN, 0, 3100)
    speaking = fast_simulation.speakers(EVEN, np.array([259] * 4 + [258] * 8), sizes, generator)
    for step, counts in zip(EVEN.rounds, speaking, strict=True):
        asked = said
        heard.append(fast_simulation.tally(step, asked, counts, generator))
        said = analysis.hear(asked, heard[-1])
    return [*heard, said], asked


def test_where_the_statistic_has_no_slope_the_first_question_is_asked_again() -> None:
    runs = [even_run(seed) for seed in range(20)]
    assert sum(int(asked["again"]) for _, asked in runs) >= 15
    one, two, said = next(heard for heard, asked in runs if asked["again"])
    assert two.sums["answer"].shape == one.sums["candidate"].shape
    everybody = EVEN.read(one.sums["candidate"] + two.sums["answer"])
    assert everybody.users == 3100
    assert said == EVEN.planning.one_round(everybody)


def test_asking_again_lowers_the_error_where_the_statistic_has_no_slope(monkeypatch: pytest.MonkeyPatch) -> None:
    truth = EVEN.workload.exact(np.repeat(np.arange(12), [259] * 4 + [258] * 8))
    again = np.array([even_run(seed)[0][-1].value - truth for seed in range(40)])
    monkeypatch.setattr(type(EVEN.planning), "is_better_again", lambda *_: False)
    never = np.array([even_run(seed)[0][-1].value - truth for seed in range(40)])
    assert np.mean(again**2) < np.mean(never**2) / 2


def test_on_usual_data_the_others_are_asked_for_the_scalar() -> None:
    said = asked()
    assert not said["again"]
    assert MADE.rounds[1].reply.keys() == {"answer.output"}


def test_a_choice_that_is_neither_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="again is neither 0 nor 1"):
        MADE.rounds[1].check_broadcast({**asked(), "again": np.array(2, dtype=np.uint32)})


@pytest.mark.parametrize("again", [0, 1])
@pytest.mark.parametrize("levels", [3, 6])
def test_either_question_has_the_same_columns_coins_and_epsilon(levels: int, again: int) -> None:
    """With a table as the first channel, and with a codebook."""
    made: Any = registry.design("two-round-tuned", Kendall(levels=(levels, levels)), epsilon=1.0, users=2000)
    assert (made.strategy is None) == (levels == 6)
    step = made.rounds[1]
    broadcast = {name: np.zeros(shape, dtype) for name, (dtype, shape) in step.broadcast.items()}
    broadcast["table"][:] = 2**32 // 32
    broadcast["again"] = np.array(again, dtype=np.uint32)
    step.check_broadcast(broadcast)
    (send,) = step.sends(broadcast).values()
    assert list(send.randomizer.reply) == list(made.codebook.reply)
    assert send.randomizer.public == made.codebook.public
    assert send.randomizer.epsilon == made.epsilon


@pytest.mark.parametrize(
    ("levels", "epsilon", "users"), [(33, 0.3, 2000), (16, 0.2, 3000), (64, 0.5, 1000), (100, 0.1, 20_000)]
)
def test_the_area_is_not_inverted(levels: int, epsilon: float, users: int) -> None:
    """With few users and little epsilon an estimate may be rough, and it is on the right side of 1/2 in the mean."""
    workload = AreaUnderCurve(levels=levels)
    protocol = registry.design("auto", workload, epsilon=epsilon, users=users)
    inputs = draw("scores", workload, users, np.random.default_rng(3))
    counts, truth = workload.counts(inputs), workload.exact(inputs)
    found = [fast_simulation.play(protocol, counts, np.random.default_rng([5, run])) for run in range(60)]
    values = np.array([each.value for each in found])
    assert truth > 0.7
    error = values.std() / math.sqrt(len(values))
    assert values.mean() > 0.5 - 2 * error
    for each in found:
        assert 0 <= each.interval95[0] <= each.value <= each.interval95[1] <= 1


def test_intervals_and_values_stay_within_the_statistic_s_range() -> None:
    workload = GiniDiversity(levels=8)
    protocol = registry.design("two-round-tuned", workload, epsilon=0.2, users=300)
    for run in range(30):
        found = fast_simulation.play(protocol, np.array([300, 0, 0, 0, 0, 0, 0, 0]), np.random.default_rng(run))
        low, high = found.interval95
        assert 0 <= low <= found.value <= high <= 1


def test_an_interval_of_a_ratio_without_a_denominator_is_everything() -> None:
    point = Objective(AreaUnderCurve(levels=2)).at(np.full(4, 0.25))
    rare = Fraction.of(0.6, 0.1, point, 0.01, 0.01)
    assert rare.interval() == (-math.inf, math.inf)
    usual = Fraction.of(0.6, 0.01, point, 0.5, 1e-9)
    assert usual.interval() == pytest.approx((0.6 - 0.0196, 0.6 + 0.0196), abs=1e-4)


def test_a_ratio_that_tells_little_is_the_mean_of_what_it_may_be() -> None:
    point = Objective(AreaUnderCurve(levels=2)).at(np.full(4, 0.25))
    assert Fraction.of(0.9, 0.05, point, 0.5, 1e-9).shrunk(0.0, 1.0) == 0.9
    assert Fraction.of(0.9, 50.0, point, 0.5, 1e-9).shrunk(0.0, 1.0) == pytest.approx(0.5, abs=1e-3)
    halfway = Fraction.of(0.9, 0.4, point, 0.5, 1e-9).shrunk(0.0, 1.0)
    # The mean of a normal law with this standard deviation, cut to the range.
    low, high = (norm.pdf((end - 0.9) / 0.4) for end in (0.0, 1.0))
    inside = norm.cdf(0.1 / 0.4) - norm.cdf(-0.9 / 0.4)
    assert halfway == pytest.approx(0.9 + 0.4 * (low - high) / inside, abs=2e-3)
    # A share of positives of which nothing is known says nothing of the area.
    assert Fraction.of(0.9, 50.0, point, 3.0, 1000.0).shrunk(0.0, 1.0) == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize("name", ["one-round-tuned", "two-round-tuned"])
def test_pairs_of_a_user_with_itself_are_not_counted_twice(name: str) -> None:
    """At even shares their bias, 1/n, is half of a standard error of one run: 200 runs would show it as seven."""
    workload, counts = GiniDiversity(levels=16), np.full(16, 1750)
    made: Any = registry.design(name, workload, epsilon=2.7, users=28_000)
    truth = workload.exact(np.repeat(np.arange(16), counts))
    found = [fast_simulation.play(made, counts, np.random.default_rng([4, run])).value for run in range(200)]
    z = (np.mean(found) - truth) / (np.std(found) / math.sqrt(len(found)))
    assert abs(z) < norm.isf(5e-7), f"bias {np.mean(found) - truth:.3g} is {z:.1f} standard errors of {len(found)} runs"


def test_the_draws_of_a_correction_follow_from_the_counts() -> None:
    counts = np.arange(64)
    np.testing.assert_array_equal(draws_of(counts, 3), draws_of(counts.astype(np.int32), 3))
    other = counts.copy()
    other[5] += 1
    # One fixed set of draws would err the same way in every run: a bias that no repetition averages out.
    assert abs(np.corrcoef(draws_of(counts, 3).ravel(), draws_of(other, 3).ravel())[0, 1]) < 0.5


def test_a_power_that_leaves_the_histogram_undetermined_is_passed_over() -> None:
    workload, codebook = GiniMeanDifference(levels=100), codebook_for(9.1)
    drafts = [
        OneRoundTuned(workload=workload, epsilon=9.1, users=370, power=power, folds=8, **codebook)
        for power in (1.0, 2.0)
    ]
    assert [draft.power for draft in decodable(drafts)] == [1.0]
    with pytest.raises(BadInput, match="do not determine the histogram"):
        decodable(drafts[1:])


def test_a_rough_gradient_costs_more_with_fewer_first_replies() -> None:
    workload = Kendall(levels=(4, 4))
    made: Any = registry.design("two-round-tuned", workload, epsilon=1.0, users=10_000)
    point = made.objective.at(made.planning.guesses[1])
    exact = made.decoder.variance(point.gradient, point.histogram)
    few, many = (made.planning.second_order(point, users) for users in (300, 1e9))
    assert many.noise == pytest.approx(exact, rel=1e-3)
    assert few.noise > many.noise
    assert few.wider > many.wider == pytest.approx(1, abs=1e-3)
    assert few.error > many.error


def test_a_prediction_in_single_precision_is_that_of_the_analyst_s_projection() -> None:
    """To three digits and more, for several numbers of users at once."""
    made: Any = registry.design("two-round-tuned", Kendall(levels=(4, 4)), epsilon=1.0, users=10_000)
    point = made.objective.at(made.planning.guesses[0])
    crowds = (100, 5_000, 1_000_000)
    for users, found in zip(crowds, made.planning.predicted(point, crowds), strict=True):
        exact = made.planning.second_order(point, users)
        assert found.bias == pytest.approx(exact.bias, rel=1e-3, abs=1e-7)
        for name in ("variance", "noise", "wider"):
            assert getattr(found, name) == pytest.approx(getattr(exact, name), rel=1e-3), name


def test_drafts_that_are_compared_keep_no_likelihood_in_double_precision() -> None:
    """It has 16 MiB for a codebook of 256 inputs; a draft does with a sixteenth and with one in single precision."""
    forget_tables()
    workload = Kendall(levels=(16, 16))
    drafts = codebooks(TwoRoundTuned, workload, 1.0, users=10_000, folds=4, share=0.1)
    histogram = np.full(workload.size, 1 / workload.size)
    found = [draft.predicted_rmse(histogram) for draft in drafts]
    assert len(found) > 1
    for draft in drafts:
        assert "likelihood" not in vars(draft.decoder)
        assert max(each.nbytes for each in vars(draft.decoder).values() if isinstance(each, np.ndarray)) < 2**20
    assert decoder.single_of.cache_info().currsize == 1
    double = drafts[0].decoder.likelihood
    assert double.dtype == np.float64
    assert (double.astype(np.float32) == drafts[0].decoder.single).all()
    assert drafts[0].decoder.even == pytest.approx(double.mean(axis=1))
    assert np.allclose(
        drafts[0].decoder.information, (double / double.mean(axis=1)[:, None]).T @ double / drafts[0].seeds
    )
