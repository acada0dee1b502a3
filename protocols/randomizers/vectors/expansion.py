"""Seed expansion: from a 64-bit seed to directions of integers, the same on every machine and for ever.

The construction. Let mix be the finalizer of SplitMix64 (Steele, Lea, Flood 2014):
    z ^= z >> 30; z *= 0xbf58476d1ce4e5b9; z ^= z >> 27; z *= 0x94d049bb133111eb; z ^= z >> 31   (mod 2^64).
Word i = 0, 1, ... of a seed is mix(mix(seed) + (i+1) * 0x9e3779b97f4a7c15). A word holds four 16-bit lanes,
lowest bits first; lane v becomes the integer TABLE[v], the mean of the v-th of 65536 equally likely slices of
the normal distribution times 7168, rounded to the nearest odd integer (so that no direction is 0). Direction b in
dimension D is made of the words b*W .. (b+1)*W - 1 with W = ceil(D/4), of whose lanes the first D are kept.

The lanes' law is symmetric with the variance of the normal law but for a relative 3e-6 (a scale, which cancels
once directions are normalised) and an excess kurtosis of -1.7e-4, all of it from the outermost slices. A
direction's mean inner product therefore differs from that of a uniform direction by a relative 2e-4/D or so.
Privacy rests on none of this: the seed is independent of the input.
"""

import hashlib
import sys
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import LocalProtocolError
from parley.emulator.randomizer import Floats
from parley.protocols.randomizers.exact import Words

GAMMA = 0x9E3779B97F4A7C15
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
LANES = 4
SLICES = 1 << 16
# The largest multiple of 1024 for which the table fits 16 bits.
SCALE = 7168
TABLE_SHA256 = "bd2dc2f62b5cd474b84678676c3f3d6cf11639678ffdf1a564df5861d597ba8b"


def mix(state: Words) -> Words:
    """The finalizer, in place."""
    scratch = np.empty_like(state)
    for shift, factor in ((30, FIRST), (27, SECOND)):
        np.right_shift(state, np.uint64(shift), out=scratch)
        np.bitwise_xor(state, scratch, out=state)
        np.multiply(state, factor, out=state)
    np.right_shift(state, np.uint64(31), out=scratch)
    np.bitwise_xor(state, scratch, out=state)
    return state


def slice_means() -> Floats:
    """The means, times SCALE and not yet rounded, of the 32768 slices above zero, the outermost first."""
    below = NormalDist().inv_cdf
    borders = np.array([np.inf, *(-below(number / SLICES) for number in range(1, SLICES // 2 + 1))])
    density = np.exp(-0.5 * borders**2) / np.sqrt(2.0 * np.pi)
    return np.asarray(SLICES * SCALE * np.diff(density))


@lru_cache(maxsize=1)
def table() -> Floats:
    """The 65536 integers of the lanes, as float64; refused if they are not the published ones."""
    upper = 2.0 * np.floor(slice_means() / 2.0) + 1.0
    values = np.concatenate([-upper, upper[::-1]])
    digest = hashlib.sha256(values.astype("<i2").tobytes()).hexdigest()
    if digest != TABLE_SHA256:
        raise LocalProtocolError(f"the table of normal slices has SHA-256 {digest}, not {TABLE_SHA256}")
    values.setflags(write=False)
    return values


@lru_cache(maxsize=1)
def _short_table() -> NDArray[np.int16]:
    """The same integers in 16 bits: a table of 128 KiB stays in a core's cache, one of 512 KiB does not."""
    return table().astype(np.int16)


def word_count(dimension: int) -> int:
    return -(-dimension // LANES)


def expand_words(seeds: Words, numbers: Words) -> Words:
    """The words with these numbers: `numbers` is (w,) or (c, 1, w) for all seeds alike, or (n, w), one row a seed."""
    key = mix(seeds.astype(np.uint64, copy=True))
    return mix(key[:, None] + (numbers + np.uint64(1)) * np.uint64(GAMMA))


def _look_up(expanded: Words) -> NDArray[np.int16]:
    """The integers of all lanes of some words."""
    big = sys.byteorder == "big"
    lanes = expanded.astype("<u8").view("<u2").astype(np.uint16) if big else expanded.view(np.uint16)
    return np.take(_short_table(), lanes)


def all_directions(seeds: Words, count: int, dimension: int) -> Floats:
    """Directions 0 .. count-1 of every seed: an (n, count, dimension) array of whole numbers."""
    size = word_count(dimension)
    numbers = np.arange(count * size, dtype=np.uint64)
    lanes = _look_up(expand_words(seeds, numbers)).astype(np.float64)
    return lanes.reshape(len(seeds), count, size * LANES)[:, :, :dimension]


def all_short_directions(seeds: Words, count: int, dimension: int) -> NDArray[np.float32]:
    """The same in single precision, which holds them exactly: (count, n, dimension), and zeros up to a whole word."""
    size = word_count(dimension)
    numbers = np.arange(count * size, dtype=np.uint64).reshape(count, 1, size)
    directions = _look_up(expand_words(seeds, numbers)).astype(np.float32)
    directions[:, :, dimension:] = 0.0
    return directions


def one_direction(seeds: Words, which: NDArray[np.int64], dimension: int) -> Floats:
    """Direction which[i] of seed i: an (n, dimension) array of whole numbers."""
    size = word_count(dimension)
    first = which.astype(np.uint64)[:, None] * np.uint64(size)
    numbers: Words = np.add(first, np.arange(size, dtype=np.uint64), dtype=np.uint64)
    return _look_up(expand_words(seeds, numbers)).astype(np.float64)[:, :dimension]
