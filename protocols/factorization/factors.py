"""From a workload to the factors a protocol encodes: closed form where there is one, the fixed point otherwise.

Closed forms are rebuilt by every party from the statistic's name. Factors that were computed travel in Setup, so
that all parties use the same numbers; privacy does not depend on them, since each user bounds the norms itself.
"""

import numpy as np

from parley.emulator.randomizer import Floats
from parley.protocols.factorization import closed_forms
from parley.protocols.factorization.model import Factorization
from parley.protocols.workloads.workload import Structure, Workload

COMPUTED = ("kernel", "lipschitz", "margin")


def infinity_norm(workload: Workload) -> float:
    """|W - cJ|_inf of the matrix that is factorised."""
    structure = workload.structure
    if structure.matrix is not None:
        return float(np.abs(structure.matrix).max())
    return 0.5 if structure.kind == "threshold" else 1.0


def factorize(workload: Workload, tolerance: float = 1e-3) -> Factorization:
    """W - cJ = L'R with certified bounds on gamma_2."""
    structure = workload.structure
    if structure.kind in ("kendall", "auc"):
        return closed_forms.kendall(*structure.levels)
    if structure.kind == "threshold":
        return closed_forms.gini_mean_difference(structure.levels[0])[1]
    if structure.kind == "identity":
        return closed_forms.gini_diversity(structure.levels[0])[1]
    # Where there is no closed form, the factors travel: a user's node does not look for them.
    from parley.protocols.factorization.fixed_point import fixed_point

    return fixed_point(_matrix(workload, structure), tolerance=tolerance)


def _matrix(workload: Workload, structure: Structure) -> Floats:
    if structure.matrix is not None:
        return structure.matrix
    return workload.matrix() - workload.shift
