"""W~ = A'DA without the least rows of A: Lemma rank-striction in another guise.

A row that is left out costs a bias of at most its largest entry squared and spares every user a coordinate of noise,
and the columns become shorter. With few users that pays.
"""

from collections.abc import Iterator

import numpy as np

from parley.emulator.randomizer import Floats, Integers
from parley.protocols.factorization.factors import Approximation, shifted
from parley.protocols.factorization.model import SignedFactorization, signed, symmetric
from parley.protocols.factorization.operator import Dense, Factor, Selected
from parley.protocols.workloads.workload import Workload

# Leaving out rows is tried up to this k: the bias is measured on a dense matrix after each row.
LARGEST_TRUNCATED = 512


def truncated(workload: Workload, base: Approximation, noise: float, users: int) -> Iterator[Approximation]:
    """A without the rows that are not worth their noise, if there are any: the least predicted error at its worst.

    `noise` is the variance a direction of VRand for a vector of norm 1.
    """
    if workload.size > LARGEST_TRUNCATED:
        return
    whole = signed(base.factors)
    kept = _worthwhile(whole, shifted(workload), noise, users)
    if len(kept) == whole.rows:
        return
    if base.target is None:
        factor: Factor = Selected(whole.factor, kept)
    else:
        factor = Dense(whole.factor.dense()[kept])
    yield Approximation(factors=symmetric(factor, whole.signs[kept], 0.0), target=shifted(workload))


def _worthwhile(whole: SignedFactorization, target: Floats, noise: float, users: int) -> Integers:
    """Rows are left out by their largest entry, least first; errors are those of `form_variance` at its worst."""
    matrix = whole.factor.dense()
    order = np.argsort(np.abs(matrix).max(axis=1), kind="stable")
    lost = whole.dense() - target
    lengths = (matrix**2).sum(axis=0)
    least, best = np.inf, 0
    for count in range(whole.rows):
        bias, square = float(np.abs(lost).max()), float(lengths.max()) ** 2
        length = whole.rows - count
        error = bias**2 + 4 * noise * square / users + 2 * noise**2 * square * length / users**2
        if error < least:
            least, best = error, count
        row = matrix[order[count]]
        lost = lost - whole.signs[order[count]] * np.multiply.outer(row, row)
        lengths = lengths - row**2
    return np.sort(order[best:])
