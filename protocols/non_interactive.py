"""What all one-round protocols for pairwise statistics share: one message a user, and an estimate from one tally."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from emulator.protocol import Broadcast, Estimate, Interaction, Round, Tally
from emulator.randomizer import Shape
from protocols.pairwise import QUANTILE_95, Pairwise
from protocols.steps import ComposedRound

# The AUC is worth little when one label is rarer than this (the paper's balancedness assumption).
RARE = 0.05


@dataclass(frozen=True, kw_only=True)
class NonInteractive(Pairwise):
    """A protocol of one round. Its interval follows from what everybody saw: the error as the tally shows it."""

    interaction: ClassVar[Interaction] = "non-interactive"

    @property
    @abstractmethod
    def step(self) -> "OnlyRound":
        """The round."""

    @abstractmethod
    def form(self, tally: Tally) -> float:
        """The estimate of h'(W - cJ)h."""

    @abstractmethod
    def seen_variance(self, tally: Tally) -> float:
        """The form's MSE as far as the tally shows which histogram it is."""

    @property
    def rounds(self) -> tuple[Round, ...]:
        return (self.step,)

    @property
    def planned_replies(self) -> tuple[int, ...]:
        return (self.users,)

    def conclude(self, heard: tuple[tuple[Broadcast, Tally], ...]) -> Estimate:
        tally = heard[0][1]
        present = max(2, tally.replies)
        means = self.side.means(tally)
        form = self.form(tally) + self.workload.shift
        slopes = self.workload.gradient(form, means, present)
        variances = self.side.variances(tally.replies)
        variances["form"] = self.seen_variance(tally) + self._dropout_variance((tally.replies,))
        rmse = math.sqrt(sum(slopes[name] ** 2 * variance for name, variance in variances.items()))
        value = self.workload.value(form, means, present)
        return estimate(value, rmse, {"form": form, **means, **self._balance(means, variances)})

    def _balance(self, means: Mapping[str, float], variances: Mapping[str, float]) -> dict[str, bool]:
        if "positive" not in means:
            return {}
        return {"balanced": balanced(means["positive"], math.sqrt(variances["positive"]))}


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
