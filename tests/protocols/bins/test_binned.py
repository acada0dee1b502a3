"""Bins at private quantiles owe what every protocol owes, around whichever protocol they are put."""

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.emulator.coins import addressed, key_from_seed
from parley.emulator.errors import BadInput, RemoteProtocolError
from parley.emulator.protocol import Inputs, Protocol
from parley.emulator.record.likelihoods import Table
from parley.emulator.simulate import simulate
from parley.protocols import registry
from parley.protocols.bins.binned import BORDERS, Binned
from parley.protocols.bins.borders import Bins, quantile_borders
from parley.protocols.bins.margins import Heard, MarginRead, Margins
from parley.protocols.planning.families.bins import tied_share
from parley.protocols.tuned.groups import salted
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.gini import GiniMeanDifference
from parley.protocols.workloads.kendall import Kendall, KendallTauB
from tests.contracts.protocol_contract import ProtocolContract

KEY = key_from_seed(11)
SHARES = st.lists(st.floats(0, 1), min_size=3, max_size=40).filter(lambda shares: sum(shares) > 0)


class Binning(ProtocolContract):
    protocol = "binned"
    lenient = ("salt", "users", "share", "fine", "statistic")

    def truth(self, protocol: Protocol, inputs: Inputs) -> float:
        made: Any = protocol
        return float(made.truth(inputs))


class TestAroundTheTunedRounds(Binning):
    """Each fine level is a bin, so that nothing is hidden and the interval is the inner protocol's."""


class TestAroundThreeRounds(Binning):
    ratio = (0.6, 1.2)

    def make(self) -> Protocol:
        return registry.design("binned", self.workload, epsilon=1.0, users=self.users, inner="three-round")


class TestRatioOfForms(Binning):
    workload = KendallTauB(levels=(3, 3))
    # The prediction knows a typical error of the ties, not that of these columns.
    ratio = (0.7, 1.4)
    bias = 0.03


def coarse(statistic: str = "kendall", **more: Any) -> Any:
    fine: Any = {"kendall": Kendall(levels=(9, 7)), "kendall-b": KendallTauB(levels=(9, 7))}[statistic]
    return registry.design("binned", fine, epsilon=1.0, users=600, levels=(4, 3), inner="one-round-tuned", **more)


def replies_of(protocol: Any, number: int, public: Any) -> Any:
    step, every = protocol.rounds[number - 1], np.arange(protocol.inputs)
    replies = step.respond(public, every, addressed(KEY, number, 0, len(every), step.coins), every)
    return step, step.complete(public, every, replies)


def test_a_user_is_asked_about_margins_or_in_the_inner_protocol_and_never_in_both() -> None:
    protocol, users = salted(coarse(), 77), np.arange(5000)
    spoken = np.stack([step.participates(users) for step in protocol.rounds])
    assert (spoken.sum(axis=0) == 1).all()
    assert abs(spoken[0].mean() - protocol.share) < 0.02  # type: ignore[attr-defined]


def test_the_split_for_margins_says_nothing_about_the_groups_inside() -> None:
    """Both are functions of the user's number: with the same coins one would follow the other."""
    made = registry.design("binned", Kendall(levels=(4, 4)), epsilon=1.0, users=600, inner="two-round-tuned")
    protocol: Any = salted(made, 123456789)
    users = np.arange(20000)
    inner = protocol.inner.group_of(users) == 0
    asked = protocol.group_of(users) == 0
    assert abs(inner[asked].mean() - inner[~asked].mean()) < 0.03


def test_whatever_borders_are_named_the_loss_of_every_reply_is_within_epsilon() -> None:
    protocol = coarse()
    for borders in ([1, 2, 3, 1, 2], [3, 5, 8, 2, 6], [6, 7, 8, 5, 6]):
        public = {BORDERS: np.array(borders, np.uint32)}
        protocol.rounds[1].check_broadcast(public)
        step, replies = replies_of(protocol, 2, public)
        assert np.ptp(step.log_likelihood(public, replies), axis=1).max() <= protocol.epsilon + 1e-9
    step, replies = replies_of(protocol, 1, {})
    assert np.ptp(step.log_likelihood({}, replies), axis=1).max() <= protocol.epsilon + 1e-9


@pytest.mark.parametrize(
    "borders", [[0, 2, 3, 1, 2], [2, 2, 3, 1, 2], [3, 2, 5, 1, 2], [1, 2, 9, 1, 2], [1, 2, 3, 2, 7]]
)
def test_borders_that_make_no_bins_are_refused(borders: list[int]) -> None:
    with pytest.raises(RemoteProtocolError, match="do not rise"):
        coarse().rounds[1].check_broadcast({BORDERS: np.array(borders, np.uint32)})


def test_inputs_of_one_cell_are_answered_alike() -> None:
    """What a user sends acts on its cell: with the same coins two inputs of a cell give the same bytes."""
    protocol = coarse()
    borders = np.array([3, 5, 8, 2, 6], np.uint32)
    step, cells = protocol.rounds[1], protocol.bins(borders).cells(np.arange(protocol.inputs))
    flips = np.tile(addressed(KEY, 2, 5, 1, step.coins), (protocol.inputs, 1))
    replies = step.respond({BORDERS: borders}, np.arange(protocol.inputs), flips, np.full(protocol.inputs, 5))
    for cell in range(protocol.inner.inputs):
        for column in replies.values():
            assert len(np.unique(column[cells == cell], axis=0)) == 1


def test_representatives_show_every_loss_exactly() -> None:
    protocol = coarse()
    public = {BORDERS: np.array([3, 5, 8, 2, 6], np.uint32)}
    few = protocol.representatives({1: [{}], 2: [public]})
    assert len(few) < protocol.inputs
    for number, said in ((1, {}), (2, public)):
        step, replies = replies_of(protocol, number, said)
        whole = np.ptp(step.log_likelihood(said, replies), axis=1)
        logs = 0.0
        for name, send in step.sends(said).items():
            known = (*send.randomizer.reply, *send.randomizer.public)
            mine = {each: replies[f"{name}.{each}" if each else name] for each in known}
            logs = logs + Table(send, few).likelihoods(mine)
        assert np.allclose(np.ptp(logs, axis=1), whole)


def test_a_run_through_real_roles_gives_the_statistic_in_the_bins_of_its_record() -> None:
    generator = np.random.default_rng(3)
    first = np.minimum(generator.geometric(0.2, 4000) - 1, 39)
    second = np.clip(first + generator.integers(-6, 7, 4000), 0, 39)
    made = registry.design("binned", Kendall(levels=(40, 40)), epsilon=4.0, users=4000, levels=(6, 6))
    found = simulate(salted(made, 9), first * 40 + second, KEY)
    assert found.low < made.workload.exact(first * 40 + second) < found.high  # type: ignore[attr-defined]
    assert found.details["noise_high"] - found.details["noise_low"] < found.high - found.low


@given(SHARES, st.integers(2, 40))
def test_borders_rise_and_are_as_many_as_bins_need(shares: list[float], bins: int) -> None:
    levels = len(shares)
    borders = quantile_borders(np.array(shares) / sum(shares), min(bins, levels))
    assert len(borders) == min(bins, levels) - 1
    assert (np.diff(np.concatenate([[0], borders, [levels]])) > 0).all()


def test_equal_shares_give_equal_bins_and_a_heavy_level_has_one_of_its_own() -> None:
    assert quantile_borders(np.full(12, 1 / 12), 4).tolist() == [3, 6, 9]
    heavy = np.full(10, 0.05)
    heavy[4] = 0.55
    borders = quantile_borders(heavy, 5)
    assert {4, 5} <= set(borders.tolist())


@given(st.integers(2, 3000))
def test_cuts_cover_every_level_once(levels: int) -> None:
    for cut in Margins((levels, 2)).cuts:
        if cut.column == 0:
            assert cut.total(np.ones((levels, 1))).sum() == levels
            assert len(cut.total(np.ones((levels, 1)))) == cut.nodes


def test_margins_are_read_without_bias_where_noise_is_small() -> None:
    generator, question = np.random.default_rng(1), Margins((60, 50))
    first, second = generator.binomial(59, 0.3, 60000), generator.integers(50, size=60000)
    selection = question.selection(8.0)
    flips = generator.integers(0, 256, (60000, selection.coins), dtype=np.uint8)
    said = selection.sample(question.columns(first * 50 + second), flips)
    shares = question.read(selection, selection.total(said)).shares
    truth = np.bincount(first, minlength=60) / 60000
    assert np.abs(np.cumsum(shares[0]) - np.cumsum(truth)).max() < 0.03
    assert np.abs(np.cumsum(shares[1]) - np.arange(1, 51) / 50).max() < 0.03


def test_cells_and_representatives_belong_together() -> None:
    bins = Bins.of((9, 7), (4, 3), np.array([3, 5, 8, 2, 6]))
    assert bins.cells(bins.representatives).tolist() == list(range(12))
    assert bins.widths(0).tolist() == [3, 2, 3, 1]
    assert bins.shares(1, np.arange(7.0)).tolist() == [1.0, 14.0, 6.0]


def test_distances_and_other_nonsense_are_refused_in_one_sentence() -> None:
    with pytest.raises(BadInput, match="measures distances or equality, which only bins of equal width keep"):
        registry.design("binned", GiniMeanDifference(levels=16), epsilon=1.0, users=600)
    made = coarse()
    for wrong in ({"share": 0.9}, {"fine": (3, 7)}, {"fine": (9, 5000)}, {"fine": (9,)}, {"statistic": "auc"}):
        with pytest.raises(BadInput):
            replace(made, **wrong)
    with pytest.raises(BadInput, match="ratio of three"):
        registry.design("one-round-tuned", KendallTauB(levels=(3, 3)), epsilon=1.0, users=600)


def test_the_area_under_a_curve_has_bins_of_scores_and_labels_as_they_are() -> None:
    made: Any = registry.design("binned", AreaUnderCurve(levels=30), epsilon=4.0, users=3000, levels=(6, 2))
    assert isinstance(made, Binned)
    generator = np.random.default_rng(5)
    label = generator.integers(2, size=3000)
    score = np.clip(np.rint(generator.normal(12 + 5 * label, 5)), 0, 29).astype(np.int64)
    found = simulate(salted(made, 5), score * 2 + label, KEY)
    assert found.low < made.workload.exact(score * 2 + label) < found.high


def heard_margins(shares: np.ndarray, users: float) -> MarginRead:
    """What is heard of one column with these shares, without noise."""
    question = Margins((len(shares),))
    return MarginRead((len(shares),), tuple(Heard(cut, cut.total(shares[:, None]), users) for cut in question.cuts))


def test_an_atom_among_many_fine_levels_is_found_whole() -> None:
    """Six users of ten hold the lowest of 1,000 levels, as amounts of rain do."""
    shares = np.concatenate([[0.6], np.full(999, 0.4 / 999)])
    read = heard_margins(shares, 700.0)
    assert read.shares[0][0] == pytest.approx(0.6, abs=1e-3)
    assert read.redrawn[0][0].mean() == pytest.approx(0.6, abs=0.08)


@pytest.mark.parametrize("atom", [0.0, 0.6])
def test_the_share_of_tied_pairs_is_that_of_the_bins(atom: float) -> None:
    shares = np.full(1000, (1 - atom) / 1000)
    shares[0] += atom
    read, borders = heard_margins(shares, 700.0), quantile_borders(shares, 8)
    bins = Bins((1000,), (8,), (borders,))
    found, error = tied_share(bins, read, 0)
    exact = float((bins.shares(0, shares) ** 2).sum())
    assert abs(found - exact) < 2 * error < 0.2


def test_the_truth_in_bins_needs_less_than_eight_bytes_a_user() -> None:
    """Cells are computed block by block."""
    inner: Any = registry.design("one-round", Kendall(levels=(4, 4)), epsilon=1.0, users=1_000_000)
    protocol = Binned(statistic="kendall", fine=(64, 64), share=0.1, users=1_000_000, inner=inner)
    inputs = np.random.default_rng(1).integers(0, 64 * 64, protocol.users).astype(np.uint16)
    bins = protocol.quantiles(np.ones(protocol.inputs))
    tracemalloc.start()
    try:
        truth = protocol.binned_truth(inputs, bins)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert truth == inner.workload.exact(bins.cells(inputs))
    assert peak < 6 * protocol.users
