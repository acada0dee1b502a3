"""Vectors in fixed point: whole numbers for every input, the room their sum takes, and how far apart two can be."""

import math
from typing import NamedTuple

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Floats, Integers
from parley.protocols.factorization.model import SignedFactorization
from parley.protocols.workloads.workload import Workload

Query = tuple[str, Floats]
# Sums stay in their room but for noise of more than so many deviations, which has a probability below 2^-128.
REACH = 14.0
# Numbers stay far below 2^63, so that they and their differences are what they are as int64, and exact as float64.
LARGEST_NUMBER = 2.0**52


def side_query(workload: Workload) -> Query | None:
    """What the statistic needs besides the form: a named function of the input, at most one."""
    return next(iter(workload.linear_queries().items()), None)


def grid(factors: SignedFactorization, query: Query | None, weight: float, fraction: int) -> Integers:
    """The vectors of all inputs in steps of 2^-fraction, with the side query from -weight to weight below them."""
    columns = factors.factor.columns(np.arange(factors.inputs))
    if query is not None:
        values = query[1]
        label = 2 * (values - values.min()) / np.ptp(values) - 1
        columns = np.concatenate([columns, weight * label[:, None]], axis=1)
    largest = float(np.abs(columns).max())
    if not largest < math.ldexp(LARGEST_NUMBER, -fraction):
        raise BadInput(f"a vector with an entry of {largest:g} is too long for fixed point; rescale the statistic")
    return np.rint(columns * 2.0**fraction).astype(np.int64)


def extent(numbers: Integers, users: int, variance: float) -> float:
    """How far from 0 the sum of so many vectors can be, with noise of this variance from each."""
    return users * float(np.abs(numbers).max()) + REACH * math.sqrt(users * variance) + REACH**2


# Pairs of more inputs than this are not listed; twice the largest norm bounds them.
MOST_LISTED = 1024


class Sensitivity(NamedTuple):
    """Delta_2^2 and Delta_1."""

    square: float
    absolute: float


def sensitivity(vectors: Integers | Floats) -> Sensitivity:
    """The l2 and l1 diameters of the rows, in their units; never less than they are. Every user computes them."""
    values = vectors.astype(np.float64)
    if len(values) > MOST_LISTED:
        square = 4 * float((values**2).sum(axis=1).max())
        return Sensitivity(square * (1 + 1e-12), 2 * float(np.abs(values).sum(axis=1).max()))
    square = absolute = 0.0
    for row in range(len(values) - 1):
        apart = np.abs(values[row + 1 :] - values[row])
        square = max(square, float((apart**2).sum(axis=1).max()))
        absolute = max(absolute, float(apart.sum(axis=1).max()))
    return Sensitivity(square * (1 + 1e-12), absolute)
