"""What a tuned protocol estimates, as a function of the histogram: theta(h), its gradient, and its second-order part.

Most statistics are one form, theta = h'Wh. The AUC is a ratio, 1/2 + h'Wh / (4 p q) with p and q the shares of the two
labels, and 4 p q = h'Dh for D = 2 [labels differ]. With r = h'Wh / h'Dh the gradient is 2 (W - r D) h / h'Dh, and a
histogram that is off by d makes the linear approximation miss by d'Kd with K = (W - r D) / h'Dh.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from parley.emulator.randomizer import Floats
from parley.protocols.workloads.workload import Workload

# Below this share of one label the AUC is hardly defined under noise; it keeps the ratio finite.
RAREST = 0.01


@dataclass(frozen=True, kw_only=True, eq=False)
class Point:
    """theta, its gradient and K at one histogram; `denominator` is 4 p q of a ratio and 1 of a form."""

    objective: "Objective"
    histogram: Floats
    theta: float
    gradient: Floats
    ratio: float
    denominator: float

    def second_order(self, differences: Floats) -> Floats:
        """d'Kd for every column d."""
        return np.asarray((differences * self.apply(differences)).sum(axis=0))

    def apply(self, vectors: Floats) -> Floats:
        """K v for every column v."""
        image = self.objective.workload.apply(vectors)
        if self.objective.workload.labelled:
            image = image - self.ratio * self.objective.labels(vectors)
        return np.asarray(image / self.denominator)

    @property
    def spread(self) -> float:
        """Var_h(g): how much the gradient varies between users."""
        mean = float(self.histogram @ self.gradient)
        return max(0.0, float(self.histogram @ self.gradient**2) - mean**2)


@dataclass(frozen=True, eq=False)
class Objective:
    """A statistic as a function of histograms whose users are many."""

    workload: Workload

    @cached_property
    def positive(self) -> Floats:
        """1 for a positive, 0 for a negative."""
        return self.workload.labels

    def labels(self, vectors: Floats) -> Floats:
        """D v: twice the weight of the other label."""
        positives, whole = self.positive @ vectors, vectors.sum(axis=0)
        return np.asarray(2 * np.where(_shaped(self.positive, vectors) > 0, whole - positives, positives))

    def gradients(self, histograms: Floats) -> Floats:
        """The gradient at every column of histograms."""
        if not self.workload.labelled:
            return 2 * self.workload.apply(histograms)
        return np.stack([self.at(column).gradient for column in histograms.T], axis=1)

    def at(self, histogram: Floats) -> Point:
        image = self.workload.apply(histogram)
        form = float(histogram @ image)
        if not self.workload.labelled:
            return Point(
                objective=self, histogram=histogram, theta=form, gradient=2 * image, ratio=0.0, denominator=1.0
            )
        share = float(np.clip(self.positive @ histogram, RAREST, 1 - RAREST))
        denominator = 4 * share * (1 - share)
        ratio = float(np.clip(form / denominator, -0.5, 0.5))
        # With shares at their limits, so that gradient and denominator belong together.
        other = 2 * np.where(self.positive > 0, 1 - share, share)
        gradient = 2 * (image - ratio * other) / denominator
        return Point(
            objective=self,
            histogram=histogram,
            theta=0.5 + ratio,
            gradient=gradient,
            ratio=ratio,
            denominator=denominator,
        )


def _shaped(vector: Floats, like: Floats) -> Floats:
    return vector if like.ndim == 1 else vector[:, None]
