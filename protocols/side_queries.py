"""What a statistic needs besides its form (the paper's n+ for the AUC, a kernel's diagonal), one bit a query.

Each query is a public function of the input; its mean over users is measured by the one-bit randomizer.
"""

from parley.emulator.protocol import Send, Sends
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

    queries = workload.linear_queries()
    each = epsilon / max(1, len(queries))
    return {
        name: Send(OneBit(low=float(query.min()), high=float(query.max()), epsilon=each), query)
        for name, query in queries.items()
    }
