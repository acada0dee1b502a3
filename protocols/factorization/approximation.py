"""Which matrix a one-round protocol factorises: W - cJ, or a W~ near it that costs less (Theorem alg-main).

Lemma fac-vs-apx-fac allows a W~ with |W~ - W|_inf <= alpha, at the price of a bias of at most alpha; Lemma
rank-striction shortens the vectors at the same price. alpha is measured here, never taken from a bound.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Floats, Integers
from parley.protocols.factorization.factors import COMPUTED, factorize
from parley.protocols.factorization.model import Factorization, signed, symmetric
from parley.protocols.factorization.operator import Dense
from parley.protocols.limits import check_many
from parley.protocols.workloads.workload import LARGEST_ENTRY, Workload

# Approximations travel as dense factors and are compared with a dense W.
LARGEST_DENSE = 4096
# Reducing the rank takes k^3 steps for each alpha that is tried.
LARGEST_REDUCED = 256
# Random projections are public, and the same for everybody who designs the same protocol.
SEED = 1984


@dataclass(frozen=True, kw_only=True, eq=False)
class Approximation:
    """Factors of W~, and W - cJ where that is another matrix."""

    factors: Factorization
    target: Floats | None = None

    @cached_property
    def error(self) -> Floats | None:
        """W~ - (W - cJ), or None where they are the same."""
        return None if self.target is None else self.factors.dense() - self.target

    def bias(self, histogram: Floats | None) -> float:
        """h'(W~ - W)h; without a histogram alpha = |W~ - W|_inf, which it never exceeds."""
        if self.error is None:
            return 0.0
        if histogram is None:
            return float(np.abs(self.error).max())
        return float(histogram @ self.error @ histogram)

    @property
    def seen_bias(self) -> float:
        """What an interval allows for: nobody sees the bias, which lies within +-alpha, so it is taken for uniform."""
        return self.bias(None) / math.sqrt(3)


def useful_approximations(workload: Workload, *, epsilon: float, users: int) -> Iterator[Approximation]:
    """W itself, and zeta's W~ where it can differ."""
    # Only who designs a protocol solves a program for it.
    from parley.protocols.factorization.reference.sdp import LARGEST as LARGEST_PROGRAM
    from parley.protocols.factorization.reference.sdp import SolverFailed, zeta

    yield exact(workload)
    slope = epsilon * math.sqrt(users)
    # A dual certificate G has |G|_1 <= sqrt(k) gamma_2*(G), so a steeper slope makes alpha = 0 optimal.
    if workload.size > LARGEST_PROGRAM or slope >= math.sqrt(workload.size):
        return
    try:
        optimum = zeta(shifted(workload), users, epsilon)
    except SolverFailed:
        return
    if optimum.alpha > 0 and optimum.factorization.upper > 0:
        yield Approximation(factors=optimum.factorization, target=shifted(workload))


def reductions(workload: Workload, base: Approximation, alphas: Sequence[float]) -> Iterator[Approximation]:
    """Lemma rank-striction for each alpha, where it shortens the vectors at all."""
    from parley.protocols.factorization.reference.rank import reduce_rank

    if workload.size > LARGEST_REDUCED:
        return
    for alpha in alphas:
        found = reduce_rank(base.factors, alpha, SEED)
        if found.method != "unchanged":
            yield Approximation(factors=found.factorization, target=shifted(workload))


def exact(workload: Workload) -> Approximation:
    """W's own factors."""
    computed = workload.kind in COMPUTED
    return Approximation(factors=factorize(workload), target=shifted(workload) if computed else None)


def double(approximation: Approximation) -> Approximation:
    """L and R as they travel, entry by entry: everybody computes with exactly these numbers."""
    if approximation.target is None:
        return approximation
    factors = approximation.factors
    return Approximation(factors=plain(factors.left.dense(), factors.right.dense()), target=approximation.target)


def shifted(workload: Workload) -> Floats:
    """W - cJ, refused where it is too large to compare with."""
    if workload.size > LARGEST_DENSE:
        raise BadInput(f"{workload.size} inputs are too many for dense factors; the limit is {LARGEST_DENSE}")
    return workload.matrix() - workload.shift


def approximation_parameters(approximation: Approximation) -> dict[str, Floats]:
    """What Setup must carry of the factors: nothing where everybody can derive them."""
    if approximation.target is None:
        return {}
    return {"left": approximation.factors.left.dense(), "right": approximation.factors.right.dense()}


def read_approximation(workload: Workload, parameters: Mapping[str, Any]) -> Approximation:
    """The factors a Setup describes. Norms and the error are measured, never believed."""
    if "left" not in parameters and "right" not in parameters and workload.kind not in COMPUTED:
        check_many(workload.size)
        return exact(workload)
    target = shifted(workload)
    left, right = (given_factor(parameters.get(name), name, workload.size) for name in ("left", "right"))
    return Approximation(factors=plain(left, right), target=target)


def two_factors(workload: Workload, left: Floats | None, right: Floats | None) -> Approximation:
    """L and R as they were given, or W's own. Norms and the error are measured, never believed."""
    if left is None and right is None and workload.kind not in COMPUTED:
        return exact(workload)
    given = {name: given_factor(factor, name, workload.size) for name, factor in (("left", left), ("right", right))}
    return Approximation(factors=plain(given["left"], given["right"]), target=shifted(workload))


def plain(left: Floats, right: Floats) -> Factorization:
    """Factors with nothing rescaled: one radius bounds the columns of both."""
    one, two = Dense(left), Dense(right)
    return Factorization(left=one, right=two, lower=0.0, upper=max(one.radius, two.radius) ** 2)


def given_factor(factor: Any, name: str, size: int) -> Floats:
    """A matrix from a stranger: finite, with a column for each input and not absurdly many rows."""
    if not isinstance(factor, np.ndarray) or factor.ndim != 2 or factor.dtype != np.float64:
        raise BadInput(f"the {name} factor is not a matrix of float64")
    if factor.shape[1] != size or not 1 <= factor.shape[0] <= 4 * size:
        raise BadInput(f"the {name} factor has shape {factor.shape} for {size} inputs")
    if not 0 < np.abs(factor).max() <= LARGEST_ENTRY:
        raise BadInput(f"the {name} factor holds a value beyond {LARGEST_ENTRY:g}, or nothing but zeros")
    return factor


def single(approximation: Approximation) -> Approximation:
    """W~ = A'DA with the A and D that travel."""
    if approximation.target is None:
        return approximation
    whole = signed(approximation.factors)
    factors = symmetric(Dense(whole.factor.dense()), whole.signs, 0.0)
    return Approximation(factors=factors, target=approximation.target)


def signed_parameters(approximation: Approximation) -> dict[str, NDArray[Any]]:
    """What Setup must carry of A and D: nothing or the rows kept where everybody can derive them."""
    from parley.protocols.factorization.selected import Selected

    if approximation.target is None:
        return {}
    whole = signed(approximation.factors)
    if isinstance(whole.factor, Selected):
        return {"rows": whole.factor.kept}
    return {"factor": whole.factor.dense(), "signs": whole.signs}


def read_signed(workload: Workload, parameters: Mapping[str, Any]) -> Approximation:
    """The A and D a Setup describes. Norms and the error are measured, never believed."""
    from parley.protocols.factorization.selected import Selected

    if workload.kind in COMPUTED or "factor" in parameters:
        return _given(workload, parameters)
    if "signs" in parameters:
        raise BadInput("signs without a factor make no sense")
    check_many(workload.size)
    if "rows" not in parameters:
        return exact(workload)
    # First, for it refuses inputs that are too many for a matrix, which choosing rows needs too.
    target = shifted(workload)
    base = exact(workload)
    whole = signed(base.factors)
    kept = _given_rows(parameters["rows"], whole.rows)
    factors = symmetric(Selected(whole.factor, kept), whole.signs[kept], 0.0)
    return Approximation(factors=factors, target=target)


def _given(workload: Workload, parameters: Mapping[str, Any]) -> Approximation:
    if "rows" in parameters:
        raise BadInput("a factor given entry by entry has no rows to choose from")
    target = shifted(workload)
    factor = given_factor(parameters.get("factor"), "single", workload.size)
    signs = parameters.get("signs")
    if not isinstance(signs, np.ndarray) or signs.dtype != np.float64 or signs.shape != (len(factor),):
        raise BadInput(f"the signs of the factor should be {len(factor)} float64")
    if not np.all(np.abs(signs) == 1):
        raise BadInput("the signs of the factor should be +1 or -1")
    return Approximation(factors=symmetric(Dense(factor), signs, 0.0), target=target)


def _given_rows(rows: Any, most: int) -> Integers:
    if not isinstance(rows, np.ndarray) or rows.dtype != np.int64 or rows.ndim != 1 or not 1 <= len(rows) <= most:
        raise BadInput(f"the rows kept should be 1 to {most} int64")
    if rows[0] < 0 or rows[-1] >= most or not np.all(np.diff(rows) > 0):
        raise BadInput(f"the rows kept should increase from 0 to at most {most - 1}")
    return rows
