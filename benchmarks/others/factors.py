"""Seconds to a factorization of random signs whose norm is within 1e-3 of the best, certified.

The fixed point and cvxpy bring both bounds along. jax-privacy has no lower bound: it gets Parley's, worked out
beforehand and not counted, and stops as soon as it is within reach; its upper bound is recomputed here from its C.
It is measured on one core: threads help some of them and slow others down, most of all on a busy machine.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.factorization import GAP, workloads
from benchmarks.others.certified import WAYS, command
from benchmarks.others.environment import Environment
from benchmarks.others.rows import PROGRAMS, ROOT, Part, Row
from benchmarks.others.watched import LIMIT_SECONDS, run
from parley.emulator.randomizer import Floats
from parley.protocols.factorization.fixed_point import fixed_point
from parley.protocols.factorization.model import balanced
from parley.protocols.factorization.zeta import polar_certificate

MATRIX = "random signs"
JAX_PRIVACY = ("jax-privacy==2.0.0", "jax==0.10.2", "jaxlib==0.10.2", "numpy==2.4.6")
JAX_LIMIT = 90.0
# Both bounds of what is compared with are much closer than the gap that is asked for.
CLOSE = GAP / 20
STEPS = 40
OBJECTIVES = {"max": "largest row", "smooth": "largest row, power mean 256", "mean": "mean row"}
HEADS = ("k", "who", "objective", "seconds", "lower", "upper", "gap")


@dataclass(frozen=True, kw_only=True)
class Reached:
    """Bounds on the norm that was minimised."""

    size: int
    who: str
    objective: str
    seconds: float
    lower: float
    upper: float

    @property
    def gap(self) -> float:
        return self.upper / self.lower - 1

    def row(self) -> Row:
        reached = f"{self.gap:.1e}" + ("" if self.gap <= GAP * (1 + 1e-6) else ", not reached")
        return (self.size, self.who, self.objective, self.seconds, f"{self.lower:.5g}", f"{self.upper:.5g}", reached)


def ours(size: int, way: str) -> list[Reached]:
    """A way whose packages Parley has anyway, in a process of its own so that it can be stopped."""
    record = run(command(way, size), folder=ROOT).record
    return [Reached(size=size, who=WAYS[way], objective=OBJECTIVES["max"], **record)]


def jax_privacy(where: Environment, size: int, objective: str) -> list[Reached]:
    """Its dense strategy for one objective."""
    matrix = workloads(size)[MATRIX]
    lower = mean_row_bound(matrix) if objective == "mean" else fixed_point(matrix, CLOSE).lower
    with TemporaryDirectory() as name:
        given, made = Path(name) / "matrix.npy", Path(name) / "strategy.npy"
        np.save(given, matrix)
        words = (given, objective, lower * (1 + GAP), JAX_LIMIT, made)
        program = (where.python, PROGRAMS / "jax_privacy_factors.py", *words)
        record = run(program, variables=where.variables(), folder=where.home, limit=LIMIT_SECONDS).record
        upper = norm(matrix, np.load(made), objective)
    return [
        Reached(
            size=size,
            who="jax-privacy",
            objective=OBJECTIVES[objective],
            seconds=record["seconds"],
            lower=lower,
            upper=upper,
        )
    ]


def norm(matrix: Floats, strategy: Floats, objective: str) -> float:
    """Of W = BC for a given C: largest column norm of C times largest, or root mean square, row norm of B."""
    others: Floats = np.asarray(np.linalg.solve(strategy.T, matrix.T), dtype=np.float64)
    if objective != "mean":
        return balanced(others, strategy, 0.0).upper
    columns = np.linalg.norm(strategy, axis=0)
    return float(np.sqrt(np.mean(np.sum(others**2, axis=0))) * columns.max())


def mean_row_bound(matrix: Floats) -> float:
    """A lower bound on the norm with the mean row: Parley's certificate with all rows of the same weight.

    At the optimum the weights of the columns are proportional to the diagonal of |W diag(sqrt q)|.
    """
    rows, columns = (np.full(length, 1 / length) for length in matrix.shape)
    for _ in range(STEPS):
        _, values, right = np.linalg.svd(matrix * np.sqrt(columns), full_matrices=False)
        loads = values @ right**2
        columns = loads / loads.sum()
    return polar_certificate(matrix, rows, columns).gamma(matrix)


@contextmanager
def one_core() -> Iterator[None]:
    """One core for this process and all that it starts meanwhile."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def measure(sizes: Sequence[int], kept: Path | None) -> Part:
    """Ours, the solver, jax-privacy: for every size."""
    part = Part(heads=HEADS, kept=kept)
    cases: dict[Row, tuple[int, str]] = {
        (size, "jax-privacy", said): (size, objective) for size in sizes for objective, said in OBJECTIVES.items()
    }
    with one_core():
        for size in sizes:
            for way, name in WAYS.items():
                part.add((size, name, OBJECTIVES["max"]), partial(ours, size, way))
        part.add_theirs("jax-privacy", JAX_PRIVACY, jax_privacy, cases, "jax-privacy", "jax")
    part.rows.sort(key=lambda row: int(str(row[0])))
    return part
