"""What a tuned protocol measures: a form A'DA of one vector per user, and how the statistic follows from it.

Most statistics are one form, M = W - cJ = A'DA. The AUC is a ratio of two, N / (4 p q) + 1/2, and one stacked vector
serves both: with s = +-1 the label, 4 p q = 1 - (s'h)^2, so N - r * 4 p q = h'A'DAh + r (s'h)^2 - r for every r. With a
guess r of the ratio that form is nearly 0, and ratio = r + (N - r * 4 p q) / (4 p q) hardly feels an error in p q.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from parley.emulator.randomizer import Floats
from parley.protocols.factorization.model import SignedFactorization
from parley.protocols.factorization.operator import Factor
from parley.protocols.limits import check_setup
from parley.protocols.projection.simplex_projection import densified
from parley.protocols.tuned.labelled import Labelled
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.workload import Workload

# The stacked label has this share of the squared norm of the rest: p q is needed roughly, the numerator well.
LABEL_SHARE = 0.125
# Below this share of one label the AUC is hardly defined under noise; it keeps the ratio finite.
RAREST = 0.01


@dataclass(frozen=True, kw_only=True, eq=False)
class Guess:
    """What the first vectors say about a ratio: its value r and 4 p q. For a single form they are 0 and 1."""

    ratio: float = 0.0
    denominator: float = 1.0


@dataclass(frozen=True, kw_only=True, eq=False)
class RatioForm:
    """The vectors A e_x, the diagonal D, and the way from the form to the statistic."""

    workload: Workload
    form: SignedFactorization

    @cached_property
    def is_ratio(self) -> bool:
        return isinstance(self.workload, AreaUnderCurve)

    @cached_property
    def label(self) -> Floats:
        """+1 for a positive, -1 for a negative."""
        return 2 * self.workload.linear_queries()["positive"] - 1

    @cached_property
    def label_weight(self) -> float:
        """beta: what the label is multiplied with in the stacked vector."""
        return float(np.sqrt(LABEL_SHARE) * self.form.radius)

    @cached_property
    def factor(self) -> Factor:
        """A, whose columns users send."""
        if not self.is_ratio:
            return self.form.factor
        return Labelled(self.form.factor, self.label, self.label_weight)

    @cached_property
    def operator(self) -> Factor:
        """A for the analyst, who multiplies by it often."""
        return densified(self.factor)

    def signs(self, guess: Guess) -> Floats:
        """The diagonal of D: for a ratio with r / beta^2 at the label."""
        if not self.is_ratio:
            return self.form.signs
        return np.append(self.form.signs, guess.ratio / self.label_weight**2)

    def guess(self, histogram: Floats) -> Guess:
        """r and 4 p q of a histogram, kept away from labels too rare to divide by."""
        if not self.is_ratio:
            return Guess()
        share = float(np.clip(histogram @ (self.label + 1) / 2, RAREST, 1 - RAREST))
        denominator = 4 * share * (1 - share)
        ratio = float(np.clip(self.workload.form(histogram) / denominator, -0.5, 0.5))
        return Guess(ratio=ratio, denominator=denominator)

    def value(self, form: float, guess: Guess) -> float:
        """The statistic from the U-statistic of A'DA."""
        if not self.is_ratio:
            return form + self.workload.shift
        return 0.5 + guess.ratio + (form - guess.ratio) / guess.denominator

    def diagonal(self, guess: Guess) -> Floats:
        """(A'DA)_xx for every x: what pairs of a user with itself add to the form."""
        return self._own_pairs + guess.ratio if self.is_ratio else self._own_pairs

    @cached_property
    def _own_pairs(self) -> Floats:
        """From all vectors, so once."""
        check_setup("the diagonal of A'DA", self.form.rows, self.form.inputs)
        return self.form.diagonal()

    def truth(self, histogram: Floats) -> float:
        """The statistic of a histogram whose users are many."""
        if not self.is_ratio:
            return self.workload.form(histogram)
        share = float(histogram @ (self.label + 1) / 2)
        return 0.5 + self.workload.form(histogram) / max(4 * share * (1 - share), 1e-300)
