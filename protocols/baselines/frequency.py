"""Baselines: estimate the histogram by a frequency oracle, and plug it into the form.

A reply supports a set of categories, b in {0, 1}^k; y = offset + unit b is unbiased for 1_x. As everywhere, the
statistic is the mean of y_i'My_j over pairs of different users, M = W - cJ. The pairs i = i are taken out of h'Mh by
an unbiased estimate: E[y'My | x] is a function of x, so its sum over users follows from the histogram. (For
randomized response that is the sum of y_i'My_i itself.)
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from parley.emulator.protocol import Analyst, Ask, Heard, Send, Sends, sends
from parley.emulator.randomizer import Floats
from parley.protocols.pairwise import Pairwise, with_diagonal
from parley.protocols.randomizers.categories.oracle import FrequencyOracle
from parley.protocols.randomizers.categories.oue import OptimisedUnaryEncoding
from parley.protocols.randomizers.categories.randomized_response import RandomizedResponse
from parley.protocols.randomizers.categories.subset_selection import SubsetSelection


@dataclass(frozen=True)
class OracleMoments:
    """The first two moments of y, for an oracle that treats all categories alike.

    For the input x a reply supports a category v with the oracle's probability `own` if v = x and `other` if not; two
    categories with `own_and_other` if one of them is x, and with `two_others` if neither is. The mean of y is 1_x.
    """

    oracle: FrequencyOracle

    def quadratic(self, row_sums: Floats, diagonal: Floats) -> Floats:
        """E[y'My | x] for every x, from M1 and the diagonal of M."""
        own, other, unit, offset = self.oracle.own, self.oracle.other, self.oracle.unit, self.oracle.offset
        whole, trace = float(row_sums.sum()), float(diagonal.sum())
        besides = row_sums - diagonal
        supported = other * whole + (own - other) * row_sums
        pairs = other * trace + (own - other) * diagonal
        pairs = pairs + self.oracle.two_others * (whole - trace - 2 * besides)
        pairs = pairs + 2 * self.oracle.own_and_other * besides
        return np.asarray(offset**2 * whole + 2 * offset * unit * supported + unit**2 * pairs)

    def conditional(self, direction: Floats) -> Floats:
        """Var(<y, g> | x) for every x."""
        # y'gg'y is a quadratic form with row sums g sum(g) and diagonal g^2, and E<y, g> = g_x.
        return self.quadratic(direction * direction.sum(), direction**2) - direction**2

    def along(self, direction: Floats, histogram: Floats) -> float:
        """The mean of these variances over the users of a histogram."""
        return float(histogram @ self.conditional(direction))

    def covariance(self, histogram: Floats) -> tuple[Floats, Floats]:
        """The mean of Cov(y | x) over the users of a histogram, as d and K of diag(d) + B K B' with B = [1, h]."""
        own, other, square = self.oracle.own, self.oracle.other, self.oracle.unit**2
        apart, near = self.oracle.two_others - other**2, self.oracle.own_and_other - own * other
        alone = other * (1 - other) + (own * (1 - own) - other * (1 - other)) * histogram
        diagonal = alone - apart - 2 * (near - apart) * histogram
        mixing = np.array([[apart, near - apart], [near - apart, 0.0]])
        return square * diagonal, square * mixing


@dataclass(frozen=True, kw_only=True)
class Frequency(Pairwise):
    """A histogram by a frequency oracle with the whole budget, and the form of it."""

    randomizer: ClassVar[type[Any]]

    # Whether the interval knows how little few users show of the histogram, and what is estimated stays within the
    # statistic's range; older records do not say so.
    cautious: bool | None = None

    @cached_property
    def oracle(self) -> FrequencyOracle:
        made: FrequencyOracle = self.randomizer(categories=self.inputs, epsilon=self.epsilon)
        return made

    @sends
    def category(self) -> Sends:
        """Each user sends its input through the oracle."""
        return {"category": Send(self.oracle, np.arange(self.inputs))}

    script = (category,)

    def analyst(self) -> Analyst:
        """One question, one histogram."""
        heard = yield Ask(self.category)
        return self.finish(self.form(heard), heard)

    def form(self, heard: Heard) -> float:
        """(n h'Mh - mean E[y'My])/(n - 1), all with the estimated histogram; for the AUC (n - 1)/n of that."""
        h, n = self.histogram(heard), max(2, heard.tally.replies)
        # Shares add up to one, their estimates need not: the common part of all users' own pairs is known without them.
        usual = float(self.own_pairs.mean())
        own = usual + float((self.own_pairs - usual) @ h)
        pairs = n * float(h @ self.apply(h)) - own
        return pairs / (n if self.workload.labelled else n - 1)

    def quadratic_form(self, heard: Heard) -> float:
        pairs = self.form(heard) + self.workload.shift
        return pairs if self.workload.labelled else with_diagonal(self.workload, pairs, heard.tally.replies)

    def histogram(self, heard: Heard) -> Floats:
        """The unbiased estimate of h; some entries may be negative."""
        return heard.mean("category")

    def apply(self, vector: Floats) -> Floats:
        """M v = W v - c sum(v)."""
        shift = self.workload.shift
        return self.workload.apply(vector) - shift * vector.sum(axis=0) if shift else self.workload.apply(vector)

    @cached_property
    def moments(self) -> OracleMoments:
        return OracleMoments(self.oracle)

    @cached_property
    def own_pairs(self) -> Floats:
        """E[y'My | x] for every x."""
        diagonal = self.workload.diagonal() - self.workload.shift
        return self.moments.quadratic(self.apply(np.ones(self.inputs)), diagonal)


@dataclass(frozen=True, kw_only=True)
class FrequencyGrr(Frequency):
    """The histogram by randomized response.

    Formal guarantee: eps-LDP. The only reply is one category by k-ary randomized response.
    """

    name: ClassVar[str] = "frequency-grr"
    summary: ClassVar[str] = "Baseline: histogram by k-ary randomized response, plugged in without pairs i = i"
    randomizer: ClassVar[type[Any]] = RandomizedResponse


@dataclass(frozen=True, kw_only=True)
class FrequencyOue(Frequency):
    """The histogram by optimised unary encoding.

    Formal guarantee: eps-LDP. The only reply is one bit per category by optimised unary encoding.
    """

    name: ClassVar[str] = "frequency-oue"
    summary: ClassVar[str] = "Baseline: histogram by optimised unary encoding, plugged in without pairs i = i"
    randomizer: ClassVar[type[Any]] = OptimisedUnaryEncoding


@dataclass(frozen=True, kw_only=True)
class FrequencySubset(Frequency):
    """The histogram by subset selection.

    Formal guarantee: eps-LDP. The only reply is one subset of the categories by subset selection.
    """

    name: ClassVar[str] = "frequency-subset"
    summary: ClassVar[str] = "Baseline: histogram by subset selection, plugged in without pairs i = i"
    randomizer: ClassVar[type[Any]] = SubsetSelection
