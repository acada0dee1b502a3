"""Public coins and explicit channels as docs/wire.md has them, in plain Python: nothing of Parley is imported here."""

import hashlib
import math
import struct
from bisect import bisect_right
from itertools import accumulate
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from tests.docs.independent import Reply, guarded, replies, words


def public_word(salt: int, user: int) -> int:
    """A user's public coins."""
    key = hashlib.sha256(b"parley public coins" + struct.pack("<Q", salt)).digest()
    block, lane = divmod(user, 8)
    segment, place = divmod(block, 2**16)
    nonce = struct.pack("<IIQ", place, 0, segment)
    return words(Cipher(ChaCha20(key, nonce), mode=None).encryptor().update(bytes(64)))[lane]


def group_of(user: int, salt: int, share: float) -> int:
    """The group of a user where users are split."""
    return int(public_word(salt, user) >> 32 >= round(share * 2**32))


def place_of(user: int, salt: int, places: int) -> int:
    return (public_word(salt, user) % 2**32) * places >> 32


def channel(weights: list[list[int]], epsilon: float, x: int, coins: bytes) -> Reply:
    for column in zip(*weights, strict=True):
        assert max(column) <= replies.exponential_lower(guarded(epsilon)) * min(column)
    coin = words(coins)[0] * sum(weights[x]) >> 64
    return {"output": bisect_right(list(accumulate(weights[x])), coin)}


def folded_channel(weights: list[list[int]], epsilon: float, folds: int, x: Any, coins: bytes) -> Reply:
    own, fold = map(int, x)
    assert 0 <= fold < folds
    assert all(max(column) > 0 for column in zip(*weights, strict=True))
    return channel(weights, epsilon, own, coins)


def codebook_seeds(
    vectors: list[list[float]],
    radius: float,
    epsilon: float,
    seeds: int,
    candidates: int,
    top: int,
    folds: int,
    sends_place: bool,
    x: Any,
    coins: bytes,
) -> Reply:
    choice, *more = words(coins)
    own, place = (x, (more[0] >> 32) * seeds * folds >> 32) if sends_place else map(int, x)
    _, index = replies.codebook(vectors[int(own)], radius, epsilon, candidates, top, place % seeds, choice)
    return {"place": place, "index": index} if sends_place else {"index": index}


def inputs_of(workload: dict[str, Any]) -> int:
    if "matrix" in workload:
        return len(workload["matrix"])
    levels = workload["levels"]
    return int(np.prod(levels)) * (2 if workload["statistic"] == "auc" else 1)


def matrix_of(workload: dict[str, Any]) -> Any:
    """W - cJ."""
    if "matrix" in workload:
        return (workload["matrix"] + workload["matrix"].T) / 2 - workload["shift"]
    name, k = workload["statistic"], inputs_of(workload)
    if name == "gini-diversity":
        return 1 / k - np.eye(k)
    if name == "gini-mean-difference":
        return np.array([[abs(x - y) / (k - 1) - 0.5 for y in range(k)] for x in range(k)])
    width = 2 if name == "auc" else workload["levels"][1]

    def sign(x: int, y: int) -> float:
        return float(np.sign(y // width - x // width) * np.sign(y % width - x % width))

    return np.array([[sign(x, y) for y in range(k)] for x in range(k)])


def embedded(workload: dict[str, Any], power: float) -> Any:
    """|W - cJ|^(p/2), one row per input, and for the AUC a column with the label."""
    rows = matrix_of(workload)
    if power != 2.0:
        values, turned = np.linalg.eigh(rows @ rows.T)
        rows = (turned * np.where(values > 1e-12 * values[-1], values, 0.0) ** (power / 4)) @ turned.T
    if workload.get("statistic") != "auc":
        return rows
    weight = math.sqrt(0.125) * np.sqrt((rows**2).sum(axis=1)).max()
    label = np.array([1.0 if x % 2 else -1.0 for x in range(len(rows))])
    return np.concatenate([rows, weight * label[:, None]], axis=1)
