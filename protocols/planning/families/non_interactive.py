"""The error of one-round protocols: one message per user, and an estimate from one tally."""

import math

import numpy as np

from parley.emulator.protocol import QUANTILE_95, Estimate, Heard
from parley.protocols.planning.planning import Kind, Planning

# The AUC is worth little when one label is rarer than this (the paper's balancedness assumption).
RARE = 0.05


class NonInteractivePlanning(Planning[Kind]):
    """The interval follows from what everybody saw: the error as the tally shows it, for the users who replied."""

    def users_of(self, replies: tuple[int, ...]) -> int:
        return max(2, replies[0])

    def _worst(self) -> tuple[float, dict[str, float]]:
        return self._known(np.full(self.protocol.inputs, 1 / self.protocol.inputs))

    def estimate(self, form: float, heard: tuple[Heard, ...], variance: float | None = None) -> Estimate:
        """The statistic of those who replied."""
        found = super().estimate(form, heard, variance)
        if "positive" not in found.details:
            return found
        share, value = found.details["positive"], found.value
        # Whether the share of positives is surely not extreme, as the paper assumes of the AUC.
        surely = min(share, 1 - share) - QUANTILE_95 * math.sqrt(self.side_variances(heard[0].replies)["positive"])
        # A ratio whose denominator is nearly 0 can be anything; an area cannot.
        if not RARE <= share <= 1 - RARE:
            value = min(max(value, 0.0), 1.0)
        return Estimate.normal(value, found.predicted_rmse, {**found.details, "balanced": surely >= RARE})
