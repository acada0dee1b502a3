"""Fidelity: do the replies follow the declared law, given the inputs? A node that forgot its noise does not.

Two tests, both from the exact likelihood alone, never from the code that draws replies:

- For any two inputs, E[p(m | x') / p(m | x)] = 1 when m is drawn for x. The mean over all x' is bounded by
  e^-eps and e^eps, so its average over replies must be close to 1: noise that is too small pushes it down.
- Where a reply is a choice from a known list, its place in the law of all choices (the probability of those
  before it, and a random part of its own) is uniform: Kolmogorov-Smirnov, with the choices in the order of
  their likelihood and in the order of their values.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from parley.emulator.audit.statistics import Family, mean_p_value, uniform_p_value
from parley.emulator.audit.verdict import Verdict, unknown, witnessed
from parley.emulator.protocol import Inputs, Protocol
from parley.emulator.randomizer import Columns, Floats, Randomizer
from parley.emulator.record.conversation import Answers, Conversation, answers, malformed
from parley.emulator.record.user_sets import UserSet
from parley.emulator.record.witness import Witness
from parley.emulator.round import columns_of

SAMPLED = 2**13
FEWEST = 50
# Inputs that a reply's likelihood is compared with.
MOST_TRIED = 2**12
MOST_NODES = 16
# Replies that are listed in full: so many likelihoods where each reply has a list of its own, and where it has not.
LISTED_EACH = 2**17
LISTED_SHARED = 2**24
# Of the latter, how many are kept for the next group of replies.
LISTED_KEPT = 2**22


def check_fidelity(conversation: Conversation, witness: Witness | None, generator: Generator) -> Verdict:
    """Test a random sample of the replies, together and node by node: one node that forgot its noise is one of many."""
    protocol, witness = witnessed(witness, conversation, exact=True)
    family = Family()
    for number, sample in _sample(conversation, protocol, generator).items():
        groups = [("", sample)]
        names, node = np.unique(sample.nodes, return_inverse=True)
        if 2 <= len(names) <= MOST_NODES:
            groups += [(f" of {name}", sample.take(np.flatnonzero(node == each))) for each, name in enumerate(names)]
        laws: dict[str, dict[int, Law]] = {}
        for group, some in groups:
            if len(some.users) < FEWEST:
                continue
            own = witness.inputs[some.users]
            tried = np.arange(some.step.inputs)
            if len(tried) > MOST_TRIED:
                # Any inputs will do to compare with, so these are the users' own. Laws are kept by input: not here.
                tried, own = np.unique(own, return_inverse=True)
                laws = {}
            for name, send in some.step.sends(some.public).items():
                what = f"round {number}, {name}{group}"
                columns, values = columns_of(name, send, some.columns), send.at(tried)
                _ratio(family, what, send.randomizer, values, columns, own)
                _places(family, what, send.randomizer, values, columns, own, generator, laws.setdefault(name, {}))
        conversation.progress("fidelity", number, len(protocol.rounds))
    if not family.tests:
        return unknown(f"fewer than {FEWEST} replies: too few to test their distribution")
    return family.judge("the replies do not follow the declared law")


def _sample(conversation: Conversation, protocol: Protocol, generator: Generator) -> dict[int, Answers]:
    """At most so many replies a round that lie in the output space, chosen at random, in the order of their users."""
    answering: dict[int, UserSet] = {}
    refused = conversation.refused(protocol)
    for _, replies in conversation.replies():
        if malformed(protocol, replies, refused) == "":
            answering.setdefault(replies.round, UserSet()).add(replies.users)
    chosen = {number: users.choose(SAMPLED, generator) for number, users in answering.items()}
    pieces: dict[int, list[Answers]] = {}
    for each in answers(conversation, protocol, chosen):
        pieces.setdefault(each.round, []).append(each.take(each.step.check(each.public, each.columns)))
    whole = {number: Answers.join(parts) for number, parts in sorted(pieces.items())}
    return {number: each.take(np.argsort(each.users, kind="stable")) for number, each in whole.items()}


def _ratio(family: Family, what: str, randomizer: Randomizer, values: Floats, columns: Columns, own: Inputs) -> None:
    """The mean over x' of p(m | x') / p(m | x) is 1 in expectation."""
    with np.errstate(all="ignore"):
        likelihood = randomizer.log_likelihood(columns, values)
    ratios = np.exp(likelihood - likelihood[np.arange(len(own)), own][:, None]).mean(axis=1)
    if not np.isfinite(ratios).all():
        family.add(f"{what}, a reply its input cannot cause", len(own), math.inf, 0.0)
        return
    off, p_value = mean_p_value(ratios, 1.0, math.exp(randomizer.epsilon) - math.exp(-randomizer.epsilon))
    family.add(f"{what}, mean likelihood ratio", len(own), off, p_value)


class Law(NamedTuple):
    """What an input may cause: the probability of each choice, and of all choices up to it in two orders.

    One row per reply, or one row for all replies of the input.
    """

    each: Floats
    by_value: Floats
    by_likelihood: Floats

    @classmethod
    def of(cls, randomizer: Randomizer, reply: Columns, value: Floats) -> "Law":
        with np.errstate(all="ignore"):
            logs = randomizer.log_law(reply, value)
        each = np.exp(logs - logs.max(axis=1, keepdims=True))
        each /= each.sum(axis=1, keepdims=True)
        order = np.argsort(-each, axis=1, kind="stable")
        by_likelihood = np.empty_like(each)
        np.put_along_axis(by_likelihood, order, np.cumsum(np.take_along_axis(each, order, axis=1), axis=1), axis=1)
        return cls(each, np.cumsum(each, axis=1), by_likelihood)


def _places(
    family: Family,
    what: str,
    randomizer: Randomizer,
    values: Floats,
    columns: Columns,
    own: Inputs,
    random: Generator,
    laws: dict[int, Law],
) -> None:
    """Kolmogorov-Smirnov of the replies' places in their law, where a reply is a choice from a list.

    `laws` keeps those that serve all replies of an input.
    """
    alphabet = randomizer.alphabet
    if alphabet is None:
        return
    shared = len(columns) == 1
    rows = np.arange(len(own))[: LISTED_EACH // alphabet.size]
    if shared:
        # The replies of a few inputs: where a reply is nothing but its choice, one list serves an input.
        _, first, which = np.unique(own, return_index=True, return_inverse=True)
        kept = np.argsort(first)[: max(1, LISTED_SHARED // alphabet.size)]
        rows = np.flatnonzero(np.isin(which, kept))
    if len(rows) < FEWEST:
        return
    by_likelihood, by_value = np.empty(len(rows)), np.empty(len(rows))
    for x in np.unique(own[rows]).tolist():
        mine = np.flatnonzero(own[rows] == x)
        law = laws.get(x)
        if law is None:
            said = {name: each[rows[mine[:1] if shared else mine]] for name, each in columns.items()}
            law = Law.of(randomizer, said, values[x : x + 1])
            if shared and (len(laws) + 1) * alphabet.size <= LISTED_KEPT:
                laws[x] = law
        row = np.zeros(len(mine), np.int64) if shared else np.arange(len(mine))
        sent = columns[alphabet.column][rows[mine]].astype(np.int64) - alphabet.first
        # The probability of all choices before the one sent, and a random part of its own.
        part = law.each[row, sent] * random.random(len(mine))
        by_value[mine] = law.by_value[row, sent] - part
        by_likelihood[mine] = law.by_likelihood[row, sent] - part
    family.add(f"{what}, places by likelihood", len(rows), *uniform_p_value(by_likelihood))
    family.add(f"{what}, places by value", len(rows), *uniform_p_value(by_value))
