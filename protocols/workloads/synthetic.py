"""Named synthetic data: pure functions of (name, workload, users, generator).

Only data, nothing private depends on it: the same seed gives the same data as long as numpy keeps its streams.
Users are independent of each other unless the name says otherwise ("sorted": same data, handed out in order,
which is what a protocol that splits users by their number has to survive).
"""

from collections.abc import Callable

import numpy as np
import scipy

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Inputs
from parley.emulator.randomizer import Floats
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.domain import nearest
from parley.protocols.workloads.workload import Levels, Workload

Recipe = Callable[[tuple[int, ...], int, np.random.Generator], Inputs]

CORRELATION = 0.5
SEPARATION = 1.0
RARE_SHARE = 0.05


def draw(name: str, workload: Workload | Levels, users: int, generator: np.random.Generator) -> Inputs:
    """`users` inputs of the named kind for that workload."""
    if users < 2:
        raise BadInput(f"at least 2 users are needed, got {users}")
    recipes = _recipes(workload)
    if name not in recipes:
        raise BadInput(f"unknown synthetic data {name!r} for {workload.name}{nearest(name, list(recipes))}")
    return recipes[name](workload.shape, users, generator).astype(np.int64)


def names(workload: Workload | Levels) -> tuple[str, ...]:
    """The data sets there are for a workload; the first is the default."""
    return tuple(_recipes(workload))


def describe(name: str, workload: Workload | Levels) -> str:
    """What the named data set is, in one line."""
    return (_recipes(workload)[name].__doc__ or "").splitlines()[0]


def _recipes(workload: Workload | Levels) -> dict[str, Recipe]:
    if isinstance(workload, AreaUnderCurve):
        return LABELLED
    return {1: SCALARS, 2: PAIRS}.get(len(workload.shape), {"uniform": uniform})


def _bins(uniform: Floats, levels: int) -> Inputs:
    """Numbers of [0, 1] to equally likely levels."""
    return np.minimum((uniform * levels).astype(np.int64), levels - 1)


def _copula(correlation: float, levels: tuple[int, ...], users: int, generator: np.random.Generator) -> Inputs:
    first, noise = generator.standard_normal((2, users))
    second = correlation * first + np.sqrt(1 - correlation**2) * noise
    return _bins(scipy.special.ndtr(first), levels[0]) * levels[1] + _bins(scipy.special.ndtr(second), levels[1])


def correlated(levels: tuple[int, ...], users: int, generator: np.random.Generator) -> Inputs:
    """A Gaussian copula with correlation 0.5: tau tends to 1/3 as levels grow."""
    return _copula(CORRELATION, levels, users, generator)


def anticorrelated(levels: tuple[int, ...], users: int, generator: np.random.Generator) -> Inputs:
    """A Gaussian copula with correlation -0.5: tau tends to -1/3 as levels grow."""
    return _copula(-CORRELATION, levels, users, generator)


def independent(levels: tuple[int, ...], users: int, generator: np.random.Generator) -> Inputs:
    """Both columns uniform and independent: tau is 0 in expectation."""
    return generator.integers(levels[0] * levels[1], size=users)


def monotone(levels: tuple[int, ...], users: int, generator: np.random.Generator) -> Inputs:
    """The second column is the first on its own levels: no pair is discordant."""
    uniform = generator.random(users)
    return _bins(uniform, levels[0]) * levels[1] + _bins(uniform, levels[1])


def reversed_pairs(levels: tuple[int, ...], users: int, generator: np.random.Generator) -> Inputs:
    """The second column falls as the first rises: no pair is concordant."""
    uniform = generator.random(users)
    return _bins(uniform, levels[0]) * levels[1] + _bins(1 - uniform, levels[1])


def sorted_pairs(levels: tuple[int, ...], users: int, generator: np.random.Generator) -> Inputs:
    """The correlated pairs, handed to the users in increasing order."""
    return np.sort(correlated(levels, users, generator))


def uniform(levels: tuple[int, ...], users: int, generator: np.random.Generator) -> Inputs:
    """Every input equally likely."""
    return generator.integers(int(np.prod(levels)), size=users)


def normal(levels: tuple[int, ...], users: int, generator: np.random.Generator) -> Inputs:
    """A normal curve around the middle, a sixth of the range wide, cut off at the ends."""
    return _bins(np.clip(0.5 + generator.standard_normal(users) / 6, 0, 1), levels[0])


def zipf(levels: tuple[int, ...], users: int, generator: np.random.Generator) -> Inputs:
    """Input j with probability proportional to 1/(j+1)."""
    cumulative = np.cumsum(1 / np.arange(1, levels[0] + 1))
    drawn: Inputs = np.searchsorted(cumulative, generator.random(users) * cumulative[-1], side="right")
    return np.minimum(drawn, levels[0] - 1)


def bimodal(levels: tuple[int, ...], users: int, generator: np.random.Generator) -> Inputs:
    """Two equal normal bumps at a quarter and three quarters of the range."""
    centre = np.where(generator.random(users) < 0.5, 0.25, 0.75)
    return _bins(np.clip(centre + generator.standard_normal(users) / 16, 0, 1), levels[0])


def sorted_scalars(levels: tuple[int, ...], users: int, generator: np.random.Generator) -> Inputs:
    """The normal data, handed to the users in increasing order."""
    return np.sort(normal(levels, users, generator))


def constant(levels: tuple[int, ...], users: int, generator: np.random.Generator) -> Inputs:
    """Everybody has the same input, drawn once."""
    return np.full(users, generator.integers(int(np.prod(levels))))


def scores(levels: tuple[int, ...], users: int, generator: np.random.Generator) -> Inputs:
    """Balanced labels; positives score one standard deviation higher: the area tends to 0.76."""
    return _scored(0.5, SEPARATION, levels, users, generator)


def rare(levels: tuple[int, ...], users: int, generator: np.random.Generator) -> Inputs:
    """The same scores with 5 percent positives: far from the paper's balancedness assumption."""
    return _scored(RARE_SHARE, SEPARATION, levels, users, generator)


def uninformative(levels: tuple[int, ...], users: int, generator: np.random.Generator) -> Inputs:
    """Balanced labels that have nothing to do with the score: the area is 1/2 in expectation."""
    return _scored(0.5, 0.0, levels, users, generator)


def separable(levels: tuple[int, ...], users: int, generator: np.random.Generator) -> Inputs:
    """Balanced labels; every positive scores in the upper half of the levels, every negative below: the area is 1."""
    labels = _labels(0.5, users, generator)
    half = levels[0] // 2
    score = np.where(
        labels == 1, half + generator.integers(levels[0] - half, size=users), generator.integers(half, size=users)
    )
    return score * 2 + labels


def sorted_scores(levels: tuple[int, ...], users: int, generator: np.random.Generator) -> Inputs:
    """The scores data, handed to the users in increasing order."""
    return np.sort(scores(levels, users, generator))


def _labels(share: float, users: int, generator: np.random.Generator) -> Inputs:
    """Random labels of which at least one is 0 and one is 1, for otherwise no area is defined."""
    labels = (generator.random(users) < share).astype(np.int64)
    if labels.min() == labels.max():
        labels[0] = 1 - labels[0]
    return labels


def _scored(
    share: float, separation: float, levels: tuple[int, ...], users: int, generator: np.random.Generator
) -> Inputs:
    labels = _labels(share, users, generator)
    score = generator.standard_normal(users) + separation * (labels - 0.5)
    return _bins(scipy.special.ndtr(score), levels[0]) * 2 + labels


PAIRS: dict[str, Recipe] = {
    "correlated": correlated,
    "anticorrelated": anticorrelated,
    "independent": independent,
    "monotone": monotone,
    "reversed": reversed_pairs,
    "sorted": sorted_pairs,
    "constant": constant,
}
SCALARS: dict[str, Recipe] = {
    "normal": normal,
    "uniform": uniform,
    "zipf": zipf,
    "bimodal": bimodal,
    "sorted": sorted_scalars,
    "constant": constant,
}
LABELLED: dict[str, Recipe] = {
    "scores": scores,
    "separable": separable,
    "rare": rare,
    "uninformative": uninformative,
    "sorted": sorted_scores,
}
