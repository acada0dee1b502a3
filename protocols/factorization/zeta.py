"""zeta(W, n) = min over W~ of gamma_2(W~) + |W~ - W|_inf eps sqrt(n), as a semidefinite program (k <= 128).

gamma_2(X) is the least t such that [[P, X], [X', Q]] is positive semidefinite with diagonal at most t. The solver
is not believed: its primal point is repaired into an exact factorization, its dual point into a certificate, and
numpy alone computes both bounds from them.

A certificate: for probability vectors p, q and any G, every L'R = X with columns of norm at most sqrt(t) has
<G, X> <= rho t, where rho is the spectral norm of diag(p)^-1/2 G diag(q)^-1/2. So <G, X> / rho bounds gamma_2(X)
from below, whoever computed G. Section 2.3 of Edmonds, Nikolov and Ullman gives the bounds that follow from it.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Floats
from parley.protocols.factorization.fixed_point import bracket
from parley.protocols.factorization.model import Factorization, balanced

LARGEST = 128
TOLERANCE = 1e-3
# Below this an interior-point method is both faster and more accurate.
_INTERIOR_POINT = 24
# What a first-order solver is asked for in turn. Ten times less than the first proves nothing.
_ACCURACIES = (2e-4, 1e-5, 1e-6, 1e-7)
_ITERATIONS = 10_000
# Spectral norms are computed to a few units in the last place; this margin keeps the bounds on the safe side.
_MARGIN = 1 + 1e-10


@dataclass(frozen=True, kw_only=True, eq=False)
class Certificate:
    """G with probability vectors p over its rows and q over its columns."""

    matrix: Floats
    rows: Floats
    columns: Floats

    def __post_init__(self) -> None:
        if self.matrix.shape != (len(self.rows), len(self.columns)):
            raise BadInput(f"a certificate of shape {self.matrix.shape} needs as many weights")
        for weights in (self.rows, self.columns):
            if not (weights > 0).all() or abs(float(weights.sum()) - 1) > 1e-9:
                raise BadInput("the weights of a certificate should be positive and sum to one")

    @cached_property
    def norm(self) -> float:
        """rho, an upper bound on the dual norm gamma_2*(G)."""
        scaled = self.matrix / np.sqrt(self.rows)[:, None] / np.sqrt(self.columns)
        return float(np.linalg.norm(scaled, 2)) * _MARGIN

    @cached_property
    def total(self) -> float:
        """|G|_1, the sum of the moduli of all entries."""
        return float(np.abs(self.matrix).sum()) * _MARGIN

    def gamma(self, workload: Floats, alpha: float = 0.0) -> float:
        """A lower bound on gamma_2(W; alpha)."""
        value = float(np.sum(self.matrix * workload)) - alpha * self.total
        return max(0.0, value / self.norm) if self.norm > 0 else 0.0

    def zeta(self, workload: Floats, slope: float) -> float:
        """A lower bound on min over alpha of gamma_2(W; alpha) + slope * alpha."""
        norm = max(self.norm, self.total / slope)
        return max(0.0, float(np.sum(self.matrix * workload)) / norm) if norm > 0 else 0.0


def certificate(matrix: Floats, rows: Floats, columns: Floats) -> Certificate:
    """A certificate from a solver's dual values, which should make [[diag p, G/2], [G'/2, diag q]] semidefinite.

    The weights are raised by what is missing for that, then normalised; the bounds are computed afresh from them.
    """
    whole = np.diag(np.concatenate([rows, columns]))
    size = len(rows)
    whole[:size, size:], whole[size:, :size] = matrix / 2, matrix.T / 2
    least = float(scipy.linalg.eigh(whole, eigvals_only=True, subset_by_index=[0, 0])[0])
    lift = max(0.0, -least) + 1e-12 * max(float(np.max(np.abs(whole))), 1e-300)
    return Certificate(matrix=matrix, rows=_probabilities(rows + lift), columns=_probabilities(columns + lift))


def polar_certificate(workload: Floats, rows: Floats, columns: Floats) -> Certificate:
    """The G that is best for gamma_2(W) under given weights: diag(sqrt p) U V' diag(sqrt q), whose norm is 1."""
    spread = [_probabilities(_probabilities(weights) + 1e-6 / len(weights)) for weights in (rows, columns)]
    roots = np.sqrt(spread[0])[:, None], np.sqrt(spread[1])
    left, _, right = scipy.linalg.svd(roots[0] * workload * roots[1], full_matrices=False)
    return Certificate(matrix=roots[0] * (left @ right) * roots[1], rows=spread[0], columns=spread[1])


def _probabilities(weights: Floats) -> Floats:
    positive = np.maximum(weights, 1e-12 * max(float(np.max(weights)), 1e-300))
    return np.asarray(positive / positive.sum())


def zeta(workload: Floats, slope: float, tolerance: float = TOLERANCE) -> tuple[float, Factorization] | None:
    """alpha and a W~ = L'R within it of W; None where no solver's bounds meet the tolerance. slope = eps sqrt(n).

    For a symmetric W the average of a solution and its transpose is one as well, so P = Q, and [[P, X], [X, P]] is
    semidefinite if P + X and P - X are: two matrices of half the size, whose spectra cost a quarter.
    """
    import cvxpy as library

    cvxpy: Any = library
    rows, columns = workload.shape
    scale = float(np.max(np.abs(workload)))
    if scale == 0:
        return None
    error, top, alpha = cvxpy.Variable(workload.shape), cvxpy.Variable(), cvxpy.Variable(nonneg=True)
    even = rows == columns and bool(np.array_equal(workload, workload.T))
    if even:
        plus, minus = (cvxpy.Variable((rows, rows), PSD=True) for _ in range(2))
        same, cross = (plus + minus) / 2, (plus - minus) / 2
        gram = cvxpy.bmat([[same, cross], [cross, same]])
        block, diagonal = cross + error == workload / scale, cvxpy.diag(same) <= top
    else:
        gram = cvxpy.Variable((rows + columns, rows + columns), PSD=True)
        block, diagonal = gram[:rows, rows:] + error == workload / scale, cvxpy.diag(gram) <= top
    limits = [block, diagonal, error <= alpha, error >= -alpha]
    for _ in solved(cvxpy.Problem(cvxpy.Minimize(top + slope * alpha), limits), max(workload.shape), tolerance):
        bias = max(0.0, float(alpha.value)) * scale
        target = workload - np.clip(error.value * scale, -bias, bias)
        loads = np.tile(diagonal.dual_value / 2, 2) if even else diagonal.dual_value
        proofs = certificates(target, block.dual_value, loads)
        proof = max(proofs, key=lambda each: each.zeta(workload, slope))
        found = repaired(gram.value * scale, target, proof)
        lower, upper = proof.zeta(workload, slope), found.upper + slope * bias
        if upper == lower or upper / max(lower, 5e-324) - 1 <= tolerance:
            return bias, found
    return None


def approximation_is_useless(workload: Floats, slope: float, tolerance: float = TOLERANCE) -> bool:
    """Whether W itself, or nothing at all, is within the tolerance of zeta: shown without a program.

    The weights behind gamma_2 give a lower bound; W costs gamma_2, and W~ = 0 costs slope |W|_inf.
    """
    scale = float(np.max(np.abs(workload)))
    if scale == 0 or not (np.any(workload, axis=0).all() and np.any(workload, axis=1).all()):
        return False
    found = bracket(workload / scale, tolerance / 4)
    proof = polar_certificate(workload / scale, found.below.rows, found.below.columns)
    return proof.zeta(workload / scale, slope) * (1 + tolerance) >= min(found.above.upper, slope)


def solved(problem: Any, size: int, tolerance: float) -> Iterator[str]:
    """Solve the problem by one solver after the other, the quickest first, and say how each ended as optimal.

    A first-order solver's own accuracy says little about the bounds, so it is tightened until they agree.
    """
    import cvxpy

    settings: list[dict[str, Any]] = [{"solver": cvxpy.CLARABEL}] if size <= _INTERIOR_POINT else []
    for accuracy in _ACCURACIES:
        if accuracy >= tolerance / 10_000:
            both = {"eps_abs": accuracy, "eps_rel": accuracy}
            settings.append({"solver": cvxpy.SCS, **both, "max_iters": _ITERATIONS, "warm_start": True})
    for each in settings:
        with warnings.catch_warnings():
            # The status and the bounds are checked afterwards, which is more than the warning says.
            warnings.simplefilter("ignore")
            try:
                problem.solve(**each)
            except cvxpy.error.SolverError:
                continue
        if problem.status == cvxpy.OPTIMAL:
            yield f"{each['solver']}: {problem.status}"


def certificates(target: Floats, dual: Floats, diagonal: Floats) -> list[Certificate]:
    """What may prove a lower bound, from the multipliers of W = L'R and of the diagonal.

    Solvers disagree about the sign of a multiplier; the wrong one proves nothing. The polar factor of what was
    factorized is the optimal multiplier for the same weights, often the more accurate one.
    """
    weights = np.split(np.asarray(diagonal), [len(target)])
    signed = [certificate(sign * np.asarray(dual), *weights) for sign in (1.0, -1.0)]
    return [*signed, polar_certificate(target, *weights)]


def repaired(gram: Floats, target: Floats, proof: Certificate) -> Factorization:
    """Factors of `target` itself from a nearly feasible Gram matrix: put the block in, lift the spectrum above 0."""
    rows = target.shape[0]
    whole = (gram + gram.T) / 2
    whole[:rows, rows:], whole[rows:, :rows] = target, target.T
    values, vectors = scipy.linalg.eigh(whole)
    lifted = values + max(0.0, -float(values[0]))
    factors = np.sqrt(lifted)[:, None] * vectors.T
    return balanced(factors[:, :rows], factors[:, rows:], proof.gamma(target))
