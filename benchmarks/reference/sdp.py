"""gamma_2(W), gamma_2(W; alpha), zeta(W, n) and the shift-optimal gamma_2 as semidefinite programs: a reference.

Parley itself needs zeta alone (`protocols/factorization/zeta.py`); the others check the fixed point and closed forms.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from parley.emulator.errors import BadInput, ParleyError
from parley.emulator.randomizer import Floats
from parley.protocols.factorization.model import Factorization, balanced
from parley.protocols.factorization.operator import check_matrix
from parley.protocols.factorization.zeta import (
    LARGEST,
    TOLERANCE,
    Certificate,
    certificate,
    certificates,
    repaired,
    solved,
)


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


def shifted_bound(proof: Certificate, workload: Floats) -> float:
    """A lower bound on gamma_2(W - cJ) for every c: entries of G that sum to zero make <G, W - cJ> the same for all."""
    excess = float(proof.matrix.sum())
    flat = proof.matrix - excess * np.multiply.outer(proof.rows, proof.columns)
    centre = (float(workload.max()) + float(workload.min())) / 2
    return Certificate(matrix=flat, rows=proof.rows, columns=proof.columns).gamma(workload - centre)


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
    import cvxpy as library

    cvxpy: Any = library
    rows, columns = workload.shape
    gram, top = cvxpy.Variable((rows + columns, rows + columns), PSD=True), cvxpy.Variable()
    error: Any = cvxpy.Constant(np.zeros(workload.shape))
    alpha: Any = cvxpy.Constant(program.alpha / scale)
    shift: Any = cvxpy.Variable() if program.shift else cvxpy.Constant(0.0)
    limits: list[Any] = []
    if program.alpha > 0 or program.slope is not None:
        error = cvxpy.Variable(workload.shape)
        alpha = alpha if program.slope is None else cvxpy.Variable(nonneg=True)
        limits = [error <= alpha, error >= -alpha]
    block = gram[:rows, rows:] + error + shift * np.ones(workload.shape) == workload / scale
    diagonal = cvxpy.diag(gram) <= top
    goal = top if program.slope is None else top + program.slope * alpha
    problem = cvxpy.Problem(cvxpy.Minimize(goal), [block, diagonal, *limits])
    said = []
    for ending in solved(problem, max(workload.shape), tolerance):
        bias = program.alpha if program.slope is None else max(0.0, float(alpha.value)) * scale
        moved = float(shift.value) * scale
        target = workload - moved - np.clip(np.asarray(error.value) * scale, -bias, bias)
        proofs = certificates(target, block.dual_value, diagonal.dual_value)
        proof = max(proofs, key=lambda each: _lower(each, workload, program))
        factorization = repaired(np.asarray(gram.value) * scale, target, proof)
        found = Optimum(
            lower=_lower(proof, workload, program),
            upper=factorization.upper + (program.slope or 0.0) * bias,
            alpha=bias,
            shift=moved,
            factorization=factorization,
            certificate=proof,
        )
        if found.gap <= tolerance:
            return found
        said.append(f"{ending} with bounds {found.lower:.6g} and {found.upper:.6g}")
    raise SolverFailed(
        f"no solver met the tolerance {tolerance:g} ({'; '.join(said)}); ask for a larger one or use the fixed point"
    )


def _lower(proof: Certificate, workload: Floats, program: _Program) -> float:
    if program.shift:
        return shifted_bound(proof, workload)
    if program.slope is not None:
        return proof.zeta(workload, program.slope)
    return proof.gamma(workload, program.alpha)


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
