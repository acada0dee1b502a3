"""The best free shift: min over c of gamma_2(W - cJ), since h'Jh = 1 for every histogram h.

gamma_2(W - cJ) is convex in c. Every dual matrix G with gamma_2*(G) <= 1 is a line below it,
<G, W> - c sum(G), and two such lines of opposite slope bound the minimum over all c from below. Each step
evaluates gamma_2 where the present lines are lowest and adds the line found there.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from parley.protocols.convergence import stopped_short
from parley.protocols.factorization.fixed_point import bracket, check_tolerance
from parley.protocols.factorization.operator import check_matrix
from parley.protocols.workloads.kernel import Kernel
from parley.protocols.workloads.workload import Workload

TOLERANCE = 1e-3
EVALUATIONS = 60
# A shift this near to the best costs as little: gamma_2 is flat around its minimum.
NEAR = 0.01
# Of larger kernels the shift is looked for among some of their inputs; any shift is right, the best one is small.
LARGEST = 192
KEPT = 4


@lru_cache(maxsize=KEPT)
def with_best_shift(workload: Workload) -> Workload:
    """A kernel that came without a shift gets the one with the smallest gamma_2; h'Jh = 1 makes it free.

    A constant kernel stays as it is: nothing would be left to factorise.
    """
    if not isinstance(workload, Kernel) or workload.shift or np.ptp(workload.values) == 0:
        return workload
    some = np.unique(np.linspace(0, workload.size - 1, min(workload.size, LARGEST)).astype(np.int64))
    return Kernel(workload.values, shift=best_shift(workload.values[np.ix_(some, some)], NEAR)[0])


def best_shift(matrix: ArrayLike, tolerance: float = TOLERANCE) -> tuple[float, float, float]:
    """The best shift c, a lower bound on gamma_2 for all shifts, and an upper one for c within `tolerance` of it."""
    workload = check_matrix(matrix)
    check_tolerance(tolerance)
    if workload.max() == workload.min():
        return float(workload[0, 0]), 0.0, 0.0
    scale = float(np.max(np.abs(workload)))
    workload = workload / scale
    # One entry of W - cJ alone gives gamma_2 >= max W - c and gamma_2 >= c - min W.
    lines = [(float(workload.max()), -1.0), (-float(workload.min()), 1.0)]
    floor, shift = _lowest(lines)
    found = bracket(workload - shift, tolerance / 3)
    best, upper = shift, found.above.upper
    for _ in range(EVALUATIONS):
        mass = found.below.mass
        lines.append((found.below.lower + shift * mass, -mass))
        floor, shift = _lowest(lines)
        if upper <= (1 + tolerance) * floor:
            break
        found = bracket(workload - shift, tolerance / 3, start=(found.below.rows, found.below.columns))
        if found.above.upper < upper:
            best, upper = shift, found.above.upper
    if (gap := upper / max(floor, 5e-324) - 1) > tolerance:
        stopped_short("the best shift", gap, tolerance, "any shift gives the same statistic, another one less noise")
    return best * scale, min(floor, upper) * scale, upper * scale


def _lowest(lines: list[tuple[float, float]]) -> tuple[float, float]:
    """The minimum over c of the highest line height + slope c, where a falling and a rising one cross, and its c."""
    falling, rising = ([line for line in lines if (line[1] < 0) == sign] for sign in (True, False))
    crossings = [(first[0] - second[0]) / (second[1] - first[1]) for first in falling for second in rising]
    heights = [max(height + slope * shift for height, slope in lines) for shift in crossings]
    lowest = int(np.argmin(heights))
    return heights[lowest], crossings[lowest]
