"""Grid Laplace, enumerated: every grid point against every outcome, on integers."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parley.emulator.randomizer import Columns, Floats, Randomizer
from parley.protocols.randomizers.exact import WHOLE, exact_range
from parley.protocols.randomizers.scalars.grid_laplace import GridLaplace
from tests.contracts.randomizer_contract import RandomizerContract, within


def weight(randomizer: GridLaplace, step: int, point: int) -> int:
    """2^64 P(step | grid point), an exact integer."""
    table = randomizer.table
    weights = table.beyond if step in randomizer.outcomes else table.weights
    return weights[abs(step - point)] + (table.leftover if step == randomizer.centre else 0)


class TestGridLaplace(RandomizerContract):
    # Setting outcomes to the ends moves a mean by about e^-16 of the noise.
    bias = 1e-6

    def randomizers(self) -> Sequence[Randomizer]:
        return [
            GridLaplace(low=-1.0, high=1.0, epsilon=1.0),
            GridLaplace(low=0.3, high=77.7, epsilon=4.0),
            GridLaplace(low=-1e-3, high=2e-3, epsilon=0.25, sensitivity=4e-3),
            GridLaplace(low=100.0, high=101.0, epsilon=16.0),
            GridLaplace(low=-1.0, high=1.0, epsilon=0.5, sensitivity=64.0),
            # Narrow and far from 0: 2^34 steps and more from there.
            GridLaplace(low=1.0 - 1e-8, high=1.0 + 1e-8, epsilon=2.0),
            GridLaplace(low=-3e100 * (1 + 1e-7), high=-3e100, epsilon=1.0),
        ]

    def inputs(self, randomizer: Any) -> NDArray[Any]:
        inside = randomizer.low + (randomizer.high - randomizer.low) * np.array([0.0, 1.0, 0.4321, 0.5, 0.7777])
        return np.concatenate([inside, [randomizer.low - 1.0, np.inf]])

    def expected(self, randomizer: Any, inputs: NDArray[Any]) -> Floats:
        expected: Floats = np.clip(inputs, randomizer.low, randomizer.high)
        return expected

    def outcomes(self, randomizer: Any) -> Iterable[Columns]:
        first, last = randomizer.outcomes
        return [{"step": np.arange(first, last + 1, dtype=np.int32)}]

    def weights(self, randomizer: Any) -> Iterable[Sequence[int]]:
        """Over all outcomes, for the two ends and the middle; the ratio is monotone in between."""
        first, last = randomizer.outcomes
        points = (*randomizer.ends, randomizer.centre)
        stride = max(1, (last - first) // 5000)
        steps = {*range(first, last + 1, stride), last, *randomizer.ends, randomizer.centre, last - 1}
        return ([weight(randomizer, step, point) for point in points] for step in steps)

    def bad_parameters(self) -> Sequence[Mapping[str, Any]]:
        ends: list[Mapping[str, Any]] = [{"high": value} for value in (-1.0, -2.0, np.nan, np.inf)]
        sizes: list[Mapping[str, Any]] = [{"sensitivity": value} for value in (1.9, 0.0, np.nan, np.inf)]
        return [*ends, *sizes, {"epsilon": 17.0}, {"epsilon": 1e-4}]

    def bad_inputs(self, randomizer: Any) -> Sequence[NDArray[Any]]:
        return [np.array([0.0, np.nan]), np.zeros((2, 1))]


def small() -> GridLaplace:
    return GridLaplace(low=0.0, high=1.0, epsilon=8.0)


def test_all_pairs_of_grid_points_over_all_outcomes() -> None:
    randomizer = small()
    first, last = randomizer.outcomes
    low, high = randomizer.ends
    for step in range(first, last + 1):
        weights = [weight(randomizer, step, point) for point in range(low, high + 1)]
        assert min(weights) > 0
        assert within(max(weights), min(weights), randomizer.epsilon)


def test_every_grid_point_uses_all_coin_values() -> None:
    randomizer = small()
    first, last = randomizer.outcomes
    for point in range(randomizer.ends[0], randomizer.ends[1] + 1, 37):
        assert sum(weight(randomizer, step, point) for step in range(first, last + 1)) == WHOLE


def test_consecutive_weights_keep_the_ratio_of_one_step() -> None:
    randomizer = GridLaplace(low=-1.0, high=1.0, epsilon=1.0)
    table, share = randomizer.table, randomizer.epsilon / randomizer.distance
    assert randomizer.distance == 512
    for row in (table.weights, table.beyond):
        for inner, outer in pairwise(row):
            assert outer <= inner
            assert within(inner, outer, share)
    assert within(table.beyond[-2], table.end, share)


def test_next_to_no_coin_value_is_left_over() -> None:
    for epsilon in (0.05, 1.0, 4.0, 16.0):
        table = GridLaplace(low=-1.0, high=1.0, epsilon=epsilon).table
        assert 1 <= table.leftover <= 2


def test_variance_is_that_of_laplace_noise_and_of_rounding() -> None:
    for epsilon in (0.25, 1.0, 4.0):
        randomizer = GridLaplace(low=-1.0, high=1.0, epsilon=epsilon)
        ratio = np.exp(-epsilon / randomizer.distance)
        exact = 2 * ratio / (1 - ratio) ** 2 * randomizer.unit**2 + randomizer.unit**2 / 4
        assert randomizer.variance == pytest.approx(exact, rel=1e-4)
        assert randomizer.variance == pytest.approx(2 * (2.0 / epsilon) ** 2, rel=1e-3)
        for x in (-1.0, -0.77, 0.0, 1.0):
            assert randomizer.variance_at(x) <= randomizer.variance * (1 + 1e-9)


def test_sensitivity_sets_the_noise() -> None:
    randomizer = GridLaplace(low=-1.0, high=1.0, epsilon=1.0, sensitivity=16.0)
    assert randomizer.variance == pytest.approx(2 * 16.0**2, rel=1e-3)


@pytest.mark.parametrize("scale", [1.0, -1.0, 1e100, 1e-100, 5e-324, 2.0**31, 3.7])
@pytest.mark.parametrize("width", [0.0, 1e-15, 1e-8, 1.001e-8, 1e-6, 1e-3])
@pytest.mark.parametrize("epsilon", [2.0**-10, 1.0, 16.0])
def test_every_outcome_of_any_range_fits_its_column(scale: float, width: float, epsilon: float) -> None:
    values = np.array([scale, scale * (1 + width)])
    low, high = exact_range(values)
    randomizer = GridLaplace(low=low, high=high, epsilon=epsilon)
    limits = np.iinfo(randomizer.reply["step"][0])
    first, last = randomizer.outcomes
    assert limits.min <= first < last <= limits.max
    coins = np.random.default_rng(1).integers(0, 256, size=(400, randomizer.coins), dtype=np.uint8)
    reply = randomizer.sample(np.tile(values, 200), coins)
    assert randomizer.check(reply).all()
    assert np.isfinite(randomizer.log_likelihood(reply, values)).all()
    # Decoded, a reply is near the value it stands for, not 2^32 steps away.
    reach = (last - first) * randomizer.unit
    assert (np.abs(randomizer.decode(reply) - np.tile(values, 200)) <= reach).all()


def test_steps_are_counted_from_0_where_they_fit() -> None:
    ordinary = GridLaplace(low=100.0, high=101.0, epsilon=1.0)
    assert (ordinary.origin, ordinary.offset) == (0, 0.0)
    assert ordinary.ends == (100 * 512, 101 * 512)
    far = GridLaplace(low=2.0**30, high=2.0**30 + 2, epsilon=1.0)
    assert far.origin == (2**30 + 1) * 256
    assert far.offset == 2.0**30 + 1
