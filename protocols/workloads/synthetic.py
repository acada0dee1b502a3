"""Named synthetic data: pure functions of (name, workload, users, generator).

Only data, nothing private depends on it: the same seed gives the same data as long as numpy keeps its streams.
Users are independent of each other unless the name says otherwise ("sorted": same data, handed out in order,
which is what a protocol that splits users by their number has to survive).
"""

from collections.abc import Callable
from copy import deepcopy
from functools import lru_cache, partial

import numpy as np
import scipy

from parley.emulator.cores import in_order
from parley.emulator.errors import BadInput
from parley.emulator.protocol import Inputs
from parley.emulator.randomizer import Floats
from parley.protocols.workloads.domain import nearest
from parley.protocols.workloads.workload import Levels, Workload

# Users whose columns are drawn at once: memory does not grow with the others.
BLOCK_USERS = 1 << 18
# So many numbers stay in a core's cache.
PIECE_USERS = 1 << 14
# Up to so many levels numbers are compared with the border of each.
MOST_COMPARED = 64
# From 2e-6 to two neighbouring floats, even around 0.
HALVINGS = 90
Recipe = Callable[[tuple[int, ...], int, np.random.Generator], Inputs]


def draw(name: str, workload: Workload | Levels, users: int, generator: np.random.Generator) -> Inputs:
    """`users` inputs of the named kind for that workload."""
    if users < 2:
        raise BadInput(f"at least 2 users are needed, got {users}")
    recipes = _recipes(workload)
    if name not in recipes:
        raise BadInput(f"unknown synthetic data {name!r} for {workload.name}{nearest(name, list(recipes))}")
    return recipes[name](workload.shape, users, generator).astype(np.min_scalar_type(workload.size - 1), copy=False)


def names(workload: Workload | Levels) -> tuple[str, ...]:
    """The data sets there are for a workload; the first is the default."""
    return tuple(_recipes(workload))


def _recipes(workload: Workload | Levels) -> dict[str, Recipe]:
    if workload.labelled:
        return LABELLED
    known = {1: SCALARS, 2: PAIRS}.get(len(workload.shape), {"uniform": _uniform})
    if isinstance(workload, Levels):
        return known
    # The lower bound's hard data depend on the statistic itself.
    return known | {"hard-low": partial(_hard, workload, 0.0), "hard-high": partial(_hard, workload, 1.0)}


def _hard(
    workload: Workload, mixture: float, levels: tuple[int, ...], users: int, generator: np.random.Generator
) -> Inputs:
    """Lemma hard-dist-original: half of the users hold one input, the others are drawn for or against it."""
    # Most data need no factorization.
    from parley.protocols.factorization.hard_distributions import hard_distributions

    found = hard_distributions(workload)
    return generator.choice(workload.size, size=users, p=found.histogram(found.hardest, mixture))


def _bins(uniform: Floats, levels: int) -> Inputs:
    """Numbers of [0, 1] to equally likely levels."""
    return np.minimum((uniform * levels).astype(np.int64), levels - 1)


@lru_cache(maxsize=8)
def _borders(levels: int) -> Floats:
    """The smallest float that lies in each bin but the first, when bins are equally likely under a normal law."""
    bins = np.arange(1, levels)
    below, above = (scipy.special.ndtri(bins / levels) + side for side in (-1e-6, 1e-6))
    for _ in range(HALVINGS):
        middle = (below + above) / 2
        reached = scipy.special.ndtr(middle) * levels >= bins
        below, above = np.where(reached, below, middle), np.where(reached, middle, above)
    return np.asarray(above)


def _normal_bins(normals: Floats, levels: int) -> Inputs:
    """Normal numbers to equally likely levels; to compare costs less than the distribution function."""
    if levels > MOST_COMPARED:
        return _bins(scipy.special.ndtr(normals), levels)
    found = np.zeros(len(normals), np.uint8)
    for border in _borders(levels):
        found += normals >= border
    return found


def _sorted(recipe: Recipe, levels: tuple[int, ...], users: int, generator: np.random.Generator) -> Inputs:
    return np.sort(recipe(levels, users, generator))


def _uniform(levels: tuple[int, ...], users: int, generator: np.random.Generator) -> Inputs:
    return generator.integers(int(np.prod(levels)), size=users)


def _constant(levels: tuple[int, ...], users: int, generator: np.random.Generator) -> Inputs:
    return np.full(users, generator.integers(int(np.prod(levels))))


def _copula(correlation: float, levels: tuple[int, ...], users: int, generator: np.random.Generator) -> Inputs:
    """The stream holds the first column of everybody, then the noise of everybody: two readers go through it."""
    firsts, count = deepcopy(generator), [min(BLOCK_USERS, users - start) for start in range(0, users, BLOCK_USERS)]
    for each in count:
        generator.standard_normal(each)

    found = np.empty(users, np.min_scalar_type(levels[0] * levels[1] - 1))

    def binned(drawn: tuple[int, Floats, Floats]) -> None:
        start, first, noise = drawn
        for begin in range(0, len(first), PIECE_USERS):
            piece = slice(begin, begin + PIECE_USERS)
            second = correlation * first[piece] + np.sqrt(1 - correlation**2) * noise[piece]
            pairs = _normal_bins(first[piece], levels[0]).astype(found.dtype) * found.dtype.type(levels[1])
            found[start + begin : start + begin + len(pairs)] = pairs + _normal_bins(second, levels[1])

    blocks = (
        (number * BLOCK_USERS, firsts.standard_normal(each), generator.standard_normal(each))
        for number, each in enumerate(count)
    )
    for _ in in_order(binned, blocks):
        pass
    return found


def _monotone(falling: bool, levels: tuple[int, ...], users: int, generator: np.random.Generator) -> Inputs:
    first = generator.random(users)
    return _bins(first, levels[0]) * levels[1] + _bins(1 - first if falling else first, levels[1])


def _normal(levels: tuple[int, ...], users: int, generator: np.random.Generator) -> Inputs:
    return _bins(np.clip(0.5 + generator.standard_normal(users) / 6, 0, 1), levels[0])


def _zipf(levels: tuple[int, ...], users: int, generator: np.random.Generator) -> Inputs:
    cumulative = np.cumsum(1 / np.arange(1, levels[0] + 1))
    drawn: Inputs = np.searchsorted(cumulative, generator.random(users) * cumulative[-1], side="right")
    return np.minimum(drawn, levels[0] - 1)


def _bimodal(levels: tuple[int, ...], users: int, generator: np.random.Generator) -> Inputs:
    centre = np.where(generator.random(users) < 0.5, 0.25, 0.75)
    return _bins(np.clip(centre + generator.standard_normal(users) / 16, 0, 1), levels[0])


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


def _separable(levels: tuple[int, ...], users: int, generator: np.random.Generator) -> Inputs:
    labels, half = _labels(0.5, users, generator), levels[0] // 2
    high, low = half + generator.integers(levels[0] - half, size=users), generator.integers(half, size=users)
    return np.where(labels == 1, high, low) * 2 + labels


PAIRS: dict[str, Recipe] = {
    # Gaussian copulas: tau tends to 1/3 and -1/3 as levels grow.
    "correlated": partial(_copula, 0.5),
    "anticorrelated": partial(_copula, -0.5),
    # Both columns uniform: tau is 0 in expectation.
    "independent": _uniform,
    # The second column is the first on its own levels, or falls as the first rises: no pair is discordant, concordant.
    "monotone": partial(_monotone, False),
    "reversed": partial(_monotone, True),
    "sorted": partial(_sorted, partial(_copula, 0.5)),
    "constant": _constant,
}
SCALARS: dict[str, Recipe] = {
    # A normal curve around the middle, a sixth of the range wide, cut off at the ends.
    "normal": _normal,
    "uniform": _uniform,
    # Input j with probability proportional to 1/(j+1).
    "zipf": _zipf,
    # Two equal normal bumps at a quarter and three quarters of the range.
    "bimodal": _bimodal,
    "sorted": partial(_sorted, _normal),
    "constant": _constant,
}
LABELLED: dict[str, Recipe] = {
    # Balanced labels; positives score one standard deviation higher: the area tends to 0.76.
    "scores": partial(_scored, 0.5, 1.0),
    # Every positive scores in the upper half of the levels, every negative below: the area is 1.
    "separable": _separable,
    # 5 percent positives: far from the paper's balancedness assumption.
    "rare": partial(_scored, 0.05, 1.0),
    # Labels have nothing to do with the score: the area is 1/2 in expectation.
    "uninformative": partial(_scored, 0.5, 0.0),
    "sorted": partial(_sorted, partial(_scored, 0.5, 1.0)),
}
