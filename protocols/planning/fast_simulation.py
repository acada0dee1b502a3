"""Runs without users: tallies drawn from the law they have, given how many users hold each input.

An analyst sees nothing of a round but its tally, and a tally is a sum over users. Where the law of the sum is known it
is drawn directly; everything the analyst does with it is the protocol's own code.

- which users speak: their counts by input are multivariate hypergeometric, as for a random salt;
- which level of a tree a user draws: multinomial by input (exact);
- one bit: the ones among the users of an input are binomial (exact);
- randomized response, unary encoding: multinomial and binomial by input (exact);
- sums through a shuffler: Skellam (exact);
- vectors, subset selection, grid Laplace: normal with the exact mean and covariance of the sum, then rounded to whole
  units (central limit theorem; the covariance is that of the randomizer, input by input);
- the tuned one-round protocol's sum of y'Dy is set to its exact mean: its fluctuation is 1/n of the error's variance.

A round of any other kind is answered by its own `respond` for every user.
"""

from collections.abc import Sequence
from functools import singledispatch

import numpy as np

from parley.emulator.errors import LocalProtocolError
from parley.emulator.protocol import Broadcast, Estimate, Protocol
from parley.emulator.randomizer import Array, Floats, Integers, Randomizer
from parley.emulator.round import Round
from parley.emulator.tally import Tally
from parley.protocols.baselines.oracle_moments import OracleMoments
from parley.protocols.legacy_rounds import ComposedRound
from parley.protocols.planning.noise import noise_of
from parley.protocols.randomizers.categories.levelled import LevelledSelection
from parley.protocols.randomizers.categories.oracle import FrequencyOracle
from parley.protocols.randomizers.categories.oue import OptimisedUnaryEncoding
from parley.protocols.randomizers.categories.randomized_response import RandomizedResponse
from parley.protocols.randomizers.categories.subset_selection import SubsetSelection
from parley.protocols.randomizers.scalars.grid_laplace import GridLaplace
from parley.protocols.randomizers.scalars.one_bit import OneBit
from parley.protocols.randomizers.vectors.directional import Directional
from parley.protocols.shuffle.split_and_mix import Split
from parley.protocols.tuned.one_round_tuned import One
from parley.protocols.tuned.split_users import Tuned
from parley.protocols.tuned.vector_round import Vectors

BATCH = 4096


def play(protocol: Protocol, counts: Integers, generator: np.random.Generator) -> Estimate:
    """A whole run for users of whom counts[x] hold the input x."""
    conclusion: Broadcast | Estimate = protocol.opening()
    heard: tuple[tuple[Broadcast, Tally], ...] = ()
    for step, speaking in zip(protocol.rounds, speakers(protocol, counts, generator), strict=True):
        if isinstance(conclusion, Estimate):
            break
        heard = (*heard, (conclusion, tally(step, conclusion, speaking, generator)))
        conclusion = protocol.conclude(heard)
    if not isinstance(conclusion, Estimate):
        raise LocalProtocolError(f"{protocol.name} ended without an estimate")
    return conclusion


def play_all(protocol: Protocol, counts: Integers, generators: Sequence[np.random.Generator]) -> list[Estimate]:
    """A run for each generator; where the analyst's work can be shared, the runs of a tuned protocol share it."""
    if not isinstance(protocol, Tuned):
        return [play(protocol, counts, generator) for generator in generators]
    speaking = [speakers(protocol, counts, generator) for generator in generators]
    vectors: list[tuple[tuple[Broadcast, Tally], ...]] = [
        tuple(({}, tally(step, {}, group, generator)) for step, group in zip(protocol.vectors, groups, strict=False))
        for groups, generator in zip(speaking, generators, strict=True)
    ]
    found = []
    for heard, public, groups, generator in zip(
        vectors, protocol.questions(vectors), speaking, generators, strict=True
    ):
        last = (public, tally(protocol.scalars, public, groups[-1], generator))
        estimate = protocol.conclude((*heard, last))
        assert isinstance(estimate, Estimate)
        found.append(estimate)
    return found


def speakers(protocol: Protocol, counts: Integers, generator: np.random.Generator) -> list[Integers]:
    """How many users with each input speak in each round."""
    if not isinstance(protocol, Tuned) or protocol.split == "budget":
        return [counts for _ in protocol.rounds]
    sizes = generator.multinomial(int(counts.sum()), np.asarray(protocol.shares) / sum(protocol.shares))
    left, groups = counts, []
    for size in sizes[:-1]:
        groups.append(generator.multivariate_hypergeometric(left, int(size), method="marginals"))
        left = left - groups[-1]
    return [*groups, left]


@singledispatch
def tally(step: Round, public: Broadcast, counts: Integers, generator: np.random.Generator) -> Tally:
    """The round's tally for these users; unless something better is known, from a reply of each of them."""
    if hasattr(step, "question"):
        return _of_sends(step, public, counts, generator)
    inputs = generator.permutation(np.repeat(np.arange(len(counts)), counts))
    total: Tally | None = None
    for start in range(0, len(inputs), BATCH):
        part = inputs[start : start + BATCH]
        flips = generator.integers(0, 256, size=(len(part), step.coins), dtype=np.uint8)
        each = step.tally(public, step.respond(public, part, flips))
        total = each if total is None else total + each
    if total is None:
        raise LocalProtocolError(f"nobody speaks in the round {step.name}")
    return total


def _of_sends(step: Round, public: Broadcast, counts: Integers, generator: np.random.Generator) -> Tally:
    sent = step.sends(public)
    every = np.arange(len(counts))
    sums = {name: total(send.randomizer, send.at(every), counts, generator) for name, send in sent.items()}
    return Tally(int(counts.sum()), sums)


@tally.register
def _(step: ComposedRound, public: Broadcast, counts: Integers, generator: np.random.Generator) -> Tally:
    if type(step).tally is not ComposedRound.tally:
        return tally.dispatch(Round)(step, public, counts, generator)
    values = step.functions(public, np.arange(len(counts)))
    sums = {part.name: total(part.randomizer, values[part.name], counts, generator) for part in step.parts_for(public)}
    return Tally(int(counts.sum()), sums)


@tally.register
def _(step: Vectors, public: Broadcast, counts: Integers, generator: np.random.Generator) -> Tally:
    """Folds are a random partition of those who speak."""
    folds = generator.multinomial(counts, np.full(step.folds, 1 / step.folds)).T
    columns = step.functions(public, np.arange(len(counts)))["vector"]
    sums = np.stack([total(step.parts[0].randomizer, columns, fold, generator) for fold in folds])
    return Tally(int(counts.sum()), {"vector": sums, "size": folds.sum(axis=1).astype(np.int64)})


@tally.register
def _(step: One, public: Broadcast, counts: Integers, generator: np.random.Generator) -> Tally:
    """One vector, and the mean of the sum of y'Dy."""
    vector, signs = step.protocol.vector, step.protocol.signs
    columns = step.functions(public, np.arange(len(counts)))["vector"]
    noise = noise_of(vector)
    own = noise.isotropic * signs.sum() + (noise.lean + 1) * (columns**2 @ signs)
    squares = np.array(round(float(counts @ own) / vector.quadratic_unit), dtype=np.int64)
    return Tally(int(counts.sum()), {"vector": total(vector, columns, counts, generator), "squares": squares})


@tally.register
def _(step: Split, public: Broadcast, counts: Integers, generator: np.random.Generator) -> Tally:
    """The sum of all shares is that of the vectors and of the users' noise: Skellam, as each user's."""
    protocol, users = step.protocol, int(counts.sum())
    rates = np.full((2, protocol.encoder.dimension), users * protocol.variance / 2)
    up, down = generator.poisson(rates)
    return Tally(users, {"total": counts.astype(np.int64) @ protocol.numbers + up - down})


@singledispatch
def total(randomizer: Randomizer, values: Array, counts: Integers, generator: np.random.Generator) -> Integers:
    """The sum of `decode` in units over counts[x] users with the value values[x] each."""
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
    noise = noise_of(randomizer)
    covariance = noise.lean * (columns.T * counts) @ columns
    covariance[np.diag_indices_from(covariance)] += noise.isotropic * users
    drawn = counts @ columns + _normal(covariance, generator)
    return _whole(drawn / randomizer.unit)


@total.register
def _(randomizer: OneBit, values: Array, counts: Integers, generator: np.random.Generator) -> Integers:
    chances = randomizer.thresholds(np.asarray(values, dtype=np.float64)).astype(np.float64) * 2.0**-64
    ones = int(generator.binomial(counts, chances).sum())
    return np.array(2 * ones - int(counts.sum()), dtype=np.int64)


@total.register
def _(randomizer: GridLaplace, values: Array, counts: Integers, generator: np.random.Generator) -> Integers:
    """On the grid the noise has one variance; rounding at random to the grid adds u (1 - u) of a squared step."""
    steps = np.clip(np.asarray(values, dtype=np.float64), randomizer.low, randomizer.high) / randomizer.unit
    steps = steps - float(randomizer.origin)
    up = steps - np.floor(steps)
    middle = randomizer.offset + randomizer.centre * randomizer.unit
    variances = randomizer.variance_at(middle) / randomizer.unit**2 + up * (1 - up)
    drawn = float(counts @ steps) + np.sqrt(float(counts @ variances)) * generator.standard_normal()
    return _whole(np.asarray(drawn))


@total.register
def _(randomizer: RandomizedResponse, values: Array, counts: Integers, generator: np.random.Generator) -> Integers:
    counts = _by_category(randomizer, values, counts)
    truthful = generator.binomial(counts, (randomizer.own - randomizer.other))
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
    share = counts / max(1, users)
    diagonal, mixing = OracleMoments(randomizer).covariance(share)
    basis = np.stack([np.ones(len(counts)), share], axis=1)
    covariance = (np.diag(diagonal) + basis @ mixing @ basis.T) * users / randomizer.unit**2
    mean = randomizer.other * users + (randomizer.own - randomizer.other) * counts
    return _whole(mean + _normal(covariance, generator))


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
