"""Dual certificates: a matrix and two weight vectors from which numpy alone recomputes a lower bound.

For probability vectors p, q and any G, every L'R = X with columns of norm at most sqrt(t) has
<G, X> <= rho t, where rho is the spectral norm of diag(p)^-1/2 G diag(q)^-1/2. So <G, X> / rho bounds gamma_2(X)
from below, whoever computed G. Section 2.3 of Edmonds, Nikolov and Ullman gives the bounds that follow from it.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Floats

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
        return self._bound(float(np.sum(self.matrix * workload)) - alpha * self.total, self.norm)

    def zeta(self, workload: Floats, slope: float) -> float:
        """A lower bound on min over alpha of gamma_2(W; alpha) + slope * alpha."""
        return self._bound(float(np.sum(self.matrix * workload)), max(self.norm, self.total / slope))

    def balanced(self) -> "Certificate":
        """The same with entries that sum to zero, so that <G, W - cJ> does not depend on c."""
        excess = float(self.matrix.sum())
        return Certificate(
            matrix=self.matrix - excess * np.multiply.outer(self.rows, self.columns),
            rows=self.rows,
            columns=self.columns,
        )

    def shifted_gamma(self, workload: Floats) -> float:
        """A lower bound on gamma_2(W - cJ) for every c."""
        centre = (float(workload.max()) + float(workload.min())) / 2
        return self.balanced().gamma(workload - centre)

    @staticmethod
    def _bound(value: float, norm: float) -> float:
        return max(0.0, value / norm) if norm > 0 else 0.0


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
