"""The error of one-round protocols: one message per user, and an estimate from one tally."""

import math
from collections.abc import Mapping

import numpy as np

from parley.emulator.protocol import QUANTILE_95, Estimate, Heard
from parley.emulator.randomizer import Floats
from parley.protocols.planning.planning import Kind, Planning, root_of_sum

# The AUC is worth little when one label is rarer than this (the paper's balancedness assumption).
RARE = 0.05


class NonInteractivePlanning(Planning[Kind]):
    """The interval follows from what everybody saw: the error as the tally shows it, for the users who replied."""

    @property
    def pairs_alone(self) -> bool:
        """Whether the form is a mean over pairs of different users, which is the statistic; nothing else is needed."""
        return False

    def side_means(self, first: Heard) -> dict[str, float]:
        return {} if self.pairs_alone else super().side_means(first)

    def side_variances(self, replies: int) -> dict[str, float]:
        return {} if self.pairs_alone else super().side_variances(replies)

    def value(self, form: float, means: Mapping[str, float], replies: int) -> float:
        return form if self.pairs_alone else self.protocol.workload.value(form, means, replies)

    def slopes(self, form: float, means: Mapping[str, float], replies: int) -> Mapping[str, float]:
        return {"form": 1.0} if self.pairs_alone else self.protocol.workload.gradient(form, means, replies)

    def predicted_rmse(self, histogram: Floats | None = None) -> float:
        workload, users = self.protocol.workload, self.protocol.users
        guess = np.full(workload.size, 1 / workload.size) if histogram is None else histogram
        means = {name: float(query @ guess) for name, query in workload.linear_queries().items()}
        slopes = self.slopes(workload.form(guess), means, users)
        return root_of_sum(slopes, {**self.side_variances(users), "form": self.form_variance((users,), histogram)})

    def estimate(self, form: float, heard: tuple[Heard, ...], variance: float | None = None) -> Estimate:
        """The statistic of those who replied."""
        (only,) = heard
        present = max(2, only.tally.replies)
        means = self.side_means(only)
        whole = form + self.protocol.workload.shift
        variances = self.side_variances(only.tally.replies)
        spread = self.estimated_variance(heard) if variance is None else variance
        variances["form"] = spread + self.dropout_variance((only.tally.replies,))
        rmse = root_of_sum(self.slopes(whole, means, present), variances)
        details = {"form": whole, **means}
        value = self.value(whole, means, present)
        if "positive" in means:
            rarer = min(means["positive"], 1 - means["positive"])
            # Whether the share of positives is surely not extreme, as the paper assumes of the AUC.
            details["balanced"] = rarer - QUANTILE_95 * math.sqrt(variances["positive"]) >= RARE
            # A ratio whose denominator is nearly 0 can be anything; an area cannot.
            if not RARE <= means["positive"] <= 1 - RARE:
                value = min(max(value, 0.0), 1.0)
        return Estimate.normal(value, rmse, details)
