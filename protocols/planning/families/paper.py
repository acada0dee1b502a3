"""The error of the paper's protocols: the terms of their proofs, with every constant."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np

from parley.emulator.protocol import QUANTILE_95, Estimate, Heard, Inputs
from parley.emulator.randomizer import Floats
from parley.protocols.factorization.factors import (
    LARGEST_DENSE,
    Approximation,
    exact,
    infinity_norm,
    reductions,
    scaled,
    useful_approximations,
)
from parley.protocols.factorization.operator import Dense, Factor
from parley.protocols.pairwise import side_share
from parley.protocols.paper.linear_queries import MatrixMechanism
from parley.protocols.paper.one_round import OneRound
from parley.protocols.paper.three_round import TOLERANCE, ThreeRound
from parley.protocols.paper.two_factors import TwoFactors
from parley.protocols.paper.two_round import TwoRound
from parley.protocols.paper.two_round_black_box import TwoRoundBlackBox
from parley.protocols.planning.families.non_interactive import NonInteractivePlanning
from parley.protocols.planning.noise import VectorNoise, noise_of
from parley.protocols.planning.planning import Planning, Sources, differences, public_guesses
from parley.protocols.projection.l1_projection import project_l1, projection_error
from parley.protocols.projection.simplex_projection import densified, shrunk_to_norm, simplex_weights
from parley.protocols.randomizers.scalars.grid_laplace import GridLaplace
from parley.protocols.workloads.workload import Workload

Factored = TypeVar("Factored", bound=TwoFactors | MatrixMechanism)
Interactive = TypeVar("Interactive", bound=TwoFactors)
# Shorter vectors are looked for when their length causes this share of the error.
WORTHWHILE = 0.1
RUNS = 6
# A predicted error needs three digits of a projection, not the analyst's six.
ROUGH = 1e-3
SIMULATED = 200
FEW = 2
SEED = 20
SIDE = "linear queries"
# How many standard errors are added to an estimated |Lh|^2: with 500 users it is hardly known.
CAUTION = 0.5
# An interval is stretched tenfold at most where clipping leaves hardly anything of the answers.
LEAST_KEPT = 0.1


def with_factors(
    kind: type[Factored], workload: Any, epsilon: float, users: int, approximation: Approximation
) -> Factored:
    """The protocol for these factors, with the codebook's best t; factors that everybody can derive do not travel."""
    factors = approximation.factors
    given = None if approximation.target is None else (factors.left.dense(), factors.right.dense())
    left, right = given or (None, None)
    draft = kind(workload=workload, epsilon=epsilon, users=users, top=1, left=left, right=right)
    return replace(draft, top=replace(draft.vrand, top=0).top)


def blurred(factor: Factor, noise: VectorNoise, histogram: Floats, replies: int) -> Floats:
    """The noise of the mean of so many randomised vectors, one simulated first round per column; the seed is fixed."""
    generator = np.random.default_rng(SEED)
    isotropic = np.sqrt(noise.isotropic) * generator.standard_normal((factor.rows, SIMULATED))
    along = np.sqrt(max(noise.radial, 0.0) * histogram)[:, None] * generator.standard_normal((factor.inputs, SIMULATED))
    return np.asarray((isotropic + factor @ along) / np.sqrt(replies))


def excess_variance(bound: float, deviation: float) -> float:
    """E max(0, X - bound)^2 for X normal with mean 0."""
    if deviation == 0:
        return 0.0
    ratio = bound / deviation
    density = math.exp(-(ratio**2) / 2) / math.sqrt(2 * math.pi)
    return deviation**2 * ((1 + ratio**2) * math.erfc(ratio / math.sqrt(2)) / 2 - ratio * density)


class OneRoundPlanning(NonInteractivePlanning[OneRound]):
    """Lemma basic-one-round-lem: alpha^2 + linear/n + quadratic/n^2.

    With y^L, y^R the mean vectors of n users and Z^L, Z^R their noise, <y^L, y^R> - <Lh, Rh> is
    <Z^L, Rh> + <Lh, Z^R>, whose variance is linear/n, and <Z^L, Z^R>, whose variance is quadratic/n^2.
    """

    @classmethod
    def design(cls, kind: type[OneRound], workload: Workload, *, epsilon: float, users: int) -> OneRound:
        """Of W's own factors, those of zeta(W, n) and their rank reductions, those with the least predicted error."""
        bases = list(useful_approximations(workload, epsilon=epsilon, users=users))
        drafts = [with_factors(kind, workload, epsilon, users, base) for base in bases]
        for base, draft in zip(bases, list(drafts), strict=True):
            shorter = reductions(workload, base, cls(draft).worthwhile_errors)
            drafts += [with_factors(kind, workload, epsilon, users, each) for each in shorter]
        best = min(drafts, key=lambda draft: cls(draft).form_variance((users,)))
        square, error = infinity_norm(workload) ** 2, cls(best).form_variance((users,))
        if error <= square or workload.size > LARGEST_DENSE:
            return best
        # Noise beyond |W|: of s W~ it is s^2 of the error, for a bias of (1 - s)|W|.
        smaller = scaled(workload, best.approximation, square / (square + error))
        return min(
            best,
            with_factors(kind, workload, epsilon, users, smaller),
            key=lambda draft: cls(draft).form_variance((users,)),
        )

    @property
    def worthwhile_errors(self) -> list[float]:
        """Theorem alg-main's alpha = gamma_2/(eps sqrt n) and smaller ones, below what shorter vectors can save."""
        users = self.protocol.users
        saved = math.sqrt(self._quadratic) / users
        if saved**2 < WORTHWHILE * self.form_variance((users,)):
            return []
        theorem = self.protocol.approximation.factors.upper / (self.protocol.epsilon * math.sqrt(users))
        return sorted(alpha for alpha in {theorem, saved / 2, saved / 4} if alpha < min(saved, self.protocol.norm))

    @cached_property
    def noise(self) -> VectorNoise:
        return noise_of(self.protocol.vrand)

    def form_variance(self, replies: tuple[int, ...], histogram: Floats | None = None) -> float:
        approximation, noise = self.protocol.approximation, self.noise
        if histogram is None:
            linear = self._linear(2 * noise.radius**2)
        else:
            L, R = approximation.factors.left, approximation.factors.right
            left, right = L.apply(histogram), R.apply(histogram)
            linear = noise.along(right, L.transpose_apply(right), histogram)
            linear += noise.along(left, R.transpose_apply(left), histogram)
        return approximation.bias(histogram) ** 2 + linear / replies[0] + self._quadratic / replies[0] ** 2

    def estimated_variance(self, heard: tuple[Heard, ...]) -> float:
        """The same, with |Lh|^2 and |Rh|^2 estimated from the mean vectors themselves."""
        (only,) = heard
        replies = only.tally.replies
        energy = sum(self.noise.squared_length(only.mean(name), replies) for name in ("y_L", "y_R"))
        bias = self.protocol.approximation.seen_bias
        return bias**2 + self._linear(energy) / replies + self._quadratic / replies**2

    def _linear(self, energy: float) -> float:
        """At most, when only |Lh|^2 + |Rh|^2 is known."""
        return self.noise.isotropic * energy + 2 * max(self.noise.radial, 0.0) * self.protocol.norm**2

    @property
    def _quadratic(self) -> float:
        """tr(Cov Cov) for columns of the largest norm; |W| bounds what the radial part adds."""
        noise = self.noise
        mixed = 2 * noise.isotropic * noise.radial * noise.radius**2
        return noise.isotropic**2 * noise.dimension + mixed + (noise.radial * self.protocol.norm) ** 2


class InteractivePlanning(Planning[Interactive]):
    """Protocols of several rounds encode W's own factors. Their form is a sum of means of scalars."""

    # What the errors are called: that of the vectors, and those of the scalars, each with its round and name.
    vectors: ClassVar[str]
    scalars: ClassVar[Mapping[str, tuple[int, str]]]

    @classmethod
    def design(cls, kind: type[Interactive], workload: Workload, *, epsilon: float, users: int) -> Interactive:
        return with_factors(kind, workload, epsilon, users, exact(workload))

    def error_sources(self, heard: tuple[Heard, ...], rmse: float) -> Sources:
        """Scalars and linear queries as their randomizers say, and the rest of the analyst's own prediction."""
        means = self.side_means(heard[0])
        said = {source: (heard[number - 1], name) for source, (number, name) in self.scalars.items()}
        form = sum(float(each.mean(name)) for each, name in said.values()) + self.protocol.workload.shift
        slopes = self.slopes(form if means else 0.0, means, self.protocol.users)
        known = {source: each.variance(name) * slopes["form"] ** 2 for source, (each, name) in said.items()}
        side = sum(slopes[name] ** 2 * each for name, each in self.side_variances(heard[0].replies).items())
        known |= {SIDE: side} if side else {}
        return {self.vectors: max(0.0, rmse**2 - sum(known.values())), **known}

    def realised_errors(self, heard: tuple[Heard, ...], inputs: Inputs) -> Sources:
        """From errors of the form to errors of the statistic, which may need linear queries as well."""
        workload, users = self.protocol.workload, self.protocol.users
        histogram = workload.histogram(inputs)
        form, true_means = self._known(histogram)
        forms = np.cumsum(self._steps(heard, histogram)) + workload.shift
        values = [workload.value(each, true_means, users) for each in forms.tolist()]
        values.append(workload.value(float(forms[-1]), self.side_means(heard[0]), users))
        sources = (self.vectors, *self.scalars)
        errors = differences(("factorisation", *sources, SIDE), [workload.value(form, true_means, users), *values])
        # An exact factorisation leaves nothing but rounding, and most statistics need no linear queries.
        return {name: error for name, error in errors.items() if name in sources or abs(error) > 1e-9}

    @abstractmethod
    def _steps(self, heard: tuple[Heard, ...], histogram: Floats) -> list[float]:
        """<Lh, Rh>, and what the noise of each source adds to it."""


class TwoRoundPlanning(InteractivePlanning[TwoRound]):
    """kappa, whose range grows with Z^L, and <Z^L, Rh>."""

    vectors = "vectors of round 1"
    scalars: ClassVar = {"scalars of round 2": (2, "inner")}

    @classmethod
    def design(cls, kind: type[TwoRound], workload: Workload, *, epsilon: float, users: int) -> TwoRound:
        return replace(super().design(kind, workload, epsilon=epsilon, users=users), cautious=True)

    @cached_property
    def left(self) -> Factor:
        """L for the analyst, who multiplies by it often."""
        return densified(self.protocol.L)

    @cached_property
    def noise(self) -> VectorNoise:
        return noise_of(self.protocol.vrand)

    def form_variance(self, replies: tuple[int, ...], histogram: Floats | None = None) -> float:
        protocol, noise = self.protocol, self.noise
        unit = GridLaplace(low=0.0, high=1.0, epsilon=protocol.part).variance
        if histogram is None:
            blur = protocol.R.radius * np.sqrt(2 * protocol.vrand.variance / replies[0] * np.log(2 * protocol.inputs))
            width = 2 * (protocol.workload.infinity_norm + abs(protocol.workload.shift)) + 2 * blur
            lost = (noise.isotropic + max(noise.radial, 0.0) * self.left.radius**2) * protocol.products.radius**2
            return float(unit * width**2 / replies[1] + lost / replies[0])
        # The squared range of R'O^L in the mean, from simulated means of the first round; the seed is fixed.
        means = (self.left @ histogram)[:, None] + blurred(self.left, noise, histogram, replies[0])
        squared_width = float(np.mean(np.ptp(protocol.products.T @ means, axis=0) ** 2))
        return unit * squared_width / replies[1] + self._first_variance(histogram, replies[0])

    def estimated_variance(self, heard: tuple[Heard, ...]) -> float:
        """The same for a histogram that explains the mean vector, as even as that vector's length says."""
        one, two = heard
        mean = two.asked["O_L"]
        explained = simplex_weights(self.left, mean[None])[:, 0]
        energy = self.noise.squared_length(mean, one.replies, CAUTION if self.protocol.cautious else 0.0)
        likely = shrunk_to_norm(self.left, explained, energy)
        lost = self._first_variance(likely, one.replies)
        if self.protocol.cautious:
            # What few replies explain is smoothed by their noise: |Lh|^2 is larger than that of the histogram found.
            lost *= max(1.0, energy / max(float(np.square(self.left @ likely).sum()), 1e-300))
        return two.variance("inner") + lost

    def _first_variance(self, histogram: Floats, replies: int) -> float:
        """The variance of <Z^L, Rh>."""
        right = self.protocol.products @ histogram
        return self.noise.along(right, self.left.T @ right, histogram) / replies

    def _steps(self, heard: tuple[Heard, ...], histogram: Floats) -> list[float]:
        """<Z^L, Rh> and kappa."""
        left, right, mean = self.left @ histogram, self.protocol.products @ histogram, heard[1].asked["O_L"]
        return [float(left @ right), float((mean - left) @ right), float(heard[1].mean("inner") - mean @ right)]


class TwoRoundBlackBoxPlanning(Planning[TwoRoundBlackBox]):
    """kappa, and the answers' error: at most the oracle's mMSE, for a histogram the error after clipping."""

    @classmethod
    def design(
        cls, kind: type[TwoRoundBlackBox], workload: Workload, *, epsilon: float, users: int
    ) -> TwoRoundBlackBox:
        half = (epsilon - epsilon * side_share(workload)) / 2
        oracle = with_factors(MatrixMechanism, workload, half, users, exact(workload))
        return kind(workload=workload, epsilon=epsilon, users=users, oracle=oracle, clipping=True)

    def form_variance(self, replies: tuple[int, ...], histogram: Floats | None = None) -> float:
        kappa = self.protocol.laplace.variance / replies[1]
        if histogram is None:
            # Clipping brings no answer farther from the truth.
            return kappa + float(self.protocol.oracle.planning.mean_squared_error(replies[0]))
        return kappa + float(np.mean(self._errors(histogram, replies[0]) ** 2))

    def estimate(self, form: float, heard: tuple[Heard, ...], variance: float | None = None) -> Estimate:
        """With an interval that holds what is left after clipping, which takes a part of every answer away.

        How large the part is hardly depends on the histogram, but the bias does: it grows with the form.
        """
        if variance is not None or not self.protocol.clipping:
            return super().estimate(form, heard, variance)
        histogram = self._explained(heard)
        found = super().estimate(form, heard, self._heard_variance(heard, histogram))
        answers, clipped = self._answers(histogram, heard[0].replies)
        kept = float(histogram @ (answers * clipped.mean(axis=1))) / max(float(histogram @ answers**2), 1e-300)
        # The estimate where the form is 0; from there on the ends are as far as clipping may have hidden.
        means = self.side_means(heard[0])
        zero = self.value(self.protocol.workload.shift, means, self.users_of(tuple(each.replies for each in heard)))
        stretch = 1 / min(1.0, max(kept, LEAST_KEPT))
        low, high = found.interval95
        ends = (min(low, zero + stretch * (low - zero)), max(high, zero + stretch * (high - zero)))
        return replace(found, interval95=ends)

    def estimated_variance(self, heard: tuple[Heard, ...]) -> float:
        """The same for a histogram that explains the answers, as even as the mean vector's length says."""
        return self._heard_variance(heard, self._explained(heard))

    def _explained(self, heard: tuple[Heard, ...]) -> Floats:
        one, two = heard
        explained = simplex_weights(Dense(self.protocol.workload.matrix()), two.asked["answers"][None])[:, 0]
        energy = self.protocol.oracle.planning.noise.squared_length(one.mean("y"), one.replies)
        return shrunk_to_norm(self._factors[1], explained, energy)

    def _heard_variance(self, heard: tuple[Heard, ...], histogram: Floats) -> float:
        """Clipping makes the estimate biased; 1.96 times the root of this is 1.96 standard deviations and the bias."""
        one, two = heard
        errors = self._errors(histogram, one.replies)
        if not self.protocol.clipping:
            return self.protocol.laplace.variance / two.replies + float(np.mean(errors**2))
        deviation = math.sqrt(two.variance("own") + float(errors.var()))
        return (deviation + abs(float(errors.mean())) / QUANTILE_95) ** 2

    def _errors(self, histogram: Floats, replies: int) -> Floats:
        """h'z^ - h'Wh for simulated first rounds."""
        return np.asarray(histogram @ self._answers(histogram, replies)[1] - self.protocol.workload.form(histogram))

    def _answers(self, histogram: Floats, replies: int) -> tuple[Floats, Floats]:
        """Wh, and z^ for simulated first rounds."""
        left, right = self._factors
        blur = blurred(right, self.protocol.oracle.planning.noise, histogram, replies)
        answers = self.protocol.workload.apply(histogram)
        return answers, np.clip(answers[:, None] + left.T @ blur, -self.protocol.norm, self.protocol.norm)

    @cached_property
    def _factors(self) -> tuple[Factor, Factor]:
        factors = self.protocol.oracle.approximation.factors
        return densified(factors.left), densified(factors.right)


class ThreeRoundPlanning(InteractivePlanning[ThreeRound]):
    """Theorem alg-interactive-app: kappa, z, and what Z makes of mean clip_tau(<Y, R 1_x - mu>).

    Without clipping the last is <Z, Rh - mu>. Clipping takes away from it where Z is large, and adds a bias.
    """

    vectors = "vectors of rounds 1 and 2"
    scalars: ClassVar = {"scalars of round 2": (2, "a"), "scalars of round 3": (3, "v")}

    @classmethod
    def design(cls, kind: type[ThreeRound], workload: Workload, *, epsilon: float, users: int) -> ThreeRound:
        return replace(super().design(kind, workload, epsilon=epsilon, users=users), clipping=True)

    def form_variance(self, replies: tuple[int, ...], histogram: Floats | None = None) -> float:
        lost = self._worst_loss(replies) if histogram is None else self._loss(histogram, replies)
        return self._variance(replies, lost)

    def estimated_variance(self, heard: tuple[Heard, ...]) -> float:
        """Next to kappa and z the loss is small, and users wait for the analyst: that of a public guess will do."""
        replies = tuple(each.replies for each in heard)
        if not self.protocol.clipping:
            return self._variance(replies, self._unclipped_loss(replies))
        usual = self._guessed_loss * self._worst_loss(replies) / self._worst_loss(self.planned_replies)
        return self._variance(replies, usual)

    def _variance(self, replies: tuple[int, ...], lost: float) -> float:
        protocol = self.protocol
        kappa = protocol.laplace(protocol.norm).variance / replies[1]
        return kappa + protocol.laplace(protocol.tau).variance / replies[2] + lost

    def _worst_loss(self, replies: tuple[int, ...]) -> float:
        """Theorem proj's bound on E|Rh - mu|^2 times the variance of Z, and the error of clipping (Lemma clip-err).

        <Y, R 1_x - mu> is a number of size 2|W| at most plus normal noise, and clipping cuts off what lies beyond
        tau. Whatever the noise is, a clipped number lies within tau + 2|W| of what it stands for.
        """
        protocol = self.protocol
        variances = [protocol.vrand.variance / each for each in replies]
        noise = math.sqrt(variances[1] * projection_error(protocol.R, variances[0]))
        beyond = excess_variance(protocol.tau - 2 * protocol.norm, 2 * protocol.R.radius * math.sqrt(variances[1]))
        return min(noise + math.sqrt(2 * beyond), protocol.tau + 2 * protocol.norm) ** 2

    def _unclipped_loss(self, replies: tuple[int, ...]) -> float:
        """The variance of <Z, Rh - mu> for a public guess, which older records took for the whole loss."""
        R, variance = densified(self.protocol.R), self.protocol.vrand.variance
        centre = R @ public_guesses(self.protocol.workload)[0]
        noise = np.random.default_rng(SEED).standard_normal((FEW, self.protocol.d))
        scale = np.sqrt(variance / self.protocol.users)
        points = [project_l1(R, centre + each, tolerance=TOLERANCE).point for each in scale * noise]
        guessed = float(np.mean([np.sum((point - centre) ** 2) for point in points]))
        bounds = [projection_error(self.protocol.R, variance / users) for users in (replies[0], self.protocol.users)]
        return variance / replies[1] * (guessed * bounds[0] / bounds[1])

    @cached_property
    def _guessed_loss(self) -> float:
        # It is in the answer, which is recomputed to the last bit.
        guess = public_guesses(self.protocol.workload)[0]
        return self._loss(guess, self.planned_replies, runs=FEW, tolerance=TOLERANCE)

    def _loss(self, histogram: Floats, replies: tuple[int, ...], runs: int = RUNS, tolerance: float = ROUGH) -> float:
        """The same for this histogram, by a few projections of simulated means and many Y; the seed is fixed."""
        protocol, generator = self.protocol, np.random.default_rng(SEED)
        L, R = densified(protocol.L), densified(protocol.R)
        left, right = L @ histogram, R @ histogram
        scales = [math.sqrt(protocol.vrand.variance / each) for each in replies]
        squares = []
        for each in scales[0] * generator.standard_normal((runs, protocol.d)):
            mu = project_l1(R, right + each, tolerance=tolerance).point
            Y = left[:, None] + scales[1] * generator.standard_normal((protocol.d, SIMULATED))
            clipped = np.clip(R.T @ Y - mu @ Y, -protocol.tau, protocol.tau)
            squares.append(np.mean((histogram @ clipped - left @ (right - mu)) ** 2))
        return float(np.mean(squares))

    def _steps(self, heard: tuple[Heard, ...], histogram: Floats) -> list[float]:
        """<Z, Rh - mu>, kappa and z of Theorem alg-interactive-app."""
        left, right = self.protocol.L @ histogram, self.protocol.R @ histogram
        mu, Y = heard[2].asked["mu"], heard[2].asked["Y"]
        kappa, z = heard[1].mean("a") - left @ mu, heard[2].mean("v") - Y @ (right - mu)
        return [float(left @ right), float((Y - left) @ (right - mu)), float(kappa), float(z)]
