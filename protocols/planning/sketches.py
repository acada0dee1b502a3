"""Histograms that replies would explain, for predictions: many at once, in single precision.

An analyst projects in double precision and sorts, because its words are recomputed bit by bit. A prediction needs three
digits, so here the threshold of each projection starts where it was a step before, and Newton's method corrects it.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from parley.emulator.randomizer import Floats
from parley.protocols.tuned.decoder import FEW_STEPS, Decoder

Singles = NDArray[np.float32]
# Each step corrects what the one before left: histograms need to add up to one within CLOSE.
MOST_CORRECTIONS = 6
CLOSE = 1e-5


def explained(
    decoder: Decoder, histogram: Floats, crowds: Sequence[float], draws: Floats
) -> list[tuple[Floats, Floats]]:
    """For each number of users, the scores of their replies and the histograms that explain them: (inputs, draws)."""
    # The noise of the scores is the same for all, but for the root of the number of users.
    centre = decoder.information @ histogram
    spread = np.sqrt(chances(decoder, histogram))
    # As in `Decoder.perturbed`.
    moved = ((spread / decoder.even)[:, None] * draws).astype(np.float32)
    noise = (decoder.single.T @ moved).T - np.outer(spread @ draws, centre)
    scores = np.concatenate([centre + noise / np.sqrt(max(1.0, users)) for users in crowds])
    found = _nearest(decoder, scores.astype(np.float32)).astype(np.float64)
    return [
        (each.T, part.T) for each, part in zip(*(np.split(part, len(crowds)) for part in (scores, found)), strict=True)
    ]


def sketched_variances(decoder: Decoder, gradients: Floats, histogram: Floats) -> Floats:
    """`Decoder.variances`: V1 for every column of gradients."""
    carried = decoder.single @ (decoder.inverse @ gradients).astype(np.float32)
    weights = (chances(decoder, histogram) / decoder.even**2).astype(np.float32)
    return np.asarray(weights @ carried**2 - histogram @ gradients**2)


def chances(decoder: Decoder, histogram: Floats) -> Floats:
    """How likely each index of each seed is."""
    return np.asarray((decoder.single @ histogram.astype(np.float32)).astype(np.float64) / decoder.seeds)


def _nearest(decoder: Decoder, scores: Singles) -> Singles:
    """`Decoder.nearest`, a row per histogram."""
    matrix, largest = decoder.curvature
    step, targets = (matrix / largest).astype(np.float32), scores / np.float32(largest)
    found: Singles = np.full_like(scores, 1 / scores.shape[1])
    ahead = found
    momentum: Singles = np.ones((len(scores), 1), np.float32)
    threshold: Singles = np.zeros((len(scores), 1), np.float32)
    for _ in range(FEW_STEPS):
        moved = ahead - ahead @ step
        moved += targets
        after = _projected(moved, threshold)
        change = after - found
        turned = np.einsum("pk,pk->p", ahead - after, change)[:, None] > 0
        momentum[turned] = 1.0
        following: Singles = ((1 + np.sqrt(1 + 4 * momentum**2)) / 2).astype(np.float32)
        ahead = after + (momentum - 1) / following * change
        found, momentum = after, following
    return found


def _projected(values: Singles, threshold: Singles) -> Singles:
    """The probability vector nearest to each row: max(v - t, 0), where t makes it add up to one.

    `threshold` holds where to begin, and t afterwards. Newton's method comes from one side once it has moved.
    """
    # Beyond these t no row can add up to one.
    np.clip(threshold, values.max(axis=1, keepdims=True) - 1, values.max(axis=1, keepdims=True) - CLOSE, out=threshold)
    for _ in range(MOST_CORRECTIONS):
        kept = np.maximum(values - threshold, 0)
        excess = kept.sum(axis=1, keepdims=True) - 1
        if (np.abs(excess) <= CLOSE).all():
            break
        threshold += excess / np.maximum(np.count_nonzero(kept, axis=1, keepdims=True), 1)
    return np.asarray(kept)
