"""How fast gamma_2 is certified by the fixed point and by cvxpy with SCS; what structured factors and projections cost.

Run as `python -m benchmarks.factorization`; `--quick` compares at k = 96, where the solver takes seconds instead of
minutes. The aims: the fixed point at k = 256 at least 10 times faster than SCS to the same certified gap, k = 1024
within 30 s, Kendall at 64 x 64 levels applied to 1,000 vectors within 1 GiB.
"""

import json
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TypeVar

import click
import numpy as np

from benchmarks.reference import sdp
from parley.emulator.randomizer import Floats
from parley.protocols.factorization.closed_forms import kendall
from parley.protocols.factorization.fixed_point import fixed_point
from parley.protocols.factorization.model import signed
from parley.protocols.projection.l1_projection import project_l1

Result = TypeVar("Result")
GAP = 1e-3


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Both ways to a certified gap of 1e-3 on one matrix."""

    matrix: str
    size: int
    fixed_point: float
    solver: float
    ratio: float
    fixed_point_bounds: tuple[float, float]
    solver_bounds: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Certified:
    """The fixed point alone."""

    matrix: str
    size: int
    seconds: float
    gap: float


@dataclass(frozen=True, kw_only=True)
class Structured:
    """Kendall's factor applied to vectors and back; the peak counts every array."""

    levels: int
    vectors: int
    seconds: float
    peak_bytes: int


@dataclass(frozen=True, kw_only=True)
class Projected:
    """A noisy mean of 25,000 users at eps = 1 projected onto Kendall's factor."""

    levels: int
    seconds: float
    iterations: int
    relative_gap: float


def timed(job: Callable[[], Result]) -> tuple[float, Result]:
    """Seconds a job takes on the wall's clock, and what it returns."""
    start = time.perf_counter()
    result = job()
    return time.perf_counter() - start, result


def workloads(size: int) -> dict[str, Floats]:
    """The two matrices of the mathematics: random signs and lower triangular ones."""
    generator = np.random.Generator(np.random.PCG64(1))
    return {
        "random signs": np.sign(generator.standard_normal((size, size))),
        "lower triangular": np.tril(np.ones((size, size))),
    }


def compare(matrix: str, size: int) -> Comparison:
    """The fixed point (best of three) against one run of the solver."""
    workload = workloads(size)[matrix]
    seconds, found = min((timed(lambda: fixed_point(workload, GAP)) for _ in range(3)), key=lambda run: run[0])
    solving, optimum = timed(lambda: sdp.gamma(workload, GAP, largest=size))
    return Comparison(
        matrix=matrix,
        size=size,
        fixed_point=seconds,
        solver=solving,
        ratio=solving / seconds,
        fixed_point_bounds=(found.lower, found.upper),
        solver_bounds=(optimum.lower, optimum.upper),
    )


def certify(matrix: str, size: int) -> Certified:
    """One run of the fixed point."""
    workload = workloads(size)[matrix]
    seconds, found = timed(lambda: fixed_point(workload, GAP))
    return Certified(matrix=matrix, size=size, seconds=seconds, gap=found.gap)


def apply_kendall(levels: int, vectors: int) -> Structured:
    """W times many vectors, as A'DA and never as a k x k matrix."""
    columns = np.random.Generator(np.random.PCG64(2)).standard_normal((levels**2, vectors))

    def job() -> Floats:
        single = signed(kendall(levels, levels))
        return single.factor.transpose_apply(single.signs[:, None] * single.factor.apply(columns))

    seconds, _ = timed(job)
    tracemalloc.start()
    job()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return Structured(levels=levels, vectors=vectors, seconds=seconds, peak_bytes=peak + columns.nbytes)


def project(levels: int) -> Projected:
    """Project to a duality gap of 1e-8 radius^2."""
    factor = kendall(levels, levels).left
    generator = np.random.Generator(np.random.PCG64(3))
    noise = factor.radius * np.sqrt(6.3 / 25_000) * generator.standard_normal(factor.rows)
    point = factor.apply(generator.dirichlet(np.full(factor.inputs, 0.2))) + noise
    seconds, found = timed(lambda: project_l1(factor, point))
    relative = found.gap / factor.radius**2
    return Projected(levels=levels, seconds=seconds, iterations=found.iterations, relative_gap=relative)


@click.command()
@click.option("--quick", is_flag=True, help="Compare with the solver at k = 96 and leave k = 1024 out.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
def main(quick: bool, as_json: bool) -> None:
    """Print every figure as soon as it is taken."""
    jobs: list[Callable[[], Comparison | Certified | Structured | Projected]] = [
        lambda: compare("random signs", 96 if quick else 256),
        lambda: compare("lower triangular", 96 if quick else 256),
        lambda: certify("random signs", 256 if quick else 1024),
        lambda: certify("lower triangular", 256 if quick else 1024),
        lambda: apply_kendall(64, 1000),
        *(lambda levels=levels: project(levels) for levels in (16, 64)),
    ]
    for job in jobs:
        figures = asdict(job())
        text = (
            json.dumps(figures) if as_json else "  ".join(f"{name} {_short(value)}" for name, value in figures.items())
        )
        click.echo(text)


def _short(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_short(each) for each in value) + "]"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
