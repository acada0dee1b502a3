"""The codebook with a list of seeds: the whole law of seed and index, and public places."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Columns, Floats, Randomizer
from parley.protocols.randomizers.channels.codebook_seeds import CodebookSeeds, Tables
from tests.contracts.randomizer_contract import RandomizerContract, random_coins

VECTORS = np.array([[1.0, 0.0], [0.0, 1.0], [-0.6, 0.0], [0.3, -0.4]])


def made(**changes: Any) -> CodebookSeeds:
    fields: dict[str, Any] = {
        "vectors": VECTORS,
        "radius": 1.0,
        "epsilon": 1.0,
        "seeds": 3,
        "candidates": 6,
        "top": 2,
        "folds": 2,
        "sends_place": True,
    }
    return CodebookSeeds(**{**fields, **changes})


class TestCodebookSeeds(RandomizerContract):
    def randomizers(self) -> Sequence[Randomizer]:
        return [made(), made(epsilon=8.0, top=1), made(epsilon=0.1, candidates=2, top=1), made(seeds=1, folds=1, top=5)]

    def inputs(self, randomizer: Any) -> NDArray[Any]:
        return np.arange(4.0)

    def log_probability(self, randomizer: Any, reply: Columns, inputs: NDArray[Any]) -> Floats:
        return np.asarray(randomizer.log_likelihood(reply, inputs) - np.log(randomizer.places))

    def expected(self, randomizer: Any, inputs: NDArray[Any]) -> Floats:
        law = randomizer.likelihood(np.float64).reshape(randomizer.seeds, randomizer.candidates, 4) / randomizer.places
        return np.stack([np.broadcast_to(law[..., int(x)], (randomizer.folds, *law.shape[:2])) for x in inputs])

    def outcomes(self, randomizer: Any) -> Iterable[Columns]:
        place, index = np.indices((randomizer.places, randomizer.candidates)).reshape(2, -1)
        return [{"place": place.astype(np.uint16), "index": index.astype(np.uint8)}]

    def weights(self, randomizer: Any) -> Iterable[Sequence[int]]:
        for fixed in (False, True):
            yield [randomizer.choice.weight(best, fixed) for best in (False, True)]

    def bad_parameters(self) -> Sequence[Mapping[str, Any]]:
        return [
            {"radius": 0.5},
            {"vectors": VECTORS * np.nan},
            {"candidates": 5},
            {"candidates": 1000},
            {"top": 0},
            {"top": 6},
            {"seeds": 0},
            {"seeds": 10**6},
            {"folds": 17},
        ]

    def bad_inputs(self, randomizer: Any) -> Sequence[NDArray[Any]]:
        return [np.array([4.0]), np.array([-1.0]), np.array([np.nan]), np.array([0.5])]


def test_a_public_place_changes_nothing_but_who_chooses_it() -> None:
    private, public = made(), made(sends_place=False)
    assert list(public.reply) == ["index"]
    assert list(public.public) == ["place"]
    coins = random_coins(private, 500, 3)
    inputs = np.arange(500.0) % 4
    drawn = private.sample(inputs, coins)
    again = public.sample(np.column_stack([inputs, drawn["place"]]), coins[:, :8])
    assert np.array_equal(again["index"], drawn["index"])
    whole = {**again, "place": drawn["place"]}
    assert np.array_equal(public.total(whole), private.total(drawn))
    assert np.array_equal(public.log_likelihood(whole, np.arange(4.0)), private.log_likelihood(drawn, np.arange(4.0)))


def test_every_input_favours_equally_many_whatever_the_vectors_are() -> None:
    codebook = made(vectors=np.zeros((4, 2)))
    assert np.array_equal(
        np.sort(codebook.order(np.arange(3)), axis=2), np.tile(np.arange(6, dtype=np.uint8), (3, 4, 1))
    )


def test_seeds_are_expanded_when_they_are_needed_and_come_out_the_same() -> None:
    whole, few = made(seeds=64), made(seeds=64)
    everything = whole.order(np.arange(64))
    assert np.array_equal(few.order(np.array([9, 3])), everything[[9, 3]])
    assert np.array_equal(few.order(np.array([3, 40])), everything[[3, 40]])


def test_places_beyond_the_last_are_no_replies() -> None:
    reply = {"place": np.array([5, 6], dtype=np.uint16), "index": np.array([5, 0], dtype=np.uint8)}
    assert made().check(reply).tolist() == [True, False]
    with pytest.raises(BadInput, match="a place per user"):
        made(sends_place=False).sample(np.arange(4.0), random_coins(made(sends_place=False), 4, 1))
    assert replace(made(), seeds=4).places == 8


def test_tables_asked_for_by_several_threads_are_those_of_one() -> None:
    points = np.random.default_rng(3).integers(-1000, 1000, (6, 4)).astype(np.float64)
    alone, shared = Tables(points, 256, 8), Tables(points, 256, 8)
    asked = [np.sort(np.random.default_rng(each).choice(256, 40, replace=False)) for each in range(64)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(shared.of, asked))
    for seeds, tables in zip(asked, found, strict=True):
        assert np.array_equal(tables, alone.of(seeds))
