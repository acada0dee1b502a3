"""Wallets without a disk: what was said is counted exactly, and refusing says nothing that was not said before."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import parley.emulator.roles.wallet.wallet
from parley.emulator.coins import addressed, key_from_seed
from parley.emulator.errors import BadInput, LocalProtocolError, RemoteProtocolError
from parley.emulator.protocol import Analyst, Broadcast, Claim, Protocol
from parley.emulator.randomizer import Columns, Floats, Shape
from parley.emulator.roles.wallet.entries import Entry, Mask, Terms, View
from parley.emulator.roles.wallet.spread import MOST_LISTED, ROUNDING
from parley.emulator.roles.wallet.wallet import Wallet
from parley.emulator.round import Round, Tally
from parley.protocols.baselines.frequency import FrequencyGrr
from parley.protocols.baselines.quantise import Quantise
from parley.protocols.randomizers.exact import WHOLE
from parley.protocols.registry import build, design
from parley.protocols.workloads.gini import GiniDiversity, GiniMeanDifference
from tests.contracts.randomizer_contract import within

DOMAIN = {"kind": "test"}


def terms(users: int, inputs: int, cap: float, **changes: Any) -> Terms:
    return replace(Terms(users=users, mode="constant", cap=cap, inputs=inputs, domain=DOMAIN), **changes)


def grr(inputs: int, epsilon: float) -> FrequencyGrr:
    return FrequencyGrr.design(GiniDiversity(levels=inputs), epsilon=epsilon, users=10)


def category(numbers: Any) -> Columns:
    return {"category.category": np.asarray(numbers, np.uint32)}


def ask(wallet: Wallet, run: str, protocol: Protocol, replies: Any, view: View | None = None) -> Mask:
    """A run of one round in which user i replies with category replies[i] if it may."""
    wallet.accept(run, protocol, view=view or View())
    mask = wallet.grant(run, 1, {})
    wallet.said(run, 1, np.flatnonzero(mask), category(np.asarray(replies)[mask]))
    return mask


class Table(Round):
    """An explicit channel: whole weights, a row for each reply and a column for each input."""

    name = "table"

    def __init__(self, weights: Any, epsilon: float) -> None:
        self.weights, self._epsilon = np.asarray(weights, dtype=np.int64), epsilon
        self.inputs = self.weights.shape[1]

    @property
    def epsilon(self) -> float:
        return self._epsilon

    @property
    def broadcast(self) -> Shape:
        return {}

    @property
    def reply(self) -> Shape:
        return {"sent": (np.dtype(np.uint8), ())}

    @property
    def public(self) -> Shape:
        return {}

    @property
    def coins(self) -> int:
        return 0

    def participates(self, users: Any) -> Mask:
        return np.ones(len(users), np.bool_)

    def check_broadcast(self, public: Broadcast) -> None: ...

    def respond(self, public: Broadcast, inputs: Any, coins: Any) -> Columns:
        raise NotImplementedError

    def tally(self, public: Broadcast, replies: Columns) -> Tally:
        raise NotImplementedError

    def check(self, public: Broadcast, replies: Columns) -> Mask:
        return np.asarray(replies["sent"].astype(int) < len(self.weights), np.bool_)

    def log_likelihood(self, public: Broadcast, replies: Columns) -> Floats:
        with np.errstate(divide="ignore"):
            return np.log(self.weights / self.weights.sum(axis=0))[replies["sent"].astype(int)]

    def outcomes(self, public: Broadcast) -> Columns:
        return {"sent": np.arange(len(self.weights), dtype=np.uint8)}


@dataclass(frozen=True)
class Tables(Protocol):
    """Some tables, one a round."""

    name = "tables"
    steps: tuple[Table, ...]

    @property
    def claim(self) -> Claim:
        total = sum(step.epsilon for step in self.steps)
        return Claim(epsilon=total, rounds=len(self.steps), interaction="fully interactive")

    @property
    def rounds(self) -> tuple[Round, ...]:
        return self.steps

    @property
    def inputs(self) -> int:
        return self.steps[0].weights.shape[1]

    def parameters(self) -> Mapping[str, Any]:
        return {"tables": tuple(step.weights for step in self.steps)}

    def analyst(self) -> Analyst:
        raise NotImplementedError


def weight(protocol: FrequencyGrr, reply: int, category: int) -> int:
    """The whole number of coin values with which randomized response says `reply`."""
    return protocol.oracle.choice.weight(reply == category, reply == 0)


@pytest.mark.parametrize("cap", [1.0, 0.75, 1.2])
def test_the_whole_interaction_keeps_the_cap_exactly(cap: float) -> None:
    """Every transcript of six runs, refusals included: probabilities add up to 1, and no ratio exceeds e^cap.

    A user of this wallet is a path of replies. Questions are about 3 inputs and about coarsenings of them.
    """
    fine, coarse = grr(3, 0.5), grr(2, 0.25)
    views = [(fine, [0, 1, 2]), (fine, [0, 1, 2]), (coarse, [0, 1, 0]), (fine, [0, 1, 2])]
    views += [(coarse, [0, 0, 1]), (fine, [0, 1, 2])]
    paths = np.array(list(itertools.product(*(range(protocol.inputs) for protocol, _ in views))))
    wallet = Wallet(terms(len(paths), 3, cap), build)
    said: list[list[int | None]] = [[] for _ in paths]
    for number, (protocol, seen) in enumerate(views):
        view = View(coarsening=np.array(seen)) if protocol is coarse else None
        mask = ask(wallet, f"run-{number}", protocol, paths[:, number], view)
        # Whoever has said the same is treated the same: refusing says nothing new.
        decisions: dict[tuple[int | None, ...], bool] = {}
        for past, may in zip(map(tuple, said), mask.tolist(), strict=True):
            assert decisions.setdefault(past, may) == may
        for user, may in enumerate(mask):
            said[user].append(int(paths[user, number]) if may else None)
    transcripts = {tuple(each) for each in said}
    assert any(None in each for each in transcripts)
    assert max(sum(reply is not None for reply in each) for each in transcripts) > cap / 0.5
    likelihoods = []
    for transcript in transcripts:
        row = [1, 1, 1]
        for (protocol, seen), reply in zip(views, transcript, strict=True):
            factors = [WHOLE if reply is None else weight(protocol, reply, seen[x]) for x in range(3)]
            row = [one * factor for one, factor in zip(row, factors, strict=True)]
        likelihoods.append(row)
        for one, other in itertools.permutations(row, 2):
            assert within(one, other, cap), (transcript, math.log(one / other))
    for x in range(3):
        assert sum(row[x] for row in likelihoods) == WHOLE ** len(views)


@pytest.mark.parametrize("cap", [1.0, 0.75])
def test_refusing_is_needed(cap: float) -> None:
    """Who is refused could have said something that exceeds the cap."""
    protocol, paths = grr(3, 0.5), np.array(list(itertools.product(range(3), repeat=4)))
    wallet = Wallet(terms(len(paths), 3, cap), build)
    table = protocol.rounds[0].log_likelihood({}, category(range(3)))
    log = np.zeros((len(paths), 3))
    for number in range(4):
        mask = ask(wallet, f"run-{number}", protocol, paths[:, number])
        worst = np.ptp(log[:, None, :] + table, axis=2).max(axis=1)
        assert np.array_equal(mask, worst <= cap)
        log += np.where(mask[:, None], table[paths[:, number]], 0.0)


def test_a_reply_that_is_not_on_offer_is_not_paid_for() -> None:
    """L = (2, 1, 0) e: a question that keeps both ends together cannot pull them apart."""
    wallet = Wallet(terms(1, 3, 1.0), build)
    for number, reply in enumerate((0, 1, 0)):
        assert ask(wallet, f"run-{number}", grr(3, 0.5), [reply]).all()
    assert wallet.spent().loss[0] == pytest.approx(1.0, abs=1e-12)
    assert not wallet.could_answer(0.5).any()
    assert not ask(wallet, "fine", grr(3, 0.5), [0]).any()
    assert not ask(wallet, "apart", grr(2, 0.5), [0], View(coarsening=np.array([0, 0, 1]))).any()
    assert ask(wallet, "together", grr(2, 0.5), [0], View(coarsening=np.array([0, 1, 0]))).all()
    assert wallet.spent().loss[0] <= 1.0


def test_claims_add_up_as_they_are_written() -> None:
    """Twenty times 0.1 is 2, and the same run costs once."""
    wallet = Wallet(terms(3, 2, 2.0, mode="sum"), build)
    for number in range(20):
        assert wallet.accept(f"run-{number}", grr(4, 0.1)).all()
        assert wallet.accept(f"run-{number}", grr(4, 0.1)).all()
    assert wallet.spent().loss.tolist() == [2.0] * 3
    assert wallet.spent().left.tolist() == [0.0] * 3
    assert not wallet.accept("another", grr(4, 2.0**-20), view=View()).any()
    assert not wallet.grant("another", 1, {}).any()


def test_deltas_add_up_behind_a_shuffler() -> None:
    shuffled = design("shuffled", GiniDiversity(levels=4), epsilon=0.5, users=1000, delta=1e-6)
    for mode in ("sum", "constant"):
        wallet = Wallet(terms(2, 4, 10.0, mode=mode, delta_cap=2e-6), build)
        assert wallet.accept("one", shuffled, trusts="shuffler").all()
        assert wallet.accept("two", shuffled, trusts="shuffler").all()
        assert wallet.spent().loss.tolist() == [1.0, 1.0]
        assert wallet.spent().delta.tolist() == [2e-6, 2e-6]
        assert not wallet.accept("three", shuffled, trusts="shuffler").any()
        # The claim is paid for; its one round costs nothing more.
        assert wallet.grant("one", 1, {}).all()
        assert wallet.spent().loss.tolist() == [1.0, 1.0]


def test_without_trust_in_the_shuffler_the_local_epsilon_counts() -> None:
    shuffled = design("shuffled", GiniDiversity(levels=4), epsilon=0.5, users=1000, delta=1e-6)
    wallet = Wallet(terms(1, 4, 10.0, delta_cap=1e-5), build)
    assert wallet.accept("one", shuffled, view=View()).all()
    assert wallet.spent().loss[0] == pytest.approx(shuffled.claim.local_epsilon)


def test_other_domains_have_accounts_of_their_own_that_add() -> None:
    wallet = Wallet(terms(2, 3, 1.0), build)
    other = View(domain={"kind": "other"})
    assert ask(wallet, "one", grr(3, 0.5), [0, 0]).all()
    # Said about the same value, the second reply takes back what the first one said; about another value it adds.
    assert ask(wallet, "two", grr(2, 0.5), [1, 0], other).all()
    assert wallet.spent().loss == pytest.approx([1.0, 1.0], abs=1e-12)
    assert not ask(wallet, "three", grr(3, 0.01), [0, 1]).any()
    assert not ask(wallet, "four", grr(2, 0.01), [0, 1], other).any()


def test_a_coarsening_adds_on_the_fine_domain() -> None:
    """Two bins of four inputs through the map cost what the same bins of `quantise` cost on the fine domain itself."""
    fine = Wallet(terms(2, 4, 3.0), build)
    through = Wallet(terms(2, 4, 3.0), build)
    binned = Quantise.design(GiniMeanDifference(levels=4), epsilon=0.5, users=2)
    binned = replace(binned, bins=2)
    for wallet in (fine, through):
        ask(wallet, "before", grr(4, 1.0), [0, 2])
    ask(fine, "bins", binned, [0, 0])
    ask(through, "bins", grr(2, 0.5), [0, 0], View(coarsening=binned.bin_of))
    assert fine.spent().loss == pytest.approx(through.spent().loss, abs=1e-13)
    assert fine.spent().loss == pytest.approx([1.5, 1.0], abs=1e-12)


def test_a_reservation_counts_at_its_worst_until_the_reply_is_known() -> None:
    wallet = Wallet(terms(2, 3, 2.0), build)
    ask(wallet, "before", grr(3, 0.5), [0, 0])
    wallet.accept("now", grr(3, 0.5), view=View())
    assert wallet.grant("now", 1, {}).all()
    assert wallet.spent().loss == pytest.approx([1.0, 1.0], abs=1e-12)
    wallet.said("now", 1, np.array([1]), category([1]))
    # The other reply takes back what the first one said, but for a third input.
    assert wallet.spent().loss == pytest.approx([1.0, 0.5], abs=1e-12)
    assert wallet.grant("now", 1, {}).all()
    wallet.said("now", 1, np.array([0]), category([0]))
    assert wallet.spent().loss == pytest.approx([1.0, 0.5], abs=1e-12)


def test_a_reservation_is_never_worse_than_the_cap() -> None:
    """Granted because no reply on offer exceeds the cap, though spread and epsilon together would."""
    wallet = Wallet(terms(1, 3, 1.0), build)
    for number, reply in enumerate((0, 1, 0)):
        ask(wallet, f"run-{number}", grr(3, 0.5), [reply])
    wallet.accept("now", grr(2, 0.5), view=View(coarsening=np.array([0, 1, 0])))
    assert wallet.grant("now", 1, {}).all()
    assert wallet.spent().loss.tolist() == [1.0]
    assert wallet.spent().left.tolist() == [0.0]


def test_nobody_says_two_things_to_one_question() -> None:
    wallet = Wallet(terms(3, 3, 2.0), build)
    ask(wallet, "run", grr(3, 0.5), [0, 1, 2])
    before = wallet.spent().loss
    wallet.said("run", 1, np.array([2, 0]), category([2, 0]))
    assert np.array_equal(wallet.spent().loss, before)
    with pytest.raises(LocalProtocolError, match="second, different reply"):
        wallet.said("run", 1, np.array([0, 2]), category([0, 0]))
    with pytest.raises(RemoteProtocolError, match="other terms"):
        wallet.accept("run", grr(3, 1.0), view=View())
    with pytest.raises(RemoteProtocolError, match="second, different question"):
        wallet.grant("run", 1, {"surprise": np.zeros(1)})
    with pytest.raises(RemoteProtocolError, match="out of order"):
        wallet.grant("run", 2, {})
    with pytest.raises(LocalProtocolError, match="not accepted"):
        wallet.grant("unknown", 1, {})


def test_only_those_answer_who_may_and_only_what_can_be() -> None:
    wallet = Wallet(terms(2, 3, 0.5), build)
    wallet.accept("run", grr(3, 0.5), view=View())
    with pytest.raises(LocalProtocolError, match="before the wallet has granted"):
        wallet.said("run", 1, np.array([0]), category([0]))
    assert wallet.grant("run", 1, {}, np.array([True, False])).tolist() == [True, False]
    for places, replies, word in (([1], [0], "does not let"), ([0, 0], [0, 0], "does not let"), ([0], [3], "outside")):
        with pytest.raises(LocalProtocolError, match=word):
            wallet.said("run", 1, np.array(places), category(replies))
    with pytest.raises(LocalProtocolError, match="2 users"):
        wallet.grant("run", 1, {}, np.array([True]))
    # Who was not asked has lost nothing.
    assert wallet.spent().loss == pytest.approx([0.5, 0.0], abs=1e-12)


def test_who_cannot_afford_a_round_is_silent_for_the_rest_of_the_run() -> None:
    dear, cheap = Table([[3, 1], [1, 3]], math.log(3)), Table([[5, 4], [4, 5]], 0.25)
    protocol = Tables((cheap, dear, cheap))
    wallet = Wallet(terms(2, 2, 1.7), lambda name, parameters: protocol)
    wallet.accept("first", Tables((dear,)), view=View())
    wallet.grant("first", 1, {}, np.array([True, False]))
    wallet.said("first", 1, np.array([0]), {"sent": np.zeros(1, np.uint8)})
    wallet.accept("second", protocol, view=View())
    assert wallet.grant("second", 1, {}).tolist() == [True, True]
    assert wallet.grant("second", 2, {}).tolist() == [False, True]
    assert wallet.grant("second", 3, {}).tolist() == [False, True]
    assert wallet.grant("second", 1, {}).tolist() == [True, True]


def test_a_round_that_gives_away_more_than_it_says_is_refused() -> None:
    for weights in ([[3, 1], [1, 3]], [[1, 0], [1, 2]]):
        wallet = Wallet(terms(1, 2, 100.0), build)
        wallet.accept("run", Tables((Table(weights, 1.0),)), view=View())
        with pytest.raises(RemoteProtocolError, match="more than its 1"):
            wallet.grant("run", 1, {})


def test_rounding_can_only_refuse() -> None:
    """A cap a hair below the exact loss: floats cannot tell, so nobody answers."""
    exact = math.log(3)
    for cap, may in ((exact * (1 - ROUNDING / 8), False), (exact * (1 + 64 * ROUNDING), True)):
        wallet = Wallet(terms(1, 2, cap), build)
        wallet.accept("run", Tables((Table([[3, 1], [1, 3]], 1.2),)), view=View())
        assert wallet.grant("run", 1, {}).tolist() == [may]


weights = st.lists(st.lists(st.integers(20, 60), min_size=3, max_size=3), min_size=2, max_size=4)


@settings(max_examples=60, deadline=None)
@given(st.lists(weights, min_size=1, max_size=8), st.integers(0, 2**32 - 1))
def test_no_sequence_of_questions_exceeds_the_cap(tables: list[list[list[int]]], seed: int) -> None:
    """Any channels, any replies; the loss in exact arithmetic, and never more reported than there is room for."""
    generator, users, cap = np.random.default_rng(seed), 5, 1.0
    wallet = Wallet(terms(users, 3, cap), build)
    products = [[Fraction(1)] * 3 for _ in range(users)]
    for number, table in enumerate(tables):
        step = Table(table, 2.0)
        wallet.accept(f"run-{number}", Tables((step,)), view=View())
        mask = wallet.grant(f"run-{number}", 1, {})
        sent = generator.integers(0, len(table), users)
        wallet.said(f"run-{number}", 1, np.flatnonzero(mask), {"sent": sent[mask].astype(np.uint8)})
        sums = step.weights.sum(axis=0)
        for user in np.flatnonzero(mask):
            factors = [Fraction(int(step.weights[sent[user], x]), int(sums[x])) for x in range(3)]
            products[user] = [one * factor for one, factor in zip(products[user], factors, strict=True)]
    for product, loss in zip(products, wallet.spent().loss, strict=True):
        ratio = max(product) / min(product)
        assert within(ratio.numerator, ratio.denominator, cap)
        assert loss == pytest.approx(math.log(ratio), abs=1e-12)
        assert within(ratio.numerator, ratio.denominator, loss)


def test_replies_that_cannot_be_listed_cost_their_epsilon_beforehand_and_their_loss_afterwards() -> None:
    protocol = design("frequency-subset", GiniDiversity(levels=8), epsilon=0.3, users=200)
    inputs, users = np.arange(200) % 8, 200
    wallet, log = Wallet(terms(users, 8, 1.0), build), np.zeros((users, 8))
    answered = np.zeros(users, int)
    for number in range(12):
        wallet.accept(f"run-{number}", protocol, view=View())
        mask = wallet.grant(f"run-{number}", 1, {})
        assert np.array_equal(mask, np.ptp(log, axis=1) + 0.3 <= 1.0)
        flips = addressed(key_from_seed(number), 1, 0, users, protocol.rounds[0].coins)
        said = protocol.rounds[0].respond({}, inputs[mask], flips[mask])
        wallet.said(f"run-{number}", 1, np.flatnonzero(mask), said)
        log[mask] += protocol.rounds[0].log_likelihood({}, said)
        answered += mask
    assert wallet.spent().loss == pytest.approx(np.ptp(log, axis=1), abs=1e-12)
    assert wallet.spent().loss.max() <= 1.0
    # Plain summing stops after three.
    assert answered.min() >= 3
    assert np.median(answered) > 3


def test_blocks_and_memory_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wallet too large for memory works everything out from what was said, some users at a time."""
    kept: list[Entry] = []
    generator = np.random.default_rng(3)
    replies = generator.integers(0, 4, (9, 50))
    masks = []
    wallet = Wallet(terms(50, 4, 1.0), build, kept.append)
    for number, sent in enumerate(replies):
        masks.append(ask(wallet, f"run-{number}", grr(4, 0.3), sent))
    monkeypatch.setattr(parley.emulator.roles.wallet.wallet, "MOST_CACHED", 0)
    monkeypatch.setattr("parley.emulator.roles.wallet.spread.BLOCK_NUMBERS", 20)
    slow = Wallet(terms(50, 4, 1.0), build)
    for number, sent in enumerate(replies):
        assert np.array_equal(ask(slow, f"run-{number}", grr(4, 0.3), sent), masks[number])
    again = Wallet(terms(50, 4, 1.0), build)
    for entry in kept:
        again.take(entry)
    for other in (slow, again):
        assert other.spent().loss == pytest.approx(wallet.spent().loss, abs=1e-13)
        assert other.runs == wallet.runs
    assert not all(mask.all() for mask in masks)


def test_what_is_not_kept_does_not_count() -> None:
    """An entry that could not be written down changes nothing."""

    def full(entry: Entry) -> None:
        raise LocalProtocolError("no space")

    wallet = Wallet(terms(1, 3, 1.0, mode="sum"), build, full)
    with pytest.raises(LocalProtocolError, match="no space"):
        wallet.accept("run", grr(3, 0.5), view=View())
    assert wallet.runs == ()
    assert wallet.spent().loss[0] == 0


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"users": 0}, "0 users"),
        ({"mode": "guess"}, "guess"),
        ({"cap": 0.0}, "cap 0.0"),
        ({"cap": math.nan}, "nan"),
        ({"cap": math.inf}, "inf"),
        ({"delta_cap": 1.0}, "delta"),
        ({"delta_cap": math.nan}, "nan"),
        ({"inputs": 1}, "cannot cover 1 inputs"),
    ],
)
def test_terms_that_make_no_sense(changes: Mapping[str, Any], word: str) -> None:
    with pytest.raises(BadInput, match=word):
        replace(terms(1, 2, 1.0), **changes)


def test_views_that_do_not_fit() -> None:
    wallet = Wallet(terms(1, 4, 1.0), build)
    for view in (
        None,
        View(coarsening=np.array([0, 1, 0])),
        View(coarsening=np.array([0, 1, 0, 2])),
        View(coarsening=np.array([0, 1, 0, -1])),
        View(coarsening=np.array([0.0, 1.0, 0.0, 1.0])),
        View(domain={"kind": "other"}, coarsening=np.array([0, 1, 0, 1])),
    ):
        with pytest.raises(BadInput):
            wallet.accept("run", grr(2, 0.5), view=view or View())
    # Four inputs of another column must not be taken for these four.
    with pytest.raises(LocalProtocolError, match="was not told"):
        wallet.accept("run", grr(4, 0.5))
    assert wallet.accept("run", grr(4, 0.5), view=View(domain=DOMAIN)).all()
    assert wallet.accept("run", grr(4, 0.5), view=View()).all()


def test_who_is_left_is_not_a_random_sample() -> None:
    """One bit about five values in a row: users at the ends repeat themselves and drop out earlier (docs/wallet.md)."""
    users, runs, one = 10_000, 20, np.linspace(3776, 6224, 5).round().astype(int)
    protocol = Tables((Table([10_000 - one, one], 0.5),))
    inputs, generator = np.arange(users) % 5, np.random.default_rng(8)
    wallet = Wallet(terms(users, 5, 2.0), build)
    for number in range(runs):
        wallet.accept(f"run-{number}", protocol, view=View())
        mask = wallet.grant(f"run-{number}", 1, {})
        sent = (generator.integers(0, 10_000, users) < one[inputs]).astype(np.uint8)
        wallet.said(f"run-{number}", 1, np.flatnonzero(mask), {"sent": sent[mask]})
    ends, middle = mask[np.isin(inputs, (0, 4))], mask[inputs == 2]
    error = math.sqrt(ends.mean() * (1 - ends.mean()) / len(ends) + middle.mean() * (1 - middle.mean()) / len(middle))
    gap = float(middle.mean() - ends.mean())
    assert gap > 4.9 * error, f"{users} users, {runs} runs: gap {gap}, threshold {4.9 * error}"


def test_a_list_of_replies_that_would_be_too_long_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question over a coarse domain once took its replies times all fine inputs in memory before it was given up."""
    many = MOST_LISTED // 8 + 1
    purse = Wallet(terms(2, many, 1.0), build)
    purse.accept("r", grr(8, 0.5), view=View(coarsening=np.arange(many) % 8))
    made: list[Any] = []
    monkeypatch.setattr(Round, "log_likelihood", lambda *given: made.append(given))
    assert purse.grant("r", 1, {}).all()
    assert made == []
