"""Which protocol to run: every protocol's predicted error for a problem, best first, from public numbers alone.

A person who knows n, eps and the statistic is given the best choice; one who has a public guess of the histogram (last
year's, a census) is given the best choice for that. Nothing here ever sees private data.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Protocol, Trust
from parley.emulator.randomizer import Floats, Shape
from parley.protocols import registry
from parley.protocols.factorization.factors import factorize, infinity_norm
from parley.protocols.factorization.shift import with_best_shift
from parley.protocols.pairwise import Pairwise
from parley.protocols.planned import Planned
from parley.protocols.planning.limit import hardest_limit
from parley.protocols.planning.lower_bounds import scale, two_point_bound, users_for_separation
from parley.protocols.planning.planning import assumed_histograms
from parley.protocols.planning.table import predicted_rmse, shares_of_replies
from parley.protocols.tuned.two_round_tuned import TwoRoundTuned
from parley.protocols.workloads.workload import Levels, Workload

# The paper's own constants are for comparison with its theorems; `auto` picks among tuned forms and baselines.
VERBATIM = ("one-round", "two-round", "two-round-black-box", "three-round")
# A further round or more bytes are worth it only if they lower the error by so much.
WORTH = 1.02
# What a round that adapts to the data is worth where data are not as guessed: on problems drawn at random
# (benchmarks/auto_grid.py) tuned protocols with equal predictions erred by a tenth or more less in two rounds.
ADAPTS = 1.1
# The error, as a part of the range, of the middle of the range, which is as far as estimates are pulled to it.
NOTHING = (1 - 1e-9) / math.sqrt(12)
AUTO = "auto"


@dataclass(frozen=True, kw_only=True)
class Option:
    """One protocol made for the problem, with what it is predicted to cost."""

    name: str
    protocol: Protocol = field(repr=False)
    rounds: int
    predicted_rmse: float
    worst_rmse: float
    bytes_up: float
    bytes_down: float


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What limits every protocol: gamma_2 of W - cJ, the limit, one bit's error, a proven bound, a scale.

    `limit` is the least error in the long run (limit.py), None where it is not computed; `floor` is that of one bit per
    user, with the histogram known. Both are for the guess where they are largest. `lower_bound` is the error that every
    protocol has on its worst data if each user speaks once; `scale` is zeta/(eps sqrt n); `separation` is the number of
    users in the paper's condition for three rounds.
    """

    gamma_lower: float
    gamma_upper: float
    limit: float | None
    floor: float
    lower_bound: float
    scale: float
    separation: float


def statistics_names(trust: Trust = "nobody") -> list[str]:
    return [name for name in registry.names(trust) if issubclass(registry.lookup(name), Pairwise)]


def suitable_names(problem: Workload | Levels, trust: Trust = "nobody") -> list[str]:
    """Those that can be asked: where no statistic is asked for, protocols of other people's."""
    if not isinstance(problem, Levels):
        return statistics_names(trust)
    return [name for name in registry.names(trust) if not issubclass(registry.lookup(name), Planned)]


def rank_protocols(
    workload: Workload | Levels,
    epsilon: float,
    users: int,
    histogram: Floats | None = None,
    names: Iterable[str] | None = None,
    trust: Trust = "nobody",
    delta: float | None = None,
) -> list[Option]:
    """All protocols for this problem, best first; those that cannot be used for it are left out.

    Without a statistic (`Levels`) these are protocols of other people's that estimate something else.
    """
    assumed = list(assumed_histograms(workload).values())
    guesses = assumed if histogram is None else [checked_histogram(workload, histogram)]
    options, reason = [], ""
    for name in suitable_names(workload, trust) if names is None else names:
        kind: Any = registry.lookup(name)
        try:
            if histogram is not None and issubclass(kind, TwoRoundTuned):
                protocol = kind.design(workload, epsilon=epsilon, users=users, histogram=guesses[0])
            else:
                protocol = registry.design(name, workload, epsilon=epsilon, users=users, delta=delta)
            options.append(_option(name, protocol, users, guesses))
        except BadInput as error:
            # What is wrong with one of many is of no interest; with the only one, it is the reason.
            reason = "" if names is None else f": {error}"
    if not options:
        what = f"{workload.name} with {workload.size} inputs and epsilon {epsilon}"
        raise BadInput(f"no protocol can be used for {what}{reason or '; name one with --protocol to hear why'}")
    return sorted(options, key=lambda option: option.predicted_rmse)


def choose(workload: Workload | Levels, epsilon: float, users: int, histogram: Floats | None = None) -> Protocol:
    if isinstance(workload, Levels):
        raise BadInput("say what to estimate: --statistic NAME, --kernel FILE, or --protocol NAME of your own")
    tried = [name for name in suitable_names(workload) if name not in VERBATIM]
    options = rank_protocols(workload, epsilon, users, histogram, tried)
    return pick(options, known=histogram is not None).protocol


def pick(options: Sequence[Option], *, known: bool = False) -> Option:
    """What `auto` takes of a plan: the best, and of nearly equal ones the one with fewer rounds and bytes.

    Unless the histogram is known, a protocol that adapts to it counts as ADAPTS better than predicted, if it is
    predicted to tell more than the middle of the range does.
    """
    asked = [option for option in options if option.name not in VERBATIM] or list(options)
    adapts = [not known and option.rounds > 1 and not _tells_nothing(option) for option in asked]
    expected = [option.predicted_rmse / (ADAPTS if more else 1.0) for option, more in zip(asked, adapts, strict=True)]
    good = [option for option, error in zip(asked, expected, strict=True) if error <= WORTH * min(expected)]
    return min(good, key=lambda option: (option.rounds, option.bytes_up + option.bytes_down))


def _tells_nothing(option: Option) -> bool:
    workload = getattr(option.protocol, "workload", None)
    return workload is not None and option.predicted_rmse >= NOTHING * float(np.ptp(workload.bounds))


def bounds(workload: Workload | Levels, epsilon: float, users: int, histogram: Floats | None = None) -> Bounds | None:
    """What no choice of protocol changes; None where no statistic is asked for."""
    if isinstance(workload, Levels):
        return None
    workload = with_best_shift(workload)
    if np.ptp(workload.bounds) == 0:
        # A constant costs nothing: its mean is known.
        nothing = {"limit": 0.0, "floor": 0.0, "lower_bound": 0.0, "scale": 0.0, "separation": 0.0}
        return Bounds(gamma_lower=0.0, gamma_upper=0.0, **nothing)
    factors = factorize(workload)
    guesses = list(assumed_histograms(workload).values()) if histogram is None else [histogram]
    return Bounds(
        gamma_lower=factors.lower,
        gamma_upper=factors.upper,
        limit=hardest_limit(workload, guesses, epsilon, users),
        floor=max(floor(workload, guess, epsilon, users) for guess in guesses),
        lower_bound=two_point_bound(workload, users, epsilon),
        scale=scale(factors, users, epsilon),
        separation=users_for_separation(factors.upper, infinity_norm(workload), workload.size, epsilon),
    )


def floor(workload: Workload, histogram: Floats, epsilon: float, users: int) -> float:
    """The RMSE of one who knows h and asks each user for one scalar: range/2 * (e^eps + 1)/(e^eps - 1)/sqrt(n).

    The scalar is the statistic's derivative, 2 W h for a form; for the AUC the ratio's.
    """
    queries = workload.linear_queries()
    means = {name: float(query @ histogram) for name, query in queries.items()}
    slopes = workload.gradient(workload.form(histogram), means, users)
    derivative = slopes["form"] * 2 * workload.apply(histogram)
    for name, query in queries.items():
        derivative = derivative + slopes[name] * query
    return float(np.ptp(derivative) / 2 / math.tanh(epsilon / 2) / math.sqrt(users))


def checked_histogram(workload: Workload | Levels, histogram: Floats) -> Floats:
    """Shares that add up to one, whatever they were counted in."""
    values = np.asarray(histogram, dtype=np.float64)
    if values.shape != (workload.size,):
        raise BadInput(f"a histogram for {workload.name} should have {workload.size} numbers, got shape {values.shape}")
    if not np.isfinite(values).all() or values.min() < 0 or values.sum() <= 0:
        raise BadInput("a histogram should hold numbers that are not negative, and some that are positive")
    return np.asarray(values / values.sum())


def _option(name: str, protocol: Protocol, users: int, guesses: list[Floats]) -> Option:
    # What a user sends, in the mean over users: where users are split, each speaks in one round only.
    if isinstance(protocol, Planned):
        shares = [float(replies / users) for replies in protocol.planning.planned_replies]
    else:
        shares = shares_of_replies(protocol)
    return Option(
        name=name,
        protocol=protocol,
        rounds=protocol.claim.rounds,
        predicted_rmse=max(predicted_rmse(protocol, users, guess) for guess in guesses),
        worst_rmse=predicted_rmse(protocol, users),
        bytes_up=sum(_size(step.reply) * share for step, share in zip(protocol.rounds, shares, strict=True)),
        bytes_down=float(sum(_size(step.broadcast) for step in protocol.rounds)),
    )


def _size(shape: Shape) -> int:
    return sum(dtype.itemsize * math.prod(trailing) for dtype, trailing in shape.values())
