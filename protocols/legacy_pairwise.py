"""What all protocols for pairwise statistics share: the problem, the claim, and how an estimate follows from a form."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from parley.emulator.protocol import Broadcast, Claim, Estimate, Interaction
from parley.emulator.randomizer import Floats
from parley.emulator.tally import Tally
from parley.protocols import pairwise
from parley.protocols.limits import check_many
from parley.protocols.parameters import (
    LARGEST_EPSILON,
    MOST_USERS,
    check_epsilon,
    check_users,
    count,
    mapping,
    number,
    only,
)
from parley.protocols.side_queries import SideQueries
from parley.protocols.workloads.statistics import workload_from
from parley.protocols.workloads.workload import Workload, check_entries

QUANTILE_95 = 1.959963984540054
# The AUC assumes that neither label is rare; predictions that know nothing else take this share of positives.
BALANCED = 0.25
COMMON = ("workload", "epsilon", "users")


@dataclass(frozen=True, kw_only=True)
class Pairwise(pairwise.Pairwise):
    """A protocol that estimates h'(W - cJ)h and from it the statistic. `users` is the planned, public number n."""

    summary: ClassVar[str]
    interaction: ClassVar[Interaction]

    workload: Workload
    epsilon: float
    users: int

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_users(self.users)

    @classmethod
    @abstractmethod
    def design(cls, workload: Workload, *, epsilon: float, users: int) -> Self:
        """The protocol with everything chosen that a person did not choose, never from private data."""

    @classmethod
    @abstractmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        """The protocol a Setup describes; BadInput for anything that is not exactly such a description."""

    @classmethod
    def inputs_of(cls, parameters: Mapping[str, Any]) -> int:
        """k of a Setup's parameters, from the workload's alone: no factor or table is made."""
        return workload_from(mapping(parameters, "workload")).size

    def parameters(self) -> Mapping[str, Any]:
        return {"workload": self.workload.parameters(), "epsilon": self.epsilon, "users": self.users}

    @property
    def claim(self) -> Claim:
        return Claim(epsilon=self.epsilon, rounds=len(self.rounds), interaction=self.interaction)

    @property
    def inputs(self) -> int:
        return self.workload.size

    @property
    def planning(self) -> Self:
        """A protocol of this kind does its own planning."""
        return self

    def opening(self) -> Broadcast:
        return {}

    @cached_property
    def side(self) -> SideQueries:
        """What the statistic needs besides the form, measured in the first round with its share of the budget."""
        return SideQueries(self.workload, self.epsilon)

    @abstractmethod
    def form_variance(self, replies: tuple[int, ...], histogram: Floats | None = None) -> float:
        """Predicted MSE of the form when so many users reply in each round: for this histogram, or for the worst."""

    @property
    @abstractmethod
    def planned_replies(self) -> tuple[int, ...]:
        """How many replies each round gets if all users stay."""

    def predicted_rmse(self, histogram: Floats | None = None) -> float:
        """Predicted RMSE of the statistic if all users stay; without a histogram for the worst one."""
        replies = self.planned_replies
        form, means = self._worst() if histogram is None else self._known(histogram)
        slopes = self.workload.gradient(form, means, self.users)
        return self._rmse(slopes, replies, self.form_variance(replies, histogram))

    def _known(self, histogram: Floats) -> tuple[float, dict[str, float]]:
        queries = self.workload.linear_queries()
        return self.workload.form(histogram), {name: float(query @ histogram) for name, query in queries.items()}

    def _worst(self) -> tuple[float, dict[str, float]]:
        """A ratio is as sensitive as the paper's balancedness allows: one positive in four, and an area of 1."""
        form, means = self._known(np.full(self.inputs, 1 / self.inputs))
        if "positive" not in means:
            return form, means
        return 2 * BALANCED * (1 - BALANCED), {**means, "positive": BALANCED}

    def finish(
        self, shifted_form: float, heard: tuple[tuple[Broadcast, Tally], ...], seen: float | None = None
    ) -> Estimate:
        """The statistic from h'(W - cJ)h and the side queries; errors propagate through the value's gradient.

        `seen` is the form's variance as far as the transcript shows it; without it, that for the worst histogram.
        """
        replies = tuple(max(1, tally.replies) for _, tally in heard)
        means = self.side.means(heard[0][1])
        form = shifted_form + self.workload.shift
        value = self.workload.value(form, means, self.users)
        form_variance = self.form_variance(replies) if seen is None else seen
        rmse = self._rmse(self.workload.gradient(form, means, self.users), replies, form_variance)
        return interval(value, rmse, {"form": form, **means})

    def _rmse(self, slopes: Mapping[str, float], replies: tuple[int, ...], form_variance: float) -> float:
        variances = self.side.variances(replies[0])
        variances["form"] = form_variance + self._dropout_variance(replies)
        return math.sqrt(sum(slopes[name] ** 2 * variance for name, variance in variances.items()))

    def _dropout_variance(self, replies: tuple[int, ...]) -> float:
        """At most what a random subset of the users adds: a form is a mean of (Wh)_x, twice over."""
        stayed = min(1.0, min(got / planned for got, planned in zip(replies, self.planned_replies, strict=True)))
        low, high = self.workload.bounds
        return (high - low) ** 2 / self.users * (1 / stayed - 1)


def interval(value: float, rmse: float, details: Mapping[str, Any]) -> Estimate:
    """A value with the 95% interval of a normal error."""
    half = QUANTILE_95 * rmse
    return Estimate(value=value, predicted_rmse=rmse, interval95=(value - half, value + half), details=dict(details))


def common(parameters: Mapping[str, Any], *names: str, optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields every pairwise protocol has, from a Setup that holds these and `names` and nothing else."""
    only(parameters, *COMMON, *names, optional=optional)
    workload = workload_from(mapping(parameters, "workload"))
    check_many(workload.size)
    check_entries(workload.name, workload.infinity_norm)
    return {
        "workload": workload,
        "epsilon": number(parameters, "epsilon", 0.0, LARGEST_EPSILON),
        "users": count(parameters, "users", 2, MOST_USERS),
    }
