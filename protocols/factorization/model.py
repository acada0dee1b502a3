"""Factorizations W = L'R and W = A'DA with certified bounds on gamma_2(W) (paper, Section 1, "Linear Queries")."""

from dataclasses import dataclass

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Floats
from parley.protocols.factorization.operator import Dense, Factor, Reflected


@dataclass(frozen=True, kw_only=True, eq=False)
class Factorization:
    """W = L'R with |L|_{1->2} = |R|_{1->2} = sqrt(upper) and lower <= gamma_2(W) <= upper."""

    left: Factor
    right: Factor
    lower: float
    upper: float

    def __post_init__(self) -> None:
        if self.left.rows != self.right.rows:
            raise BadInput(f"the factors have {self.left.rows} and {self.right.rows} rows; they must agree")
        if not 0 <= self.lower <= self.upper:
            raise BadInput(f"bounds on gamma_2 must satisfy 0 <= lower <= upper, got {self.lower}, {self.upper}")

    @property
    def gap(self) -> float:
        """How far gamma_2 may lie below `upper`, relative to `lower`."""
        return 0.0 if self.upper == self.lower else self.upper / max(self.lower, 5e-324) - 1

    @property
    def radius(self) -> float:
        """The norm that bounds every column of both factors."""
        return float(np.sqrt(self.upper))

    @property
    def rows(self) -> int:
        return self.left.rows

    def dense(self) -> Floats:
        return np.asarray(self.left.dense().T @ self.right.dense())


@dataclass(frozen=True, kw_only=True, eq=False)
class SignedFactorization:
    """W = A'DA with D = diag(signs): one vector per user instead of two."""

    factor: Factor
    signs: Floats

    def __post_init__(self) -> None:
        if self.signs.shape != (self.factor.rows,) or not np.all(np.abs(self.signs) == 1):
            raise BadInput(f"signs should be {self.factor.rows} values +1 or -1, got shape {self.signs.shape}")

    @property
    def radius(self) -> float:
        """C: the norm that bounds every column of A."""
        return self.factor.radius

    @property
    def rows(self) -> int:
        return self.factor.rows

    @property
    def inputs(self) -> int:
        return self.factor.inputs

    def bilinear(self, first: Floats, second: Floats) -> float:
        """B(u, v) = u'Dv, for protocols of one's own."""
        return float((first * self.signs) @ second)

    def dense(self) -> Floats:
        matrix = self.factor.dense()
        return np.asarray(matrix.T @ (self.signs[:, None] * matrix))


def symmetric(factor: Factor, signs: Floats, lower: float) -> Factorization:
    """The factorization W = A'(DA)."""
    upper = factor.radius**2
    return Factorization(left=factor, right=Reflected(factor, signs), lower=min(lower, upper), upper=upper)


def balanced(left: Floats, right: Floats, lower: float) -> Factorization:
    """W = L'R from dense factors, rescaled so that their largest column norms agree."""
    norms = Dense(left).radius, Dense(right).radius
    upper = norms[0] * norms[1]
    ratio = np.sqrt(norms[1] / norms[0]) if upper > 0 else 0.0
    left, right = left * ratio, right / ratio if ratio else right * 0.0
    return Factorization(left=Dense(left), right=Dense(right), lower=min(lower, upper), upper=upper)


def signed(factorization: Factorization) -> SignedFactorization:
    """W = A'DA for the symmetric part of W = L'R.

    Where R is already D L, A = L has as many rows as L. Otherwise A = [(L+R)/2 ; (L-R)/2] has twice as many, and
    |A e_x|^2 = (|L e_x|^2 + |R e_x|^2)/2 <= upper.
    """
    left, right = factorization.left, factorization.right
    if isinstance(right, Reflected) and right.base is left:
        return SignedFactorization(factor=left, signs=right.signs)
    if left.inputs != right.inputs:
        raise BadInput(f"a {left.inputs} x {right.inputs} matrix has no quadratic form; it must be square")
    one, two = left.dense(), right.dense()
    halves = Dense(np.concatenate([(one + two) / 2, (one - two) / 2]))
    return SignedFactorization(factor=halves, signs=np.repeat([1.0, -1.0], left.rows))
