"""Seed expansion against a second implementation in plain Python and against golden vectors."""

import hashlib
import json
from pathlib import Path

import numpy as np

from parley.protocols.randomizers.vectors.expansion import (
    SCALE,
    TABLE_SHA256,
    all_directions,
    expand_words,
    one_direction,
    slice_means,
    table,
)

VECTORS = json.loads((Path(__file__).parents[3] / "vectors" / "codebook_expansion.json").read_text())
MASK = (1 << 64) - 1


def plain_mix(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def plain_word(seed: int, number: int) -> int:
    return plain_mix((plain_mix(seed) + (number + 1) * 0x9E3779B97F4A7C15) & MASK)


def test_words_are_those_of_the_plain_construction_and_of_the_vectors() -> None:
    for case in VECTORS["expansions"]:
        seed, expected = int(case["seed"]), [int(word, 16) for word in case["words"]]
        assert [plain_word(seed, number) for number in range(len(expected))] == expected
        words = expand_words(np.array([seed], dtype=np.uint64), np.arange(len(expected), dtype=np.uint64))
        assert [int(word) for word in words[0]] == expected


def test_directions_are_those_of_the_vectors() -> None:
    for case in VECTORS["expansions"]:
        seeds = np.array([int(case["seed"])], dtype=np.uint64)
        directions = all_directions(seeds, len(case["directions"]), case["dimension"])[0]
        assert directions.astype(np.int64).tolist() == case["directions"]
        for number, direction in enumerate(case["directions"]):
            single = one_direction(seeds, np.array([number]), case["dimension"])[0]
            assert single.astype(np.int64).tolist() == direction


def test_lanes_are_read_lowest_bits_first() -> None:
    word = plain_word(5, 0)
    lanes = [(word >> (16 * lane)) & 0xFFFF for lane in range(4)]
    directions = all_directions(np.array([5], dtype=np.uint64), 1, 4)[0, 0]
    assert directions.tolist() == [float(table()[lane]) for lane in lanes]


def test_the_table_is_the_published_one_and_no_rounding_is_close() -> None:
    digest = hashlib.sha256(table().astype("<i2").tobytes()).hexdigest()
    assert digest == TABLE_SHA256 == VECTORS["table_sha256"]
    halves = slice_means() / 2.0
    assert np.abs(halves - np.rint(halves)).min() > 1e-6


def test_the_table_has_the_stated_moments() -> None:
    values = table() / SCALE
    assert (values == -values[::-1]).all()
    assert np.abs(table()).min() == 1.0
    assert np.abs(table()).max() < 1 << 15
    assert (np.diff(values) >= 0).all()
    variance = float((values**2).mean())
    assert abs(variance - 1.0) < 3e-6
    assert -1.8e-4 < float((values**4).mean()) / variance**2 - 3.0 < -1.6e-4
