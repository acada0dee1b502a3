"""How the tuned protocols' parameters are chosen, and how far off their estimates will be.

Of protocols that split users, the projection's error E|Ah - mu|^2 and the range of g, which grows with the noise of Y,
are hard to know. Both are public functions of (A, eps, n, h), so they are simulated, with the analyst's own steps on
simulated means: means of many randomised vectors are normal with a known covariance. The generator's seed is fixed, so
a prediction is a number, the same for everybody.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np

from parley.emulator.protocol import Estimate, Heard, Inputs
from parley.emulator.randomizer import Floats
from parley.protocols.factorization.factors import (
    Approximation,
    exact,
    infinity_norm,
    one_factor_fields,
    single,
    useful_approximations,
)
from parley.protocols.factorization.shift import with_best_shift
from parley.protocols.factorization.truncation import truncated
from parley.protocols.limits import affordable
from parley.protocols.planning.families.non_interactive import NonInteractivePlanning
from parley.protocols.planning.noise import FormNoise, encoding_noise, noise_of
from parley.protocols.planning.planning import BALANCED, Planning, Sources, differences, public_guesses, rising_scores
from parley.protocols.projection.l1_projection import projection_error
from parley.protocols.randomizers.exact import exact_range
from parley.protocols.randomizers.vectors.codebook import Codebook
from parley.protocols.tuned.crossfit import Fit, crossfit
from parley.protocols.tuned.encoding import ByVector
from parley.protocols.tuned.one_round_tuned import OneRoundTuned
from parley.protocols.tuned.ratio_form import Guess
from parley.protocols.tuned.split_users import ENCODINGS, SplitUsers
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.workload import Workload

# Twice the candidates are twice the users' work; they are worth it where they lower the variance by so much.
SIZES = (4, 8, 16, 32, 64)
WORTH = 1.03
# What is tried for the share of the users that send vectors; the rest send scalars.
VECTOR_SHARES = (0.06, 0.1, 0.16, 0.25, 0.4, 0.6, 0.8)
FOLDS = 4
LARGEST_CATEGORIES = 1024
RUNS = 24
# Simulated runs behind the choice of shares: the same noise for each, so that few suffice to compare them.
SKETCHES = 8
# With more inputs than this a run costs more and says more, so fewer are made.
THRIFTY = 256
SEED = 20
# mu_j is made of the other folds' noise, so the folds' shares of the residual are alike: were the projection linear,
# the variance of their sum would be twice that of independent shares. Measured over 600 to 1500 runs each, on five
# workloads, three epsilons and three numbers of users, the factor is 1.55 to 2.05 for the encoding that is chosen.
ALIKE = 1.85
# Beyond chance: then it is the error of a ratio's denominator that matters, and the runs' own squares are taken.
UNLIKELY = 4.0
SAMPLING = "sampling of the last users"


def smallest_codebook(base: Codebook, sizes: Sequence[int] = SIZES) -> Codebook:
    """The fewest candidates whose variance is nearly the least, each size with its best t."""
    tried = [replace(base, candidates=size, top=0) for size in affordable(sizes, base.ambient)]
    least = min(each.variance for each in tried)
    return next(each for each in tried if each.variance <= WORTH * least)


class OneRoundTunedPlanning(NonInteractivePlanning[OneRoundTuned]):
    """4 (v/n)|Ah|^2 + 2 l v^2/n^2 and the bias: both sides carry the same noise, so both terms are doubled."""

    @classmethod
    def design(cls, kind: type[OneRoundTuned], workload: Workload, *, epsilon: float, users: int) -> OneRoundTuned:
        """The factors, the label's weight and the codebook with the least predicted error, all from public numbers."""
        workload = with_best_shift(workload)
        drafts = []
        for each in useful_approximations(workload, epsilon=epsilon, users=users):
            whole = cls._with(kind, workload, epsilon, users, single(each))
            unit = noise_of(whole.vrand).isotropic / whole.vrand.radius**2
            shorter = truncated(workload, whole.approximation, unit, users)
            drafts += [whole, *(cls._with(kind, workload, epsilon, users, one) for one in shorter)]
        return min(drafts, key=lambda draft: draft.predicted_rmse())

    @classmethod
    def _with(
        cls, kind: type[OneRoundTuned], workload: Workload, epsilon: float, users: int, approximation: Approximation
    ) -> OneRoundTuned:
        """The protocol for these factors, with the label's weight and the codebook that suit them.

        The noise of every coordinate grows with C^2 + w^2, that of the label's mean shrinks with w^2.
        """
        draft = kind(
            workload=workload,
            epsilon=epsilon,
            users=users,
            candidates=2,
            top=1,
            weight=0.0,
            **one_factor_fields(approximation),
        )
        if isinstance(workload, AreaUnderCurve):
            guess, radius = rising_scores(workload.levels), approximation.factors.radius
            drafts = [replace(draft, weight=float(radius * scale)) for scale in np.geomspace(0.05, 2.0, 25)]
            draft = min(drafts, key=lambda each: each.predicted_rmse(guess))
        found = smallest_codebook(draft.vrand)
        return replace(draft, candidates=found.candidates, top=found.top)

    def value(self, form: float, means: Mapping[str, float], replies: int) -> float:
        """Pairs of different users are the statistic itself, but for the AUC."""
        return super().value(form, means, replies) if self.protocol.weight else form

    def slopes(self, form: float, means: Mapping[str, float], replies: int) -> Mapping[str, float]:
        return super().slopes(form, means, replies) if self.protocol.weight else {"form": 1.0}

    def side_means(self, first: Heard) -> dict[str, float]:
        """The share of positives, from the label's coordinate."""
        if not self.protocol.weight:
            return {}
        return {"positive": 0.5 + 0.5 * float(first.mean("vector")[-1]) / self.protocol.weight}

    def side_variances(self, replies: int) -> dict[str, float]:
        if not self.protocol.weight:
            return {}
        noise = noise_of(self.protocol.vrand)
        return {"positive": (noise.isotropic / self.protocol.weight**2 + max(noise.radial, 0.0)) / 4 / replies}

    @cached_property
    def noise(self) -> FormNoise:
        """The noise of the form's own coordinates."""
        protocol = self.protocol
        own = replace(noise_of(protocol.vrand), dimension=protocol.factors.rows, radius=protocol.factors.radius)
        return FormNoise(factors=protocol.approximation.factors, noise=own, norm=infinity_norm(protocol.workload))

    def form_variance(self, replies: tuple[int, ...], histogram: Floats | None = None) -> float:
        return self._error(self.protocol.approximation.bias(histogram), self.noise.linear(histogram), replies[0])

    def estimated_variance(self, heard: tuple[Heard, ...]) -> float:
        """The same, with |Ah|^2 estimated from the mean vector."""
        (only,) = heard
        replies = only.tally.replies
        energy = 2 * self.noise.energy(only.mean("vector")[: self.protocol.factors.rows], replies)
        return self._error(self.protocol.approximation.seen_bias, self.noise.linear_seen(energy), replies)

    def _error(self, bias: float, linear: float, replies: int) -> float:
        return bias**2 + 2 * linear / replies + 2 * self.noise.quadratic / replies / max(1, replies - 1)


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The two parts of the MSE: scalars with the sampling of their users, and the residual B(Y - Ah, Ah - mu)."""

    scalars: float
    residual_variance: float

    @property
    def total(self) -> float:
        return self.scalars + self.residual_variance


class SplitUsersPlanning(Planning[SplitUsers]):
    """Scalar noise and sampling, and B(Y - Ah, Ah - mu)."""

    @classmethod
    def design(
        cls,
        kind: type[SplitUsers],
        workload: Workload,
        *,
        epsilon: float,
        users: int,
        histogram: Floats | None = None,
    ) -> SplitUsers:
        """The encoding and the shares with the smallest predicted error for a public guess of the histogram."""
        workload = with_best_shift(workload)
        draft = kind(
            workload=workload,
            epsilon=epsilon,
            users=users,
            candidates=2,
            top=1,
            folds=FOLDS,
            shares=_shares(kind, 0.5),
            **one_factor_fields(single(exact(workload))),
        )
        encoding = draft.encodings[0]
        assert isinstance(encoding, ByVector)
        found = smallest_codebook(encoding.randomizer)
        guesses = [histogram] if histogram is not None else public_guesses(workload)
        kinds = ENCODINGS if workload.size <= LARGEST_CATEGORIES else (ByVector.kind,)
        drafts = [replace(draft, candidates=found.candidates, top=found.top, encoding=each) for each in kinds]
        return min((cls._best_share(each, guesses) for each in drafts), key=lambda tried: tried[0])[1]

    @classmethod
    def _best_share(cls, draft: SplitUsers, guesses: list[Floats]) -> tuple[float, SplitUsers]:
        """The share of vectors with the smallest sketched error: downhill from the middle, as there is one valley."""

        @cache
        def sketched(place: int) -> tuple[float, SplitUsers]:
            tried = replace(draft, shares=_shares(type(draft), VECTOR_SHARES[place]))
            planning = cls(tried)
            errors = [planning.simulated(guess, planning.planned_replies, SKETCHES).total for guess in guesses]
            return max(errors), tried

        place = len(VECTOR_SHARES) // 2
        while True:
            near = [each for each in (place - 1, place, place + 1) if 0 <= each < len(VECTOR_SHARES)]
            best = min(near, key=lambda each: sketched(each)[0])
            if best == place:
                return sketched(place)
            place = best

    @property
    def planned_replies(self) -> tuple[int, ...]:
        protocol = self.protocol
        if protocol.split == "budget":
            return super().planned_replies
        return tuple(max(1, round(share * protocol.users)) for share in protocol.shares)

    def predicted_rmse(self, histogram: Floats | None = None) -> float:
        return float(self.form_variance(self.planned_replies, histogram) ** 0.5)

    def form_variance(self, replies: tuple[int, ...], histogram: Floats | None = None) -> float:
        """Predicted MSE of the statistic."""
        return self._bound(replies) if histogram is None else self.simulated(histogram, replies).total

    def estimate(self, form: float, heard: tuple[Heard, ...], variance: float | None = None) -> Estimate:
        """The statistic from the form, by the ratio that was guessed before the scalars."""
        guess = _guess(heard[-1])
        spread = self.estimated_variance(heard) if variance is None else variance
        spread = spread + self.dropout_variance(tuple(each.replies for each in heard))
        value = self.protocol.ratio_form.value(form, guess)
        return Estimate.normal(value, spread**0.5, {"form": form, "ratio": guess.ratio})

    def estimated_variance(self, heard: tuple[Heard, ...]) -> float:
        """Scalars as they were heard; the residual is that of a public guess, because it hardly depends on the data."""
        vectors = sum(each.replies for each in heard[:-1])
        planned = sum(self.planned_replies[:-1])
        slope = 1 / _guess(heard[-1]).denominator
        return self._scalar_variance(heard[-1]) + self._usual_residual * slope**2 * (planned / vectors) ** 2

    def _scalar_variance(self, last: Heard) -> float:
        """The variance of the statistic by scalars and the sampling of their users."""
        protocol, replies, sampling = self.protocol, last.replies, float(last.asked["anchor"][3])
        randomizer, mean = last.sends["scalar"].randomizer, float(last.mean("scalar"))
        noise = randomizer.variance - (mean - randomizer.offset) ** 2 if protocol.one_bit else randomizer.variance
        noise = max(noise, 0.0)
        # The one-bit randomizer's total variance already holds the sampling; Laplace's does not.
        drawn = -replies / protocol.users if protocol.one_bit else 1 - replies / protocol.users
        slope = 1 / _guess(last).denominator
        return max(noise + sampling * drawn, 0.5 * noise) / replies * slope**2

    @cached_property
    def _usual_residual(self) -> float:
        guess = public_guesses(self.protocol.workload)[0]
        return self.simulated(guess, self.planned_replies).residual_variance

    def simulated(self, histogram: Floats, replies: Sequence[int], runs: int = RUNS) -> Prediction:
        """The MSE of the statistic for users with this histogram, so many of whom reply in each round."""
        protocol = self.protocol
        each = protocol.folds // protocol.vector_rounds
        sizes = np.repeat(np.asarray(replies[:-1], dtype=np.float64) / each, each)
        sampled = np.maximum(0.0, 1 - sizes / protocol.users)
        noises = [encoding_noise(protocol.encodings[index // each]) for index in range(len(sizes))]
        draws = [noise.simulator(histogram, *of) for noise, *of in zip(noises, sizes, sampled, strict=True)]
        generator = np.random.default_rng(SEED)
        runs = max(2, runs * noises[0].patience * THRIFTY // max(THRIFTY, protocol.inputs))
        means = np.stack([np.stack([draw(generator) for draw in draws]) for _ in range(runs)])
        fits = crossfit(protocol.encodings[0], means, sizes)
        scalars, squared = np.mean([self._errors(found, histogram, replies[-1]) for found in fits], axis=0)

        centre, shares = protocol.ratio_form.operator @ histogram, sizes / sizes.sum()

        def alone(found: Fit) -> float:
            """The residual's variance if the folds were independent: exact given mu_j, so few runs pin it down."""
            signs = protocol.ratio_form.signs(found.guess)
            terms = [
                share**2 * noise.along(signs * (point - centre), histogram, varied) / size
                for share, noise, point, varied, size in zip(shares, noises, found.points, sampled, sizes, strict=True)
            ]
            return float(sum(terms) / found.guess.denominator**2 + np.finfo(float).tiny)

        independent = float(np.mean([alone(found) for found in fits]))
        unlike = float(squared) / independent > UNLIKELY
        return Prediction(scalars=float(scalars), residual_variance=float(squared) if unlike else independent * ALIKE)

    def _errors(self, found: Fit, histogram: Floats, replies: int) -> tuple[float, float]:
        """MSE by scalars and squared residual of one simulated run."""
        protocol, guess = self.protocol, found.guess
        values = protocol.products(found.direction, guess.ratio)
        mean = float(histogram @ values)
        spread = float(histogram @ (values - mean) ** 2)
        low, high = exact_range(values)
        noise = protocol.scalar(0.0, 1.0).variance * (high - low) ** 2
        if protocol.one_bit:
            noise -= float(histogram @ (values - (low + high) / 2) ** 2)
        drawn = max(0.0, 1 - replies / protocol.users)
        value = protocol.ratio_form.value(protocol.complete(mean - found.pivot), guess)
        error = value - protocol.ratio_form.truth(histogram)
        return (noise + spread * drawn) / replies / guess.denominator**2, error**2

    def _bound(self, replies: Sequence[int]) -> float:
        """An MSE that no histogram exceeds by much: the widest g there is with its noise, and Theorem proj's error."""
        protocol, factor = self.protocol, self.protocol.ratio_form.factor
        # AUC: S_m (x) S_2 lies in [-1, 1], and the label adds r in [-1/2, 1/2].
        low, high = (-1.5, 1.5) if protocol.ratio_form.is_ratio else protocol.workload.bounds
        vectors = max(1, sum(replies[:-1]))
        variance = max(encoding_noise(encoding).variance for encoding in protocol.encodings)
        blur = factor.radius * math.sqrt(2 * variance / vectors * math.log(2 * factor.inputs))
        width = 2 * (high - low) + 2 * blur
        scalars = (protocol.scalar(0.0, 1.0).variance + 0.25) * width**2 / replies[-1]
        lost = 2 * projection_error(factor, variance / vectors * protocol.folds / (protocol.folds - 1))
        slope = 1 / (4 * BALANCED * (1 - BALANCED)) if protocol.ratio_form.is_ratio else 1.0
        return (scalars + 2 * variance / vectors * lost) * slope**2

    def error_sources(self, heard: tuple[Heard, ...], rmse: float) -> Sources:
        last = heard[-1]
        scalars, slope = self._scalar_variance(last), 1 / _guess(last).denominator
        spread = float(last.asked["anchor"][3]) * slope**2 / last.replies
        sampling = spread * max(0.0, 1 - last.replies / self.protocol.users)
        return {
            "vectors": max(0.0, rmse**2 - scalars),
            SAMPLING: min(sampling, scalars),
            "scalars": max(0.0, scalars - sampling),
        }

    def realised_errors(self, heard: tuple[Heard, ...], inputs: Inputs) -> Sources:
        """B(Y - Ah, Ah - mu), then who was drawn to answer last, then the noise of what they said."""
        protocol, last = self.protocol, heard[-1]
        values = last.sends["scalar"].at(inputs)
        drawn = values[protocol.rounds[-1].participates(np.arange(len(inputs)))]
        means = [values.mean(), drawn.mean() if len(drawn) else 0.0, last.mean("scalar")]
        forms = [protocol.complete(float(mean) - float(last.asked["anchor"][0])) for mean in means]
        answers = [protocol.ratio_form.value(form, _guess(last)) for form in forms]
        return differences(("vectors", SAMPLING, "scalars"), [protocol.workload.exact(inputs), *answers])


def _shares(kind: type[SplitUsers], vectors: float) -> tuple[float, ...]:
    """Shares of the rounds when the vectors have this much together."""
    rounds = len(kind.script) - 1
    return (*(vectors / rounds for _ in range(rounds)), 1 - vectors)


def _guess(last: Heard) -> Guess:
    """The ratio and its denominator, as they were broadcast."""
    _, ratio, denominator, _ = (float(number) for number in last.asked["anchor"])
    return Guess(ratio=ratio, denominator=denominator)
