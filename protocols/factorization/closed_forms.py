"""Factorizations known in closed form (paper, Section "Upper Bounds for Specific Metrics").

Shifted statistics return (c, factorization of W - cJ): h'Wh = c + h'(W - cJ)h for every histogram h.
"""

import numpy as np
from numpy.typing import ArrayLike

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Floats
from parley.protocols.factorization.guard import check_levels
from parley.protocols.factorization.model import Factorization, symmetric
from parley.protocols.factorization.operator import Identity
from parley.protocols.factorization.structured import PairedKronecker, Thresholds, TwistedFourier


def skew_circulant(row: ArrayLike) -> Factorization:
    """W[x, y] = w(y - x) with w(d - m) = -w(d), from its first row: gamma_2 is the mean modulus of its eigenvalues.

    Its eigenvectors are exp(i theta_j x), all of constant modulus, so |W| has a constant diagonal; that is the
    largest column norm of the polar factors, and the nuclear norm over m is the matching lower bound.
    """
    first = np.asarray(row, dtype=np.float64)
    if first.ndim != 1 or first.size == 0 or not np.isfinite(first).all():
        raise BadInput("the first row of a skew-circulant matrix should be a vector of finite numbers")
    size, pairs = len(first), len(first) // 2
    twist = np.exp(1j * np.pi * np.arange(size) / size)
    eigenvalues = np.fft.ifft(first * twist, norm="forward")
    moduli, phases = np.abs(eigenvalues), np.exp(-1j * np.angle(eigenvalues))
    # An eigenvalue that is zero but for rounding has no row: odd sign matrices have rank m - 1.
    middle = eigenvalues[pairs].real / size if size % 2 and moduli[pairs] > 1e-12 * moduli.max() else 0.0
    weights = np.sqrt(2 * moduli[:pairs] / size)
    left = TwistedFourier(size, weights.astype(np.complex128), float(np.sqrt(abs(middle))))
    right = TwistedFourier(size, weights * phases[:pairs], float(np.sign(middle) * np.sqrt(abs(middle))))
    value = left.radius * right.radius
    return Factorization(left=left, right=right, lower=value, upper=value)


def sign_matrix(levels: int) -> Factorization:
    """S_m[x, y] = sgn(y - x), sgn(0) = 0: gamma_2 = (1/m) sum_j |cot((2j+1) pi / 2m)|."""
    return skew_circulant(np.concatenate([[0.0], np.ones(check_levels(levels) - 1)]))


def kendall(first: int, second: int) -> Factorization:
    """S_A (x) S_B, the kernel of Kendall's tau on A x B levels; symmetric, with rank(W) rows."""
    one, two = sign_matrix(check_levels(first, "first levels")), sign_matrix(check_levels(second, "second levels"))
    factor = PairedKronecker(one.left, two.left)
    return symmetric(factor, factor.signs, one.lower * two.lower)


def gini_mean_difference(positions: int | ArrayLike) -> tuple[float, Factorization]:
    """|u - v| at increasing positions (or at that many equally spaced levels of [0, 1]): shift and factorization.

    Threshold vectors give |u - v| = T/2 - <A e_u, A e_v> with T the distance of the extremes. T/2 is optimal:
    entries range over [0, T], so some entry of W - cJ is at least T/2 in modulus for every c.
    """
    if isinstance(positions, int | np.integer):
        points: Floats = np.linspace(0.0, 1.0, check_levels(int(positions)))
    else:
        points = np.asarray(positions, dtype=np.float64)
    if points.ndim != 1 or len(points) < 2 or not np.isfinite(points).all():
        raise BadInput("positions should be a vector of at least two finite numbers")
    gaps = np.diff(points)
    if not np.all(gaps > 0):
        where = int(np.argmin(gaps))
        raise BadInput(f"positions should increase; {points[where]} is followed by {points[where + 1]}")
    factor = Thresholds(np.sqrt(gaps / 2))
    half = float(np.sum(gaps)) / 2
    return half, symmetric(factor, -np.ones(factor.rows), half)


def gini_diversity(categories: int) -> tuple[float, Factorization]:
    """1[x != y] = J - I: shift 1 and the identity, gamma_2 = 1."""
    factor = Identity(check_levels(categories, "categories"))
    return 1.0, symmetric(factor, -np.ones(factor.rows), 1.0)


def identity(size: int) -> Factorization:
    """I: gamma_2 = 1."""
    factor = Identity(check_levels(size, "size", least=1))
    return symmetric(factor, np.ones(size), 1.0)
