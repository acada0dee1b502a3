"""Lemma basic-one-round-lem, verbatim, with Theorem alg-main's choice of factors: two vectors at eps/2 each.

Each user i sends y^L_i = VRand_{eps/2}(L 1_{x_i}) and y^R_i = VRand_{eps/2}(R 1_{x_i}); the analyst outputs
<mean y^L, mean y^R>. The pairs i = i are left in: both vectors have their own noise, so they add no bias.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

from parley.emulator.protocol import Broadcast, Inputs, Tally
from parley.emulator.randomizer import Floats
from parley.protocols.factorization.approximation import (
    Approximation,
    approximation_parameters,
    double,
    read_approximation,
    reductions,
    useful_approximations,
)
from parley.protocols.factorization.factors import infinity_norm
from parley.protocols.non_interactive import NonInteractive, OnlyRound
from parley.protocols.pairwise import common
from parley.protocols.parameters import count
from parley.protocols.planning.noise import FormNoise, noise_of
from parley.protocols.randomizers.vectors.codebook import Codebook
from parley.protocols.rounds import Part
from parley.protocols.workloads.workload import Workload

CANDIDATES = 16
# Shorter vectors are looked for when their length causes this share of the error.
WORTHWHILE = 0.1


@dataclass(frozen=True, kw_only=True)
class OneRound(NonInteractive):
    """The paper's non-interactive algorithm.

    Formal guarantee: eps-LDP. What the form may spend is halved between two vectors from a codebook; what the
    statistic needs besides (n+ of the AUC, a diagonal that is not constant) is one bit with its own share.
    """

    name: ClassVar[str] = "one-round"
    summary: ClassVar[str] = "Lemma basic-one-round-lem: VRand(L 1_x) and VRand(R 1_x), eps/2 each"

    approximation: Approximation = field(repr=False)
    best: int

    @classmethod
    def design(cls, workload: Workload, *, epsilon: float, users: int) -> Self:
        """Of W's own factors, those of zeta(W, n) and their rank reductions, those with the least predicted error."""
        bases = list(useful_approximations(workload, epsilon=epsilon, users=users))
        drafts = [cls._with(workload, epsilon, users, base) for base in bases]
        for base, draft in zip(bases, list(drafts), strict=True):
            shorter = reductions(workload, base, draft.worthwhile_errors)
            drafts += [cls._with(workload, epsilon, users, each) for each in shorter]
        return min(drafts, key=lambda draft: draft.form_variance((users,)))

    @classmethod
    def _with(cls, workload: Workload, epsilon: float, users: int, approximation: Approximation) -> Self:
        """The protocol for these factors, with the codebook's best t."""
        draft = cls(workload=workload, epsilon=epsilon, users=users, approximation=double(approximation), best=1)
        return replace(draft, best=replace(draft.vector, best=None).favoured)

    @property
    def worthwhile_errors(self) -> list[float]:
        """Theorem alg-main's alpha = gamma_2/(eps sqrt n) and smaller ones, below what shorter vectors can save."""
        saved = math.sqrt(self.noise.quadratic) / self.users
        if saved**2 < WORTHWHILE * self.form_variance((self.users,)):
            return []
        theorem = self.approximation.factors.upper / (self.epsilon * math.sqrt(self.users))
        return sorted(alpha for alpha in {theorem, saved / 2, saved / 4} if alpha < min(saved, self.noise.norm))

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        fields = common(parameters, "best", optional=("left", "right"))
        approximation = read_approximation(fields["workload"], parameters)
        return cls(**fields, approximation=approximation, best=count(parameters, "best", 1, CANDIDATES // 2))

    def parameters(self) -> Mapping[str, Any]:
        shared = super().parameters()
        return {**shared, "best": self.best, **approximation_parameters(self.approximation)}

    @property
    def part(self) -> float:
        """The paper's bar-epsilon: half of what the form may spend."""
        return (self.epsilon - self.side.epsilon) / 2

    @cached_property
    def vector(self) -> Codebook:
        """VRand_{eps/2, C}."""
        factors = self.approximation.factors
        return Codebook(
            dimension=factors.rows, radius=factors.radius, epsilon=self.part, candidates=CANDIDATES, best=self.best
        )

    @cached_property
    def step(self) -> "Both":
        return Both(self)

    def form(self, tally: Tally) -> float:
        """<mean y^L, mean y^R>."""
        return float(self.step.mean(tally, "left") @ self.step.mean(tally, "right"))

    @cached_property
    def noise(self) -> FormNoise:
        return FormNoise(
            factors=self.approximation.factors, noise=noise_of(self.vector), norm=infinity_norm(self.workload)
        )

    def form_variance(self, replies: tuple[int, ...], histogram: Floats | None = None) -> float:
        """alpha^2 + linear/n + quadratic/n^2: the lemma's three terms."""
        bias = self.approximation.bias(histogram)
        return bias**2 + self.noise.linear(histogram) / replies[0] + self.noise.quadratic / replies[0] ** 2

    def seen_variance(self, tally: Tally) -> float:
        """The same, with |Lh|^2 and |Rh|^2 estimated from the mean vectors themselves."""
        replies = tally.replies
        sides = (self.step.mean(tally, name) for name in ("left", "right"))
        energy = sum(self.noise.energy(mean, replies) for mean in sides)
        bias = self.approximation.seen_bias
        return bias**2 + self.noise.linear_seen(energy) / replies + self.noise.quadratic / replies**2


class Both(OnlyRound):
    """Each user sends VRand(L 1_x) and VRand(R 1_x)."""

    name = "both sides"

    def __init__(self, protocol: OneRound) -> None:
        self.protocol = protocol

    @property
    def inputs(self) -> int:
        return self.protocol.inputs

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        vector = self.protocol.vector
        return (
            Part(name="left", randomizer=vector),
            Part(name="right", randomizer=vector),
            *self.protocol.side.parts,
        )

    def functions(self, public: Broadcast, inputs: Inputs) -> dict[str, Floats]:
        factors = self.protocol.approximation.factors
        return {
            "left": factors.left.columns(inputs),
            "right": factors.right.columns(inputs),
            **self.protocol.side.functions(inputs),
        }
