"""Fidelity: do the replies follow the declared law, given the inputs? A node that forgot its noise does not.

Two tests, both from the exact likelihood alone, never from the code that draws replies:

- For any two inputs, E[p(m | x') / p(m | x)] = 1 when m is drawn for x. The mean over all x' is bounded by
  e^-eps and e^eps, so its average over replies must be close to 1: noise that is too small pushes it down.
- Where a reply is a choice from a known list, its place in the law of all choices (the probability of those
  before it, and a random part of its own) is uniform: Kolmogorov-Smirnov, with the choices in the order of
  their likelihood and in the order of their values.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from parley.emulator.audit.evidence.preconditions import knows_everybody
from parley.emulator.audit.evidence.sample import Sample, gather
from parley.emulator.audit.evidence.statistics import Family, mean_p_value, uniform_p_value
from parley.emulator.audit.verdict import Verdict, unknown
from parley.emulator.protocol import Inputs, Protocol
from parley.emulator.randomizer import Alphabet, Columns, Floats, Randomizer
from parley.emulator.record.conversation import Conversation, Progress, quiet
from parley.emulator.record.witness import Witness
from parley.emulator.round import columns_of

SAMPLED = 2**13
FEWEST = 50
MOST_NODES = 16
# Replies that are listed in full: so many likelihoods where each reply has a list of its own, and where it has not.
LISTED_EACH = 2**17
LISTED_SHARED = 2**24


def check_fidelity(
    conversation: Conversation,
    witness: Witness,
    *,
    generator: np.random.Generator | None = None,
    progress: Progress = quiet,
) -> Verdict:
    """Test a random sample of the replies, together and node by node."""
    protocol = knows_everybody(witness, conversation)
    generator = generator or np.random.default_rng()
    family = Family()
    samples = gather(conversation, protocol, SAMPLED, generator)
    for number, sample in samples.items():
        for group, rows in _groups(sample):
            _test(family, protocol, number, sample.take(rows), witness.inputs, group, generator)
        progress("fidelity", number, len(protocol.rounds))
    if not family.tests:
        return unknown(f"fewer than {FEWEST} replies: too few to test their distribution")
    return family.judge("the replies do not follow the declared law")


def _groups(sample: Sample) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """All replies, and those of each node where there are few nodes: one node that forgot its noise is one of many."""
    yield "", np.arange(len(sample.users))
    names, node = np.unique(sample.nodes, return_inverse=True)
    if 2 <= len(names) <= MOST_NODES:
        for number, name in enumerate(names):
            yield f" of {name}", np.flatnonzero(node == number)


def _test(
    family: Family,
    protocol: Protocol,
    number: int,
    sample: Sample,
    inputs: Inputs,
    group: str,
    generator: np.random.Generator,
) -> None:
    """Every test of one round's replies."""
    if len(sample.users) < FEWEST:
        return
    step, own = protocol.rounds[number - 1], inputs[sample.users]
    for name, send in step.sends(sample.public).items():
        what = f"round {number}, {name}{group}"
        columns, values = columns_of(name, send, sample.columns), send.at(np.arange(step.inputs))
        with np.errstate(all="ignore"):
            likelihood = send.randomizer.log_likelihood(columns, values)
        _ratio(family, what, likelihood, own, send.randomizer.epsilon)
        _places(family, what, send.randomizer, values, columns, own, generator)


def _ratio(family: Family, what: str, likelihood: Floats, own: Inputs, epsilon: float) -> None:
    """The mean over x' of p(m | x') / p(m | x) is 1 in expectation."""
    rows = np.arange(len(own))
    ratios = np.exp(likelihood - likelihood[rows, own][:, None]).mean(axis=1)
    if not np.isfinite(ratios).all():
        family.add(f"{what}, a reply its input cannot cause", len(own), math.inf, 0.0)
        return
    off, p_value = mean_p_value(ratios, 1.0, math.exp(epsilon) - math.exp(-epsilon))
    family.add(f"{what}, mean likelihood ratio", len(own), off, p_value)


def _places(
    family: Family,
    what: str,
    randomizer: Randomizer,
    values: Floats,
    columns: Columns,
    own: Inputs,
    generator: np.random.Generator,
) -> None:
    """Kolmogorov-Smirnov of the replies' places in their law, where a reply is a choice from a list."""
    alphabet = randomizer.alphabet
    if alphabet is None:
        return
    shared = len(columns) == 1
    rows = _few_inputs(own, LISTED_SHARED // alphabet.size) if shared else np.arange(len(own))
    if not shared:
        rows = rows[: LISTED_EACH // alphabet.size]
    if len(rows) < FEWEST:
        return
    by_likelihood, by_value = np.empty(len(rows)), np.empty(len(rows))
    for x in np.unique(own[rows]):
        mine = np.flatnonzero(own[rows] == x)
        said = {name: each[rows[mine]] for name, each in columns.items()}
        law = _law(randomizer, alphabet, said, values[x : x + 1], shared)
        sent = columns[alphabet.column][rows[mine]].astype(np.int64) - alphabet.first
        coins = generator.random(len(mine))
        by_value[mine] = _place(law, sent, coins)
        order = np.argsort(-law, axis=1, kind="stable")
        rank = np.argsort(order, axis=1, kind="stable")
        place = rank[np.zeros(len(mine), np.int64) if shared else np.arange(len(mine)), sent]
        by_likelihood[mine] = _place(np.take_along_axis(law, order, axis=1), place, coins)
    family.add(f"{what}, places by likelihood", len(rows), *uniform_p_value(by_likelihood))
    family.add(f"{what}, places by value", len(rows), *uniform_p_value(by_value))


def _few_inputs(own: Inputs, most: int) -> NDArray[np.intp]:
    """The replies of at most so many inputs: where no two replies share other columns, one list serves an input."""
    _, first, which = np.unique(own, return_index=True, return_inverse=True)
    kept = np.argsort(first)[: max(1, most)]
    return np.flatnonzero(np.isin(which, kept))


def _law(randomizer: Randomizer, alphabet: Alphabet, columns: Columns, value: Floats, shared: bool) -> Floats:
    """p(choice | x) for every choice: one row per reply, or one row for all where a reply is nothing but its choice."""
    rows = 1 if shared else len(columns[alphabet.column])
    listed = {name: np.repeat(column[:rows], alphabet.size, axis=0) for name, column in columns.items()}
    numbers = np.tile(np.arange(alphabet.first, alphabet.last + 1), rows)
    listed[alphabet.column] = numbers.astype(columns[alphabet.column].dtype)
    with np.errstate(all="ignore"):
        logs = randomizer.log_likelihood(listed, value).reshape(rows, alphabet.size)
    law = np.exp(logs - logs.max(axis=1, keepdims=True))
    normal: Floats = law / law.sum(axis=1, keepdims=True)
    return normal


def _place(law: Floats, sent: NDArray[np.int64], coins: Floats) -> Floats:
    """The probability of all choices before the one sent, and a random part of its own."""
    row = np.zeros(len(sent), np.int64) if len(law) == 1 else np.arange(len(sent))
    upto = np.cumsum(law, axis=1)[row, sent]
    places: Floats = upto - law[row, sent] * coins
    return places
