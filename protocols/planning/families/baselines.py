"""The error of the baselines: the noise of an estimated histogram, what a form makes of it, and rounding."""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from parley.emulator.protocol import QUANTILE_95, Estimate, Heard
from parley.emulator.randomizer import Floats, Integers
from parley.protocols.baselines.frequency import Frequency
from parley.protocols.baselines.hierarchical import Hierarchical
from parley.protocols.baselines.quantise import MOST_BINS, Quantise
from parley.protocols.factorization.factors import infinity_norm
from parley.protocols.planning.families.non_interactive import NonInteractivePlanning
from parley.protocols.projection.simplex_projection import nearest_probabilities
from parley.protocols.workloads.workload import Workload

Baseline = TypeVar("Baseline", bound=Frequency | Quantise | Hierarchical)
# Up to here the squares of M's entries are summed one by one; beyond, they are taken for the largest one.
LARGEST_DENSE = 4096


class BaselinePlanning(NonInteractivePlanning[Baseline]):
    """What the baselines share: they estimate a histogram, which may lead out of the statistic's range."""

    @classmethod
    def design(cls, kind: type[Baseline], workload: Workload, *, epsilon: float, users: int) -> Baseline:
        return replace(super().design(kind, workload, epsilon=epsilon, users=users), cautious=True)

    def estimate(self, form: float, heard: tuple[Heard, ...], variance: float | None = None) -> Estimate:
        """Within the statistic's range. The truth is there: no value moves away from it, no interval loses it."""
        found = super().estimate(form, heard, variance)
        if not self.protocol.cautious:
            return found
        found = self.curved(found, *heard)
        low, high = self.protocol.workload.bounds
        value, *ends = (min(max(each, low), high) for each in (found.value, *found.interval95))
        return replace(found, value=value, interval95=(ends[0], ends[1]))

    def curved(self, found: Estimate, only: Heard) -> Estimate:
        return found


class FrequencyPlanning(BaselinePlanning[Frequency]):
    """4 (Mh)'Cov(Mh)/n + 2 tr(M Cov M Cov)/n^2. The AUC is a ratio whose two halves come from the same replies."""

    def curved(self, found: Estimate, only: Heard) -> Estimate:
        """Where the statistic is the form, with the interval of a curved estimate.

        Along its gradient the form is a parabola, -c u^2 from its vertex. The histogram's noise, as a normal z, makes
        it -c (u + z)^2: the variance is about 4 c^2 u^2, and depends on what is estimated. The interval holds u's.
        """
        if not self.pairs_alone:
            return found
        diagonal, mixing = self.protocol.moments.covariance(self.protocol.histogram(only))
        basis = np.stack([np.ones(self.protocol.inputs), self.protocol.histogram(only)], axis=1)
        gradient = 2 * self.protocol.apply(basis[:, 1])
        carried = diagonal * gradient + basis @ (mixing @ (basis.T @ gradient))
        along = float(gradient @ carried) * only.tally.replies
        # By how much the variance grows with the form: -4 c.
        slope = 4 * float(carried @ self.protocol.apply(carried)) / along if along > 0 else 0.0
        bent = slope * QUANTILE_95**2 / 4
        reach = QUANTILE_95 * math.hypot(found.predicted_rmse, slope / 2)
        # Other directions may curve the other way: the interval is not cut where this parabola ends.
        return replace(found, interval95=(found.value + min(bent, 0.0) - reach, found.value + max(bent, 0.0) + reach))

    @property
    def pairs_alone(self) -> bool:
        return not self.protocol.workload.labelled

    def side_means(self, first: Heard) -> dict[str, float]:
        """n+/n for which p (1 - p), what the area is divided by, has no bias: the noise of p alone makes it smaller."""
        if self.pairs_alone:
            return {}
        share = float(self.protocol.workload.labels @ self.protocol.histogram(first))
        spread = min(share * (1 - share) + self.side_variances(first.tally.replies)["positive"], 0.25)
        return {"positive": 0.5 + math.copysign(math.sqrt(0.25 - spread), share - 0.5)}

    def side_variances(self, replies: int) -> dict[str, float]:
        if self.pairs_alone:
            return {}
        uniform = np.full(self.protocol.inputs, 1 / self.protocol.inputs)
        return {"positive": self.protocol.moments.along(self.protocol.workload.labels, uniform) / replies}

    def form_variance(self, replies: tuple[int, ...], histogram: Floats | None = None) -> float:
        if histogram is None:
            return self._worst_linear / replies[0] + self._worst_quadratic / replies[0] ** 2
        return self._linear(histogram) / replies[0] + self.quadratic(histogram) / replies[0] ** 2

    def predicted_rmse(self, histogram: Floats | None = None) -> float:
        """For the AUC by the gradient of the whole ratio."""
        if histogram is None or self.pairs_alone:
            return super().predicted_rmse(histogram)
        protocol, users = self.protocol, self.protocol.users
        slopes = self.slopes(*self._known(histogram), users)
        gradient = slopes["form"] * 2 * protocol.apply(histogram) + slopes["positive"] * protocol.workload.labels
        linear = protocol.moments.along(gradient, histogram) / users
        return math.sqrt(linear + slopes["form"] ** 2 * self.quadratic(histogram) / users**2)

    def estimated_variance(self, heard: tuple[Heard, ...]) -> float:
        """The same with the estimated histogram, whose own noise adds twice the second term to the first on average."""
        (only,) = heard
        histogram, replies = self.protocol.histogram(only), only.tally.replies
        quadratic = max(0.0, self.quadratic(histogram))
        linear = self._linear(histogram) - 2 * quadratic / replies
        return float(np.clip(linear, 0.0, self._worst_linear)) / replies + quadratic / replies**2

    def _linear(self, histogram: Floats) -> float:
        """4 (Mh)'Cov(Mh)."""
        return self.protocol.moments.along(2 * self.protocol.apply(histogram), histogram)

    def quadratic(self, histogram: Floats) -> float:
        """2 tr(M Cov M Cov) with Cov = diag(d) + B K B', B = [1, h]."""
        diagonal, mixing = self.protocol.moments.covariance(histogram)
        basis = np.stack([np.ones(self.protocol.inputs), histogram], axis=1)
        image = self.protocol.apply(basis)
        if self._squares is None:
            square = (infinity_norm(self.protocol.workload) * float(diagonal.sum())) ** 2
        else:
            square = float(diagonal @ self._squares @ diagonal)
        cross = float(np.trace(mixing @ (image.T * diagonal) @ image))
        inner = mixing @ basis.T @ image
        return 2 * (square + 2 * cross + float(np.trace(inner @ inner)))

    @cached_property
    def _squares(self) -> Floats | None:
        """M's entries squared, or None where there are too many."""
        workload = self.protocol.workload
        return None if workload.size > LARGEST_DENSE else np.asarray((workload.matrix() - workload.shift) ** 2)

    @cached_property
    def _worst_linear(self) -> float:
        """Convex in h but for the oracle's lean, so vertices have it: the largest over h = 1_x and users' inputs."""
        workload, moments = self.protocol.workload, self.protocol.moments
        if self._squares is None:
            greatest = max(moments.oracle.variance_at(share) for share in (0.0, 1.0))
            return 4 * infinity_norm(workload) ** 2 * greatest * workload.size
        return 4 * max(float(moments.conditional(row).max()) for row in workload.matrix() - workload.shift)

    @cached_property
    def _worst_quadratic(self) -> float:
        """Of the even histogram and of all users alike."""
        vertex = np.eye(1, self.protocol.inputs, dtype=np.float64)[0]
        return max(self.quadratic(np.full(self.protocol.inputs, 1 / self.protocol.inputs)), self.quadratic(vertex))


class QuantisePlanning(BaselinePlanning[Quantise]):
    """The error of the bins' histogram, and the bias of rounding to them."""

    pairs_alone = True

    @classmethod
    def design(cls, kind: type[Quantise], workload: Workload, *, epsilon: float, users: int) -> Quantise:
        """The number of bins with the smallest sum of squared bias and noise, both at their worst."""
        sizes = {round(size) for size in np.geomspace(2, min(MOST_BINS, workload.size), 24)}
        fields: dict[str, Any] = {"workload": workload, "epsilon": epsilon, "users": users, "cautious": True}
        drafts = [kind(**fields, bins=bins) for bins in sorted(sizes)]
        return min(drafts, key=lambda draft: cls(draft).form_variance((users,)))

    def form_variance(self, replies: tuple[int, ...], histogram: Floats | None = None) -> float:
        binned = None if histogram is None else coarsened(histogram, self.protocol.bin_of, self.protocol.bins)
        return self.rounding(histogram) ** 2 + float(self.protocol.coarse.planning.form_variance(replies, binned))

    def estimated_variance(self, heard: tuple[Heard, ...]) -> float:
        """Nobody sees the bias, which lies within a known bound of 0, so it is taken for uniform."""
        return self.rounding(None) ** 2 / 3 + float(self.protocol.coarse.planning.estimated_variance(heard))

    def rounding(self, histogram: Floats | None) -> float:
        """The bias: of this histogram, or the largest there can be."""
        if histogram is None:
            return float(np.abs(self._error).max())
        return float(histogram @ self._error @ histogram)

    @cached_property
    def _error(self) -> Floats:
        """What rounding does to each pair of inputs."""
        bins, coarse = self.protocol.bin_of, self.protocol.coarse.workload.matrix()
        return np.asarray(coarse[np.ix_(bins, bins)] - self.protocol.workload.matrix())


class HierarchicalPlanning(BaselinePlanning[Hierarchical]):
    """The error of each level's histogram, and which users drew the level."""

    def curved(self, found: Estimate, only: Heard) -> Estimate:
        """With the error of the whole ratio, at the histogram that the finest level shows."""
        *_, (finest, part) = self.protocol.at_levels(only)
        if not part.tally.replies:
            return found
        shares, replies = finest.histogram(part)[self.protocol.nodes[:, -1]], (only.replies,)
        slopes = self.slopes(found.details["form"], found.details, self.users_of(replies))
        squared = self._variance(slopes, nearest_probabilities(shares[:, None])[:, 0], only.replies)
        rmse = math.sqrt(squared + slopes["form"] ** 2 * self.dropout_variance(replies))
        return Estimate.normal(found.value, rmse, found.details)

    def side_means(self, first: Heard) -> dict[str, float]:
        """n+/n as the levels' estimates weighted by what each is worth."""
        estimates = [
            float(labels(level.inputs) @ level.histogram(part)) if part.tally.replies else 0.5
            for level, part in self.protocol.at_levels(first)
        ]
        return {"positive": float(self._weights @ estimates)}

    def side_variances(self, replies: int) -> dict[str, float]:
        return {"positive": float(self._weights**2 @ self._label_variances) * self.protocol.depth / replies}

    @cached_property
    def _label_variances(self) -> Floats:
        """The noise of each level's n+/n, times its users; a share in the sampling of users included."""
        levels = self.protocol.levels
        even = [np.full(level.inputs, 1 / level.inputs) for level in levels]
        noise = [level.moments.along(labels(level.inputs), each) for level, each in zip(levels, even, strict=True)]
        return np.array(noise) + 0.25

    @cached_property
    def _weights(self) -> Floats:
        return np.asarray(1 / self._label_variances / (1 / self._label_variances).sum())

    def form_variance(self, replies: tuple[int, ...], histogram: Floats | None = None) -> float:
        """Every level's own error with n/depth users, and which users it got."""
        depth = self.protocol.depth
        if histogram is None:
            each = (max(1, round(replies[0] / depth)),)
            noise = sum(float(level.planning.form_variance(each)) for level in self.protocol.levels)
            return noise + depth**2 / replies[0]
        return self._variance({"form": 1.0, "positive": 0.0}, histogram, replies[0])

    def predicted_rmse(self, histogram: Floats | None = None) -> float:
        """By the gradient of the whole ratio: its two halves come from the same replies."""
        if histogram is None:
            return super().predicted_rmse()
        users = self.protocol.users
        return math.sqrt(self._variance(self.slopes(*self._known(histogram), users), histogram, users))

    def estimated_variance(self, heard: tuple[Heard, ...]) -> float:
        """Each level's error as its replies show it, and at most what the choice of its users adds."""
        (only,) = heard
        depth = self.protocol.depth
        drawn = [(level, part) for level, part in self.protocol.at_levels(only) if part.tally.replies]
        noise = sum(float(level.planning.estimated_variance((part,))) for level, part in drawn)
        spread = [float(np.ptp(level.apply(level.histogram(part)))) for level, part in drawn]
        return noise + depth * min(depth, float(np.square(spread).sum())) / only.tally.replies

    def _variance(self, slopes: Mapping[str, float], histogram: Floats, users: int) -> float:
        """Noise and sampling of every level; all users together are no sample, which takes a part back."""
        each, total, whole = users / self.protocol.depth, 0.0, np.zeros(self.protocol.inputs)
        for level, category, weight in zip(self.protocol.levels, self.protocol.nodes.T, self._weights, strict=True):
            coarse = coarsened(histogram, category, level.inputs)
            gradient = slopes["form"] * 2 * level.apply(coarse) + slopes["positive"] * weight * labels(level.inputs)
            total += (level.moments.along(gradient, coarse) + variance(gradient, coarse)) / each
            total += slopes["form"] ** 2 * level.planning.quadratic(coarse) / each**2
            whole += gradient[category]
        return total - variance(whole, histogram) / users


def coarsened(histogram: Floats, groups: Integers, size: int) -> Floats:
    return np.asarray(np.bincount(groups, histogram, minlength=size), dtype=np.float64)


def labels(size: int) -> Floats:
    return np.asarray(np.arange(size) % 2, dtype=np.float64)


def variance(values: Floats, histogram: Floats) -> float:
    """The variance of a function of a user drawn from the histogram."""
    return float(histogram @ values**2 - (histogram @ values) ** 2)
