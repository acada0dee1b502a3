"""From a workload to the factors a protocol encodes: closed form where there is one, the fixed point otherwise.

Closed forms are rebuilt by every party from the statistic's name. Factors that were computed travel in Setup, so
that all parties use the same numbers; privacy does not depend on them, since each user bounds the norms itself.

A protocol may factorise a W~ near W - cJ that costs less (Theorem alg-main). Lemma fac-vs-apx-fac allows a W~ with
|W~ - W|_inf <= alpha, at the price of a bias of at most alpha; Lemma rank-striction shortens the vectors at the same
price. alpha is measured here, never taken from a bound.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Floats, Integers
from parley.protocols.factorization import closed_forms
from parley.protocols.factorization.model import Factorization, signed, symmetric
from parley.protocols.factorization.operator import Dense, Selected
from parley.protocols.workloads.workload import LARGEST_ENTRY, Workload

COMPUTED = ("kernel", "lipschitz", "margin")
# Approximations travel as dense factors and are compared with a dense W.
LARGEST_DENSE = 4096
# Reducing the rank takes k^3 steps for each alpha that is tried.
LARGEST_REDUCED = 256
# A W~ this near to zeta's is as good: what is compared is the predicted error.
NEAR = 0.02
# Random projections are public, and the same for everybody who designs the same protocol.
SEED = 1984


def infinity_norm(workload: Workload) -> float:
    """|W - cJ|_inf of the matrix that is factorised."""
    return max(abs(bound - workload.shift) for bound in workload.bounds)


def factorize(workload: Workload, tolerance: float = 1e-3) -> Factorization:
    if workload.kind == "kendall":
        return closed_forms.kendall(*workload.shape)
    if workload.kind == "threshold":
        return closed_forms.gini_mean_difference(workload.size)
    if workload.kind == "identity":
        return closed_forms.gini_diversity(workload.size)
    # Where there is no closed form, the factors travel: a user's node does not look for them.
    from parley.protocols.factorization.fixed_point import fixed_point

    return fixed_point(workload.matrix() - workload.shift, tolerance=tolerance)


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
    yield exact(workload)
    if workload.size <= LARGEST_DENSE:
        yield from approximations(shifted(workload), epsilon * math.sqrt(users))


def approximations(target: Floats, slope: float) -> Iterator[Approximation]:
    """The W~ with the least gamma_2(W~) + slope |W~ - W|_inf, where it can differ from W (Lemma fac-vs-apx-fac).

    The matrix may have any shape; where it is not symmetric, a program of the same size has four times the entries.
    """
    # Only who designs a protocol solves a program for it.
    from parley.protocols.factorization.zeta import LARGEST as LARGEST_PROGRAM
    from parley.protocols.factorization.zeta import approximation_is_useless, zeta

    largest = LARGEST_PROGRAM if np.array_equal(target, target.T) else LARGEST_PROGRAM // 2
    # A dual certificate G has |G|_1 <= sqrt(k) gamma_2*(G), so a steeper slope makes alpha = 0 optimal.
    if max(target.shape) > largest or slope >= math.sqrt(min(target.shape)):
        return
    if approximation_is_useless(target, slope, NEAR):
        return
    alpha, factors = zeta(target, slope, NEAR) or (0.0, None)
    if alpha > 0 and factors is not None and factors.upper > 0:
        yield Approximation(factors=factors, target=target)


def scaled(workload: Workload, base: Approximation, share: float) -> Approximation:
    """W~ = share (W - cJ): the cheapest approximation where noise is larger than W, at a bias of 1 - share of |W|."""
    left, right = (math.sqrt(share) * each.dense() for each in (base.factors.left, base.factors.right))
    return Approximation(factors=plain(left, right), target=shifted(workload))


def reductions(workload: Workload, base: Approximation, alphas: Sequence[float]) -> Iterator[Approximation]:
    """Lemma rank-striction for each alpha, where it shortens the vectors at all."""
    from parley.protocols.factorization.truncation import reduce_rank

    if workload.size > LARGEST_REDUCED:
        return
    for alpha in alphas:
        if (shorter := reduce_rank(base.factors, alpha, SEED)) is not None:
            yield Approximation(factors=shorter, target=shifted(workload))


def exact(workload: Workload) -> Approximation:
    """W's own factors."""
    computed = workload.kind in COMPUTED
    return Approximation(factors=factorize(workload), target=shifted(workload) if computed else None)


def shifted(workload: Workload) -> Floats:
    """W - cJ, refused where it is too large to compare with."""
    if workload.size > LARGEST_DENSE:
        raise BadInput(f"{workload.size} inputs are too many for dense factors; the limit is {LARGEST_DENSE}")
    return workload.matrix() - workload.shift


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


def one_factor_fields(approximation: Approximation) -> dict[str, Any]:
    """What must travel of A and D: nothing, or the rows kept, where everybody can derive them."""
    if approximation.target is None:
        return {}
    whole = signed(approximation.factors)
    if isinstance(whole.factor, Selected):
        return {"rows": whole.factor.kept}
    return {"factor": whole.factor.dense(), "signs": whole.signs}


def one_factor(workload: Workload, factor: Floats | None, signs: Floats | None, rows: Integers | None) -> Approximation:
    """A and D as they were given, or W's own or some rows of it. Norms and the error are measured, never believed."""
    if workload.kind in COMPUTED or factor is not None:
        if rows is not None:
            raise BadInput("a factor given entry by entry has no rows to choose from")
        target = shifted(workload)
        given = given_factor(factor, "single", workload.size)
        if signs is None or signs.shape != (len(given),) or not np.all(np.abs(signs) == 1):
            raise BadInput(f"the signs of the factor should be {len(given)} numbers, +1 or -1")
        return Approximation(factors=symmetric(Dense(given), signs, 0.0), target=target)
    if signs is not None:
        raise BadInput("signs without a factor make no sense")
    if rows is None:
        return exact(workload)
    # First, because it refuses inputs that are too many for a matrix, which choosing rows needs too.
    target = shifted(workload)
    whole = signed(exact(workload).factors)
    if rows.ndim != 1 or not 1 <= len(rows) <= whole.rows:
        raise BadInput(f"the rows kept should be 1 to {whole.rows} numbers")
    if rows[0] < 0 or rows[-1] >= whole.rows or not np.all(np.diff(rows) > 0):
        raise BadInput(f"the rows kept should increase from 0 to at most {whole.rows - 1}")
    return Approximation(factors=symmetric(Selected(whole.factor, rows), whole.signs[rows], 0.0), target=target)
