"""Factorizations known in closed form (paper, Section "Upper Bounds for Specific Metrics").

Of shifted statistics W - cJ is factorised: h'Wh = c + h'(W - cJ)h for every histogram h. The factors have structure:
Kronecker products, thresholds and twisted Fourier rows, none of which is ever formed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from parley.emulator.randomizer import Floats
from parley.protocols.factorization.model import Factorization, symmetric
from parley.protocols.factorization.operator import Factor
from parley.protocols.workloads.workload import check_level

Action = Callable[[Floats], Floats]


def _by_sides(left: Action, right: Action, matrix: Floats, first: int, second: int) -> Floats:
    """(A (x) B) M one side at a time, for `first` x `second` rows of M."""
    half = left(matrix.reshape(first, -1))
    half = half.reshape(len(half), second, -1)
    whole = right(half.swapaxes(0, 1).reshape(second, -1))
    return whole.reshape(len(whole), len(half), -1).swapaxes(0, 1).reshape(len(whole) * len(half), -1)


@dataclass(frozen=True, eq=False)
class PairedKronecker(Factor):
    """T (A (x) B), the signed factor of a Kronecker product of two skew-symmetric matrices.

    Inputs x = (a, b) are numbered a * inputs(B) + b.
    Where S_A = A'JA and S_B = B'JB with J the quarter turn of the two halves of the rows, J (x) J is symmetric
    with eigenvalues +-1; T turns it diagonal. On the four quarters of the rows that is one butterfly:
    (00 + 11, 01 - 10) carry +1 and (00 - 11, 01 + 10) carry -1.
    """

    left: Factor
    right: Factor

    @property
    def shape(self) -> tuple[int, int]:
        return (self.left.rows * self.right.rows, self.left.inputs * self.right.inputs)

    @cached_property
    def signs(self) -> Floats:
        """The diagonal of D in W = A'DA."""
        half = self.shape[0] // 2
        return np.concatenate([np.ones(half), -np.ones(half)])

    def _turn(self, matrix: Floats) -> Floats:
        blocks = matrix.reshape(2, self.left.rows // 2, 2, self.right.rows // 2, -1)
        (q00, q01), (q10, q11) = blocks[0].swapaxes(0, 1), blocks[1].swapaxes(0, 1)
        turned = np.stack([q00 + q11, q01 - q10, q00 - q11, q01 + q10])
        return np.asarray((turned * np.sqrt(0.5)).reshape(matrix.shape))

    def _turn_back(self, matrix: Floats) -> Floats:
        plus, cross, minus, sum_cross = matrix.reshape(4, self.left.rows // 2, self.right.rows // 2, -1)
        first = np.stack([plus + minus, cross + sum_cross], axis=1)
        second = np.stack([sum_cross - cross, plus - minus], axis=1)
        return np.asarray((np.stack([first, second]) * np.sqrt(0.5)).reshape(matrix.shape))

    def _columns(self, indices: NDArray[np.int64]) -> Floats:
        left = self.left.columns(indices // self.right.inputs)
        right = self.right.columns(indices % self.right.inputs)
        product = (left[:, :, None] * right[:, None, :]).reshape(len(indices), self.shape[0])
        return np.ascontiguousarray(self._turn(product.T).T)

    def _apply(self, matrix: Floats) -> Floats:
        return self._turn(_by_sides(self.left.apply, self.right.apply, matrix, self.left.inputs, self.right.inputs))

    def _transpose_apply(self, matrix: Floats) -> Floats:
        left, right = self.left.transpose_apply, self.right.transpose_apply
        return _by_sides(left, right, self._turn_back(matrix), self.left.rows, self.right.rows)

    def norms(self) -> Floats:
        return np.asarray(np.multiply.outer(self.left.norms(), self.right.norms()).reshape(-1))


@dataclass(frozen=True, eq=False)
class Thresholds(Factor):
    """Row t is +w_t for inputs above threshold t and -w_t below it: prefix sums instead of a matrix."""

    weights: Floats

    @property
    def shape(self) -> tuple[int, int]:
        return (len(self.weights), len(self.weights) + 1)

    def _columns(self, indices: NDArray[np.int64]) -> Floats:
        above = np.arange(len(self.weights)) < indices[:, None]
        return np.where(above, self.weights, -self.weights)

    def _apply(self, matrix: Floats) -> Floats:
        below = np.cumsum(matrix, axis=0)
        return np.asarray(self.weights[:, None] * (below[-1] - 2 * below[:-1]))

    def _transpose_apply(self, matrix: Floats) -> Floats:
        weighted = np.cumsum(self.weights[:, None] * matrix, axis=0)
        below = np.concatenate([np.zeros((1, matrix.shape[1])), weighted])
        return np.asarray(2 * below - below[-1])

    def norms(self) -> Floats:
        return np.full(self.shape[1], np.sqrt(np.sum(self.weights**2)))


@dataclass(frozen=True, eq=False)
class Helmert(Factor):
    """k - 1 orthonormal rows that add up to 0: row j is (1, ..., 1, -j, 0, ..., 0) / sqrt(j (j + 1)), j ones first.

    Its columns are the corners of a regular simplex around 0, so A'A = I - J/k.
    """

    size: int

    @property
    def shape(self) -> tuple[int, int]:
        return (self.size - 1, self.size)

    @cached_property
    def _scale(self) -> Floats:
        row = np.arange(1.0, self.size)
        return np.asarray(1 / np.sqrt(row * (row + 1)))

    def _columns(self, indices: NDArray[np.int64]) -> Floats:
        row, place = np.arange(1, self.size), indices[:, None]
        return np.where(place < row, self._scale, np.where(place == row, -row * self._scale, 0.0))

    def _apply(self, matrix: Floats) -> Floats:
        before = np.cumsum(matrix[:-1], axis=0)
        row = np.arange(1, self.size)[:, None]
        return np.asarray(self._scale[:, None] * (before - row * matrix[1:]))

    def _transpose_apply(self, matrix: Floats) -> Floats:
        scaled = self._scale[:, None] * matrix
        nothing = np.zeros((1, matrix.shape[1]))
        after = np.concatenate([np.cumsum(scaled[::-1], axis=0)[::-1], nothing])
        own = np.concatenate([nothing, np.arange(1, self.size)[:, None] * scaled])
        return np.asarray(after - own)

    def norms(self) -> Floats:
        return np.full(self.size, np.sqrt(1.0 - 1.0 / self.size))


@dataclass(frozen=True, eq=False)
class TwistedFourier(Factor):
    """Rows Re and Im of c_j exp(i theta_j x), theta_j = (2j + 1) pi / m: the eigenvectors of skew-circulants.

    For odd m the row alternating * (-1)^x follows unless its coefficient is zero.
    """

    size: int
    coefficients: NDArray[np.complex128]
    alternating: float = 0.0

    @property
    def shape(self) -> tuple[int, int]:
        return (2 * len(self.coefficients) + (self.alternating != 0), self.size)

    @cached_property
    def _circle(self) -> NDArray[np.complex128]:
        return np.asarray(np.exp(1j * np.pi * np.arange(2 * self.size) / self.size))

    @cached_property
    def _parity(self) -> Floats:
        return np.asarray(self.alternating * (1.0 - 2.0 * (np.arange(self.size) % 2)), dtype=np.float64)

    def _columns(self, indices: NDArray[np.int64]) -> Floats:
        # Whole-number angles keep every entry accurate to rounding however large j x is.
        odd = 2 * np.arange(len(self.coefficients)) + 1
        angles = np.multiply.outer(indices, odd) % (2 * self.size)
        cosines, sines = self._circle.real[angles], self._circle.imag[angles]
        scale, turn = self.coefficients.real, self.coefficients.imag
        # Real arithmetic: a fused complex product would round differently at different places of an array.
        parts = [scale * cosines - turn * sines, scale * sines + turn * cosines]
        if self.alternating:
            parts.append(self._parity[indices][:, None])
        return np.concatenate(parts, axis=1)

    def _apply(self, matrix: Floats) -> Floats:
        spectrum = np.fft.ifft(matrix * self._circle[: self.size, None], axis=0, norm="forward")
        values = self.coefficients[:, None] * spectrum[: len(self.coefficients)]
        parts = [values.real, values.imag]
        if self.alternating:
            parts.append((self._parity @ matrix)[None])
        return np.concatenate(parts)

    def _transpose_apply(self, matrix: Floats) -> Floats:
        pairs = len(self.coefficients)
        values = self.coefficients.conj()[:, None] * (matrix[:pairs] + 1j * matrix[pairs : 2 * pairs])
        waves = np.fft.fft(values, n=self.size, axis=0)
        result = (self._circle[: self.size, None].conj() * waves).real
        if self.alternating:
            result = result + self._parity[:, None] * matrix[-1]
        return np.asarray(result)

    def norms(self) -> Floats:
        squared = float(np.sum(np.abs(self.coefficients) ** 2)) + self.alternating**2
        return np.full(self.size, np.sqrt(squared))


def skew_circulant(first: Floats) -> Factorization:
    """W[x, y] = w(y - x) with w(d - m) = -w(d), from its first row: gamma_2 is the mean modulus of its eigenvalues.

    Its eigenvectors are exp(i theta_j x), all of constant modulus, so |W| has a constant diagonal; that is the
    largest column norm of the polar factors, and the nuclear norm over m is the matching lower bound.
    """
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
    return skew_circulant(np.concatenate([[0.0], np.ones(check_level("levels", levels) - 1)]))


def kendall(first: int, second: int) -> Factorization:
    """S_A (x) S_B, the kernel of Kendall's tau on A x B levels; symmetric, with rank(W) rows."""
    one, two = sign_matrix(first), sign_matrix(second)
    factor = PairedKronecker(one.left, two.left)
    return symmetric(factor, factor.signs, one.lower * two.lower)


def gini_mean_difference(levels: int) -> Factorization:
    """|u - v| - 1/2 at equally spaced levels of [0, 1].

    Threshold vectors give |u - v| = T/2 - <A e_u, A e_v> with T the distance of the extremes. T/2 is optimal:
    entries range over [0, T], so some entry of W - cJ is at least T/2 in modulus for every c.
    """
    gaps = np.diff(np.linspace(0.0, 1.0, levels))
    factor = Thresholds(np.sqrt(gaps / 2))
    return symmetric(factor, -np.ones(factor.rows), float(np.sum(gaps)) / 2)


def gini_diversity(categories: int) -> Factorization:
    """1[x != y] - (1 - 1/k) = -(I - J/k): gamma_2 = 1 - 1/k.

    No shift does better: I - tJ has the eigenvalue 1 k - 1 times, and gamma_2 is at least the nuclear norm over k.
    """
    factor = Helmert(categories)
    return symmetric(factor, -np.ones(factor.rows), 1.0 - 1.0 / categories)
