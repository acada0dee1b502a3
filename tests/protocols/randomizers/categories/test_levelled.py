"""Subset selection at one of several levels, under the contract; what its total says of each level."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parley.emulator.randomizer import Columns, Floats, Randomizer
from parley.protocols.randomizers.categories.levelled import LevelledSelection
from tests.contracts.randomizer_contract import RandomizerContract, random_coins


class TestLevelledSelection(RandomizerContract):
    # The first word draws the level.
    seed_bytes = slice(8, 16)

    def randomizers(self) -> Sequence[Randomizer]:
        sizes: tuple[tuple[tuple[int, ...], float], ...] = (((4, 8), 1.0), ((5,), 0.1), ((4, 3, 6), 4.0))
        return [LevelledSelection(categories=categories, epsilon=eps) for categories, eps in sizes]

    def inputs(self, randomizer: Any) -> NDArray[Any]:
        """As many inputs as the largest level has categories."""
        places = np.arange(max(randomizer.categories))
        return np.stack([places % size for size in randomizer.categories], axis=1)

    def expected(self, randomizer: Any, inputs: NDArray[Any]) -> Floats:
        """A level's share of the replies; `own` of them support the input's category, `other` each other one."""
        blocks = [
            np.where(np.arange(oracle.categories) == own[:, None], oracle.own, oracle.other)
            for oracle, own in zip(randomizer.oracles, inputs.T, strict=True)
        ]
        return np.concatenate([*blocks, np.ones(inputs.shape)], axis=1) / randomizer.depth

    def outcomes(self, randomizer: Any) -> Iterable[Columns]:
        level = np.repeat(np.arange(randomizer.depth, dtype=np.uint8), randomizer.categories)
        shift = np.concatenate([np.arange(size, dtype=np.uint32) for size in randomizer.categories])
        for seed in np.random.default_rng(71).integers(0, 1 << 63, 400, dtype=np.uint64):
            yield {"level": level, "seed": np.full(len(shift), seed, dtype=np.uint64), "shift": shift}

    def weights(self, randomizer: Any) -> Iterable[Sequence[int]]:
        for oracle in randomizer.oracles:
            for fixed in (False, True):
                yield [oracle.choice.weight(best, fixed) for best in (False, True)]

    def log_probability(self, randomizer: Any, reply: Columns, inputs: NDArray[Any]) -> Floats:
        return np.asarray(randomizer.log_likelihood(reply, inputs) - np.log(randomizer.depth))

    def bad_parameters(self) -> Sequence[Mapping[str, Any]]:
        return [{"categories": value} for value in ((), (4, 1), (4, 1 << 40), (2.5,), (2,) * 257)]

    def bad_inputs(self, randomizer: Any) -> Sequence[NDArray[Any]]:
        rows = [[0, -1], [0, 8], [4, 0], [0.5, 0], [np.nan, 0]]
        return [np.array([[0, 0], row]) for row in rows] + [np.zeros(2), np.zeros((2, 3))]


def test_the_total_tells_levels_apart() -> None:
    randomizer = LevelledSelection(categories=(4, 8, 16), epsilon=1.0)
    inputs = np.arange(600)[:, None] % np.array(randomizer.categories)
    reply = randomizer.sample(inputs, random_coins(randomizer, len(inputs), 83))
    levels = randomizer.at_levels(randomizer.total(reply))
    assert sum(replies for replies, _ in levels) == 600
    for number, (oracle, (replies, counts)) in enumerate(zip(randomizer.oracles, levels, strict=True)):
        rows = reply["level"] == number
        assert replies == rows.sum()
        assert np.array_equal(counts, oracle.total({name: reply[name][rows] for name in ("seed", "shift")}))


def test_a_level_that_is_not_there_is_refused_and_impossible() -> None:
    randomizer = LevelledSelection(categories=(4, 8), epsilon=1.0)
    reply = {
        "level": np.array([0, 0, 1, 2], np.uint8),
        "seed": np.zeros(4, np.uint64),
        "shift": np.array([3, 4, 4, 0], np.uint32),
    }
    assert randomizer.check(reply).tolist() == [True, False, True, False]
    likelihood = randomizer.log_likelihood(reply, np.zeros((1, 2)))
    assert np.isfinite(likelihood[0, 0])
    assert likelihood[3, 0] == -np.inf


@pytest.mark.parametrize("depth", [1, 3, 10])
def test_levels_are_drawn_evenly_from_the_upper_half_of_the_first_word(depth: int) -> None:
    randomizer = LevelledSelection(categories=(2,) * depth, epsilon=1.0)
    upper = np.array([(2**32 * level + depth - 1) // depth for level in range(depth)], dtype=np.uint64)
    for word in (upper, np.append(upper[1:], np.uint64(2**32)) - np.uint64(1)):
        coins = np.zeros((depth, randomizer.coins), np.uint8)
        coins[:, :8] = (word << np.uint64(32)).astype("<u8").view(np.uint8).reshape(depth, 8)
        reply = randomizer.sample(np.zeros((depth, depth)), coins)
        assert reply["level"].tolist() == list(range(depth))
