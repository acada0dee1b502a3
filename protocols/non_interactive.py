"""What all one-round protocols for pairwise statistics share: one message a user, and an estimate from one tally."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Broadcast, Estimate, Interaction
from parley.emulator.randomizer import Floats, Shape
from parley.emulator.tally import Tally
from parley.protocols.legacy_pairwise import QUANTILE_95, Pairwise
from parley.protocols.legacy_rounds import ComposedRound
from parley.protocols.legacy_rounds import LegacyRound as Round
from parley.protocols.workloads.workload import Workload

# The AUC is worth little when one label is rarer than this (the paper's balancedness assumption).
RARE = 0.05


@dataclass(frozen=True, kw_only=True)
class NonInteractive(Pairwise):
    """A protocol of one round. Its interval follows from what everybody saw: the error as the tally shows it."""

    interaction: ClassVar[Interaction] = "non-interactive"

    @property
    @abstractmethod
    def step(self) -> Round:
        """The round."""

    @abstractmethod
    def form(self, tally: Tally) -> float:
        """The estimate of h'(W - cJ)h."""

    def quadratic_form(self, tally: Tally) -> float:
        """The estimate of h'Wh."""
        return self.form(tally) + self.workload.shift

    @abstractmethod
    def seen_variance(self, tally: Tally) -> float:
        """The form's MSE as far as the tally shows which histogram it is."""

    def means(self, tally: Tally) -> dict[str, float]:
        """What the statistic needs besides the form."""
        return self.side.means(tally)

    def mean_variances(self, replies: int) -> dict[str, float]:
        """The noise of those means."""
        return self.side.variances(replies)

    def value(self, form: float, means: Mapping[str, float], replies: int) -> float:
        """The statistic from the form h'Wh."""
        return self.workload.value(form, means, replies)

    def slopes(self, form: float, means: Mapping[str, float], replies: int) -> Mapping[str, float]:
        """Its derivatives, by which errors propagate."""
        return self.workload.gradient(form, means, replies)

    @property
    def rounds(self) -> tuple[Round, ...]:
        return (self.step,)

    @property
    def planned_replies(self) -> tuple[int, ...]:
        return (self.users,)

    def predicted_rmse(self, histogram: Floats | None = None) -> float:
        guess = np.full(self.inputs, 1 / self.inputs) if histogram is None else histogram
        means = {name: float(query @ guess) for name, query in self.workload.linear_queries().items()}
        slopes = self.slopes(self.workload.form(guess), means, self.users)
        variances = {**self.mean_variances(self.users), "form": self.form_variance((self.users,), histogram)}
        return root_of_sum(slopes, variances)

    def conclude(self, heard: tuple[tuple[Broadcast, Tally], ...]) -> Estimate:
        tally = heard[0][1]
        present = max(2, tally.replies)
        means = self.means(tally)
        form = self.form(tally) + self.workload.shift
        variances = self.mean_variances(tally.replies)
        variances["form"] = self.seen_variance(tally) + self._dropout_variance((tally.replies,))
        rmse = root_of_sum(self.slopes(form, means, present), variances)
        details = {"form": form, **means}
        value = self.value(form, means, present)
        if "positive" in means:
            details["balanced"] = balanced(means["positive"], math.sqrt(variances["positive"]))
            # A ratio whose denominator is nearly 0 can be anything; an area cannot.
            if not RARE <= means["positive"] <= 1 - RARE:
                value = min(max(value, 0.0), 1.0)
        return estimate(value, rmse, details)


class OnlyRound(ComposedRound):
    """A first round: nothing is broadcast before it."""

    @property
    def broadcast(self) -> Shape:
        return {}


def balanced(share: float, deviation: float) -> bool:
    """Whether the share of positives is surely not extreme, as the paper assumes of the AUC."""
    return min(share, 1 - share) - QUANTILE_95 * deviation >= RARE


def estimate(value: float, rmse: float, details: Mapping[str, Any]) -> Estimate:
    """A value with its normal 95% interval."""
    half = QUANTILE_95 * rmse
    return Estimate(value=value, predicted_rmse=rmse, interval95=(value - half, value + half), details=dict(details))


def root_of_sum(slopes: Mapping[str, float], variances: Mapping[str, float]) -> float:
    """The RMSE of a function of independent estimates, by its gradient."""
    return math.sqrt(sum(slopes[name] ** 2 * variance for name, variance in variances.items()))


def with_diagonal(workload: Workload, pairs: float, replies: int) -> float:
    """h'Wh from the mean over pairs of different users and a constant diagonal."""
    diagonal = workload.diagonal()
    if np.ptp(diagonal) != 0:
        raise BadInput(
            f"the diagonal of {workload.name} is not constant, so pairs alone do not give h'Wh; use one-round"
        )
    return pairs * (replies - 1) / replies + float(diagonal[0]) / replies
