"""Kendall's tau (paper, "Upper Bounds for Specific Metrics"): f = sgn(y_i - y_j) sgn(z_i - z_j).

The paper writes W = U_A (x) U_B with +1 on the diagonals, which counts ties as concordant. Here sgn(0) = 0, so
W = S_A (x) S_B with S[i, j] = sgn(j - i), and the statistic is tau-a. Input (y, z) has the index y * b + z.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Inputs
from parley.emulator.randomizer import Floats
from parley.protocols.workloads.workload import Kind, OnLevels, check_dense, check_rows


class SignProduct(OnLevels):
    """W = S_a (x) S_b for the shape (a, b), where S_m[i, j] = sgn(j - i)."""

    def matrix(self) -> Floats:
        check_dense(self.size)
        signs = [np.sign(np.arange(size) - np.arange(size)[:, None]).astype(np.float64) for size in self.shape]
        return np.asarray(np.kron(signs[0], signs[1]), dtype=np.float64)

    def apply(self, histogram: Floats) -> Floats:
        """By prefix sums along each axis: what lies above minus what lies below. Integers stay integers."""
        check_rows(histogram, self.size)
        grid = histogram.reshape(*self.shape, *histogram.shape[1:])
        for axis in (0, 1):
            prefix = np.cumsum(grid, axis=axis)
            grid = np.take(prefix, [-1], axis=axis) - 2 * prefix + grid
        return grid.reshape(histogram.shape)


@dataclass(frozen=True, kw_only=True)
class Kendall(SignProduct):
    """Kendall's tau-a of two ordered columns with a and b levels."""

    name: ClassVar[str] = "kendall"
    kind: ClassVar[Kind] = "kendall"
    columns: ClassVar[int] = 2
    bounds = (-1.0, 1.0)
    levels: tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Untied(OnLevels):
    """The share of pairs that differ in one coordinate: f = [y_i != y_j] for axis 0, [z_i != z_j] for axis 1."""

    name: ClassVar[str] = "untied"
    kind: ClassVar[Kind] = "margin"
    columns: ClassVar[int] = 2
    shift = 1.0
    levels: tuple[int, int]
    axis: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.axis) is not int or self.axis not in (0, 1):
            raise BadInput(f"the axis of untied must be 0 or 1, got {self.axis!r}")

    def matrix(self) -> Floats:
        check_dense(self.size)
        tied = [np.ones((levels, levels)) for levels in self.levels]
        tied[self.axis] = np.eye(self.levels[self.axis])
        return np.asarray(1.0 - np.kron(tied[0], tied[1]), dtype=np.float64)

    def apply(self, histogram: Floats) -> Floats:
        check_rows(histogram, self.size)
        grid = histogram.reshape(*self.levels, *histogram.shape[1:])
        margin = np.broadcast_to(grid.sum(axis=1 - self.axis, keepdims=True), grid.shape)
        return np.asarray(histogram.sum(axis=0) - margin.reshape(histogram.shape))


@dataclass(frozen=True, kw_only=True)
class KendallTauB(Kendall):
    """Kendall's tau-b as a ratio of three forms: h'Wh / sqrt(h'V_1 h * h'V_2 h), V_i counting the untied pairs.

    W is that of tau-a, so a protocol that is asked for the form measures the numerator; `binned` has the rest.
    """

    name: ClassVar[str] = "kendall-b"

    @property
    def forms(self) -> tuple[Kendall, Untied, Untied]:
        """Numerator, pairs untied in the first column, pairs untied in the second."""
        first, second = (Untied(levels=self.levels, axis=axis) for axis in (0, 1))
        return Kendall(levels=self.levels), first, second

    def combine(self, numerator: float, first: float, second: float) -> float:
        """The ratio, from forms or from U-statistics alike: the factor n/(n-1) cancels."""
        if first <= 0 or second <= 0:
            raise BadInput(
                f"tau-b is undefined where a column is constant: the shares of untied pairs are {first} and {second}"
            )
        return numerator / float(np.sqrt(first) * np.sqrt(second))

    def exact(self, inputs: Inputs) -> float:
        return self.combine(*(form.exact(inputs) for form in self.forms))
