"""gamma_2 of any matrix by a fixed point that certifies itself, with no solver.

At the optimum every weight is proportional to the load of its row: p = a / sum(a). The iteration multiplies p by
a power of a / (p sum(a)), and likewise q. Each entry has its own power, which grows while the entry keeps moving
one way and shrinks when it turns back. Each step gives a lower and an upper bound on gamma_2, so nothing about
the iteration has to be trusted: the best of each are kept, and it stops when they meet.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Floats
from parley.protocols.factorization.model import Factorization, balanced, symmetric
from parley.protocols.factorization.operator import Dense, Reflected, check_matrix, is_symmetric
from parley.protocols.factorization.spectrum import Spectrum, decompose

Kept = NDArray[np.bool_]

TOLERANCE = 1e-3
# How many are needed depends on rounding, so on the processor; a gap of 1e-5 took 800 at most.
ITERATIONS = 2000
_FIRST_POWER, _FASTER, _SLOWER, _LARGEST_POWER = 2.0, 1.3, 0.5, 16.0


@dataclass(frozen=True, kw_only=True, eq=False)
class _Weights:
    """A probability vector on its way, the power of each of its entries, and where each went last."""

    values: Floats
    powers: Floats
    direction: Floats

    @classmethod
    def starting(cls, values: Floats) -> "_Weights":
        return cls(values=values, powers=np.full(len(values), _FIRST_POWER), direction=np.zeros(len(values)))

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

    def narrowed(self, spectrum: Spectrum) -> "Bracket":
        return Bracket(
            below=spectrum if spectrum.lower > self.below.lower else self.below,
            above=spectrum if spectrum.upper < self.above.upper else self.above,
        )


def bracket(
    workload: Floats,
    tolerance: float,
    iterations: int = ITERATIONS,
    start: tuple[Floats, Floats] | None = None,
) -> Bracket:
    """Iterate on a matrix without zero rows or columns until the bounds agree to `tolerance`."""
    even = is_symmetric(workload)
    rows, columns = (_Weights.starting(weights) for weights in start or _uniform(workload))
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
        narrowed = best.narrowed(spectrum)
        stuck = 0 if narrowed.gap < best.gap else stuck + 1
        if stuck == 10:
            largest, stuck = max(1.0, largest / 2), 0
        best = narrowed
    return best


def fixed_point(matrix: ArrayLike, tolerance: float = TOLERANCE, iterations: int = ITERATIONS) -> Factorization:
    """W = L'R for any real matrix, gamma_2(W) in [lower, upper] with upper/lower - 1 <= tolerance.

    A symmetric W gets R = D L, so its signed factorization has as few rows as W has rank. Where `iterations` end
    before the tolerance is met the factorization is still exact and `gap` says what was reached.
    """
    workload = check_matrix(matrix)
    check_tolerance(tolerance)
    rows, columns = np.any(workload != 0, axis=1), np.any(workload != 0, axis=0)
    if not rows.any():
        return _zero(workload.shape)
    scale = float(np.max(np.abs(workload)))
    core = workload[np.ix_(rows, columns)] / scale
    return embed(assemble(core, bracket(core, tolerance, iterations)), scale, rows, columns)


def check_tolerance(tolerance: float) -> None:
    """A relative tolerance that rounding can meet."""
    if not 1e-10 <= tolerance < np.inf:
        raise BadInput(f"the tolerance on gamma_2 should be at least 1e-10, got {tolerance}")


def assemble(workload: Floats, best: Bracket) -> Factorization:
    """The factors behind the best upper bound on gamma_2 of a matrix without zero rows or columns."""
    if best.above.signs is None:
        return balanced(*best.above.factors(workload), best.below.lower)
    factor, reflected = best.above.signed_factor(workload)
    signs = np.where(np.einsum("ij,ij->i", factor, reflected) < 0, -1.0, 1.0)
    return symmetric(Dense(factor), signs, best.below.lower)


def embed(core: Factorization, scale: float, rows: Kept, columns: Kept) -> Factorization:
    """Undo the scaling of W and give its zero rows and columns back, as zero columns of the factors."""
    left = _widened(core.left.dense(), rows, scale)
    # What is left of W may be symmetric when W is not, as in [[0, 1]].
    if isinstance(core.right, Reflected) and np.array_equal(rows, columns):
        return symmetric(Dense(left), core.right.signs, core.lower * scale)
    return balanced(left, _widened(core.right.dense(), columns, scale), core.lower * scale)


def _widened(matrix: Floats, kept: Kept, scale: float) -> Floats:
    wide = np.zeros((matrix.shape[0], len(kept)))
    wide[:, kept] = matrix * np.sqrt(scale)
    return wide


def _uniform(workload: Floats) -> tuple[Floats, Floats]:
    rows, columns = workload.shape
    return np.full(rows, 1 / rows), np.full(columns, 1 / columns)


def _zero(shape: tuple[int, ...]) -> Factorization:
    if shape[0] == shape[1]:
        return symmetric(Dense(np.zeros((1, shape[0]))), np.ones(1), 0.0)
    return balanced(np.zeros((1, shape[0])), np.zeros((1, shape[1])), 0.0)
