"""One step of the self-certifying iteration: the SVD of diag(sqrt p) W diag(sqrt q) bounds gamma_2(W) on both sides.

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
from numpy.typing import NDArray

from parley.emulator.randomizer import Floats

# Singular values below a share of the largest are taken for rounding error, and have no row. Where weights are far
# apart a small value may still carry a visible entry of W: then the next, smaller share is tried.
NEGLIGIBLE = (1e-13, 1e-15, 1e-17)
# Dividing by the square roots of small weights magnifies rounding; correcting by the residual takes that back.
REFINEMENTS = 2


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
