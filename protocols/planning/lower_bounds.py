"""What no non-interactive protocol can beat, as numbers: Theorems "linear-lb-full" and "lb-red".

The theorems hide constants; here each hidden constant is taken as 1 and said so in `hidden`. The constants of the
reduction from linear queries to quadratic forms are explicit in its proof and are used as they are.
"""

from dataclasses import dataclass, replace

import numpy as np

from parley.emulator.errors import BadInput
from parley.protocols.factorization.model import Factorization

# The estimate 2 z' - z/2 of a linear query, with both errors at most alpha, errs by at most (2 + 1/2)^2 alpha.
REDUCTION = (2 + 1 / 2) ** 2


@dataclass(frozen=True, kw_only=True)
class LowerBound:
    """A lower bound on the mean squared error, up to what `hidden` says."""

    mse: float
    zeta: float
    logarithm: float
    reduction: float
    hidden: str

    @property
    def rmse(self) -> float:
        """The same as a root mean squared error."""
        return float(np.sqrt(self.mse))


def zeta_bounds(factorization: Factorization, largest: float, users: int, epsilon: float) -> tuple[float, float]:
    """Bounds on zeta(W, n) from those on gamma_2(W), |W|_inf and k alone.

    Below: the dual matrix G of gamma_2 has |G|_1 <= sqrt(k), so zeta >= gamma_2 min(1, eps sqrt(n/k)); for
    n >= k / eps^2 approximation does not help at all. Above: alpha = 0, or alpha = |W|_inf.
    """
    slope = _slope(users, epsilon)
    smaller = min(factorization.left.inputs, factorization.right.inputs)
    return factorization.lower * min(1.0, slope / np.sqrt(smaller)), min(factorization.upper, slope * largest)


def linear_query_bound(zeta: float, largest: float, users: int, epsilon: float) -> LowerBound:
    """Theorem "linear-lb-full": zeta^2 / (eps^2 n) / log(eps^2 n |W|_inf^2 / zeta^2)^2, for linear queries.

    `zeta` may be any lower bound on zeta(W, n); the bound grows with it. The logarithm is taken as at least 1: where
    zeta reaches eps sqrt(n) |W|_inf, its largest value, the theorem's constant keeps it away from 0.
    """
    slope = _slope(users, epsilon)
    if not 0 <= zeta < np.inf or not 0 < largest < np.inf:
        raise BadInput(f"zeta and |W|_inf should be positive numbers, got {zeta} and {largest}")
    if zeta == 0:
        return LowerBound(mse=0.0, zeta=0.0, logarithm=1.0, reduction=1.0, hidden=_hidden(epsilon))
    logarithm = max(1.0, 2 * float(np.log(slope * largest / zeta)))
    mse = (zeta / slope) ** 2 / logarithm**2
    return LowerBound(mse=mse, zeta=zeta, logarithm=logarithm, reduction=1.0, hidden=_hidden(epsilon))


def quadratic_form_bound(zeta: float, largest: float, users: int, epsilon: float) -> LowerBound:
    """Theorem "lb-red" on top: a mechanism for h'Wh at epsilon answers linear queries at 2 epsilon.

    `zeta` is a lower bound on zeta(W, n) at 2 epsilon, for symmetric W. The error of the mechanism is assumed not
    to grow from n to 2n users.
    """
    linear = linear_query_bound(zeta, largest, users, 2 * epsilon)
    return replace(
        linear,
        mse=linear.mse / REDUCTION,
        reduction=REDUCTION,
        hidden=f"{linear.hidden}; the error is assumed not to grow when users double",
    )


def non_interactive_bound(factorization: Factorization, largest: float, users: int, epsilon: float) -> LowerBound:
    """What no non-interactive protocol for h'Wh can beat, from a factorization of W or of any W - cJ."""
    zeta, _ = zeta_bounds(factorization, largest, users, 2 * epsilon)
    return quadratic_form_bound(zeta, largest, users, epsilon)


def _hidden(epsilon: float) -> str:
    constant = "the absolute constant of Theorem linear-lb-full is taken as 1"
    return constant if epsilon <= 1 else f"{constant}, and its proof covers epsilon <= 1, not {epsilon:g}"


def _slope(users: int, epsilon: float) -> float:
    if users < 1 or not 0 < epsilon < np.inf:
        raise BadInput(f"a lower bound needs at least one user and epsilon > 0, got {users} and {epsilon}")
    return float(epsilon * np.sqrt(users))
