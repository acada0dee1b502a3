"""The 95% intervals of the one-round protocols, from public numbers alone, cover the truth as often as they say."""

import numpy as np
import pytest

from parley.protocols import registry
from parley.protocols.planning.fast_simulation import play
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.gini import GiniDiversity, GiniMeanDifference
from parley.protocols.workloads.kendall import Kendall
from parley.protocols.workloads.kernel import Kernel
from parley.protocols.workloads.synthetic import draw, names
from parley.protocols.workloads.workload import Workload

SIGNS = np.sign(np.random.default_rng(7).standard_normal((32, 32)))
WORKLOADS: tuple[Workload, ...] = (
    Kendall(levels=(8, 8)),
    AreaUnderCurve(levels=16),
    GiniMeanDifference(levels=32),
    GiniDiversity(levels=32),
    Kernel(SIGNS),
)
# A tuned run draws what corrects it anew, which takes a while; benchmarks/near_limit.py has more of them.
RUNS = {"one-round": 1000, "one-round-tuned": 200}
# At least and at most.
COVERED = {"one-round": (0.93, 0.975), "one-round-tuned": (0.90, 0.995)}


@pytest.mark.parametrize("name", ["one-round", "one-round-tuned"])
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
@pytest.mark.parametrize(("epsilon", "users"), [(0.5, 20_000), (1.0, 100_000)])
def test_intervals_cover_and_predictions_hold(name: str, workload: Workload, epsilon: float, users: int) -> None:
    inputs = draw(names(workload)[0], workload, users, np.random.default_rng(1))
    counts, truth = workload.counts(inputs), workload.exact(inputs)
    protocol = registry.lookup(name).design(workload, epsilon=epsilon, users=users)
    generator = np.random.default_rng(3)
    found = [play(protocol, counts, generator) for _ in range(RUNS[name])]
    covered = float(np.mean([each.interval95[0] <= truth <= each.interval95[1] for each in found]))
    least, most = COVERED[name]
    assert least <= covered <= most, f"{covered:.3f} of {RUNS[name]} intervals cover {truth:.4f}"
    rmse = float(np.sqrt(np.mean([(each.value - truth) ** 2 for each in found])))
    predicted = protocol.predicted_rmse(counts / users)
    assert rmse == pytest.approx(predicted, rel=0.15), f"measured {rmse:.4g}, predicted {predicted:.4g}"
