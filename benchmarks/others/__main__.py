"""Parley beside others, in one run.

    python -m benchmarks.others [--only flower,mpyc,histograms,factors-one-core] [--write]

Others' packages are installed, at pinned versions and from the index that pip is configured for, into environments
that are thrown away at the end; with --environments they are kept there for the next time. Each program has a time
limit and is ended together with all processes it started. Where a package cannot be installed or run, its row says why.
With --write the tables go to docs/performance.md.
"""

import os
from collections.abc import Callable
from pathlib import Path

import click

from benchmarks.others import factors, histograms, sums
from benchmarks.others.rows import Part
from benchmarks.page import machine, table, write_block


def numbers(text: str) -> list[int]:
    """A list with commas."""
    return [int(each) for each in text.split(",")]


@click.command()
@click.option("--only", default="flower,mpyc,histograms,factors-one-core", show_default=True, help="Which tables.")
@click.option("--flower", default="100,1000", show_default=True, help="Clients of Flower.")
@click.option("--mpyc", default="10,25,50", show_default=True, help="Parties of MPyC.")
@click.option("--users", default=100_000, show_default=True, help="Users whose histogram is made.")
@click.option("--trials", default=20, show_default=True, help="Histograms of each kind.")
@click.option("--sizes", default="64,128,256", show_default=True, help="Sizes of the matrices to factorize.")
@click.option("--environments", type=click.Path(path_type=Path, file_okay=False), help="Keep environments here.")
@click.option("--write", is_flag=True, help="Put the tables into docs/performance.md.")
def main(
    only: str,
    flower: str,
    mpyc: str,
    users: int,
    trials: int,
    sizes: str,
    environments: Path | None,
    write: bool,
) -> None:
    """Measure, print, and write."""
    kept = None if environments is None else environments.resolve()
    parts: dict[str, Callable[[], Part]] = {
        "flower": lambda: sums.beside_flower(numbers(flower), kept),
        "mpyc": lambda: sums.beside_mpyc(numbers(mpyc), kept),
        "histograms": lambda: histograms.measure(users, trials, ("GRR", "OUE", "SS"), kept),
        "factors-one-core": lambda: factors.measure(numbers(sizes), kept),
    }
    wanted = only.split(",")
    if unknown := [each for each in wanted if each not in parts]:
        raise click.BadParameter(f"there is no table {unknown[0]!r}; there are {', '.join(parts)}")
    for name in wanted:
        load = os.getloadavg()[0]
        text = shown(name, parts[name](), load)
        click.echo(text)
        if write:
            write_block(f"others-{name}", text)


def shown(name: str, part: Part, load: float) -> str:
    """The table, and where it was taken."""
    packages = ("scipy", "cvxpy", "scs") if name.startswith("factors") else ()
    said = machine(f"python -m benchmarks.others --only {name} --write", load, *packages)
    with_others = said.replace("; load", f"; {', '.join(part.versions) or 'none of the others'}; load")
    return f"{table(part.heads, part.rows)}\n\n{with_others}"


if __name__ == "__main__":
    main()
