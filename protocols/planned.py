"""Protocols whose error can be predicted: the door from a protocol to its planning.

What is behind it (`protocols/planning/`) chooses parameters, predicts errors and makes intervals. Analysts and planners
go through it. A user's node never does, and so never loads it.
"""

from functools import cached_property
from typing import Any, Self

import numpy as np

from parley.emulator.protocol import Inputs, Protocol
from parley.emulator.randomizer import Floats


class Planned(Protocol):
    """A protocol that `protocols/planning/table.py` knows, or that derives from one it knows."""

    @classmethod
    def design(cls, workload: Any, *, epsilon: float, users: int, **more: Any) -> Self:
        """The protocol with everything chosen that a person did not choose, never from private data."""
        from parley.protocols.planning.table import design

        made: Self = design(cls, workload, epsilon=epsilon, users=users, **more)
        return made

    @cached_property
    def planning(self) -> Any:
        """Its predicted error, and its interval."""
        from parley.protocols.planning.table import planning_of

        return planning_of(type(self))(self)

    def predicted_rmse(self, histogram: Floats | None = None) -> float:
        """Predicted RMSE of the estimate if all users stay; without a histogram, for the worst one."""
        return float(self.planning.predicted_rmse(histogram))


def truth_of(protocol: Protocol, inputs: Inputs) -> float | None:
    """What an estimate is compared with: the protocol's own `truth`, or the statistic; None where it has neither.

    Only emulations and simulations know it.
    """
    own, workload = getattr(protocol, "truth", None), getattr(protocol, "workload", None)
    if own is not None:
        # Others may compute with inputs, which a narrow type would overflow.
        return float(own(inputs.astype(np.int64)))
    return None if workload is None else float(workload.exact(inputs))
