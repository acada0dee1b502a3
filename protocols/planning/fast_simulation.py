"""Runs without users: tallies drawn from the law they have, given how many users hold each input.

An analyst sees nothing of a round but its tally, and a tally is a sum over users. Where the law of the sum is known it
is drawn directly; everything the analyst does with it is the protocol's own code.

- which users speak: groups are as large as the protocol makes them, and their counts by input are multivariate
  hypergeometric, as for users in random order;
- which level of a tree a user draws: multinomial by input (exact);
- one bit: the ones among the users of an input are binomial (exact);
- randomized response, unary encoding, subsets of one category, explicit channels: multinomial and binomial by input
  (exact);
- codebooks with a list of seeds: every user's seed and index is drawn, public coins too;
- sums through a shuffler: Skellam (exact);
- larger subsets: drawn one by one (exact) unless every category is expected often enough both in a subset and outside;
- vectors, grid Laplace: from a reply of each user (exact) where there are few users;
- otherwise these three: normal with the exact mean and covariance of the sum, then rounded to whole units (central
  limit theorem; the covariance is that of the randomizer, input by input).

A round of any other kind is answered by its own `respond` for every user.
"""

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import numpy as np

from parley.emulator.errors import LocalProtocolError
from parley.emulator.protocol import Analysis, Broadcast, Estimate, Protocol
from parley.emulator.randomizer import Array, Floats, Integers, Randomizer
from parley.emulator.round import Round, Tally, group_sizes
from parley.protocols.baselines.frequency import OracleMoments
from parley.protocols.planning.noise import noise_of
from parley.protocols.randomizers.categories.levelled import LevelledSelection
from parley.protocols.randomizers.categories.oracle import FrequencyOracle
from parley.protocols.randomizers.categories.oue import OptimisedUnaryEncoding
from parley.protocols.randomizers.categories.randomized_response import RandomizedResponse
from parley.protocols.randomizers.categories.subset_selection import SubsetSelection
from parley.protocols.randomizers.channels.channel import Channel
from parley.protocols.randomizers.channels.codebook_seeds import CodebookSeeds
from parley.protocols.randomizers.channels.folded_channel import FoldedChannel
from parley.protocols.randomizers.scalars.grid_laplace import GridLaplace
from parley.protocols.randomizers.scalars.one_bit import OneBit
from parley.protocols.randomizers.shuffled.shares import Shares
from parley.protocols.randomizers.vectors.directional import Directional

BATCH = 4096
MOST_LISTED = 1 << 16
# Users whose replies are drawn at a time.
BLOCK = 1 << 20
# A sum of fewer replies is not taken for normal.
FEW_REPLIES = 256
# Nor is a count that is expected to lie nearer than this to 0 or to the number of replies: its law is skewed.
FEW_EVENTS = 256


def play(protocol: Protocol, counts: Integers, generator: np.random.Generator) -> Estimate:
    """A whole run for users of whom counts[x] hold the input x."""
    return play_all(protocol, counts, [generator])[0]


def play_all(protocol: Protocol, counts: Integers, generators: Sequence[np.random.Generator]) -> list[Estimate]:
    """A run for each generator."""
    sizes = group_sizes(protocol, 0, int(counts.sum()))
    return [_play(protocol, counts, sizes, generator) for generator in generators]


def _play(protocol: Protocol, counts: Integers, sizes: Integers, generator: np.random.Generator) -> Estimate:
    analysis = Analysis(protocol)
    said: Any = analysis.open()
    for step, speaking in zip(protocol.rounds, speakers(protocol, counts, sizes, generator), strict=True):
        said = analysis.hear(said, tally(step, said, speaking, generator))
    estimate: Estimate = said
    return estimate


def speakers(protocol: Protocol, counts: Integers, sizes: Integers, generator: np.random.Generator) -> list[Integers]:
    """How many users with each input speak in each round, when groups of these sizes are drawn from them."""
    left, groups = counts, []
    for size in sizes[:-1]:
        groups.append(generator.multivariate_hypergeometric(left, int(size), method="marginals"))
        left = left - groups[-1]
    groups.append(left)
    numbers = range(1, len(protocol.rounds) + 1)
    speak = [[protocol.participates(number, group) for group in range(len(groups))] for number in numbers]
    return list(np.array(speak, dtype=np.int64) @ np.stack(groups))


def tally(step: Round, public: Broadcast, counts: Integers, generator: np.random.Generator) -> Tally:
    """The round's tally for these users; unless something better is known, from a reply of each of them."""
    sends = step.sends(public)
    if not any(send.tallies for send in sends.values()):
        # Of very many inputs most are nobody's.
        held = np.flatnonzero(counts) if len(counts) > MOST_LISTED else np.arange(len(counts))
        known = {name: total(send.randomizer, send.at(held), counts[held], generator) for name, send in sends.items()}
        return Tally(int(counts.sum()), known)
    inputs = generator.permutation(np.repeat(np.arange(len(counts)), counts))
    whole: Tally | None = None
    for start in range(0, len(inputs), BATCH):
        part = inputs[start : start + BATCH]
        flips = generator.integers(0, 256, size=(len(part), step.coins), dtype=np.uint8)
        users = np.arange(start, start + len(part))
        said = step.complete(public, users, step.respond(public, part, flips, users))
        each = step.tally(public, said)
        whole = each if whole is None else whole + each
    if whole is None:
        raise LocalProtocolError(f"nobody speaks in the round {step.name}")
    return whole


@singledispatch
def total(randomizer: Randomizer, values: Array, counts: Integers, generator: np.random.Generator) -> Integers:
    """The sum of `decode` in units over counts[x] users with the value values[x] each."""
    return _from_replies(randomizer, values, counts, generator)


def _from_replies(randomizer: Randomizer, values: Array, counts: Integers, generator: np.random.Generator) -> Integers:
    replies: list[Integers] = []
    inputs = np.repeat(np.arange(len(counts)), counts)
    for start in range(0, len(inputs), BATCH):
        part = inputs[start : start + BATCH]
        flips = generator.integers(0, 256, size=(len(part), randomizer.coins), dtype=np.uint8)
        replies.append(randomizer.total(randomizer.sample(np.asarray(values, dtype=np.float64)[part], flips)))
    return np.asarray(np.sum(replies, axis=0), dtype=np.int64)


@total.register
def _(randomizer: Directional, values: Array, counts: Integers, generator: np.random.Generator) -> Integers:
    columns, users = np.asarray(values, dtype=np.float64), int(counts.sum())
    if 0 < users <= FEW_REPLIES:
        return _from_replies(randomizer, columns, counts, generator)
    noise = noise_of(randomizer)
    covariance = noise.radial * (columns.T * counts) @ columns
    covariance[np.diag_indices_from(covariance)] += noise.isotropic * users
    drawn = counts @ columns + _normal(covariance, generator)
    return _whole(drawn / randomizer.unit)


@total.register
def _(randomizer: Channel, values: Array, counts: Integers, generator: np.random.Generator) -> Integers:
    chances = randomizer.probabilities[np.asarray(values, dtype=np.int64)]
    return np.asarray(generator.multinomial(counts, chances).sum(axis=0), dtype=np.int64)


@total.register
def _(randomizer: FoldedChannel, values: Array, counts: Integers, generator: np.random.Generator) -> Integers:
    chances = randomizer.probabilities[np.asarray(values, dtype=np.int64)]
    places = generator.multinomial(counts, np.full(randomizer.folds, 1 / randomizer.folds)).T
    return np.stack([generator.multinomial(held, chances).sum(axis=0) for held in places]).astype(np.int64)


@total.register
def _(randomizer: CodebookSeeds, values: Array, counts: Integers, generator: np.random.Generator) -> Integers:
    drawn = np.zeros((randomizer.folds, randomizer.seeds, randomizer.candidates), dtype=np.int64)
    inputs = np.repeat(np.asarray(values, dtype=np.float64), counts)
    for start in range(0, len(inputs), BLOCK):
        part = inputs[start : start + BLOCK]
        flips = generator.integers(0, 256, size=(len(part), randomizer.coins), dtype=np.uint8)
        if randomizer.sends_place:
            drawn += randomizer.total(randomizer.sample(part, flips))
            continue
        place = generator.integers(0, randomizer.places, size=len(part)).astype(np.uint16)
        said = randomizer.sample(np.column_stack([part, place]), flips)
        drawn += randomizer.total({**said, "place": place})
    return drawn


@total.register
def _(randomizer: Shares, values: Array, counts: Integers, generator: np.random.Generator) -> Integers:
    """The sum of all shares is that of the numbers and of the users' noise: Skellam, as each user's."""
    rates = np.full((2, randomizer.dimension), int(counts.sum()) * randomizer.variance / 2)
    up, down = generator.poisson(rates)
    return np.asarray(counts.astype(np.int64) @ values.astype(np.int64) + up - down)


@total.register
def _(randomizer: OneBit, values: Array, counts: Integers, generator: np.random.Generator) -> Integers:
    chances = randomizer.thresholds(np.asarray(values, dtype=np.float64)).astype(np.float64) * 2.0**-64
    ones = int(generator.binomial(counts, chances).sum())
    return np.array(2 * ones - int(counts.sum()), dtype=np.int64)


@total.register
def _(randomizer: GridLaplace, values: Array, counts: Integers, generator: np.random.Generator) -> Integers:
    """On the grid the noise has one variance; rounding at random to the grid adds u (1 - u) of a squared step."""
    if 0 < counts.sum() <= FEW_REPLIES:
        return _from_replies(randomizer, values, counts, generator)
    steps = np.clip(np.asarray(values, dtype=np.float64), randomizer.low, randomizer.high) / randomizer.unit
    steps = steps - float(randomizer.origin)
    up = steps - np.floor(steps)
    middle = randomizer.offset + randomizer.centre * randomizer.unit
    variances = randomizer.variance_at(middle) / randomizer.unit**2 + up * (1 - up)
    drawn = float(counts @ steps) + np.sqrt(float(counts @ variances)) * generator.standard_normal()
    return _whole(np.asarray(drawn))


@total.register
def _(randomizer: RandomizedResponse, values: Array, counts: Integers, generator: np.random.Generator) -> Integers:
    return _one_category(randomizer, _by_category(randomizer, values, counts), generator)


def _one_category(oracle: FrequencyOracle, counts: Integers, generator: np.random.Generator) -> Integers:
    """Replies that name one category each: the user's own, or any one of all."""
    truthful = generator.binomial(counts, oracle.own - oracle.other)
    spread = generator.multinomial(int((counts - truthful).sum()), np.full(len(counts), 1 / len(counts)))
    return np.asarray(truthful + spread, dtype=np.int64)


@total.register
def _(randomizer: OptimisedUnaryEncoding, values: Array, counts: Integers, generator: np.random.Generator) -> Integers:
    counts = _by_category(randomizer, values, counts)
    users = int(counts.sum())
    own = generator.binomial(counts, randomizer.own)
    return np.asarray(own + generator.binomial(users - counts, randomizer.other), dtype=np.int64)


@total.register
def _(randomizer: SubsetSelection, values: Array, counts: Integers, generator: np.random.Generator) -> Integers:
    counts = _by_category(randomizer, values, counts)
    users = int(counts.sum())
    if randomizer.width == 1:
        return _one_category(randomizer, counts, generator)
    if users * min(randomizer.other, 1 - randomizer.other) < FEW_EVENTS:
        return _subsets(randomizer, counts, generator)
    share = counts / max(1, users)
    diagonal, mixing = OracleMoments(randomizer).covariance(share)
    basis = np.stack([np.ones(len(counts)), share], axis=1)
    covariance = (np.diag(diagonal) + basis @ mixing @ basis.T) * users / randomizer.unit**2
    mean = randomizer.other * users + (randomizer.own - randomizer.other) * counts
    return _whole(mean + _normal(covariance, generator))


def _subsets(oracle: SubsetSelection, counts: Integers, generator: np.random.Generator) -> Integers:
    """One subset per user: with probability `own` it holds the input; what else it holds is uniform."""
    drawn = np.zeros(oracle.categories, dtype=np.int64)
    users = np.repeat(np.arange(oracle.categories), counts)
    step = max(1, min(BATCH, BLOCK // oracle.categories))
    for start in range(0, len(users), step):
        held = users[start : start + step]
        others = _distinct(len(held), oracle.width, oracle.categories - 1, generator)
        subset = others + (others >= held[:, None])
        inside = generator.random(len(held)) < oracle.own
        subset[inside, -1] = held[inside]
        drawn += np.bincount(subset.ravel(), minlength=oracle.categories)
    return drawn


def _distinct(rows: int, size: int, below: int, generator: np.random.Generator) -> Integers:
    """In each row so many different numbers, every set of them equally likely, whichever column is replaced."""
    if size**2 > below:
        return np.argpartition(generator.random((rows, below)), size - 1, axis=1)[:, :size]
    drawn = generator.integers(below, size=(rows, size))
    while (again := np.flatnonzero((np.diff(np.sort(drawn, axis=1), axis=1) == 0).any(axis=1))).size:
        drawn[again] = generator.integers(below, size=(len(again), size))
    return np.asarray(drawn)


@total.register
def _(randomizer: LevelledSelection, values: Array, counts: Integers, generator: np.random.Generator) -> Integers:
    """Levels share out the users of each input; every level has its own oracle."""
    drawn = generator.multinomial(counts, np.full(randomizer.depth, 1 / randomizer.depth)).T
    levels = zip(randomizer.oracles, np.asarray(values).T, drawn, strict=True)
    sums = [total(oracle, category, held, generator) for oracle, category, held in levels]
    return np.concatenate([*sums, drawn.sum(axis=1)]).astype(np.int64)


def _by_category(oracle: FrequencyOracle, values: Array, counts: Integers) -> Integers:
    """How many users hold each of the oracle's categories; several inputs may share one."""
    held = np.zeros(oracle.categories, dtype=np.int64)
    np.add.at(held, np.asarray(values, dtype=np.int64), counts)
    return held


def _normal(covariance: Floats, generator: np.random.Generator) -> Floats:
    """A normal vector with this covariance, which may be singular: a subset always has the same size."""
    try:
        return np.asarray(np.linalg.cholesky(covariance) @ generator.standard_normal(len(covariance)))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors @ (np.sqrt(np.maximum(values, 0.0)) * generator.standard_normal(len(values))))


def _whole(drawn: Floats) -> Integers:
    return np.asarray(np.rint(drawn), dtype=np.int64)
