"""What no non-interactive protocol can beat, as numbers: Theorems "linear-lb-full" and "lb-red".

Each bounds a mean squared error from below. The theorems hide absolute constants, which are taken as 1 here, and the
proof of "linear-lb-full" covers epsilon <= 1. The constants of the reduction from linear queries to quadratic forms are
explicit in its proof and are used as they are.
"""

import math

import numpy as np

from parley.emulator.errors import BadInput
from parley.protocols.factorization.model import Factorization

# The estimate 2 z' - z/2 of a linear query, with both errors at most alpha, errs by at most (2 + 1/2)^2 alpha.
REDUCTION = (2 + 1 / 2) ** 2


def zeta_bound(factorization: Factorization, users: int, epsilon: float) -> float:
    """A lower bound on zeta(W, n) from that on gamma_2(W) and from k alone.

    The dual matrix G of gamma_2 has |G|_1 <= sqrt(k), so zeta >= gamma_2 min(1, eps sqrt(n/k)); for n >= k / eps^2
    approximation does not help at all.
    """
    smaller = min(factorization.left.inputs, factorization.right.inputs)
    return factorization.lower * min(1.0, _slope(users, epsilon) / math.sqrt(smaller))


def linear_query_bound(zeta: float, largest: float, users: int, epsilon: float) -> float:
    """Theorem "linear-lb-full": zeta^2 / (eps^2 n) / log(eps^2 n |W|_inf^2 / zeta^2)^2, for linear queries.

    `zeta` may be any lower bound on zeta(W, n); the bound grows with it. The logarithm is taken as at least 1: where
    zeta reaches eps sqrt(n) |W|_inf, its largest value, the theorem's constant keeps it away from 0.
    """
    slope = _slope(users, epsilon)
    if not 0 <= zeta < np.inf or not 0 < largest < np.inf:
        raise BadInput(f"zeta and |W|_inf should be positive numbers, got {zeta} and {largest}")
    if zeta == 0:
        return 0.0
    logarithm = max(1.0, 2 * float(np.log(slope * largest / zeta)))
    return (zeta / slope) ** 2 / logarithm**2


def quadratic_form_bound(zeta: float, largest: float, users: int, epsilon: float) -> float:
    """Theorem "lb-red" on top: a mechanism for h'Wh at epsilon answers linear queries at 2 epsilon.

    `zeta` is a lower bound on zeta(W, n) at 2 epsilon, for symmetric W. The error of the mechanism is assumed not
    to grow from n to 2n users.
    """
    return linear_query_bound(zeta, largest, users, 2 * epsilon) / REDUCTION


def non_interactive_bound(factorization: Factorization, largest: float, users: int, epsilon: float) -> float:
    """What no non-interactive protocol for h'Wh can beat, from a factorization of W or of any W - cJ."""
    return quadratic_form_bound(zeta_bound(factorization, users, 2 * epsilon), largest, users, epsilon)


def _slope(users: int, epsilon: float) -> float:
    if users < 1 or not 0 < epsilon < np.inf:
        raise BadInput(f"a lower bound needs at least one user and epsilon > 0, got {users} and {epsilon}")
    return float(epsilon * np.sqrt(users))
