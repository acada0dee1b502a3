"""The best strategy matrix (McKenna et al. 2020): the explicit channel that serves a statistic's gradients best.

The extreme eps-LDP channels have outputs that are e^eps times as likely under the inputs they favour as under the
others. So a channel is a weight w_y for each pattern p_y in {1, e^eps}^k, and its information H = sum_y w_y p_y p_y' /
mean(p_y) is linear in the weights. With the vectors of inputs (`tuned/embedding.py`) as rows of B, and M = B B',

    minimise  tr(M H^-1)   over  sum_y w_y p_y = 1,  w >= 0

is a convex program: the mean variance of <h~, W e_x> for p = 2. Newton's method with a logarithmic barrier solves it
for the patterns at hand. Up to MOST_LISTED inputs that is all of them. For more, the dual prices say which pattern
would help: p'Xp / mean(p) > nu'p for X = H^-1 M H^-1 and the multipliers nu. Single flips climb to such patterns, and
the program is solved again with them.

Everything is deterministic, but a solver's last bits are not everybody's: its table travels, and nobody solves it
again.
"""

import math
from itertools import product

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Floats, Integers
from parley.protocols.randomizers.channels.channel import TABLE_BITS, check_table, rounded

# All patterns of so many inputs are listed; 2^9.
MOST_LISTED = 9
MOST_OUTPUTS = 256
# Added to M, relative to its mean eigenvalue: every input is told from the others, whatever is asked.
RIDGE = 1e-3
# Relative: how far from the best weights the program stops.
GAP = 1e-3
STEPS = 80
# Patterns to begin with, those drawn anew for each pricing, how often patterns are added, at most how many, and how
# many flips each climb takes.
BEGUN, DRAWN, PRICINGS, TAKEN, FLIPS = 200, 100, 6, 150, 32
# An output with a smaller chance is dropped, and a pattern that would help less is not taken.
TRACE, HELPS = 1e-4, 1.005
SEED = 17
# What is left of epsilon for rounding, as a share; chances are at least 2^-TABLE_BITS e^-eps / outputs.
ROOM = 1e-6
# Beyond it an input's own output is best, and `channel.response` spends all of epsilon.
LARGEST_EPSILON = 10.0


def strategy_table(vectors: Floats, epsilon: float) -> Integers:
    """The best channel for these vectors, one per input, as whole numbers; BadInput where there is none."""
    spent = epsilon * (1 - ROOM)
    patterns, weights = _best(vectors, spent)
    chances = (patterns * weights[:, None]).T
    table = rounded(chances, TABLE_BITS)
    check_table(table, epsilon)
    return table


def _best(vectors: Floats, epsilon: float) -> tuple[Floats, Floats]:
    """Patterns and their weights."""
    inputs, ratio = len(vectors), math.exp(epsilon)
    if inputs <= MOST_LISTED:
        patterns = np.array(list(product([1.0, ratio], repeat=inputs)))[1:-1]
    else:
        patterns = np.unique(_drawn(vectors, ratio, 0), axis=0)
    form = vectors @ vectors.T
    mean = float(np.trace(form)) / inputs
    form = form / mean + RIDGE * np.eye(inputs) if mean > 0 else np.eye(inputs)
    weights, prices, curve = _weights(patterns, form)
    for turn in range(1, 1 + PRICINGS * (inputs > MOST_LISTED)):
        kept = patterns[_used(patterns, weights)]
        found, value = _climbed(np.concatenate([kept, _drawn(vectors, ratio, turn)]), curve, prices, ratio)
        helping = found[np.argsort(-value, kind="stable")[: min(TAKEN, int((value > HELPS).sum()))]]
        if not len(helping):
            break
        patterns = np.unique(np.concatenate([kept, helping]), axis=0)
        weights, prices, curve = _weights(patterns, form)
    patterns = patterns[_used(patterns, weights)]
    return patterns, _weights(patterns, form)[0]


def _used(patterns: Floats, weights: Floats) -> Integers:
    """The patterns that are worth an output, the likeliest first, at most MOST_OUTPUTS."""
    chances = weights * patterns.mean(axis=1)
    order = np.argsort(-chances, kind="stable")[:MOST_OUTPUTS]
    return np.asarray(order[chances[order] > TRACE])


def _drawn(vectors: Floats, ratio: float, turn: int) -> Floats:
    """Each input alone, and the inputs that lie furthest along random directions."""
    inputs, many = len(vectors), BEGUN if turn == 0 else DRAWN
    generator = np.random.default_rng([SEED, turn])
    along = vectors @ generator.standard_normal((vectors.shape[1], many))
    # The best subsets have about k / (e^eps + 1) members.
    sizes = np.rint(inputs / (1 + ratio) * generator.uniform(0.5, 2.5, many))
    rank = np.argsort(np.argsort(along, axis=0), axis=0)
    favoured = np.concatenate([np.eye(inputs, dtype=np.bool_), (rank < np.clip(sizes, 1, inputs - 1)).T])
    return np.where(favoured, ratio, 1.0)


def _weights(patterns: Floats, form: Floats) -> tuple[Floats, Floats, Floats]:
    """The best weights of these patterns; the multipliers of the rows' sums, and X."""
    many, inputs = patterns.shape
    means = patterns.mean(axis=1)
    scaled = patterns / np.sqrt(means)[:, None]
    weights = np.full(many, 1 / means.sum())
    barrier = 0.0
    for _ in range(STEPS):
        try:
            inverse = np.linalg.inv((scaled * weights[:, None]).T @ scaled)
            curve = inverse @ form @ inverse
            cost = float((inverse * form).sum())
            barrier = barrier or cost / many
            along = scaled @ curve
            second = 2 * (along @ scaled.T) * (scaled @ inverse @ scaled.T)
            # Steps are relative to the weights, so the barrier's part is the unit matrix.
            newton = second * np.outer(weights, weights) + barrier * np.eye(many)
            slope = -weights * (along * scaled).sum(axis=1) - barrier
            rows, missing = patterns * weights[:, None], patterns.T @ weights - 1
            solved = np.linalg.solve(newton, np.column_stack([rows, slope]))
            prices = np.linalg.solve(rows.T @ solved[:, :inputs], missing - rows.T @ solved[:, inputs])
        except np.linalg.LinAlgError as error:
            raise BadInput(f"no table of patterns determines {inputs} inputs: {error}") from None
        move = -(solved[:, inputs] + solved[:, :inputs] @ prices)
        length = min(1.0, 0.95 / max(1e-12, float(-move.min())))
        weights = weights * (1 + length * move)
        if length == 1.0 and np.abs(move).max() < 0.5 and many * barrier < GAP * cost:
            return weights, prices, curve
        if length > 0.5:
            barrier = max(0.15 * barrier, 0.5 * GAP * cost / many)
    raise BadInput(f"the best table for {inputs} inputs was not found in {STEPS} steps")


def _climbed(patterns: Floats, curve: Floats, prices: Floats, ratio: float) -> tuple[Floats, Floats]:
    """Patterns changed by one input at a time while that makes them worth more, and their worth over their price."""
    inputs = patterns.shape[1]
    found = patterns.copy()
    for _ in range(FLIPS):
        image = found @ curve
        change = 1 + ratio - 2 * found
        square = (image * found).sum(axis=1)
        flipped = square[:, None] + 2 * image * change + change**2 * np.diag(curve)
        price = (found @ prices)[:, None] + change * prices
        value = square * inputs / found.sum(axis=1) / (found @ prices)
        each = flipped * inputs / (found.sum(axis=1)[:, None] + change) / price
        best = each.argmax(axis=1)
        better = each[np.arange(len(found)), best] > value * (1 + 1e-9)
        if not better.any():
            break
        found[better, best[better]] += change[better, best[better]]
    # The pattern that favours all inputs, or none, says nothing.
    value[np.ptp(found, axis=1) == 0] = 0.0
    found, first = np.unique(found, axis=0, return_index=True)
    return found, value[first]
