"""The vectors that stand for inputs when candidates are ranked: columns of B = |W - cJ|^(p/2).

|M| has the eigenvectors of M and the absolute values of its eigenvalues. A larger power p puts information where these
are large. For p = 2 no eigenvalues are needed: |M| is M times a rotation, and candidates are drawn evenly from all
directions. Where there is a label, one more row holds it.
"""

import numpy as np

from parley.emulator.randomizer import Floats
from parley.protocols.limits import check_setup
from parley.protocols.workloads.workload import Workload

POWERS = (1.0, 1.5, 2.0, 3.0)
# The label has this share of the largest squared norm of the rest: p q is needed roughly, the numerator well.
LABEL_SHARE = 0.125


def embedding(workload: Workload, power: float) -> Floats:
    """B e_x for every input x, one row each."""
    check_setup("the matrix W", workload.size, workload.size)
    vectors = _form(workload, power)
    if not workload.labelled:
        return vectors
    label = 2 * workload.labels - 1
    weight = np.sqrt(LABEL_SHARE) * np.linalg.norm(vectors, axis=1).max()
    return np.concatenate([vectors, weight * label[:, None]], axis=1)


def _form(workload: Workload, power: float) -> Floats:
    if power == 2.0:
        return workload.matrix() - workload.shift
    if workload.kind == "kendall":
        # |A (x) B|^q = |A|^q (x) |B|^q, and the two are small.
        first, second = (np.sign(np.arange(size) - np.arange(size)[:, None]).astype(float) for size in workload.shape)
        return np.asarray(np.kron(_absolute_power(first, power / 2), _absolute_power(second, power / 2)))
    return _absolute_power(workload.matrix() - workload.shift, power / 2)


def _absolute_power(matrix: Floats, exponent: float) -> Floats:
    """(M'M)^(exponent / 2) of a symmetric or antisymmetric M."""
    values, vectors = np.linalg.eigh(matrix.T @ matrix)
    # Rounding alone makes tiny eigenvalues out of zeros.
    values = np.where(values > 1e-12 * values[-1], values, 0.0)
    return np.asarray((vectors * values ** (exponent / 2)) @ vectors.T)
