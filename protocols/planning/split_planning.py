"""What is chosen for split-and-mix: rows of A, the weight of a side query, the grid, Q, m and the noise; all public."""

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Floats
from parley.protocols.factorization.approximation import Approximation, exact, single
from parley.protocols.factorization.model import signed
from parley.protocols.factorization.truncation import truncated
from parley.protocols.randomizers.shuffled.shares import shares_needed
from parley.protocols.randomizers.shuffled.skellam import least_variance
from parley.protocols.shuffle.fixed_point_form import extent, grid, side_query
from parley.protocols.shuffle.sensitivity import sensitivity
from parley.protocols.shuffle.split_and_mix import FRACTIONS, SHARES_PART, SplitAndMix
from parley.protocols.tuned.one_round_tuned import rising_scores
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.workload import Workload

# Fixed point is fine enough when rounding moves the form by at most this part of the noise.
FINE = 0.2
WEIGHTS = np.geomspace(0.02, 2.0, 21)
MIDDLE = 12
Kind = TypeVar("Kind", bound=SplitAndMix)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What a person chose."""

    workload: Workload
    epsilon: float
    users: int
    delta: float
    crowd: int


def best_plan(kind: type[Kind], problem: Problem) -> Kind:
    """The factors with the least predicted error: all rows of A, or those that are worth their noise."""
    whole = single(exact(problem.workload))
    factors = signed(whole.factors)
    spread = sensitivity(factors.factor.columns(np.arange(problem.workload.size)))
    if not spread.square > 0:
        raise BadInput(f"all inputs of this {problem.workload.name} have the same vector: nothing has to be asked")
    noise = least_variance(problem.epsilon, problem.delta, *spread) / factors.radius**2 / problem.crowd
    drafts = [whole, *truncated(problem.workload, whole, noise, problem.users)]
    return min((_for_factors(kind, problem, each) for each in drafts), key=lambda made: made.predicted_rmse())


def _for_factors(kind: type[Kind], problem: Problem, approximation: Approximation) -> Kind:
    """The best weight on a middling grid, then the coarsest grid that is fine enough."""
    weight = 0.0
    if side_query(problem.workload) is not None:
        radius, guess = signed(approximation.factors).radius, _guess(problem.workload)
        weights = [round(radius * share * 2.0**MIDDLE) / 2.0**MIDDLE for share in WEIGHTS]
        weight = min(weights, key=lambda each: made(kind, problem, approximation, each, MIDDLE).predicted_rmse(guess))
    drafts = (made(kind, problem, approximation, weight, fraction) for fraction in FRACTIONS)
    return next(draft for draft in drafts if draft.fraction == FRACTIONS[-1] or _fine_enough(draft))


def made(kind: type[Kind], problem: Problem, approximation: Approximation, weight: float, fraction: int) -> Kind:
    """The protocol on this grid: the least noise, the smallest Q and the fewest shares that (eps, delta) allows."""
    workload, epsilon, crowd = problem.workload, problem.epsilon, problem.crowd
    numbers = grid(signed(approximation.factors), side_query(workload), weight, fraction)
    spread = sensitivity(numbers)
    variance = least_variance(epsilon, problem.delta * (1 - 1.1 * SHARES_PART), *spread) / crowd
    bits = math.ceil(math.log2(extent(numbers, problem.users, variance) + 1)) + 1
    secure = math.log2(numbers.shape[1] * (1 + math.exp(epsilon)) / (problem.delta * SHARES_PART))
    return kind(
        workload=workload,
        epsilon=epsilon,
        users=problem.users,
        approximation=approximation,
        weight=weight,
        delta=problem.delta,
        crowd=crowd,
        fraction=fraction,
        bits=bits,
        shares=shares_needed(secure + 1e-9, bits, crowd),
        variance=variance,
    )


def _guess(workload: Workload) -> Floats:
    """A public histogram to weigh the side query by."""
    if isinstance(workload, AreaUnderCurve):
        return rising_scores(workload.levels)
    return np.full(workload.size, 1 / workload.size)


def _fine_enough(protocol: SplitAndMix) -> bool:
    """Whether rounding adds little to the bias that the factors have anyway, compared with the noise."""
    factors = protocol.factors
    vectors = factors.factor.columns(np.arange(protocol.inputs))
    rounded = protocol.numbers[:, : factors.rows] / protocol.scale
    moved = (rounded * factors.signs) @ rounded.T - (vectors * factors.signs) @ vectors.T
    noise = protocol.noise_variance(protocol.users, factors.radius**2)
    return float(np.abs(moved).max()) <= FINE * math.sqrt(noise)
