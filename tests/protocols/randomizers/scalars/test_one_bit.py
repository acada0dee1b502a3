"""The one-bit randomizer, enumerated."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parley.emulator.randomizer import Columns, Floats, Randomizer
from parley.protocols.randomizers.exact import WHOLE
from parley.protocols.randomizers.scalars.one_bit import OneBit
from tests.contracts.randomizer_contract import RandomizerContract


class TestOneBit(RandomizerContract):
    def randomizers(self) -> Sequence[Randomizer]:
        ranges = ((-1.0, 1.0, 1.0), (0.0, 1e-3, 0.1), (5.0, 17.5, 8.0), (-3.0, 40.0, 32.0), (0.0, 1.0, 2.0**-20))
        return [OneBit(low=low, high=high, epsilon=epsilon) for low, high, epsilon in ranges]

    def inputs(self, randomizer: Any) -> NDArray[Any]:
        inside = randomizer.low + (randomizer.high - randomizer.low) * np.array([0.0, 1.0, 0.5, 0.123, 0.999])
        return np.concatenate([inside, [randomizer.low - 10.0, randomizer.high + 1.0, -np.inf, np.inf]])

    def expected(self, randomizer: Any, inputs: NDArray[Any]) -> Floats:
        expected: Floats = np.clip(inputs, randomizer.low, randomizer.high)
        return expected

    def outcomes(self, randomizer: Any) -> Iterable[Columns]:
        return [{"bit": np.array([0, 1], dtype=np.uint8)}]

    def weights(self, randomizer: Any) -> Iterable[Sequence[int]]:
        ones = [int(threshold) for threshold in randomizer.thresholds(self.inputs(randomizer))]
        return [ones, [WHOLE - one for one in ones]]

    def bad_parameters(self) -> Sequence[Mapping[str, Any]]:
        ends: list[Mapping[str, Any]] = [{"high": value} for value in (-1.0, -2.0, np.nan, np.inf, -1.0 + 1e-12)]
        return [*ends, {"low": -np.inf}]

    def bad_inputs(self, randomizer: Any) -> Sequence[NDArray[Any]]:
        return [np.array([0.0, np.nan]), np.zeros((2, 1))]


def test_variance_is_the_formula_of_duchi_et_al() -> None:
    for epsilon in (0.25, 1.0, 4.0):
        randomizer = OneBit(low=-2.0, high=4.0, epsilon=epsilon)
        exact = ((np.exp(epsilon) + 1) / (np.exp(epsilon) - 1)) ** 2 * 9.0
        assert randomizer.variance == pytest.approx(exact, rel=1e-10)


def test_the_thresholds_are_symmetric_and_as_far_apart_as_allowed() -> None:
    randomizer = OneBit(low=0.0, high=1.0, epsilon=1.0)
    low, high = (int(threshold) for threshold in randomizer.thresholds(np.array([0.0, 1.0])))
    assert low + high == WHOLE
    assert high / low == pytest.approx(np.e, rel=1e-12)
