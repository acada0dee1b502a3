"""The error of the paper's protocols: the terms of their proofs, with every constant."""

import math
from dataclasses import replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from parley.emulator.protocol import Heard, Inputs
from parley.emulator.randomizer import Floats
from parley.protocols.factorization.approximation import (
    Approximation,
    double,
    exact,
    reductions,
    useful_approximations,
)
from parley.protocols.paper.one_round import OneRound
from parley.protocols.paper.three_round import TOLERANCE, ThreeRound
from parley.protocols.paper.two_factors import TwoFactors
from parley.protocols.planning.noise import FormNoise, noise_of
from parley.protocols.planning.non_interactive import NonInteractivePlanning
from parley.protocols.planning.planning import Planning, Sources
from parley.protocols.planning.prediction import public_guesses
from parley.protocols.projection.l1_projection import project_l1, projection_error
from parley.protocols.projection.simplex_projection import quick
from parley.protocols.workloads.workload import Workload

Factored = TypeVar("Factored", bound=TwoFactors)
# Shorter vectors are looked for when their length causes this share of the error.
WORTHWHILE = 0.1
RUNS = 6
FEW = 2
SEED = 20


def with_factors(
    kind: type[Factored], workload: Workload, epsilon: float, users: int, approximation: Approximation
) -> Factored:
    """The protocol for these factors, with the codebook's best t; factors that everybody can derive do not travel."""
    travels = approximation.target is not None
    factors = double(approximation).factors
    draft = kind(
        workload=workload,
        epsilon=epsilon,
        users=users,
        best=1,
        left=factors.left.dense() if travels else None,
        right=factors.right.dense() if travels else None,
    )
    return replace(draft, best=replace(draft.vrand, best=None).favoured)


class OneRoundPlanning(NonInteractivePlanning[OneRound]):
    """Lemma basic-one-round-lem: alpha^2 + linear/n + quadratic/n^2."""

    @classmethod
    def design(cls, kind: type[OneRound], workload: Workload, *, epsilon: float, users: int) -> OneRound:
        """Of W's own factors, those of zeta(W, n) and their rank reductions, those with the least predicted error."""
        bases = list(useful_approximations(workload, epsilon=epsilon, users=users))
        drafts = [with_factors(kind, workload, epsilon, users, base) for base in bases]
        for base, draft in zip(bases, list(drafts), strict=True):
            shorter = reductions(workload, base, cls(draft).worthwhile_errors)
            drafts += [with_factors(kind, workload, epsilon, users, each) for each in shorter]
        return min(drafts, key=lambda draft: cls(draft).form_variance((users,)))

    @property
    def worthwhile_errors(self) -> list[float]:
        """Theorem alg-main's alpha = gamma_2/(eps sqrt n) and smaller ones, below what shorter vectors can save."""
        users = self.protocol.users
        saved = math.sqrt(self.noise.quadratic) / users
        if saved**2 < WORTHWHILE * self.form_variance((users,)):
            return []
        theorem = self.protocol.approximation.factors.upper / (self.protocol.epsilon * math.sqrt(users))
        return sorted(alpha for alpha in {theorem, saved / 2, saved / 4} if alpha < min(saved, self.noise.norm))

    @cached_property
    def noise(self) -> FormNoise:
        protocol = self.protocol
        return FormNoise(factors=protocol.approximation.factors, noise=noise_of(protocol.vrand), norm=protocol.norm)

    def form_variance(self, replies: tuple[int, ...], histogram: Floats | None = None) -> float:
        bias = self.protocol.approximation.bias(histogram)
        return bias**2 + self.noise.linear(histogram) / replies[0] + self.noise.quadratic / replies[0] ** 2

    def estimated_variance(self, heard: tuple[Heard, ...]) -> float:
        """The same, with |Lh|^2 and |Rh|^2 estimated from the mean vectors themselves."""
        (only,) = heard
        replies = only.tally.replies
        energy = sum(self.noise.energy(only.mean(name), replies) for name in ("y_L", "y_R"))
        bias = self.protocol.approximation.seen_bias
        return bias**2 + self.noise.linear_seen(energy) / replies + self.noise.quadratic / replies**2


class ThreeRoundPlanning(Planning[ThreeRound]):
    """Theorem alg-interactive-app: kappa, z, and <Z, Rh - mu>."""

    @classmethod
    def design(cls, kind: type[ThreeRound], workload: Workload, *, epsilon: float, users: int) -> ThreeRound:
        return with_factors(kind, workload, epsilon, users, exact(workload))

    def form_variance(self, replies: tuple[int, ...], histogram: Floats | None = None) -> float:
        lost = self._worst_loss(replies[0]) if histogram is None else self._loss(histogram, replies[0])
        return self._variance(replies, lost)

    def estimated_variance(self, heard: tuple[Heard, ...]) -> float:
        """Next to kappa and z the loss is small, and users wait for the analyst: that of a public guess will do."""
        replies = tuple(each.replies for each in heard)
        usual = self._guessed_loss * self._worst_loss(replies[0]) / self._worst_loss(self.protocol.users)
        return self._variance(replies, usual)

    def _variance(self, replies: tuple[int, ...], lost: float) -> float:
        protocol = self.protocol
        return (
            protocol.laplace(protocol.norm).variance / replies[1]
            + protocol.laplace(protocol.tau).variance / replies[2]
            + protocol.vrand.variance / replies[1] * lost
        )

    def _worst_loss(self, replies: int) -> float:
        """Theorem proj's bound on E|Rh - mu|^2."""
        return projection_error(self.protocol.R, self.protocol.vrand.variance / replies)

    @cached_property
    def _guessed_loss(self) -> float:
        return self._loss(public_guesses(self.protocol.workload)[0], self.protocol.users, runs=FEW)

    def _loss(self, histogram: Floats, replies: int, runs: int = RUNS) -> float:
        """E|Rh - mu|^2 for this histogram, by a few projections of simulated means; the seed is fixed."""
        R = quick(self.protocol.R)
        generator, centre = np.random.default_rng(SEED), R @ histogram
        noise = np.sqrt(self.protocol.vrand.variance / replies) * generator.standard_normal((runs, self.protocol.d))
        points = [project_l1(R, centre + each, tolerance=TOLERANCE).point for each in noise]
        return float(np.mean([np.sum((point - centre) ** 2) for point in points]))

    def form_of(self, heard: tuple[Heard, ...]) -> float:
        return float(heard[1].mean("a") + heard[2].mean("v"))

    def error_sources(self, heard: tuple[Heard, ...], rmse: float) -> Sources:
        scalars = {
            "scalars of round 2": heard[1].variance("a"),
            "scalars of round 3": heard[2].variance("v"),
        }
        return self._with_rest(heard, rmse, scalars, "vectors of rounds 1 and 2")

    def realised_errors(self, heard: tuple[Heard, ...], inputs: Inputs) -> Sources:
        """<Z, Rh - mu>, kappa and z of Theorem alg-interactive-app."""
        histogram = self.protocol.workload.histogram(inputs)
        left, right = self.protocol.L @ histogram, self.protocol.R @ histogram
        mu, Y = heard[2].asked["mu"], heard[2].asked["Y"]
        steps = {
            "vectors of rounds 1 and 2": float((Y - left) @ (right - mu)),
            "scalars of round 2": float(heard[1].mean("a") - left @ mu),
            "scalars of round 3": float(heard[2].mean("v") - Y @ (right - mu)),
        }
        return self._of_forms(heard, histogram, float(left @ right), steps)
