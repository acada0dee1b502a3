"""The statistics on which protocols are compared, their data, and all protocols for them."""

from typing import Any

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Inputs
from parley.protocols import registry
from parley.protocols.planning import plan
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.gini import GiniDiversity, GiniMeanDifference
from parley.protocols.workloads.kendall import Kendall
from parley.protocols.workloads.kernel import Kernel
from parley.protocols.workloads.synthetic import draw, names
from parley.protocols.workloads.workload import Workload

SEED = 1


def random_signs(size: int, seed: int = SEED) -> Kernel:
    """A symmetric matrix of random signs, the paper's example for the separation."""
    signs = np.sign(np.random.default_rng(seed).standard_normal((size, size)))
    return Kernel(np.triu(signs) + np.triu(signs, 1).T)


def problems() -> dict[str, Workload]:
    """Six statistics by name."""
    return {
        "Kendall 8x8": Kendall(levels=(8, 8)),
        "Kendall 16x16": Kendall(levels=(16, 16)),
        "AUC 32": AreaUnderCurve(levels=32),
        "GMD 64": GiniMeanDifference(levels=64),
        "diversity 64": GiniDiversity(levels=64),
        "random signs 64": random_signs(64),
    }


def data(workload: Workload, users: int, kind: str | None = None) -> Inputs:
    """The default synthetic data of a workload."""
    return draw(kind or names(workload)[0], workload, users, np.random.default_rng(SEED))


def designed(workload: Workload, epsilon: float, users: int) -> dict[str, Any]:
    """Every protocol that can be used, by name."""
    found: dict[str, Any] = {}
    for name in plan.statistics_names():
        try:
            found[name] = registry.design(name, workload, epsilon=epsilon, users=users)
        except BadInput:
            continue
    return found


def table(headings: tuple[str, ...], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [list(headings), ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
