"""The codebook: the contract, golden vectors, and the variances of mathematics.md."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.reference.codebooks import best_codebook
from benchmarks.reference.privunit import PrivUnit
from parley.emulator.randomizer import Columns, Floats, Randomizer
from parley.protocols.randomizers.exact import WHOLE
from parley.protocols.randomizers.vectors.codebook import Codebook
from parley.protocols.randomizers.vectors.expansion import all_directions
from tests.contracts.randomizer_contract import RandomizerContract, covariance_at, random_coins

VECTORS = Path(__file__).parents[3] / "vectors"


def ball_points(dimension: int, radius: float) -> Floats:
    """Points on the sphere, within the ball and at its centre."""
    points = np.random.default_rng(23).standard_normal((5, dimension))
    points *= radius / np.linalg.norm(points, axis=1)[:, None]
    points[1] = -points[0]
    points[3] *= 0.5
    points[4] = 0.0
    return points


class TestCodebook(RandomizerContract):
    seed_bytes = slice(8)
    # Inputs are rounded to 2^-24 of the radius.
    bias = 1e-7

    def randomizers(self) -> Sequence[Randomizer]:
        return [
            Codebook(dimension=3, radius=2.0, epsilon=1.0),
            Codebook(dimension=1, radius=1.0, epsilon=8.0, candidates=4, top=1),
            Codebook(dimension=5, radius=0.1, epsilon=0.25, candidates=6, top=5),
            Codebook(dimension=2, radius=1.0, epsilon=32.0, candidates=300),
            Codebook(dimension=4, radius=1.0, epsilon=0.5, candidates=2, top=1),
        ]

    def inputs(self, randomizer: Any) -> NDArray[Any]:
        return ball_points(randomizer.dimension, randomizer.radius)

    def expected(self, randomizer: Any, inputs: NDArray[Any]) -> Floats:
        return inputs

    def outcomes(self, randomizer: Any) -> Iterable[Columns]:
        index = np.arange(randomizer.candidates, dtype=randomizer.reply["index"][0])
        count = 400 if len(index) <= 16 else 20
        for seed in np.random.default_rng(29).integers(0, 1 << 63, count, dtype=np.uint64):
            yield {"seed": np.full(len(index), seed, dtype=np.uint64), "index": index}

    def weights(self, randomizer: Any) -> Iterable[Sequence[int]]:
        for fixed in (False, True):
            yield [randomizer.choice.weight(best, fixed) for best in (False, True)]

    def bad_parameters(self) -> Sequence[Mapping[str, Any]]:
        return [
            {"dimension": 0},
            {"dimension": 1 << 40},
            {"dimension": 2.5},
            {"radius": 0.0},
            {"radius": float("nan")},
            {"candidates": 3},
            {"candidates": 0},
            {"candidates": 1 << 20},
            {"dimension": 1 << 20, "candidates": 1 << 16},
            {"top": -1},
            {"top": 16},
        ]

    def bad_inputs(self, randomizer: Any) -> Sequence[NDArray[Any]]:
        wrong = [np.full((2, 3), value) for value in (np.nan, np.inf, 1.2)]
        return [*wrong, np.zeros((2, 4)), np.zeros(3)]


def test_all_coin_values_are_used_and_every_rank_has_its_share() -> None:
    choice = Codebook(dimension=2, radius=1.0, epsilon=1.0, candidates=6, top=2).choice
    assert 2 * choice.high + 4 * choice.low + choice.leftover == WHOLE
    assert 0 <= choice.leftover < 16
    starts = [0, choice.high, 2 * choice.high, *(2 * choice.high + rank * choice.low for rank in (1, 2, 3, 4))]
    firsts = np.array([start for start in starts if start < WHOLE], dtype=np.uint64)
    assert list(choice.rank(firsts)) == list(range(len(firsts)))
    assert list(choice.rank(firsts[1:] - np.uint64(1))) == list(range(len(firsts) - 1))


@pytest.mark.parametrize(
    ("candidates", "epsilon", "ratio"),
    [
        *((2, epsilon, ratio) for epsilon, ratio in ((0.5, 1.05), (1.0, 1.16), (2.0, 1.68))),
        *((16, epsilon, ratio) for epsilon, ratio in ((0.5, 1.025), (1.0, 1.045), (2.0, 1.09))),
        *((64, epsilon, ratio) for epsilon, ratio in ((0.5, 1.005), (1.0, 1.014), (2.0, 1.02), (4.0, 1.056))),
    ],
)
def test_variance_compared_with_privunit(candidates: int, epsilon: float, ratio: float) -> None:
    codebook = best_codebook(dimension=256, radius=1.0, epsilon=epsilon, max_candidates=candidates)
    privunit = PrivUnit(dimension=256, radius=1.0, epsilon=epsilon)
    assert codebook.moments.variance_at(1.0) / privunit.moments.variance_at(1.0) == pytest.approx(ratio, abs=0.0125)


def test_tuning_finds_the_least_variance() -> None:
    tuned = best_codebook(dimension=16, radius=1.0, epsilon=2.0, max_candidates=12)
    for candidates in range(2, 13, 2):
        for top in range(1, candidates):
            other = Codebook(dimension=16, radius=1.0, epsilon=2.0, candidates=candidates, top=top)
            assert tuned.variance <= other.variance


def test_covariance_has_the_trace_and_the_definition() -> None:
    codebook = Codebook(dimension=4, radius=3.0, epsilon=1.5)
    for x in ball_points(4, 3.0):
        covariance = covariance_at(codebook, x)
        assert np.linalg.eigvalsh(covariance).min() > 0
        assert np.trace(covariance) / 4 == pytest.approx(codebook.moments.variance_at(float(np.linalg.norm(x))))
        assert np.trace(covariance) / 4 <= codebook.variance * (1 + 1e-12)


def test_golden_replies() -> None:
    for case in json.loads((VECTORS / "codebook_replies.json").read_text()):
        codebook = Codebook(**case["parameters"])
        inputs = np.array([[float.fromhex(x) for x in row] for row in case["inputs"]])
        coins = np.array([list(bytes.fromhex(row)) for row in case["coins"]], dtype=np.uint8)
        reply = codebook.sample(inputs, coins)
        assert [int(seed) for seed in reply["seed"]] == [int(seed) for seed in case["seeds"]]
        assert [int(index) for index in reply["index"]] == case["indices"]
        assert [int(step) for step in codebook.total(reply)] == [int(step) for step in case["total"]]
        assert [case["high"], case["low"]] == [str(codebook.choice.high), str(codebook.choice.low)]


def test_golden_bad_replies_are_rejected() -> None:
    for case in json.loads((VECTORS / "codebook_bad_replies.json").read_text()):
        codebook = Codebook(**case["parameters"])
        columns: Columns = {
            "seed": np.array([int(seed) for seed in case["seeds"]], dtype=np.uint64),
            "index": np.array(case["indices"], dtype=codebook.reply["index"][0]),
        }
        assert list(codebook.check(columns)) == case["accepted"]


@pytest.mark.parametrize(
    ("dimension", "candidates", "top"),
    [(1, 2, 1), (1, 6, 3), (2, 16, 0), (2, 16, 8), (2, 256, 0), (2, 300, 0), (2, 600, 310), (64, 16, 8), (256, 16, 7)],
)
def test_likelihoods_are_those_of_the_ranks(
    dimension: int, candidates: int, top: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal, opposite and nearly equal inputs, and one in the middle, whose scores differ only by their roundings."""
    generator = np.random.default_rng(41)
    codebook = Codebook(dimension=dimension, radius=1.0, epsilon=0.7, candidates=candidates, top=top)
    inputs = generator.standard_normal((12, dimension))
    inputs /= 1.001 * np.linalg.norm(inputs, axis=1)[:, None]
    inputs[1], inputs[2], inputs[3], inputs[4] = inputs[0], -inputs[0], inputs[0] * (1 - 2.0**-22), 0.0
    reply = codebook.sample(inputs[generator.integers(0, 12, 2000)], random_coins(codebook, 2000, 43))
    ranked = np.array([codebook.log_law(reply, inputs[[x]])[np.arange(2000), reply["index"]] for x in range(12)])
    assert np.array_equal(codebook.log_likelihood(reply, inputs), ranked.T)
    monkeypatch.setattr("parley.protocols.randomizers.vectors.codebook.QUICK_DIMENSION", 0)
    assert np.array_equal(codebook.log_likelihood(reply, inputs), ranked.T)


def test_of_candidates_at_a_right_angle_the_first_are_favoured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where half of the candidates are favoured: of two whose scores are 0, the first is, as their order has it."""
    codebook = Codebook(dimension=1, radius=1.0, epsilon=0.7, candidates=6, top=3)
    seed = np.array([5], dtype=np.uint64)
    directions = all_directions(seed, 3, 2)
    # One point at a right angle to each direction, and one that is not.
    points = np.array([*directions[0, :, ::-1] * [1.0, -1.0], [2.0**24, 0.0]])
    monkeypatch.setattr("parley.protocols.randomizers.vectors.codebook.lift", lambda inputs, *_: inputs)
    for index in range(6):
        reply = {"seed": seed, "index": np.array([index], dtype=np.uint8)}
        ranked = [codebook.log_law(reply, points[[x]])[0, index] for x in range(4)]
        assert np.array_equal(codebook.log_likelihood(reply, points)[0], ranked)
