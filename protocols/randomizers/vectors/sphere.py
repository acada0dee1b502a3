"""Inputs on a sphere: vectors of norm at most C as whole-numbered points of norm 2^24 in one more dimension."""

import math

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Floats

GRID = float(1 << 24)
# Rounding in a caller's factorization may lift a norm over C by this much; more is a mistake.
SLACK = 1e-6


def check_radius(radius: float) -> None:
    """A usable radius C."""
    if radius == 0:
        raise BadInput("radius is 0: all inputs have the same vector, so the statistic is constant; do not ask for it")
    if not math.isfinite(radius) or not 1e-100 <= radius <= 1e100:
        raise BadInput(f"radius is {radius}; give a positive number from 1e-100 to 1e100")


def grid_points(inputs: Floats, dimension: int, radius: float, first_row: int = 0) -> Floats:
    """inputs * 2^24 / C rounded to whole numbers; refused if not finite or longer than C."""
    if inputs.ndim != 2 or inputs.shape[1] != dimension:
        raise BadInput(f"inputs have shape {inputs.shape}; give one row of {dimension} numbers a user")
    points: Floats = np.rint(inputs * (GRID / radius))
    squares = np.einsum("nd,nd->n", points, points)
    # Every comparison with a NaN is false, so this refuses what is not finite, too.
    wrong = ~(squares <= (GRID * (1.0 + SLACK)) ** 2 + GRID * math.sqrt(dimension))
    if wrong.any():
        row = first_row + int(np.argmax(wrong))
        raise BadInput(f"input row {row} is not finite or longer than the radius {radius}; scale the vectors")
    return points


def lift(inputs: Floats, dimension: int, radius: float, first_row: int = 0) -> Floats:
    """Append sqrt(C^2 - |x|^2), so that every point has norm C (mathematics.md, "Norm below C").

    The sum of squares is a whole number below 2^53 and the square root is correctly rounded, so the result
    is the same on every machine.
    """
    points = grid_points(inputs, dimension, radius, first_row)
    squares = np.einsum("nd,nd->n", points, points)
    height = np.rint(np.sqrt(np.maximum(GRID**2 - squares, 0.0)))
    return np.concatenate([points, height[:, None]], axis=1)
