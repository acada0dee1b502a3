"""What all protocols for pairwise statistics share: the problem, the side queries, and the way to the estimate.

Side queries are what a statistic needs besides its form (the paper's n+ for the AUC, a kernel's diagonal). Each is a
public function of the input, whose mean over users is measured by one bit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Estimate, Heard, Send, Sends
from parley.emulator.randomizer import Floats
from parley.protocols.limits import check_many, check_users, mapping
from parley.protocols.planned import Planned
from parley.protocols.randomizers.exact import check_epsilon
from parley.protocols.workloads.workload import Workload, check_entries

# The AUC divides by an estimate of n+ n-, for which the paper sets half the budget aside; the error of a
# diagonal's mean is divided by n, so a sixteenth is plenty.
SHARES = {"positive": 0.5, "diagonal": 0.0625}


def side_share(workload: Workload) -> float:
    """Which share of epsilon the side queries of a workload take; often none."""
    return sum(SHARES[name] for name in workload.linear_queries())


@dataclass(frozen=True, kw_only=True)
class Pairwise(Planned):
    """A protocol that estimates h'(W - cJ)h and from it the statistic. `users` is the planned, public number n."""

    summary: ClassVar[str]

    workload: Workload
    epsilon: float
    users: int

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_users(self.users)
        if self.workload.name == "kendall-b":
            raise BadInput(f"{self.name} measures one form, and kendall-b is a ratio of three; wrap it with binned")
        check_many(self.workload.size)
        check_entries(self.workload.name, self.workload.infinity_norm)

    @property
    def inputs(self) -> int:
        return self.workload.size

    @property
    def column_levels(self) -> tuple[int, ...]:
        return self.workload.shape

    @classmethod
    def inputs_of(cls, parameters: Mapping[str, Any]) -> int:
        """k of a Setup's parameters, from the workload's alone: no factor or table is made."""
        return Workload.from_parameters(mapping(parameters, "workload")).size

    @cached_property
    def side_queries(self) -> Sends:
        """What the statistic needs besides the form, measured in the first round by one bit each."""
        queries = self.workload.linear_queries()
        if not queries:
            return {}
        # Most workloads have none, and then a user's node needs no such randomizer.
        from parley.protocols.randomizers.scalars.one_bit import OneBit

        each = self.epsilon * side_share(self.workload) / len(queries)
        return {
            name: Send(OneBit(low=float(query.min()), high=float(query.max()), epsilon=each), query)
            for name, query in queries.items()
        }

    @property
    def form_epsilon(self) -> float:
        """What is left for the form."""
        return self.epsilon - self.epsilon * side_share(self.workload)

    def finish(self, form: float | Floats, *heard: Heard, variance: float | None = None) -> Estimate:
        """The statistic from h'(W - cJ)h and what was heard, with its interval; `variance` is the form's, if known."""
        found: Estimate = self.planning.estimate(float(form), heard, variance)
        return found


def with_diagonal(workload: Workload, pairs: float, replies: int) -> float:
    """h'Wh from the mean of W over pairs of different users, where the diagonal is constant."""
    diagonal = workload.diagonal()
    if np.ptp(diagonal) != 0:
        raise BadInput(
            f"the diagonal of {workload.name} is not constant, so pairs alone do not give h'Wh; use one-round"
        )
    return pairs * (replies - 1) / replies + float(diagonal[0]) / replies
