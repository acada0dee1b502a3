"""Named kernels f(x, y) = g(|x - y|) on [0, 1]: what Lipschitz workloads call by name.

On an even grid such a kernel is a symmetric Toeplitz matrix: its first row says everything, and it multiplies a
vector in O(k log k).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Floats
from parley.protocols.workloads.domain import nearest


@dataclass(frozen=True, kw_only=True)
class Distance:
    """g on [0, 1] and its Lipschitz constant there; `width` is None where g has no scale of its own."""

    profile: Callable[[Floats], Floats]
    constant: float
    width: float | None = None


def _huber(edge: float) -> Distance:
    """d^2/2 up to the width, from there the tangent."""

    def profile(distance: Floats) -> Floats:
        return np.where(distance <= edge, distance**2 / 2, edge * (distance - edge / 2))

    return Distance(profile=profile, constant=min(edge, 1.0), width=edge)


def _gaussian(sigma: float) -> Distance:
    """exp(-d^2 / 2 width^2), steepest at d = width; its diagonal is 1, not 0."""
    steepest = min(sigma, 1.0)
    constant = float(steepest / sigma**2 * np.exp(-((steepest / sigma) ** 2) / 2))
    return Distance(profile=lambda distance: np.exp(-((distance / sigma) ** 2) / 2), constant=constant, width=sigma)


DISTANCES: Mapping[str, Callable[[float], Distance]] = {
    # |d|: the Gini mean difference in the interval's own units.
    "absolute-difference": lambda edge: Distance(profile=lambda distance: distance, constant=1.0),
    # d^2: its mean over pairs is twice the variance.
    "squared-difference": lambda edge: Distance(profile=np.square, constant=2.0),
    "huber": _huber,
    "truncated-difference": lambda edge: Distance(profile=lambda d: np.minimum(d, edge), constant=1.0, width=edge),
    "gaussian": _gaussian,
}


def named_distance(name: str, width: float | None = None) -> Distance:
    """The distance of that name; its width, if it has one and none is given, is a quarter of the range."""
    if name not in DISTANCES:
        raise BadInput(f"unknown Lipschitz function {name!r}{nearest(name, list(DISTANCES))}")
    distance = DISTANCES[name](0.25)
    if width is None:
        return distance
    if distance.width is None:
        raise BadInput(f"{name} takes no width, got {width!r}")
    # Narrower than this, squares underflow; no grid we allow could tell such widths apart.
    if isinstance(width, bool) or not isinstance(width, int | float) or not 1e-9 <= width <= 1e9:
        raise BadInput(f"the width of {name} must lie between 1e-9 and 1e9, got {width!r}")
    return DISTANCES[name](float(width))


def apply_toeplitz(first_row: Floats, values: Floats) -> Floats:
    """T v for a symmetric Toeplitz T by circulant embedding: 2k points, so that nothing wraps around."""
    size = len(first_row)
    circle = np.concatenate([first_row, [0.0], first_row[:0:-1]])
    spectrum = np.fft.rfft(circle)[:, None] * np.fft.rfft(values.reshape(size, -1), n=2 * size, axis=0)
    product = np.fft.irfft(spectrum, n=2 * size, axis=0)[:size]
    return np.asarray(product.reshape(values.shape), dtype=np.float64)
