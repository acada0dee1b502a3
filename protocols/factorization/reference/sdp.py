"""gamma_2(W), gamma_2(W; alpha), zeta(W, n) and the shift-optimal gamma_2 as semidefinite programs (k <= 128).

gamma_2(X) is the least t such that [[P, X], [X', Q]] is positive semidefinite with diagonal at most t. The solver
is not believed: its primal point is repaired into an exact factorization, its dual point into a certificate, and
numpy alone computes both bounds from them.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from parley.emulator.errors import BadInput, ParleyError
from parley.emulator.randomizer import Floats
from parley.protocols.factorization.model import Factorization, balanced
from parley.protocols.factorization.operator import check_matrix
from parley.protocols.factorization.reference.certificates import Certificate, certificate, polar_certificate

LARGEST = 128
TOLERANCE = 1e-3
# Below this an interior-point method is both faster and more accurate.
_INTERIOR_POINT = 24


class SolverFailed(ParleyError):
    """The solver stopped early or its bounds are too far apart to be called a solution."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Optimum:
    """Bounds on the quantity asked for, and what proves them.

    `factorization` is of W~ = W - shift J - E with |E| <= alpha, so it proves `upper`; `certificate` proves `lower`.
    """

    lower: float
    upper: float
    alpha: float
    shift: float
    factorization: Factorization
    certificate: Certificate

    @property
    def gap(self) -> float:
        """upper / lower - 1."""
        return 0.0 if self.upper == self.lower else self.upper / max(self.lower, 5e-324) - 1


@dataclass(frozen=True, kw_only=True)
class _Program:
    """Which of the four programs: alpha fixed, or charged at `slope`; a free shift or none."""

    alpha: float = 0.0
    slope: float | None = None
    shift: bool = False


def gamma(matrix: ArrayLike, tolerance: float = TOLERANCE, largest: int = LARGEST) -> Optimum:
    """gamma_2(W); `largest` lifts the limit on k for those who can wait."""
    return _solve(matrix, _Program(), tolerance, largest)


def approximate_gamma(matrix: ArrayLike, alpha: float, tolerance: float = TOLERANCE) -> Optimum:
    """gamma_2(W; alpha) = min of gamma_2(W~) over |W~ - W|_inf <= alpha."""
    if not 0 <= alpha < np.inf:
        raise BadInput(f"alpha should be a number >= 0, got {alpha}")
    return _solve(matrix, _Program(alpha=float(alpha)), tolerance)


def zeta(matrix: ArrayLike, users: int, epsilon: float, tolerance: float = TOLERANCE) -> Optimum:
    """zeta(W, n) = min over alpha of gamma_2(W; alpha) + alpha eps sqrt(n), with the alpha that attains it."""
    if users < 1 or not 0 < epsilon < np.inf:
        raise BadInput(f"zeta needs at least one user and epsilon > 0, got {users} and {epsilon}")
    return _solve(matrix, _Program(slope=float(epsilon * np.sqrt(users))), tolerance)


def shifted_gamma(matrix: ArrayLike, tolerance: float = TOLERANCE) -> Optimum:
    """min over c of gamma_2(W - cJ), with the c that attains it."""
    return _solve(matrix, _Program(shift=True), tolerance)


def _solve(matrix: ArrayLike, program: _Program, tolerance: float, largest: int = LARGEST) -> Optimum:
    workload = check_matrix(matrix)
    if max(workload.shape) > largest:
        raise BadInput(
            f"semidefinite programs are solved up to k = {largest}, got {workload.shape[0]} x {workload.shape[1]};"
            " use the fixed point for gamma_2 of larger matrices"
        )
    scale = float(np.max(np.abs(workload)))
    if scale <= program.alpha or (program.shift and np.ptp(workload) == 0):
        return _trivial(workload, program)
    scaled = _Program(alpha=program.alpha / scale, slope=program.slope, shift=program.shift)
    said = []
    for ending, raw in _answers(workload / scale, scaled, tolerance):
        said.append(ending)
        if raw is None:
            continue
        found = _certify(workload, scale, program, raw)
        if found.gap <= tolerance:
            return found
        said[-1] += f" with bounds {found.lower:.6g} and {found.upper:.6g}"
    raise SolverFailed(
        f"no solver met the tolerance {tolerance:g} ({'; '.join(said)}); ask for a larger one or use the fixed point"
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Raw:
    """What the solver said, of W / scale."""

    gram: Floats
    error: Floats
    alpha: float
    shift: float
    dual: Floats
    diagonal_dual: Floats


def _answers(workload: Floats, program: _Program, tolerance: float) -> Iterator[tuple[str, _Raw | None]]:
    """What each solver said, the quickest first; None where it did not end as optimal."""
    import cvxpy as library

    cvxpy: Any = library
    rows, columns = workload.shape
    gram = cvxpy.Variable((rows + columns, rows + columns), PSD=True)
    top = cvxpy.Variable()
    error: Any = cvxpy.Constant(np.zeros(workload.shape))
    alpha: Any = cvxpy.Constant(program.alpha)
    shift: Any = cvxpy.Variable() if program.shift else cvxpy.Constant(0.0)
    limits: list[Any] = []
    if program.alpha > 0 or program.slope is not None:
        error = cvxpy.Variable(workload.shape)
        alpha = alpha if program.slope is None else cvxpy.Variable(nonneg=True)
        limits = [error <= alpha, error >= -alpha]
    block = gram[:rows, rows:] + error + shift * np.ones(workload.shape) == workload
    diagonal = cvxpy.diag(gram) <= top
    goal = top if program.slope is None else top + program.slope * alpha
    problem = cvxpy.Problem(cvxpy.Minimize(goal), [block, diagonal, *limits])
    for settings in _settings(cvxpy, max(workload.shape), tolerance):
        ending = _attempt(cvxpy, problem, settings)
        if problem.status != cvxpy.OPTIMAL:
            yield ending, None
            continue
        raw = _Raw(
            gram=np.asarray(gram.value),
            error=np.asarray(error.value),
            alpha=float(alpha.value),
            shift=float(shift.value),
            dual=np.asarray(block.dual_value),
            diagonal_dual=np.asarray(diagonal.dual_value),
        )
        yield ending, raw


def _settings(cvxpy: Any, size: int, tolerance: float) -> list[dict[str, Any]]:
    """A first-order solver's own accuracy says little about the bounds, so it is tightened until they agree."""
    first_order = [
        {"solver": cvxpy.SCS, "eps_abs": accuracy, "eps_rel": accuracy, "max_iters": 50_000, "warm_start": True}
        for accuracy in (tolerance / 10, tolerance / 100, tolerance / 1_000, tolerance / 10_000)
    ]
    interior = [{"solver": cvxpy.CLARABEL}]
    return interior + first_order if size <= _INTERIOR_POINT else first_order


def _attempt(cvxpy: Any, problem: Any, settings: dict[str, Any]) -> str:
    with warnings.catch_warnings():
        # The status and the bounds are checked afterwards, which is more than the warning says.
        warnings.simplefilter("ignore")
        try:
            problem.solve(**settings)
        except cvxpy.error.SolverError as failure:
            return f"{settings['solver']}: {failure}"
    return f"{settings['solver']}: {problem.status}"


def _certify(workload: Floats, scale: float, program: _Program, raw: _Raw) -> Optimum:
    """Bounds computed from the repaired primal and dual points."""
    alpha = program.alpha if program.slope is None else max(0.0, raw.alpha) * scale
    target = workload - raw.shift * scale - np.clip(raw.error * scale, -alpha, alpha)
    rows = workload.shape[0]
    weights = raw.diagonal_dual[:rows], raw.diagonal_dual[rows:]
    # Solvers disagree about the sign of a multiplier; the wrong one proves nothing. The polar factor of what was
    # factorized is the optimal multiplier for the same weights, often the more accurate one.
    proofs = [certificate(sign * raw.dual, *weights) for sign in (1.0, -1.0)]
    proofs.append(polar_certificate(target, *weights))
    proof = max(proofs, key=lambda each: _lower(each, workload, program))
    factorization = _repaired(raw.gram * scale, target, proof)
    return Optimum(
        lower=_lower(proof, workload, program),
        upper=factorization.upper + (program.slope or 0.0) * alpha,
        alpha=alpha,
        shift=raw.shift * scale,
        factorization=factorization,
        certificate=proof,
    )


def _lower(proof: Certificate, workload: Floats, program: _Program) -> float:
    if program.shift:
        return proof.shifted_gamma(workload)
    if program.slope is not None:
        return proof.zeta(workload, program.slope)
    return proof.gamma(workload, program.alpha)


def _repaired(gram: Floats, target: Floats, proof: Certificate) -> Factorization:
    """Factors of `target` itself from a nearly feasible Gram matrix: put the block in, lift the spectrum above 0."""
    rows = target.shape[0]
    whole = (gram + gram.T) / 2
    whole[:rows, rows:], whole[rows:, :rows] = target, target.T
    values, vectors = scipy.linalg.eigh(whole)
    lifted = values + max(0.0, -float(values[0]))
    factors = np.sqrt(lifted)[:, None] * vectors.T
    return balanced(factors[:, :rows], factors[:, rows:], proof.gamma(target))


def _trivial(workload: Floats, program: _Program) -> Optimum:
    """W~ = 0 is allowed, so the answer is 0."""
    rows, columns = workload.shape
    return Optimum(
        lower=0.0,
        upper=0.0,
        alpha=0.0 if program.shift else program.alpha,
        shift=float(workload[0, 0]) if program.shift else 0.0,
        factorization=balanced(np.zeros((1, rows)), np.zeros((1, columns)), 0.0),
        certificate=certificate(np.zeros(workload.shape), np.ones(rows), np.ones(columns)),
    )
