"""What a statistic needs besides its form (the paper's n+ for the AUC, a kernel's diagonal), one bit a query.

Each query is a public function of the input; its mean over users is measured by the one-bit randomizer.
"""

from functools import cached_property

from parley.emulator.protocol import Inputs, Send, Sends
from parley.emulator.randomizer import Floats
from parley.emulator.tally import Tally
from parley.protocols.legacy_rounds import Part
from parley.protocols.randomizers.scalars.one_bit import OneBit
from parley.protocols.workloads.workload import Workload

# The AUC divides by an estimate of n+ n-, for which the paper sets half the budget aside; the error of a
# diagonal's mean is divided by n, so a sixteenth is plenty.
SHARES = {"positive": 0.5, "diagonal": 0.0625}


def side_share(workload: Workload) -> float:
    """Which share of epsilon the side queries of a workload take; often none."""
    return sum(SHARES[name] for name in workload.linear_queries())


def side_queries(workload: Workload, epsilon: float) -> Sends:
    """The queries of a workload by one bit each, with `epsilon` in all."""
    from parley.protocols.randomizers.scalars.one_bit import OneBit

    queries = workload.linear_queries()
    each = epsilon / max(1, len(queries))
    return {
        name: Send(OneBit(low=float(query.min()), high=float(query.max()), epsilon=each), query)
        for name, query in queries.items()
    }


class SideQueries:
    """The queries of a workload with their share of epsilon, `epsilon` in all; often there are none."""

    def __init__(self, workload: Workload, epsilon: float, share: float | None = None) -> None:
        self._queries = workload.linear_queries()
        wanted = sum(SHARES[name] for name in self._queries) if share is None else share
        self.epsilon = epsilon * wanted if self._queries else 0.0

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        each = self.epsilon / max(1, len(self._queries))
        return tuple(
            Part(name=name, randomizer=OneBit(low=float(query.min()), high=float(query.max()), epsilon=each))
            for name, query in self._queries.items()
        )

    def functions(self, inputs: Inputs) -> dict[str, Floats]:
        """Every query's value at the given inputs."""
        return {name: query[inputs] for name, query in self._queries.items()}

    def means(self, tally: Tally) -> dict[str, float]:
        """The queries' estimated means."""
        return {
            part.name: float(tally.sums[part.name]) * part.randomizer.unit / tally.replies + part.randomizer.offset
            for part in self.parts
        }

    def variances(self, replies: int) -> dict[str, float]:
        """The noise of those means."""
        return {part.name: part.randomizer.variance / replies for part in self.parts}
