"""One workload of every kind, small enough to compare with a sum over all pairs of users."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.domain import Domain, Encoded
from parley.protocols.workloads.gini import GiniDiversity, GiniMeanDifference
from parley.protocols.workloads.kendall import Kendall, Untied
from parley.protocols.workloads.kernel import Kernel
from parley.protocols.workloads.lipschitz import Lipschitz
from parley.protocols.workloads.values import refuse_missing
from parley.protocols.workloads.workload import Workload

WORKLOADS = {
    "kendall-3x4": lambda: Kendall(levels=(3, 4)),
    "kendall-2x7": lambda: Kendall(levels=(2, 7)),
    "untied-first": lambda: Untied(levels=(3, 4), axis=0),
    "untied-second": lambda: Untied(levels=(3, 4), axis=1),
    "auc": lambda: AreaUnderCurve(levels=5),
    "gini-mean-difference": lambda: GiniMeanDifference(levels=9),
    "gini-mean-difference-2": lambda: GiniMeanDifference(levels=2),
    "gini-diversity": lambda: GiniDiversity(levels=6),
    "kernel": lambda: Kernel(np.random.default_rng(5).normal(size=(7, 7)), shift=0.25),
    "lipschitz-absolute": lambda: Lipschitz("absolute-difference", levels=8),
    "lipschitz-squared": lambda: Lipschitz("squared-difference", levels=9),
    "lipschitz-huber": lambda: Lipschitz("huber", levels=8, width=0.3),
    "lipschitz-truncated": lambda: Lipschitz("truncated-difference", levels=5),
    "lipschitz-gaussian": lambda: Lipschitz("gaussian", levels=10, constant=9.0),
    "lipschitz-callable": lambda: Lipschitz(max, levels=6, constant=1.0),
}


@pytest.fixture(params=sorted(WORKLOADS))
def workload(request: pytest.FixtureRequest) -> Workload:
    built: Workload = WORKLOADS[request.param]()
    return built


def encode(domain: Domain, columns: Mapping[str, NDArray[Any]]) -> Encoded:
    """One input for each row; missing values are refused."""
    encoded = domain.read(columns)
    for name, rows in encoded.missing.items():
        refuse_missing(name, rows.tolist())
    return encoded
