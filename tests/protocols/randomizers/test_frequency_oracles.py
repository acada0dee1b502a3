"""Randomized response, unary encoding and subset selection under the contract."""

from collections.abc import Iterable, Mapping, Sequence
from math import comb
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from parley.emulator.randomizer import Columns, Floats, Randomizer
from parley.protocols.randomizers.categories.oue import COIN, OptimisedUnaryEncoding
from parley.protocols.randomizers.categories.randomized_response import RandomizedResponse
from parley.protocols.randomizers.categories.subset_selection import SubsetSelection
from tests.contracts.randomizer_contract import ALPHA, RandomizerContract, chi_square, random_coins, unary_common


class Oracle(RandomizerContract):
    """Inputs are all categories."""

    def inputs(self, randomizer: Any) -> NDArray[Any]:
        return np.arange(randomizer.categories)

    def expected(self, randomizer: Any, inputs: NDArray[Any]) -> Floats:
        return np.eye(randomizer.categories)

    def weights(self, randomizer: Any) -> Iterable[Sequence[int]]:
        for fixed in (False, True):
            yield [randomizer.choice.weight(best, fixed) for best in (False, True)]

    def bad_parameters(self) -> Sequence[Mapping[str, Any]]:
        return [{"categories": value} for value in (0, 1, -4, 1 << 40, 2.5)]

    def bad_inputs(self, randomizer: Any) -> Sequence[NDArray[Any]]:
        return [np.array([0, value]) for value in (-1, randomizer.categories, 0.5, np.nan)] + [np.zeros((2, 2))]


class TestRandomizedResponse(Oracle):
    def randomizers(self) -> Sequence[Randomizer]:
        return [RandomizedResponse(categories=k, epsilon=eps) for k, eps in ((5, 1.0), (2, 0.1), (9, 8.0))]

    def outcomes(self, randomizer: Any) -> Iterable[Columns]:
        return [{"category": np.arange(randomizer.categories, dtype=np.uint32)}]


class TestOptimisedUnaryEncoding(Oracle):
    def randomizers(self) -> Sequence[Randomizer]:
        return [OptimisedUnaryEncoding(categories=k, epsilon=eps) for k, eps in ((5, 1.0), (9, 0.1), (2, 16.0))]

    def outcomes(self, randomizer: Any) -> Iterable[Columns]:
        count = randomizer.categories
        bits = (np.arange(1 << count)[:, None] >> np.arange(count)) & 1
        return [{"bits": np.packbits(bits.astype(np.uint8), axis=1, bitorder="little")}]

    def weights(self, randomizer: Any) -> Iterable[Sequence[int]]:
        """Two inputs exchange the laws of two bits; the fair coin's factor is the same on both sides."""
        return [[randomizer.threshold, COIN - randomizer.threshold]]

    def log_probability(self, randomizer: Any, reply: Columns, inputs: NDArray[Any]) -> Floats:
        return np.asarray(randomizer.log_likelihood(reply, inputs) + unary_common(randomizer, reply)[:, None])


class TestSubsetSelection(Oracle):
    seed_bytes = slice(8)

    def randomizers(self) -> Sequence[Randomizer]:
        sizes: tuple[tuple[int, float, int | None], ...] = ((7, 1.0, None), (4, 0.1, None), (6, 4.0, 5))
        return [SubsetSelection(categories=k, epsilon=eps, size=size) for k, eps, size in sizes]

    def outcomes(self, randomizer: Any) -> Iterable[Columns]:
        shift = np.arange(randomizer.categories, dtype=np.uint32)
        for seed in np.random.default_rng(71).integers(0, 1 << 63, 400, dtype=np.uint64):
            yield {"seed": np.full(len(shift), seed, dtype=np.uint64), "shift": shift}

    def bad_parameters(self) -> Sequence[Mapping[str, Any]]:
        return [*super().bad_parameters(), {"size": 0}, {"size": 7}]


def test_subsets_of_every_kind_are_equally_likely() -> None:
    """Over random seeds an arc of 3 of 6 categories is any of the 20 subsets alike."""
    selection = SubsetSelection(categories=6, epsilon=0.5, size=3)
    reply = selection.sample(np.zeros(20_000), random_coins(selection, 20_000, 73))
    support = selection.support(reply)
    codes = support @ (1 << np.arange(6))
    held = codes[support[:, 0] == 1]
    counts = np.unique(held, return_counts=True)[1]
    assert len(counts) == comb(5, 2)
    statistic, threshold = chi_square(counts, np.full(len(counts), len(held) / len(counts)))
    assert statistic <= threshold, (len(held), statistic, threshold)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_variances_are_those_of_the_literature(epsilon: float) -> None:
    e, k = np.exp(epsilon), 128
    response = RandomizedResponse(categories=k, epsilon=epsilon)
    assert response.variance == pytest.approx((k - 2 + e) / (e - 1) ** 2, rel=1e-9)
    unary = OptimisedUnaryEncoding(categories=k, epsilon=epsilon)
    assert unary.variance == pytest.approx(4 * e / (e - 1) ** 2, rel=1e-6)
    subset = SubsetSelection(categories=k, epsilon=epsilon)
    # In the mean over all categories, one of which is the input, subset selection is the best of the three.
    means = [oracle.variance_at(1 / k) for oracle in (subset, unary, response)]
    assert means == sorted(means)


@pytest.mark.parametrize(
    "oracle",
    [
        RandomizedResponse(categories=12, epsilon=1.0),
        OptimisedUnaryEncoding(categories=12, epsilon=1.0),
        SubsetSelection(categories=12, epsilon=1.0),
    ],
)
def test_sampled_variance_agrees_with_the_formula(oracle: Any) -> None:
    users = 40_000
    reply = oracle.sample(np.zeros(users), random_coins(oracle, users, 79))
    estimates = oracle.decode(reply)
    for category, share in ((0, 1.0), (5, 0.0)):
        squares = (estimates[:, category] - share) ** 2
        error = squares.std() / users**0.5
        assert abs(squares.mean() - oracle.variance_at(share)) <= norm.isf(ALPHA / 2) * error


@pytest.mark.parametrize("different", [1, 2, 5, 1 << 60])
@pytest.mark.parametrize("size", [1, 3, 6])
def test_a_subset_is_an_arc_of_the_order_of_words_equal_ones_included(
    different: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    oracle = SubsetSelection(categories=7, epsilon=1.0, size=size)
    keys = np.random.default_rng(31).integers(0, different, (70, 7), dtype=np.uint64)
    monkeypatch.setattr(SubsetSelection, "_keys", lambda self, seeds: keys[: len(seeds)])
    shift = np.arange(70, dtype=np.uint32) % 7
    order = np.argsort(keys, axis=1, kind="stable")
    expected = np.zeros((70, 7), dtype=np.int64)
    for row, first in enumerate(shift):
        expected[row, order[row, (int(first) + np.arange(size)) % 7]] = 1
    assert np.array_equal(oracle.support({"seed": np.zeros(70, np.uint64), "shift": shift}), expected)
