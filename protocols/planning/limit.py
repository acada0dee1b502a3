"""The limit: the least RMSE that any protocol can have in the long run, by a linear program.

Let g be the gradient of the statistic at h. Of all eps-LDP channels Q and values t with E[t | x] = g(x) for every x,

    V(eps) = min  sum_x h_x sum_y Q(y|x) t_y^2 - sum_x h_x g_x^2,        limit(n) = sqrt(V / n).

What it bounds: Fisher information adds up over users, and the mean of the users' information matrices is that of one
channel, whose public coin picks a user. So no protocol, however many rounds it has, does better as n grows, if its
estimate is unbiased or nearly so. The truth is the statistic of the users who are there, so their own sampling costs
nothing. What it does not bound: estimates that shrink towards a guess may be better at single histograms and for few
users; a shuffler allows for more than eps-LDP does; and where g is constant (an even histogram under the diversity
index) it is 0, and the second order rules.

One bit reaches range/2 * (e^eps + 1)/(e^eps - 1)/sqrt(n), today's `floor`; from eps 2 on the limit is well below it.

The program has a FINE grid of places and values. A finer one lowers V by less than 0.2% up to eps 4 and by
about 3% at eps 8, so the number printed is not too small by construction.
"""

import math
from collections.abc import Iterable

from parley.emulator.randomizer import Floats
from parley.protocols.randomizers.channels.scalar_lp import best_table, row_weights
from parley.protocols.tuned.objective import Objective
from parley.protocols.workloads.workload import Workload

Grid = tuple[int, int]
FINE, COARSE = (41, 97), (21, 33)
# Below this one bit is within 0.002% of the best channel, and the program is badly scaled.
LEAST_EPSILON = 0.01
# Beyond this the grid decides, not epsilon.
LARGEST_EPSILON = 12.0
# Beyond this the gradient takes longer than the program.
MOST_INPUTS = 1 << 20
SKIPPED = f"not computed beyond epsilon {LARGEST_EPSILON:g} or {MOST_INPUTS:,} inputs"


def hardest_limit(workload: Workload, histograms: Iterable[Floats], epsilon: float, users: int) -> float | None:
    """The largest limit of these histograms; None where it is not computed."""
    if epsilon > LARGEST_EPSILON or workload.size > MOST_INPUTS:
        return None
    # A coarse grid takes a tenth of the time and is never below the fine one.
    rough = [(limit(workload, each, epsilon, users, COARSE), each) for each in histograms]
    found = 0.0
    for most, histogram in sorted(rough, key=lambda each: -each[0]):
        if most > found:
            found = max(found, limit(workload, histogram, epsilon, users))
    return found


def limit(workload: Workload, histogram: Floats, epsilon: float, users: int, grid: Grid = FINE) -> float:
    """The least RMSE for so many users with this histogram; 0 where the statistic has no slope."""
    gradient = Objective(workload).at(histogram).gradient
    return math.sqrt(least_variance(gradient, histogram, epsilon, grid) / users)


def least_variance(gradient: Floats, histogram: Floats, epsilon: float, grid: Grid = FINE) -> float:
    """V(eps): n times the least variance of an unbiased estimate of <h, g>."""
    low, high = float(gradient.min()), float(gradient.max())
    middle, half = (low + high) / 2, (high - low) / 2
    if half <= 1e-12 * max(1.0, abs(middle)):
        return 0.0
    places = (gradient - middle) / half
    weights = row_weights(places, histogram, grid[0])
    if epsilon < LEAST_EPSILON:
        second_moment = 1 / math.tanh(epsilon / 2) ** 2
    else:
        second_moment = float(weights @ best_table(weights, epsilon, grid[1]).second_moments)
    return max(0.0, half**2 * (second_moment - float(histogram @ places**2)))
