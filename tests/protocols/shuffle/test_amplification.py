"""Amplification by shuffling: against enumeration, against mathematics.md, and never too small."""

import itertools
import math

import numpy as np
import pytest

from benchmarks.reference.amplification import clones_closed_form, epsilon_bound, of_cap, of_clones, of_ratio
from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Floats
from parley.protocols.randomizers.exact import TwoLevel
from parley.protocols.shuffle.amplification import (
    MOST_COUNTED,
    Blanket,
    check_delta,
    delta_bound,
    largest_local_epsilon,
    of_choice,
)

USERS, DELTA = 10**5, 1e-6


def blanket_for(candidates: int, top: int, local: float) -> Blanket:
    return of_choice(TwoLevel(outcomes=candidates, top=top, epsilon=local))


def test_the_figures_of_the_mathematics() -> None:
    """n = 1e5, eps_0 = 1, delta = 1e-6: PrivUnit's cap of about a third gives 0.0112, clones in closed form 0.075."""
    assert epsilon_bound(of_cap(1.0, 0.37), USERS, DELTA) == pytest.approx(0.0112, rel=0.02)
    assert clones_closed_form(1.0, USERS, DELTA) == pytest.approx(0.075, rel=0.05)
    assert epsilon_bound(of_clones(1.0), USERS, DELTA) < clones_closed_form(1.0, USERS, DELTA)


def law_of_bags(rows: Floats, inputs: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    """The exact law of the bag of replies that users with these inputs send."""
    law = {(0,) * rows.shape[1]: 1.0}
    for x in inputs:
        after: dict[tuple[int, ...], float] = {}
        for bag, chance in law.items():
            for y, reply in enumerate(rows[x]):
                bigger = (*bag[:y], bag[y] + 1, *bag[y + 1 :])
                after[bigger] = after.get(bigger, 0.0) + chance * float(reply)
        law = after
    return law


def divergence(one: dict[tuple[int, ...], float], other: dict[tuple[int, ...], float], epsilon: float) -> float:
    """The least delta for which two laws are (epsilon, delta)-close, in this direction."""
    return sum(max(0.0, chance - math.exp(epsilon) * other[bag]) for bag, chance in one.items())


@pytest.mark.parametrize(("outcomes", "top"), [(2, 1), (4, 1), (4, 2), (6, 1)])
@pytest.mark.parametrize("users", [2, 4, 6])
def test_the_bound_holds_for_every_bag_that_can_be_listed(outcomes: int, top: int, users: int) -> None:
    """A choice with disjoint favourites for inputs 0 and 1; the others hold each of them, or a third input."""
    local = 1.5
    choice = TwoLevel(outcomes=outcomes, top=top, epsilon=local)
    inputs = min(3, outcomes // top)
    rows = np.full((inputs, outcomes), choice.low / 2**64)
    for x in range(inputs):
        rows[x, x * top : (x + 1) * top] = choice.high / 2**64
    rows /= rows.sum(axis=1, keepdims=True)
    bounds = {
        epsilon: min(
            delta_bound(of_choice(choice), users, epsilon),
            delta_bound(of_ratio(local, top * (choice.high - choice.low) / 2**64), users, epsilon),
        )
        for epsilon in (0.0, 0.2, 0.6, 1.2)
    }
    for others in itertools.combinations_with_replacement(range(inputs), users - 1):
        one, other = (law_of_bags(rows, (first, *others)) for first in (0, 1))
        for epsilon, bound in bounds.items():
            assert max(divergence(one, other, epsilon), divergence(other, one, epsilon)) <= bound + 1e-12


@pytest.mark.parametrize("blanket", [of_cap(1.0, 0.3), of_cap(2.0, 0.5), of_ratio(1.0, 0.3), of_clones(0.7)])
def test_the_sum_is_the_expectation(blanket: Blanket) -> None:
    """A simulation of E[(X_1 + ... + X_n)_+] / n: the bound is never below it, and above it by little."""
    users, epsilon = 400, 0.15
    generator = np.random.default_rng(5)
    shares = [blanket.edge, blanket.edge, blanket.flat, max(0.0, 1 - 2 * blanket.edge - blanket.flat)]
    counts = generator.multinomial(users, shares, size=200_000)
    growth = math.exp(epsilon)
    up, down = blanket.weight * (blanket.ratio - growth), blanket.weight * (blanket.ratio * growth - 1)
    sums = up * counts[:, 0] - down * counts[:, 1] - blanket.level * (growth - 1) * counts[:, 2]
    positive = np.maximum(sums, 0) / users
    error = 5 * positive.std() / math.sqrt(len(positive))
    bound = delta_bound(blanket, users, epsilon)
    assert positive.mean() - error <= bound <= 1.05 * (positive.mean() + error)


def test_more_users_and_more_epsilon_mean_less_delta() -> None:
    blanket = blanket_for(16, 4, 2.0)
    deltas = [[delta_bound(blanket, users, epsilon) for epsilon in (0.05, 0.1, 0.3)] for users in (1000, 4000, 16000)]
    assert np.all(np.diff(deltas, axis=0) <= 0)
    assert np.all(np.diff(deltas, axis=1) <= 0)
    assert delta_bound(blanket, 1000, 2.0) == 0.0


def test_a_larger_total_variation_is_worse() -> None:
    """The worst pair of inputs is the one whose favourites are disjoint."""
    found = [delta_bound(of_ratio(2.0, variation), 2000, 0.2) for variation in (0.1, 0.3, 0.5, math.tanh(1.0))]
    assert found == sorted(found)


@pytest.mark.parametrize(("candidates", "top"), [(2, 1), (16, 3), (64, 1)])
def test_the_largest_local_epsilon_is_just_good_enough(candidates: int, top: int) -> None:
    local = largest_local_epsilon(candidates, top, 10**4, 1.0, DELTA)
    assert delta_bound(blanket_for(candidates, top, local), 10**4, 1.0) <= DELTA
    assert delta_bound(blanket_for(candidates, top, local * 1.001), 10**4, 1.0) > DELTA


def test_few_users_are_left_with_epsilon_itself() -> None:
    assert largest_local_epsilon(16, 4, 3, 0.5, 1e-9) == pytest.approx(0.5, abs=1e-3)


def test_what_the_closed_form_does_not_cover_is_refused_with_its_inequality() -> None:
    with pytest.raises(BadInput, match=r"eps_0 <= log\(n / \(16 log\(2/delta\)\)\) fails: 5 > "):
        clones_closed_form(5.0, 10**4, 1e-6)
    with pytest.raises(BadInput, match="fails"):
        clones_closed_form(0.1, 100, 1e-6)


@pytest.mark.parametrize("delta", [0.0, -1e-6, 0.5, math.nan, math.inf])
def test_no_delta_that_promises_nothing(delta: float) -> None:
    with pytest.raises(BadInput, match="delta is"):
        check_delta(delta)


def test_blankets_that_cannot_be_are_refused() -> None:
    with pytest.raises(BadInput, match="at most half"):
        of_choice(TwoLevel(outcomes=4, top=3, epsilon=1.0))
    with pytest.raises(BadInput, match="cap"):
        of_cap(1.0, 0.7)
    with pytest.raises(BadInput, match="total variation"):
        of_ratio(1.0, 0.9)
    with pytest.raises(BadInput, match="blanket"):
        Blanket(ratio=2.0, edge=0.6, flat=0.0)


def test_more_users_never_raise_delta_and_count_only_up_to_a_limit() -> None:
    blanket = blanket_for(4, 2, 0.1)
    shown = [delta_bound(blanket, users, 1e-3) for users in (10, 100, 1000, 10_000, 100_000)]
    assert shown == sorted(shown, reverse=True)
    assert delta_bound(blanket, 10**10, 1e-3) == delta_bound(blanket, MOST_COUNTED, 1e-3) > 0
