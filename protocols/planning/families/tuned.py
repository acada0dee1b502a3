"""How the tuned protocols' parameters are chosen, how far off their estimates will be, and their intervals.

Everything is by formula but one thing: how far the histogram h^ that the first replies explain lies from h, which
decides the second-order part D'KD of the error, D = h^ - h. Its mean and variance are those of a few normal draws of
the scores, projected as the analyst projects. A prediction's generator has a fixed seed, so that everybody predicts the
same. An estimate's is seeded by the counts that were heard: whoever replays them draws the same, and the error of few
draws is another one in each run, noise instead of a bias.

    MSE = a^2 V1/n1 + (1-a)^2 V2/n2 + (a - f)^2 G + v - 2 a c      f = n1/n,  G = Var_h(g) (1/n1 + 1/n2)
    a   = (V2/n2 + f G) / (V1/n1 + V2/n2 + G)                       the weight of t1, chosen as if c were 0

v is the variance of D'KD and c its covariance with <h~ - h, g> in two rounds, where both come from the same surprises.
"""

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Generic, TypeVar

import numpy as np

from parley.emulator.protocol import QUANTILE_95, Estimate, Heard, Inputs
from parley.emulator.randomizer import Floats, Integers
from parley.emulator.round import BLOCK_USERS
from parley.protocols.factorization.shift import with_best_shift
from parley.protocols.planning.families.first_channels import codebooks, tabled
from parley.protocols.planning.planning import BALANCED, Planning, Sources, differences, public_guesses
from parley.protocols.planning.sketches import explained, sketched_variances
from parley.protocols.tuned.codebook_round import CodebookRound, FirstRead
from parley.protocols.tuned.decoder import FEW_STEPS
from parley.protocols.tuned.objective import Point
from parley.protocols.tuned.one_round_tuned import OneRoundTuned
from parley.protocols.tuned.scalar_question import ScalarQuestion, scalar_question
from parley.protocols.tuned.two_round_tuned import TwoRoundTuned
from parley.protocols.workloads.workload import Workload, count_inputs

Tuned = TypeVar("Tuned", bound=CodebookRound)
SHARES = (0.03, 0.06, 0.1, 0.16, 0.25, 0.4, 0.6)
# Predicted errors within this ratio are equal for all anybody knows.
NEARLY = 1.01
FOLDS = {OneRoundTuned: 8, TwoRoundTuned: 4}
# With more folds t1 takes more of its products from different users. The counts of a table are few, whatever the folds.
TABLE_FOLDS = 16
# Draws that compare drafts with each other, that correct an estimate and make its interval, and that predict an error.
# A variance from m draws is off by sqrt(2/m), and is up to a quarter of the MSE: 24 draws make an RMSE 4% wrong, twice
# that is common; 128 make it 1.5% wrong.
SKETCHES = 24
DRAWS = 64
PREDICTING = 128
SEED = 20
# What is left of the second-order bias once it is corrected by its estimate.
LEFT = 0.2
# The AUC is worth little when one label is rarer than this (the paper's balancedness assumption).
RARE = 0.05
VERTICES = 32
# Values of a ratio that are weighed against each other.
VALUES = 201
# The standard deviation of a truth that lies anywhere in a range is the range over this.
ROOT_12 = math.sqrt(12)
SAMPLING = "sampling of the last users"


@lru_cache(maxsize=3)
def normal_draws(rows: int, draws: int) -> Floats:
    """The same for everybody."""
    return np.random.default_rng(SEED).standard_normal((rows, draws))


def draws_of(counts: Integers, draws: int) -> Floats:
    """Normal draws that follow from the counts, and from nothing else."""
    digest = hashlib.sha256(counts.astype("<i8").tobytes()).digest()
    generator = np.random.default_rng(np.frombuffer(digest, dtype="<u4"))
    return generator.standard_normal((counts.size, draws))


@dataclass(frozen=True, kw_only=True)
class SecondOrder:
    """Mean and variance of D'KD, and what the gradient at h^, which is not that at h, makes of the other errors.

    `noise` is the mean of V1 over gradients at h^, and `imagined` what an analyst with such an h^ takes it for
    (0 where nobody asks).
    `wider` is how much larger their squared range is: V2 grows with it.
    """

    bias: float
    variance: float
    covariance: float
    noise: float
    imagined: float
    wider: float
    draws: int

    @property
    def error(self) -> float:
        """What it adds to the MSE of an estimate whose bias was corrected."""
        return self.variance + (LEFT * self.bias) ** 2

    def shared(self, weight: float) -> float:
        """What it adds that the linear part of t1, with a small weight, has the same causes; few draws do not show it.

        With a weight of 1 the folds make up for it: there pairs of them are uncorrelated.
        """
        return max(0.0, -2 * weight * self.covariance) if self.draws >= DRAWS else 0.0

    def calibrated(self, noise: float) -> float:
        """V1 as it is at h, from V1 at h^: as much is lost from h to h^ as from h^ to the h^ of its own replies."""
        return max(noise, self.noise) * (max(1.0, noise / self.imagined) if self.imagined > 0 else 1.0)


@dataclass(frozen=True, kw_only=True)
class Weighing:
    """Two estimates of one number: their variances over users' noise, and what splitting users costs."""

    first: float
    second: float
    split: float
    share: float

    @property
    def weight(self) -> float:
        """a: what the first estimate counts."""
        whole = self.first + self.second + self.split
        return (self.second + self.share * self.split) / whole if whole > 0 else self.share

    @property
    def parts(self) -> tuple[float, float, float]:
        """What is due to the first replies, to the second, and to who was in which group."""
        a = self.weight
        return a**2 * self.first, (1 - a) ** 2 * self.second, (a - self.share) ** 2 * self.split


class CodebookPlanning(Planning[Tuned], Generic[Tuned]):
    """What both tuned protocols have in common."""

    def second_order(self, point: Point, users: float, draws: int | Floats = SKETCHES) -> SecondOrder:
        """Of the histogram explained by so many users' replies, at this histogram."""
        decoder = self.protocol.decoder
        normal = normal_draws(decoder.cells, draws) if isinstance(draws, int) else draws
        scores = decoder.perturbed(point.histogram, max(1.0, users), normal)
        found = decoder.nearest(scores, FEW_STEPS)
        few = found[:, :SKETCHES]
        gradients = self.protocol.objective.gradients(few)
        noise, imagined = decoder.variances(gradients, point.histogram, few)
        return self._of(point, scores, found, gradients, noise, imagined)

    def predicted(self, point: Point, crowds: Sequence[float], draws: int = SKETCHES) -> list[SecondOrder]:
        """The same before a run, for several numbers of users at once and in single precision."""
        decoder = self.protocol.decoder
        several = explained(decoder, point.histogram, crowds, normal_draws(decoder.cells, draws))
        gradients = [self.protocol.objective.gradients(found[:, :SKETCHES]) for _, found in several]
        noises = sketched_variances(decoder, np.concatenate(gradients, axis=1), point.histogram)
        each = zip(several, gradients, np.split(noises, len(several)), strict=True)
        return [self._of(point, *heard, slopes, noise, np.zeros(1)) for heard, slopes, noise in each]

    def _of(
        self, point: Point, scores: Floats, found: Floats, gradients: Floats, noise: Floats, imagined: Floats
    ) -> SecondOrder:
        missed = point.second_order(found - point.histogram[:, None])
        linear = point.gradient @ self.protocol.decoder.unbiased(scores)
        width = float(np.ptp(point.gradient)) ** 2
        return SecondOrder(
            bias=float(missed.mean()),
            variance=float(missed.var(ddof=1)),
            covariance=float(np.cov(linear, missed)[0, 1]),
            noise=float(noise.mean()),
            imagined=float(imagined.mean()),
            draws=found.shape[1],
            wider=max(1.0, float((np.ptp(gradients, axis=0) ** 2).mean() / width)) if width > 0 else 1.0,
        )

    @property
    def guesses(self) -> list[Floats]:
        return public_guesses(self.protocol.workload)

    @cached_property
    def usual_remainder(self) -> float:
        """v0: the largest second-order variance at the public guesses, for the planned number of first replies."""
        points = [self.protocol.objective.at(guess) for guess in self.guesses]
        return max(self.second_order(point, self.planned_replies[0]).variance for point in points)

    def remainder(self, point: Point, first: FirstRead, users: int) -> SecondOrder:
        """At what was found: its bias, and a variance that is no smaller than at a public guess."""
        seen = seen_second_order(self, first, users)
        usual = self.usual_remainder * (self.planned_replies[0] / max(1, users)) ** 2
        return replace(seen, variance=max(seen.variance, usual))

    def predicted_rmse(self, histogram: Floats | None = None) -> float:
        # Estimates whose errors are larger are pulled to the middle, at the worst from an end.
        most = float(np.ptp(self.protocol.workload.bounds)) / (2 if histogram is None else ROOT_12)
        return min(most, math.sqrt(self.form_variance(self.planned_replies, histogram)))

    @property
    def widest(self) -> float:
        """Half the range of the widest gradient there is: 2Wh lies within twice the statistic's bounds."""
        low, high = self.protocol.workload.bounds
        if self.protocol.workload.labelled:
            # W - rD lies in [-2, 2], and labels are as unbalanced as predictions allow.
            return 3.0 / (4 * BALANCED * (1 - BALANCED))
        return high - low

    def finished(
        self, value: float, variance: float, point: Point, first: FirstRead, details: dict[str, Any]
    ) -> Estimate:
        """From theta to the statistic: pairs of different users, the interval, and the statistic's range."""
        workload = self.protocol.workload
        rmse, (low, high) = math.sqrt(variance), workload.bounds
        interval = (value - QUANTILE_95 * rmse, value + QUANTILE_95 * rmse)
        if workload.labelled:
            share = float(self.protocol.objective.positive @ point.histogram)
            noise = self.label_variance(point, first)
            measured = Fraction.of(value, rmse, point, self.label_share(first), noise)
            interval = measured.interval()
            value = measured.shrunk(low, high)
            rarer = min(share, 1 - share)
            details |= {"positive": share, "balanced": rarer - QUANTILE_95 * math.sqrt(noise) >= RARE}
        else:
            value = shrunk(value, rmse, low, high)
        if len(workload.shape) == 2:
            # How users are spread over the bins of each column: it shows what bins hide.
            grid = point.histogram.reshape(workload.shape)
            details["margins"] = [grid.sum(axis=1).tolist(), grid.sum(axis=0).tolist()]
        # The interval stays where the replies put it.
        value = min(max(value, low), high)
        ends = [min(max(end, low), high) for end in interval]
        return Estimate(
            value=value,
            predicted_rmse=rmse,
            interval95=(min(ends[0], value), max(ends[1], value)),
            details=details,
        )

    def index_error(self, point: Point, users: float, draws: int) -> float:
        """The predicted MSE of t1 from so many replies. A fold's scalar product is taken at what the others explain."""
        folds = self.protocol.folds
        second = self.predicted(point, [users * (folds - 1) / folds], draws)[0]
        return float(second.noise / users + second.error)

    def one_round(self, first: FirstRead) -> Estimate:
        """t1, corrected by what its second-order part is in the mean."""
        point, users = self.protocol.objective.at(first.histogram), max(1, first.users)
        left = self.remainder(point, first, self.others(users))
        noise = left.calibrated(self.protocol.decoder.variance(point.gradient, point.histogram)) / users
        variance = noise + left.error + self.missing_variance(point, users)
        return self.finished(first.estimate + left.bias, variance, point, first, {})

    def index_sources(self, counts: Integers, rmse: float) -> Sources:
        """Where the error of t1 comes from."""
        point = self.protocol.objective.at(self.protocol.read(counts).histogram)
        noise = self.protocol.decoder.variance(point.gradient, point.histogram) / max(1, int(counts.sum()))
        return {"indices": min(noise, rmse**2), "second order": max(0.0, rmse**2 - noise)}

    def others(self, users: int) -> int:
        """Of so many users, those outside of a fold."""
        return users * (self.protocol.folds - 1) // self.protocol.folds

    def missing_variance(self, point: Point, replied: int) -> float:
        """What it adds that those who replied are a random sample of all users."""
        return point.spread * max(0.0, 1 / max(1, replied) - 1 / self.protocol.users)

    def label_share(self, first: FirstRead) -> float:
        """The share of positives, unbiased."""
        decoder, counts = self.protocol.decoder, first.counts.sum(axis=0).astype(np.float64)
        return float(self.protocol.objective.positive @ decoder.unbiased(decoder.scores(counts[:, None]))[:, 0])

    def label_variance(self, point: Point, first: FirstRead) -> float:
        """The variance of that, those who spoke being a sample of all."""
        positive = self.protocol.objective.positive
        share = float(np.clip(positive @ point.histogram, 0.0, 1.0))
        left_out = max(0.0, 1 - first.users / self.protocol.users)
        noise = self.protocol.decoder.variance(positive, point.histogram)
        return float((noise + left_out * share * (1 - share)) / max(1, first.users))


@lru_cache(maxsize=2)
def seen_second_order(planning: CodebookPlanning[Any], first: FirstRead, users: int) -> SecondOrder:
    """At what was found, by draws that follow from the counts. What to ask next depends on it, and the answer does."""
    point = planning.protocol.objective.at(first.histogram)
    return planning.second_order(point, users, draws_of(first.counts.sum(axis=0), DRAWS))


def shrunk(value: float, rmse: float, low: float, high: float) -> float:
    """An estimate whose error exceeds that of the middle of the range, pulled there as a uniform truth would have it.

    Wherever in the range the truth is, its error is then at most the former.
    """
    middle, prior = (low + high) / 2, (high - low) / ROOT_12
    return value if rmse <= prior else middle + (value - middle) * prior**2 / (prior**2 + rmse**2)


def worst_error(guessed: Iterable[SecondOrder]) -> float:
    """A second-order error that no histogram exceeds by much: that of twice the largest of the public guesses'."""
    return 4 * max(each.error for each in guessed)


@dataclass(frozen=True, kw_only=True)
class Fraction:
    """r + Z/d, Z = N - r d, of which both Z and d are measured, and d may be nearly 0.

    With r the ratio at h^ and d^ its denominator, Z/d^ was measured with the error `rmse`; d = 4 p (1 - p) follows from
    the share p of positives. `moved` is Z, `spread` its variance, `uncertain` that of d.
    """

    value: float
    rmse: float
    theta: float
    moved: float
    spread: float
    denominator: float
    uncertain: float

    @classmethod
    def of(cls, value: float, rmse: float, point: Point, share: float, noise: float) -> "Fraction":
        """`share` is that of positives, unbiased, and `noise` its variance."""
        return cls(
            value=value,
            rmse=rmse,
            theta=point.theta,
            moved=(value - point.theta) * point.denominator,
            spread=(rmse * point.denominator) ** 2,
            # E p~ (1 - p~) = p (1 - p) - Var p~.
            denominator=4 * (share * (1 - share) + noise),
            uncertain=(4 * (1 - 2 * share)) ** 2 * noise + 32 * noise**2,
        )

    def interval(self, errors: float = QUANTILE_95) -> tuple[float, float]:
        """Fieller's: those values r' for which Z - (r' - r) d is within so many standard errors."""
        # (moved - e d)^2 <= errors^2 (spread + e^2 uncertain), a quadratic inequality in e = r' - r.
        leading = self.denominator**2 - errors**2 * self.uncertain
        if self.denominator <= 0 or leading <= 0:
            return -math.inf, math.inf
        root = math.sqrt(
            max(0.0, (self.moved * self.denominator) ** 2 - leading * (self.moved**2 - errors**2 * self.spread))
        )
        ends = ((self.moved * self.denominator + sign * root) / leading for sign in (-1, 1))
        return tuple(self.theta + end for end in ends)  # type: ignore[return-value]

    def shrunk(self, low: float, high: float) -> float:
        """The value; where its error exceeds that of the middle of the range, what all values are in the mean.

        Each counts as much as Z - (r' - r) d is likely to be what was measured. Before, d = 4 p (1 - p) is taken for
        anything from 0 to 1; a measurement that tells nothing of it leaves the middle.
        """
        ends = self.interval(errors=1.0)
        if max(self.rmse, (ends[1] - ends[0]) / 2) <= (high - low) / ROOT_12:
            return self.value
        uncertain = 1 / (1 / max(self.uncertain, 1e-300) + ROOT_12**2)
        denominator = 0.5 + (self.denominator - 0.5) * uncertain / max(self.uncertain, 1e-300)
        each = np.linspace(low, high, VALUES)
        variance = self.spread + (each - self.theta) ** 2 * uncertain
        likely = -((self.moved - (each - self.theta) * denominator) ** 2) / (2 * variance) - np.log(variance) / 2
        weights = np.exp(likely - likely.max())
        return float(weights @ each / weights.sum())


class OneRoundTunedPlanning(CodebookPlanning[OneRoundTuned]):
    """V1/n and the second-order part."""

    @classmethod
    def design(
        cls, kind: type[OneRoundTuned], workload: Workload, *, epsilon: float, users: int, **more: Any
    ) -> OneRoundTuned:
        """The power or table with the smallest predicted error for public guesses of the histogram."""
        workload = with_best_shift(workload)
        fields = {"users": users, "folds": FOLDS[OneRoundTuned], **more}
        drafts = codebooks(kind, workload, epsilon, **fields)
        if kind is OneRoundTuned:
            drafts += tabled(kind, workload, epsilon, **{**fields, "folds": TABLE_FOLDS})
        first, *others = (drafts[0].objective.at(guess) for guess in public_guesses(workload))
        least, best = math.inf, drafts[0]
        errors = [cls(draft).index_error(first, users, SKETCHES) for draft in drafts]
        for error, draft in sorted(zip(errors, drafts, strict=True), key=lambda each: each[0]):
            # Other guesses can only make it worse.
            if error >= least:
                break
            most = max([error, *(cls(draft).index_error(each, users, SKETCHES) for each in others)])
            if most < least:
                least, best = most, draft
        return best

    def form_variance(self, replies: tuple[int, ...], histogram: Floats | None = None) -> float:
        """Predicted MSE of the statistic."""
        users = max(1, replies[0])
        if histogram is None:
            guesses = [self.protocol.objective.at(guess) for guess in self.guesses]
            seconds = [self.predicted(each, [users])[0] for each in guesses]
            known = [
                float(sketched_variances(self.protocol.decoder, each.gradient[:, None], each.histogram)[0])
                for each in guesses
            ]
            scale = max(*known, *(each.noise for each in seconds))
            spread = max(float(np.ptp(each.gradient)) for each in guesses) / 2
            return float(scale * (self.widest / max(spread, 1e-300)) ** 2 / users) + worst_error(seconds)
        return self.index_error(self.protocol.objective.at(histogram), users, PREDICTING)

    def pairs_variance(self, replies: int, histogram: Floats | None = None) -> float:
        """The variance of the mean of W over pairs: 4 Var<h~, Wh> and 2 tr (W Cov)^2.

        Without a histogram, the largest over those where all users agree, of which VERTICES are tried.
        """
        if histogram is None:
            every = np.eye(self.protocol.inputs)[:: max(1, self.protocol.inputs // VERTICES)]
            return max(self.pairs_variance(replies, each) for each in every)
        decoder, image = self.protocol.decoder, self.protocol.workload.apply(histogram)
        product = self.protocol.workload.apply(decoder.covariance(histogram) / replies)
        linear = 4 * decoder.variance(image, histogram) / replies
        return float(linear + 2 * np.einsum("xy,yx->", product, product))

    def error_sources(self, heard: tuple[Heard, ...], rmse: float) -> Sources:
        return self.index_sources(heard[0].sum("candidate"), rmse)


class TwoRoundTunedPlanning(CodebookPlanning[TwoRoundTuned]):
    """Two estimates weighed against each other, and the second-order part."""

    @classmethod
    def design(
        cls,
        kind: type[TwoRoundTuned],
        workload: Workload,
        *,
        epsilon: float,
        users: int,
        histogram: Floats | None = None,
    ) -> TwoRoundTuned:
        """The power or table, and the share, with the smallest predicted error for a public guess of the histogram.

        Of nearly equal ones it is the largest share: with it a wrong guess costs less.
        """
        workload = with_best_shift(workload)
        guesses = [histogram] if histogram is not None else public_guesses(workload)
        tried: list[tuple[float, TwoRoundTuned]] = []
        fields: dict[str, Any] = {"users": users, "folds": FOLDS[TwoRoundTuned], "share": SHARES[0]}
        drafts = codebooks(kind, workload, epsilon, **fields)
        drafts += tabled(kind, workload, epsilon, **{**fields, "folds": TABLE_FOLDS})
        # The table of the second question is the same whatever the first was.
        prepared = [cls(drafts[0]).prepared(guess) for guess in guesses]
        # The hardest first: a draft that is too bad there is not looked at elsewhere.
        prepared.sort(key=lambda each: each[1].variance(each[0].histogram), reverse=True)
        splits = [(round(share * users), users - round(share * users)) for share in SHARES]
        enough, hardest = math.inf, [cls(draft).errors(prepared[0], splits) for draft in drafts]
        for first, draft in sorted(zip(hardest, drafts, strict=True), key=lambda each: min(each[0])):
            # What is not good enough there is not good enough anywhere.
            errors = {split: error for split, error in enumerate(first) if error <= enough}
            for each in prepared[1:]:
                found = cls(draft).errors(each, [splits[split] for split in errors]) if errors else []
                errors = {split: max(error, more) for (split, error), more in zip(errors.items(), found, strict=True)}
            enough = min([enough, *(NEARLY**2 * error for error in errors.values())])
            tried += [(error, replace(draft, share=SHARES[split])) for split, error in errors.items()]
        good = [each for each in tried if each[0] <= enough]
        return min(good, key=lambda each: (-each[1].share, each[0]))[1]

    @property
    def planned_replies(self) -> tuple[int, ...]:
        first = round(self.protocol.share * self.protocol.users)
        return max(1, first), max(1, self.protocol.users - first)

    def prepared(self, histogram: Floats) -> tuple[Point, ScalarQuestion]:
        """A point and its table: what does not depend on how users are split."""
        point = self.protocol.objective.at(histogram)
        return point, scalar_question(point, self.protocol.epsilon)

    def errors(
        self, prepared: tuple[Point, ScalarQuestion], splits: Sequence[tuple[int, ...]], draws: int = SKETCHES
    ) -> list[float]:
        """The predicted MSE for each of these numbers of replies."""
        (point, question), found, least = prepared, list[float](), 0.0
        variance = question.variance(point.histogram)
        noise = float(sketched_variances(self.protocol.decoder, point.gradient[:, None], point.histogram)[0])
        for replies, second in zip(splits, self.predicted(point, [each[0] for each in splits], draws), strict=True):
            weighing = _weighing(second.noise, second.wider * variance, point.spread, replies)
            found.append(sum(weighing.parts) + second.error + second.shared(weighing.weight))
            least = max(least, least_index_error(noise, second, replies))
        if least >= min(found):
            return found
        again = self.index_error(point, sum(splits[0]), draws)
        return [min(error, again) for error in found]

    def is_better_again(self, first: FirstRead, point: Point, question: ScalarQuestion) -> bool:
        """Whether an index from the others too is predicted to leave a smaller error than their scalars."""
        replies = max(1, first.users), self.planned_replies[1]
        noise = self.protocol.decoder.variance(point.gradient, point.histogram)
        left = seen_second_order(self, first, replies[0])
        weighing = _weighing(noise, question.variance(point.histogram), point.spread, replies)
        scalars = sum(weighing.parts) + left.error + left.shared(weighing.weight)
        if least_index_error(noise, left, replies) >= scalars:
            return False
        whole = seen_second_order(self, first, self.others(sum(replies)))
        return bool(noise / sum(replies) + whole.error < scalars)

    def form_variance(self, replies: tuple[int, ...], histogram: Floats | None = None) -> float:
        """Predicted MSE of the statistic."""
        if histogram is not None:
            return self.errors(self.prepared(histogram), [replies], PREDICTING)[0]
        # One bit's variance bounds that of the best table; t2 alone, with the users of the last round a sample of all.
        scalars = (self.widest / math.tanh(self.protocol.epsilon / 2)) ** 2 / max(1, replies[1])
        sampled = self.widest**2 * max(0.0, 1 / max(1, replies[1]) - 1 / self.protocol.users)
        points = [self.protocol.objective.at(guess) for guess in self.guesses]
        return scalars + sampled + worst_error(self.predicted(point, [replies[0]])[0] for point in points)

    def weigh(self, first: FirstRead, point: Point, two: Heard) -> tuple[Weighing, float]:
        """How the two estimates compare, as far as what was heard shows it, and the mean reply value."""
        counts, values = two.sum("answer").reshape(-1).astype(np.float64), np.asarray(two.asked["values"])
        mean = float(counts @ values) / two.replies
        heard = float(counts @ values**2) / two.replies - mean**2
        channel: Any = two.sends["answer"].randomizer
        planned = float(point.histogram @ (channel.probabilities @ values**2 - (channel.probabilities @ values) ** 2))
        noise = self.protocol.decoder.variance(point.gradient, point.histogram)
        # h^ is too uneven, so that Var_h^(g) may be too large: hence the maximum.
        scalars = max(heard - point.spread, planned)
        return _weighing(noise, scalars, point.spread, (max(1, first.users), two.replies)), mean

    def two_rounds(self, first: FirstRead, point: Point, two: Heard) -> Estimate:
        """a t1 + (1 - a) t2 and the correction of their second-order part, with its interval."""
        weighing, mean = self.weigh(first, point, two)
        t2 = point.theta + mean - float(point.histogram @ point.gradient)
        a, left = weighing.weight, self.remainder(point, first, first.users)
        value = a * first.estimate + (1 - a) * t2 + left.bias
        missing = self.missing_variance(point, first.users + two.replies)
        noise = self.protocol.decoder.variance(point.gradient, point.histogram)
        lost = a**2 * max(0.0, left.calibrated(noise) - noise) / max(1, first.users)
        variance = sum(weighing.parts) + lost + left.error + left.shared(a) + missing
        details = {"first": first.estimate, "second": t2, "weight": a, "correction": left.bias}
        return self.finished(value, variance, point, first, details)

    def error_sources(self, heard: tuple[Heard, ...], rmse: float) -> Sources:
        first = self.protocol.read(heard[0].sum("candidate"))
        if heard[1].asked["again"]:
            return self.index_sources(heard[0].sum("candidate") + heard[1].sum("answer"), rmse)
        indices, scalars, sampling = self.weigh(first, self.protocol.objective.at(first.histogram), heard[1])[0].parts
        rest = max(0.0, rmse**2 - indices - scalars - sampling)
        return {"indices": indices, "second order": rest, SAMPLING: sampling, "scalars": scalars}

    def realised_errors(self, heard: tuple[Heard, ...], inputs: Inputs) -> Sources | None:
        """The statistic, its linear approximation, that of the users who answered last, and what they said."""
        if heard[1].asked["again"]:
            return None
        protocol, workload = self.protocol, self.protocol.workload
        first = protocol.read(heard[0].sum("candidate"))
        point = protocol.objective.at(first.histogram)
        everybody, drawn = workload.counts(inputs), np.zeros(workload.size, np.int64)
        for start in range(0, len(inputs), BLOCK_USERS):
            block = inputs[start : start + BLOCK_USERS]
            speak = protocol.rounds[-1].participates(np.arange(start, start + len(block)))
            drawn += count_inputs(block[speak], workload.size)
        means = [float(counts @ point.gradient) / max(1, counts.sum()) for counts in (everybody, drawn)]
        beginning = point.theta - float(point.histogram @ point.gradient)
        answer = self.two_rounds(first, point, heard[1])
        truth = protocol.objective.at(workload.histogram(inputs)).theta
        steps = [truth, *(beginning + mean for mean in means)]
        offset = workload.exact(inputs) - truth
        return differences(("second order", SAMPLING, "scalars"), [*steps, answer.value - offset])


def least_index_error(noise: float, second: SecondOrder, replies: tuple[int, ...]) -> float:
    """Of t1 from everybody: what is of the second order falls at most with the square of the number of replies."""
    return noise / sum(replies) + second.error * (replies[0] / sum(replies)) ** 2


def _weighing(first: float, second: float, spread: float, replies: tuple[int, ...]) -> Weighing:
    n1, n2 = (max(1, each) for each in replies)
    return Weighing(first=first / n1, second=second / n2, split=spread * (1 / n1 + 1 / n2), share=n1 / (n1 + n2))
