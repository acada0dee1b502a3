"""Fewer rows: shorter vectors whose W~ is near W (Lemma "rank-striction").

The lemma projects the columns of L and R by a Johnson-Lindenstrauss map. Truncation along principal directions is
the other way, and usually the better. Either way alpha is measured on the factors returned, entry by entry; the
search walks l upward and adds one row at a time, so the l found is the smallest of its family.

The same in another guise is W~ = A'DA without the least rows of A. A row that is left out costs a bias of at most its
largest entry squared and spares every user a coordinate of noise, and the columns become shorter. With few users that
pays.
"""

from collections.abc import Iterator

import numpy as np
import scipy

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Floats, Integers
from parley.protocols.factorization.factors import Approximation, shifted
from parley.protocols.factorization.model import Factorization, SignedFactorization, balanced, signed, symmetric
from parley.protocols.factorization.operator import Dense, Factor, Selected, check_size
from parley.protocols.workloads.workload import Workload

Rows = Iterator[tuple[Floats, Floats, float]]
# How much gamma_2 may grow: Lemma "rank-striction" allows a constant.
STRETCH = 1.5
# Leaving out rows is tried up to this k: the bias is measured on a dense matrix after each row.
LARGEST_TRUNCATED = 512


def reduce_rank(factorization: Factorization, alpha: float, seed: int) -> Factorization | None:
    """The fewest rows with measured |W~ - W|_inf <= alpha and gamma_2 at most STRETCH larger; None if no fewer will do.

    The families: rows of the SVD of W in order of size (the best approximation of rank l in Frobenius norm), the
    factors in the principal directions of their own columns, and a random orthogonal map of them.
    """
    if not 0 <= alpha < np.inf:
        raise BadInput(f"rank reduction needs alpha >= 0, got {alpha}")
    check_size(factorization.left.inputs, factorization.right.inputs)
    left, right = factorization.left.dense(), factorization.right.dense()
    workload, size = left.T @ right, len(left)
    columns, values, rows = scipy.linalg.svd(workload, full_matrices=False)
    singular = zip(np.sqrt(values)[:, None] * columns.T, np.sqrt(values)[:, None] * rows, [1.0] * size, strict=False)
    principal = scipy.linalg.eigh(left @ left.T + right @ right.T)[1].T[::-1]
    drawn = np.random.Generator(np.random.PCG64(seed)).standard_normal((size, size))
    mixed = enumerate(scipy.linalg.qr(drawn)[0].T, start=1)
    families: tuple[Rows, ...] = (
        singular,
        ((direction @ left, direction @ right, 1.0) for direction in principal),
        ((direction @ left, direction @ right, size / count) for count, direction in mixed),
    )
    limit = STRETCH * factorization.upper
    found = [each for family in families if (each := _smallest(family, workload, alpha, limit)) is not None]
    best = min(found, key=lambda each: (each.rows, each.upper), default=factorization)
    return best if best.rows < factorization.rows else None


def _smallest(rows: Rows, workload: Floats, alpha: float, limit: float) -> Factorization | None:
    """Take rows, with the square of their scale, until W~ is within alpha of W and the columns are short enough."""
    lefts, rights, product = [], [], np.zeros_like(workload)
    rounding = 1e-12 * float(np.max(np.abs(workload)))
    for left, right, scale in rows:
        lefts.append(left)
        rights.append(right)
        product += np.multiply.outer(left, right)
        if float(np.max(np.abs(scale * product - workload))) > alpha + rounding:
            continue
        weight = np.sqrt(scale)
        reduced = balanced(weight * np.array(lefts), weight * np.array(rights), 0.0)
        dense = reduced.dense()
        if reduced.upper <= limit and float(np.max(np.abs(dense - workload))) <= alpha + rounding:
            lower = min(float(np.max(np.abs(dense))), reduced.upper)
            return Factorization(left=reduced.left, right=reduced.right, lower=lower, upper=reduced.upper)
    return None


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
