"""What one would do without the paper: estimate the histogram by a frequency oracle and plug it into h'Wh.

A reply supports a set of categories, b in {0, 1}^k; y = offset + unit b is unbiased for 1_x. As everywhere, the
statistic is the mean of y_i'My_j over pairs of different users, M = W - cJ. The pairs i = i are taken out of h'Mh by
an unbiased estimate: E[y'My | x] is a function of x, so its sum over users follows from the histogram. (For
randomized response that is the sum of y_i'My_i itself.)
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from parley.emulator.protocol import Broadcast, Inputs
from parley.emulator.randomizer import Floats
from parley.emulator.tally import Tally
from parley.protocols.baselines.oracle_moments import Support
from parley.protocols.legacy_pairwise import common
from parley.protocols.legacy_rounds import Part
from parley.protocols.non_interactive import NonInteractive, OnlyRound, with_diagonal
from parley.protocols.randomizers.categories.oracle import FrequencyOracle
from parley.protocols.randomizers.categories.oue import OptimisedUnaryEncoding
from parley.protocols.randomizers.categories.randomized_response import RandomizedResponse
from parley.protocols.randomizers.categories.subset_selection import SubsetSelection
from parley.protocols.workloads.workload import Workload

# Up to here the squares of M's entries are summed one by one; beyond, they are taken for the largest one.
LARGEST_DENSE = 4096


@dataclass(frozen=True, kw_only=True)
class Frequency(NonInteractive):
    """A histogram by a frequency oracle with the whole budget, and the form of it."""

    @classmethod
    def design(cls, workload: Workload, *, epsilon: float, users: int) -> Self:
        return cls(workload=workload, epsilon=epsilon, users=users)

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        return cls(**common(parameters))

    def __post_init__(self) -> None:
        super().__post_init__()
        self.oracle  # noqa: B018  (an oracle that cannot be is refused when the protocol is made)

    @property
    @abstractmethod
    def oracle(self) -> FrequencyOracle:
        """The oracle for k categories."""

    @property
    @abstractmethod
    def support(self) -> Support:
        """The first two moments of its replies."""

    @cached_property
    def step(self) -> "Category":
        return Category(self)

    def apply(self, vector: Floats) -> Floats:
        """M v = W v - c sum(v)."""
        shift = self.workload.shift
        return self.workload.apply(vector) - shift * vector.sum(axis=0) if shift else self.workload.apply(vector)

    def histogram(self, tally: Tally) -> Floats:
        """The unbiased estimate of h; some entries may be negative."""
        return self.step.mean(tally, "category")

    def form(self, tally: Tally) -> float:
        """(n h'Mh - mean E[y'My])/(n - 1), all with the estimated histogram; for the AUC (n - 1)/n of that."""
        histogram, present = self.histogram(tally), max(2, tally.replies)
        # Shares add up to one, their estimates need not: the common part of all users' own pairs is known without them.
        usual = float(self._own_pairs.mean())
        own = usual + float((self._own_pairs - usual) @ histogram)
        pairs = present * float(histogram @ self.apply(histogram)) - own
        return pairs / (present if self._ratio else present - 1)

    @cached_property
    def _own_pairs(self) -> Floats:
        """E[y'My | x] for every x."""
        diagonal = self.workload.diagonal() - self.workload.shift
        return self.support.quadratic(self.apply(np.ones(self.inputs)), diagonal)

    @property
    def _ratio(self) -> bool:
        """Whether the statistic is the AUC, whose n+ is a sum over the same histogram."""
        return "positive" in self.workload.linear_queries()

    def quadratic_form(self, tally: Tally) -> float:
        pairs = super().quadratic_form(tally)
        return pairs if self._ratio else with_diagonal(self.workload, pairs, tally.replies)

    def means(self, tally: Tally) -> dict[str, float]:
        """n+/n for which p (1 - p), what the area is divided by, has no bias: the noise of p alone makes it smaller."""
        if not self._ratio:
            return {}
        share = float(self.workload.linear_queries()["positive"] @ self.histogram(tally))
        spread = min(share * (1 - share) + self.mean_variances(tally.replies)["positive"], 0.25)
        return {"positive": 0.5 + math.copysign(math.sqrt(0.25 - spread), share - 0.5)}

    def mean_variances(self, replies: int) -> dict[str, float]:
        if not self._ratio:
            return {}
        uniform = np.full(self.inputs, 1 / self.inputs)
        return {"positive": self.support.along(self.workload.linear_queries()["positive"], uniform) / replies}

    def value(self, form: float, means: Mapping[str, float], replies: int) -> float:
        return super().value(form, means, replies) if self._ratio else form

    def slopes(self, form: float, means: Mapping[str, float], replies: int) -> Mapping[str, float]:
        return super().slopes(form, means, replies) if self._ratio else {"form": 1.0}

    def form_variance(self, replies: tuple[int, ...], histogram: Floats | None = None) -> float:
        """4 (Mh)'Cov(Mh)/n + 2 tr(M Cov M Cov)/n^2."""
        if histogram is None:
            return self._worst_linear / replies[0] + self._worst_quadratic / replies[0] ** 2
        linear = self.support.along(2 * self.apply(histogram), histogram)
        return linear / replies[0] + self.quadratic(histogram) / replies[0] ** 2

    def predicted_rmse(self, histogram: Floats | None = None) -> float:
        """For the AUC by the gradient of the whole ratio: its two halves come from the same replies."""
        if histogram is None or not self._ratio:
            return super().predicted_rmse(histogram)
        label = self.workload.linear_queries()["positive"]
        slopes = self.slopes(self.workload.form(histogram), {"positive": float(label @ histogram)}, self.users)
        gradient = slopes["form"] * 2 * self.apply(histogram) + slopes["positive"] * label
        linear = self.support.along(gradient, histogram) / self.users
        return math.sqrt(linear + slopes["form"] ** 2 * self.quadratic(histogram) / self.users**2)

    def seen_variance(self, tally: Tally) -> float:
        """The same with the estimated histogram, whose own noise adds twice the second term to the first on average."""
        histogram, replies = self.histogram(tally), tally.replies
        quadratic = max(0.0, self.quadratic(histogram))
        linear = self.support.along(2 * self.apply(histogram), histogram) - 2 * quadratic / replies
        return float(np.clip(linear, 0.0, self._worst_linear)) / replies + quadratic / replies**2

    @cached_property
    def _squares(self) -> Floats | None:
        """M's entries squared, or None where there are too many."""
        if self.inputs > LARGEST_DENSE:
            return None
        return np.asarray((self.workload.matrix() - self.workload.shift) ** 2)

    def quadratic(self, histogram: Floats) -> float:
        """2 tr(M Cov M Cov) with Cov = diag(d) + B K B', B = [1, h]."""
        diagonal, mixing = self.support.covariance(histogram)
        basis = np.stack([np.ones(self.inputs), histogram], axis=1)
        image = self.apply(basis)
        if self._squares is None:
            largest = max(abs(bound - self.workload.shift) for bound in self.workload.bounds)
            square = (largest * float(diagonal.sum())) ** 2
        else:
            square = float(diagonal @ self._squares @ diagonal)
        cross = float(np.trace(mixing @ (image.T * diagonal) @ image))
        inner = mixing @ basis.T @ image
        return 2 * (square + 2 * cross + float(np.trace(inner @ inner)))

    @cached_property
    def _worst_linear(self) -> float:
        """Convex in h but for the oracle's lean, so vertices have it: the largest over h = 1_x and users' inputs."""
        if self._squares is None:
            largest = max(abs(bound - self.workload.shift) for bound in self.workload.bounds)
            return 4 * largest**2 * self.support.greatest * self.inputs
        matrix = self.workload.matrix() - self.workload.shift
        return 4 * max(float(self.support.conditional(row).max()) for row in matrix)

    @cached_property
    def _worst_quadratic(self) -> float:
        """Of the even histogram and of all users alike."""
        vertices = np.eye(1, self.inputs, dtype=np.float64)[0]
        return max(self.quadratic(np.full(self.inputs, 1 / self.inputs)), self.quadratic(vertices))


@dataclass(frozen=True, kw_only=True)
class FrequencyGrr(Frequency):
    """The histogram by randomized response.

    Formal guarantee: eps-LDP. The only reply is one category by k-ary randomized response.
    """

    name: ClassVar[str] = "frequency-grr"
    summary: ClassVar[str] = "Baseline: histogram by k-ary randomized response, plugged in without pairs i = i"

    @cached_property
    def oracle(self) -> RandomizedResponse:
        return RandomizedResponse(categories=self.inputs, epsilon=self.epsilon)

    @cached_property
    def support(self) -> Support:
        """A reply supports one category, never two."""
        return Support(oracle=self.oracle, mixed=0.0, others=0.0)


@dataclass(frozen=True, kw_only=True)
class FrequencyOue(Frequency):
    """The histogram by optimised unary encoding.

    Formal guarantee: eps-LDP. The only reply is one bit a category by optimised unary encoding.
    """

    name: ClassVar[str] = "frequency-oue"
    summary: ClassVar[str] = "Baseline: histogram by optimised unary encoding, plugged in without pairs i = i"

    @cached_property
    def oracle(self) -> OptimisedUnaryEncoding:
        return OptimisedUnaryEncoding(categories=self.inputs, epsilon=self.epsilon)

    @cached_property
    def support(self) -> Support:
        """Bits are independent."""
        own, other = self.oracle.own, self.oracle.other
        return Support(oracle=self.oracle, mixed=own * other, others=other**2)


@dataclass(frozen=True, kw_only=True)
class FrequencySubset(Frequency):
    """The histogram by subset selection.

    Formal guarantee: eps-LDP. The only reply is one subset of the categories by subset selection.
    """

    name: ClassVar[str] = "frequency-subset"
    summary: ClassVar[str] = "Baseline: histogram by subset selection, plugged in without pairs i = i"

    @cached_property
    def oracle(self) -> SubsetSelection:
        return SubsetSelection(categories=self.inputs, epsilon=self.epsilon)

    @cached_property
    def support(self) -> Support:
        """Given whether it holds the input, a subset is uniform among those that do."""
        return subset_support(self.oracle)


def subset_support(oracle: SubsetSelection) -> Support:
    """The joint probabilities of subset selection."""
    size, width, own = oracle.categories, oracle.width, oracle.own
    mixed = own * (width - 1) / (size - 1)
    pairs = own * (width - 1) * (width - 2) + (1 - own) * width * (width - 1)
    return Support(oracle=oracle, mixed=mixed, others=pairs / ((size - 1) * max(1, size - 2)))


class Category(OnlyRound):
    """Each user sends its input through the oracle."""

    name = "category"

    def __init__(self, protocol: Frequency) -> None:
        self.protocol = protocol

    @property
    def inputs(self) -> int:
        return self.protocol.inputs

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return (Part(name="category", randomizer=self.protocol.oracle),)

    def functions(self, public: Broadcast, inputs: Inputs) -> dict[str, Floats]:
        return {"category": inputs.astype(np.float64)}
