"""gamma_2 of any matrix by a fixed point that certifies itself, with no solver.

At the optimum every weight is proportional to the load of its row: p = a / sum(a). The iteration multiplies p by
a power of a / (p sum(a)), and likewise q. Each entry has its own power, which grows while the entry keeps moving
one way and shrinks when it turns back. Each step gives a lower and an upper bound on gamma_2, so nothing about
the iteration has to be trusted: the best of each are kept, and it stops when they meet.

For probability vectors p and q, write diag(sqrt p) W diag(sqrt q) = U diag(s) V'.
- gamma_2(W) >= sum(s): for unit-norm-bounded columns L'R = W, the nuclear norm of the scaled matrix is at most
  |L diag(sqrt p)|_F |R diag(sqrt q)|_F.
- L = diag(sqrt s) U' diag(p)^-1/2 and R = diag(sqrt s) V' diag(q)^-1/2 are factors of W, so gamma_2(W) is at most
  sqrt(max(a/p) max(b/q)) with a = diag(U diag(s) U'), b = diag(V diag(s) V').
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Floats
from parley.protocols.convergence import stopped_short
from parley.protocols.factorization.model import Factorization, balanced, symmetric
from parley.protocols.factorization.operator import Dense, Reflected, check_matrix

TOLERANCE = 1e-3
# How many are needed depends on rounding, so on the processor; a gap of 1e-5 took 800 at most.
ITERATIONS = 2000
# Singular values below a share of the largest are taken for rounding error, and have no row. Where weights are far
# apart a small value may still carry a visible entry of W: then the next, smaller share is tried.
NEGLIGIBLE = (1e-13, 1e-15, 1e-17)
# Dividing by the square roots of small weights magnifies rounding; correcting by the residual takes that back.
REFINEMENTS = 2
_FIRST_POWER, _FASTER, _SLOWER, _LARGEST_POWER = 2.0, 1.3, 0.5, 16.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Spectrum:
    """diag(sqrt p) W diag(sqrt q) = U diag(s) V'; for symmetric W and p = q, V = U diag(signs)."""

    rows: Floats
    columns: Floats
    left: Floats
    values: Floats
    right: Floats
    signs: Floats | None

    @cached_property
    def lower(self) -> float:
        return float(np.sum(self.values))

    @cached_property
    def row_load(self) -> Floats:
        """a: squared column norms of L times p."""
        return np.asarray(self.left**2 @ self.values)

    @cached_property
    def column_load(self) -> Floats:
        """b: squared column norms of R times q."""
        return np.asarray(self.right**2 @ self.values)

    @cached_property
    def upper(self) -> float:
        return float(np.sqrt(np.max(self.row_load / self.rows) * np.max(self.column_load / self.columns)))

    @cached_property
    def mass(self) -> float:
        """The sum of the entries of G = diag(sqrt p) U V' diag(sqrt q), the dual matrix behind `lower`."""
        return float((self.left.T @ np.sqrt(self.rows)) @ (self.right.T @ np.sqrt(self.columns)))

    def factors(self, workload: Floats) -> tuple[Floats, Floats]:
        """L and R with L'R = W, or A and DA with A'DA = W for a symmetric W: the first that give W back to rounding."""
        best, least = None, np.inf
        for limit in NEGLIGIBLE:
            left, right = self._factors(workload, self.values > limit * self.values.max())
            residual = float(np.max(np.abs(workload - left.T @ right)))
            if residual < least:
                best, least = (left, right), residual
            if least <= 1e-11 * float(np.max(np.abs(workload))):
                break
        if best is None:
            raise FloatingPointError("no factorization of W is finite; rescale W")
        return best

    def _factors(self, workload: Floats, kept: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        values, sides = np.sqrt(self.values[kept]), ((self.left, self.rows), (self.right, self.columns))
        left, right = (values[:, None] * (each[:, kept] / np.sqrt(weights)[:, None]).T for each, weights in sides)
        # The inverses of L' and R' on their ranges turn a residual of W into a correction of the other side.
        inverses = [(each[:, kept] * np.sqrt(weights)[:, None] / values).T for each, weights in sides]
        if self.signs is not None:
            signs = self.signs[kept][:, None]
            for _ in range(REFINEMENTS):
                left = left + signs * (inverses[0] @ (workload - left.T @ (signs * left))) / 2
            return left, signs * left
        for _ in range(REFINEMENTS):
            right = right + inverses[0] @ (workload - left.T @ right)
            left = left + inverses[1] @ (workload - left.T @ right).T
        return left, right


def decompose(workload: Floats, rows: Floats, columns: Floats, *, symmetric: bool) -> Spectrum:
    """The spectrum of W under the weights p and q; a symmetric W takes p = q and an eigendecomposition."""
    scaled = np.sqrt(rows)[:, None] * workload * np.sqrt(columns)
    if symmetric:
        values, vectors = scipy.linalg.eigh(scaled, driver="evd", overwrite_a=True, check_finite=False)
        signs = np.where(values < 0, -1.0, 1.0)
        left, right = vectors, vectors * signs
        return Spectrum(rows=rows, columns=columns, left=left, values=np.abs(values), right=right, signs=signs)
    left, values, right = scipy.linalg.svd(scaled, full_matrices=False, overwrite_a=True, check_finite=False)
    return Spectrum(rows=rows, columns=columns, left=left, values=values, right=right.T, signs=None)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Weights:
    """A probability vector on its way, the power of each of its entries, and where each went last."""

    values: Floats
    powers: float | Floats = _FIRST_POWER
    direction: float | Floats = 0.0

    def moved(self, load: Floats, floor: float, largest: float) -> "_Weights":
        """p <- p (a / (p sum a))^power. The floor keeps factors accurate where a row does not matter."""
        pull = np.log(np.maximum(load / (self.values * load.sum()), 1e-300))
        turns = pull * self.direction
        change = np.where(turns > 0, _FASTER, np.where(turns < 0, _SLOWER, 1.0))
        powers = np.clip(self.powers * change, 1.0, largest)
        values = self.values * np.exp(np.clip(powers * pull, -5.0, 5.0))
        values = np.maximum(values / values.sum(), floor / len(values))
        return _Weights(values=values / values.sum(), powers=powers, direction=pull)


@dataclass(frozen=True, kw_only=True, eq=False)
class Bracket:
    """The spectra behind the best lower and the best upper bound on gamma_2."""

    below: Spectrum
    above: Spectrum

    @property
    def gap(self) -> float:
        return self.above.upper / self.below.lower - 1


def bracket(
    workload: Floats, tolerance: float, iterations: int = ITERATIONS, start: tuple[Floats, Floats] | None = None
) -> Bracket:
    """Iterate on a matrix without zero rows or columns until the bounds agree to `tolerance`."""
    # Symmetric up to rounding.
    rounding = 1e-12 * np.max(np.abs(workload))
    even = len(workload) == len(workload.T) and bool(np.max(np.abs(workload - workload.T)) <= rounding)
    uniform = tuple(np.full(size, 1 / size) for size in workload.shape)
    rows, columns = (_Weights(values=weights) for weights in start or uniform)
    spectrum = decompose(workload, rows.values, columns.values, symmetric=even)
    best, largest, stuck = Bracket(below=spectrum, above=spectrum), _LARGEST_POWER, 0
    # A floor costs at most its own share of the lower bound.
    floor = min(1e-4, tolerance / 10)
    for _ in range(iterations):
        if best.gap <= tolerance:
            break
        rows = rows.moved(spectrum.row_load, floor, largest)
        columns = rows if even else columns.moved(spectrum.column_load, floor, largest)
        spectrum = decompose(workload, rows.values, columns.values, symmetric=even)
        narrowed = Bracket(
            below=spectrum if spectrum.lower > best.below.lower else best.below,
            above=spectrum if spectrum.upper < best.above.upper else best.above,
        )
        stuck = 0 if narrowed.gap < best.gap else stuck + 1
        if stuck == 10:
            largest, stuck = max(1.0, largest / 2), 0
        best = narrowed
    return best


def fixed_point(matrix: ArrayLike, tolerance: float = TOLERANCE, iterations: int = ITERATIONS) -> Factorization:
    """W = L'R for any real matrix, gamma_2(W) in [lower, upper] with upper/lower - 1 <= tolerance.

    A symmetric W gets R = D L, so its signed factorization has as few rows as W has rank. Where `iterations` end
    before the tolerance is met the factorization is still exact, `gap` says what was reached, and so does the log.
    """
    workload = check_matrix(matrix)
    check_tolerance(tolerance)
    rows, columns = np.any(workload != 0, axis=1), np.any(workload != 0, axis=0)
    if not rows.any():
        left, right = (np.zeros((1, size)) for size in workload.shape)
        square = len(rows) == len(columns)
        return symmetric(Dense(left), np.ones(1), 0.0) if square else balanced(left, right, 0.0)
    scale = float(np.max(np.abs(workload)))
    core = workload[np.ix_(rows, columns)] / scale
    found = bracket(core, tolerance, iterations)
    if found.gap > tolerance:
        stopped_short("gamma_2", found.gap, tolerance, "the factors are exact, but their columns may be longer")
    factor, reflected = found.above.factors(core)
    if found.above.signs is None:
        inner = balanced(factor, reflected, found.below.lower)
    else:
        signs = np.where(np.einsum("ij,ij->i", factor, reflected) < 0, -1.0, 1.0)
        inner = symmetric(Dense(factor), signs, found.below.lower)
    # Undo the scaling of W and give its zero rows and columns back, as zero columns of the factors.
    left, right = np.zeros((inner.rows, len(rows))), np.zeros((inner.rows, len(columns)))
    left[:, rows] = inner.left.dense() * np.sqrt(scale)
    # What is left of W may be symmetric when W is not, as in [[0, 1]].
    if isinstance(inner.right, Reflected) and np.array_equal(rows, columns):
        return symmetric(Dense(left), inner.right.signs, inner.lower * scale)
    right[:, columns] = inner.right.dense() * np.sqrt(scale)
    return balanced(left, right, inner.lower * scale)


def check_tolerance(tolerance: float) -> None:
    if not 1e-10 <= tolerance < np.inf:
        raise BadInput(f"the tolerance on gamma_2 should be at least 1e-10, got {tolerance}")
