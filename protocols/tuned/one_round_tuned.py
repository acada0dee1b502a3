"""One round, tuned ("One vector instead of two"): W - cJ = A'DA and a single vector with the whole budget.

Each user sends y_i = VRand_eps(A 1_{x_i}). The mean of y_i'Dy_j over pairs of different users estimates the mean of
W - cJ over such pairs, which is the statistic itself: with s = sum y_i it is (s'Ds - sum y_i'Dy_i)/(n(n-1)). Pairs
i = i carry the noise's bias and are left out, so no diagonal has to be measured.

For the AUC the vector has one more coordinate, the label: numerator and denominator come from one message.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from parley.emulator.protocol import Broadcast, Inputs
from parley.emulator.randomizer import Columns, Floats
from parley.emulator.tally import Tally
from parley.protocols.factorization.approximation import (
    Approximation,
    read_signed,
    signed_parameters,
    single,
    useful_approximations,
)
from parley.protocols.factorization.factors import infinity_norm
from parley.protocols.factorization.model import SignedFactorization, signed
from parley.protocols.factorization.operator import Factor
from parley.protocols.factorization.shift import best_shift
from parley.protocols.factorization.truncation import truncated
from parley.protocols.legacy_pairwise import common
from parley.protocols.legacy_rounds import Part
from parley.protocols.limits import affordable
from parley.protocols.non_interactive import NonInteractive, OnlyRound, with_diagonal
from parley.protocols.parameters import count, number
from parley.protocols.planning.noise import FormNoise, VectorNoise, noise_of
from parley.protocols.randomizers.vectors.codebook import Codebook
from parley.protocols.tuned.labelled import Labelled
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.kernel import Kernel
from parley.protocols.workloads.workload import Workload

# Twice the candidates are twice the users' work; they are worth it where they lower the variance by so much.
SIZES = (4, 8, 16, 32, 64)
WORTH = 1.03
# Shifts of larger kernels take longer to find than they are worth.
LARGEST_SHIFTED = 256
LARGEST_WEIGHT = 1e6


@dataclass(frozen=True, kw_only=True)
class OneRoundTuned(NonInteractive):
    """One vector a user, all of eps.

    Formal guarantee: eps-LDP. The only reply is one codebook randomizer of one vector whose norm every user bounds
    itself; whatever factor, weight or number of candidates the analyst names, the claim holds.
    """

    name: ClassVar[str] = "one-round-tuned"
    summary: ClassVar[str] = "One vector A 1_x of W - cJ = A'DA with all of eps; pairs i = i left out"

    approximation: Approximation = field(repr=False)
    candidates: int
    best: int
    weight: float

    @classmethod
    def design(cls, workload: Workload, *, epsilon: float, users: int) -> Self:
        """The factors, the label's weight and the codebook with the least predicted error, all from public numbers."""
        workload = _shifted(workload)
        drafts = []
        for each in useful_approximations(workload, epsilon=epsilon, users=users):
            whole = cls._with(workload, epsilon, users, single(each))
            unit = noise_of(whole.vector).isotropic / whole.vector.radius**2
            shorter = truncated(workload, whole.approximation, unit, users)
            drafts += [whole, *(cls._with(workload, epsilon, users, one) for one in shorter)]
        return min(drafts, key=lambda draft: draft.predicted_rmse())

    @classmethod
    def _with(cls, workload: Workload, epsilon: float, users: int, approximation: Approximation) -> Self:
        """The protocol for these factors, with the label's weight and the codebook that suit them."""
        draft = cls(
            workload=workload,
            epsilon=epsilon,
            users=users,
            approximation=approximation,
            candidates=SIZES[0],
            best=1,
            weight=_label_weight(workload, approximation, epsilon, users),
        )
        return _with_codebook(draft)

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        fields = common(parameters, "candidates", "best", "weight", optional=("factor", "signs", "rows"))
        weight = number(parameters, "weight", 0.0, LARGEST_WEIGHT)
        candidates = count(parameters, "candidates", 2, SIZES[-1])
        return cls(
            **fields,
            approximation=read_signed(fields["workload"], parameters),
            candidates=candidates,
            best=count(parameters, "best", 1, candidates - 1),
            weight=weight if isinstance(fields["workload"], AreaUnderCurve) else _no_label(weight),
        )

    def parameters(self) -> Mapping[str, Any]:
        chosen = {"candidates": self.candidates, "best": self.best, "weight": self.weight}
        return {**super().parameters(), **chosen, **signed_parameters(self.approximation)}

    @cached_property
    def factors(self) -> SignedFactorization:
        """A and D."""
        return signed(self.approximation.factors)

    @cached_property
    def encoded(self) -> Factor:
        """What a user encodes: A, and for the AUC the label below it."""
        if not self.weight:
            return self.factors.factor
        return Labelled(self.factors.factor, _label(self.workload), self.weight)

    @cached_property
    def signs(self) -> Floats:
        """The diagonal of D, with 0 for the label, which is no part of the form."""
        return np.concatenate([self.factors.signs, np.zeros(self.encoded.rows - self.factors.rows)])

    @cached_property
    def vector(self) -> Codebook:
        """VRand_{eps, C}."""
        return Codebook(
            dimension=self.encoded.rows,
            radius=self.encoded.radius,
            epsilon=self.epsilon,
            candidates=self.candidates,
            best=self.best,
        )

    @cached_property
    def step(self) -> "One":
        return One(self)

    def form(self, tally: Tally) -> float:
        """The mean over pairs of different users; for the AUC over all pairs, since its diagonal is 0."""
        total = tally.sums["vector"] * self.vector.unit
        own = float(tally.sums["squares"]) * self.vector.quadratic_unit
        present = max(2, tally.replies)
        pairs = present * (present if self.weight else present - 1)
        return (float((total * self.signs) @ total) - own) / pairs

    def quadratic_form(self, tally: Tally) -> float:
        """h'Wh has the pairs i = i too; what they add is known where the diagonal is constant."""
        if self.weight:
            return super().quadratic_form(tally)
        return with_diagonal(self.workload, super().quadratic_form(tally), tally.replies)

    def value(self, form: float, means: Mapping[str, float], replies: int) -> float:
        return super().value(form, means, replies) if self.weight else form

    def slopes(self, form: float, means: Mapping[str, float], replies: int) -> Mapping[str, float]:
        return super().slopes(form, means, replies) if self.weight else {"form": 1.0}

    def means(self, tally: Tally) -> dict[str, float]:
        """The share of positives, from the label's coordinate."""
        if not self.weight:
            return {}
        return {"positive": 0.5 + 0.5 * float(self.step.mean(tally, "vector")[-1]) / self.weight}

    def mean_variances(self, replies: int) -> dict[str, float]:
        if not self.weight:
            return {}
        noise = noise_of(self.vector)
        return {"positive": (noise.isotropic / self.weight**2 + max(noise.lean, 0.0)) / 4 / replies}

    @cached_property
    def noise(self) -> FormNoise:
        """The noise of the form's own coordinates."""
        whole = noise_of(self.vector)
        own = VectorNoise(
            isotropic=whole.isotropic, lean=whole.lean, dimension=self.factors.rows, radius=self.factors.radius
        )
        return FormNoise(factors=self.approximation.factors, noise=own, norm=infinity_norm(self.workload))

    def form_variance(self, replies: tuple[int, ...], histogram: Floats | None = None) -> float:
        """4 (v/n)|Ah|^2 + 2 l v^2/n^2 and the bias: both sides carry the same noise, so both terms are doubled."""
        return self._error(self.approximation.bias(histogram), self.noise.linear(histogram), replies[0])

    def seen_variance(self, tally: Tally) -> float:
        """The same, with |Ah|^2 estimated from the mean vector."""
        mean = self.step.mean(tally, "vector")[: self.factors.rows]
        energy = 2 * self.noise.energy(mean, tally.replies)
        return self._error(self.approximation.seen_bias, self.noise.linear_seen(energy), tally.replies)

    def _error(self, bias: float, linear: float, replies: int) -> float:
        return bias**2 + 2 * linear / replies + 2 * self.noise.quadratic / replies / max(1, replies - 1)


class One(OnlyRound):
    """Each user sends VRand(A 1_x)."""

    name = "one vector"

    def __init__(self, protocol: OneRoundTuned) -> None:
        self.protocol = protocol

    @property
    def inputs(self) -> int:
        return self.protocol.inputs

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return (Part(name="vector", randomizer=self.protocol.vector),)

    def functions(self, public: Broadcast, inputs: Inputs) -> dict[str, Floats]:
        return {"vector": self.protocol.encoded.columns(inputs)}

    def tally(self, public: Broadcast, replies: Columns) -> Tally:
        """Besides the sum of y_i, the sum of y_i'Dy_i."""
        sums = super().tally(public, replies)
        squares = self.protocol.vector.quadratic_total(self._own(self.parts[0], replies), self.protocol.signs)
        return Tally(sums.replies, {**sums.sums, "squares": np.array(squares, dtype=np.int64)})


Draft = TypeVar("Draft", bound=OneRoundTuned)


def _shifted(workload: Workload) -> Workload:
    """A kernel that came without a shift gets the best one."""
    if not isinstance(workload, Kernel) or workload.shift or workload.size > LARGEST_SHIFTED:
        return workload
    shift, _ = best_shift(workload.values)
    return Kernel(workload.values, shift=shift)


def _with_codebook(draft: Draft) -> Draft:
    """The fewest candidates whose variance is nearly that of the most, each with its best t."""
    tried = [
        Codebook(
            dimension=draft.encoded.rows, radius=draft.encoded.radius, epsilon=draft.epsilon, candidates=candidates
        )
        for candidates in affordable(SIZES, draft.encoded.rows + 1)
    ]
    enough = next(each for each in tried if each.variance <= WORTH * tried[-1].variance)
    return replace(draft, candidates=enough.candidates, best=enough.favoured)


def _label(workload: Workload) -> Floats:
    """+1 for a positive, -1 for a negative."""
    return 2 * workload.linear_queries()["positive"] - 1


def _no_label(weight: float) -> float:
    if weight:
        raise ValueError(f"a label of weight {weight} makes sense for the AUC alone")
    return 0.0


def _label_weight(workload: Workload, approximation: Approximation, epsilon: float, users: int) -> float:
    """The label's weight w with the least predicted error for a public guess: one positive in four, rising scores.

    The noise of every coordinate grows with C^2 + w^2, that of the label's mean shrinks with w^2.
    """
    if not isinstance(workload, AreaUnderCurve):
        return 0.0
    guess = rising_scores(workload.levels)
    radius = approximation.factors.radius
    drafts = [
        OneRoundTuned(
            workload=workload,
            epsilon=epsilon,
            users=users,
            approximation=approximation,
            candidates=2,
            best=1,
            weight=float(radius * scale),
        )
        for scale in np.geomspace(0.05, 2.0, 25)
    ]
    return min(drafts, key=lambda draft: draft.predicted_rmse(guess)).weight


def rising_scores(levels: int) -> Floats:
    """A public guess of scores and labels: one positive in four, likelier the higher the score."""
    scores = np.arange(levels)
    negative, positive = 0.75 * (levels - scores), 0.25 * (scores + 1.0)
    joint: Floats = np.stack([negative, positive], axis=1).reshape(-1) * 2 / (levels * (levels + 1))
    return joint
