"""The randomizer of Blasiok et al. under the contract, with the rounding to the sphere enumerated exactly."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.reference.blasiok import UNIT, Blasiok
from parley.emulator.randomizer import Columns, Floats, Randomizer
from tests.contracts.randomizer_contract import RandomizerContract, covariance_at


class TestBlasiok(RandomizerContract):
    seed_bytes = slice(8)
    # Inputs are rounded to 2^-24 of the radius.
    bias = 1e-7

    def randomizers(self) -> Sequence[Randomizer]:
        return [
            Blasiok(dimension=dimension, radius=radius, epsilon=epsilon)
            for dimension, radius, epsilon in ((3, 2.0, 1.0), (1, 1.0, 4.0), (7, 0.3, 0.25))
        ]

    def inputs(self, randomizer: Any) -> NDArray[Any]:
        points = np.random.default_rng(41).standard_normal((5, randomizer.dimension))
        points *= randomizer.radius / np.linalg.norm(points, axis=1)[:, None]
        points *= np.array([1.0, 0.5, 0.0, 0.1, 1.0])[:, None]
        return points

    def expected(self, randomizer: Any, inputs: NDArray[Any]) -> Floats:
        return inputs

    def outcomes(self, randomizer: Any) -> Iterable[Columns]:
        for seed in np.random.default_rng(43).integers(0, 1 << 63, 400, dtype=np.uint64):
            yield {"seed": np.full(2, seed, dtype=np.uint64), "index": np.arange(2, dtype=np.uint8)}

    def weights(self, randomizer: Any) -> Iterable[Sequence[int]]:
        """Over 2^97: a point of norm q/2^32 keeps its direction with (2^32 + q)/2^33, on either side of the seed."""
        choice = randomizer.choice
        for fixed in (0, choice.leftover * 2 * UNIT):
            mixtures = []
            for norm in (0, 1, UNIT // 2, UNIT):
                kept, turned = UNIT + norm, UNIT - norm
                mixtures += [kept * choice.high + turned * choice.low, kept * choice.low + turned * choice.high]
            yield [weight + fixed for weight in mixtures]

    def bad_parameters(self) -> Sequence[Mapping[str, Any]]:
        return [{"dimension": 0}, {"dimension": 1 << 40}, {"radius": -1.0}, {"radius": float("inf")}]

    def bad_inputs(self, randomizer: Any) -> Sequence[NDArray[Any]]:
        return [np.full((2, 3), np.nan), np.full((2, 3), 1.2), np.zeros((2, 2))]


def test_every_input_has_the_same_second_moment() -> None:
    blasiok = Blasiok(dimension=5, radius=2.0, epsilon=1.0)
    for x in np.eye(5)[:2] * 1.5:
        moment = covariance_at(blasiok, x) + np.outer(x, x)
        np.testing.assert_allclose(moment, np.eye(5) * moment[0, 0], atol=1e-12)
