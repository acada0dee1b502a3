"""One certified factorization in a process of its own: `python -m benchmarks.others.certified fixed-point 256`.

Prints {"seconds", "lower", "upper"}; importing is not counted, and what is short is done three times for a median.
"""

import json
import statistics
import sys
import time

import click

from benchmarks.factorization import GAP, workloads
from benchmarks.reference import sdp
from parley.emulator.errors import ParleyError
from parley.protocols.factorization.fixed_point import fixed_point

TIMES, SHORT_SECONDS = 3, 10.0
WAYS = {"fixed-point": "Parley, fixed point", "cvxpy": "cvxpy with SCS"}


def command(way: str, size: int) -> tuple[object, ...]:
    """How to start it."""
    return (sys.executable, "-m", "benchmarks.others.certified", way, size)


@click.command()
@click.argument("way", type=click.Choice(list(WAYS)))
@click.argument("size", type=int)
def main(way: str, size: int) -> None:
    """Print seconds and bounds."""
    if way == "cvxpy":
        import cvxpy  # noqa: F401  (so that importing it is not counted)
    seconds, bounds = list[float](), (0.0, 0.0)
    while len(seconds) < TIMES and sum(seconds) < SHORT_SECONDS:
        began = time.perf_counter()
        bounds = solve(way, size)
        seconds.append(time.perf_counter() - began)
    click.echo(json.dumps({"seconds": statistics.median(seconds), "lower": bounds[0], "upper": bounds[1]}))


def solve(way: str, size: int) -> tuple[float, float]:
    """The bounds one way finds."""
    matrix = workloads(size)["random signs"]
    try:
        found = fixed_point(matrix, GAP) if way == "fixed-point" else sdp.gamma(matrix, GAP, largest=size)
    except ParleyError as error:
        raise SystemExit(str(error)) from error
    return found.lower, found.upper


if __name__ == "__main__":
    main()
