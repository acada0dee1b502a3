"""The tables of docs/reliability.md about every schedule of a small world.

    python -m benchmarks.small_world --write docs/reliability.md
    python -m benchmarks.small_world --relayed --faults 1 --write docs/reliability.md

Seconds are those of the processor: how long it takes depends on what else the machine does, this does not.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from benchmarks.page import PAGE, shown, table, write_block
from parley.launch.testkit.world.explore import Report, explore
from parley.protocols.registry import design
from parley.protocols.workloads.gini import GiniDiversity

PROTOCOLS = {1: "one-round", 2: "two-round", 3: "three-round"}
INPUTS = (0, 1)
FAULTS = 2
HEADS = ("protocol", "rounds", "faults", "states", "transitions", "merged", "ends", "violations", "processor seconds")
Row = tuple[str, int, int, Report]


def rows(protocols: Mapping[int, str] = PROTOCOLS, *, faults: int = FAULTS, relayed: bool = False) -> list[Row]:
    """Explore a world with each number of faults up to this one, for each protocol."""
    found = list[Row]()
    for rounds, name in protocols.items():
        protocol = design(name, GiniDiversity(levels=2), epsilon=1.0, users=len(INPUTS))
        for allowed in range(faults + 1):
            report = explore(protocol, INPUTS, faults=allowed, relayed=relayed)
            found.append((name, rounds, allowed, report))
            click.echo(f"{name}, {allowed} faults: {report.states} states, {report.seconds:.1f} s", err=True)
            if report.violation is not None:
                click.echo(str(report.violation), err=True)
    return found


def table_of(found: Sequence[Row]) -> str:
    """The table, and how the runs with the most faults end."""
    lines = [
        (name, rounds, faults, *_counts(report), int(report.violation is not None), f"{report.seconds:.1f}")
        for name, rounds, faults, report in found
    ]
    ends = [
        f"- {name}: {_ends(report)}" for name, _, faults, report in found if faults == max(each[2] for each in found)
    ]
    return "\n".join([table(HEADS, lines), "", *ends])


def _counts(report: Report) -> tuple[int, ...]:
    return report.states, report.transitions, report.merged, report.outcomes.total()


def _ends(report: Report) -> str:
    return "; ".join(f"{shown(count)} x {outcome}" for outcome, count in sorted(report.outcomes.items()))


@click.command()
@click.option("--write", type=click.Path(path_type=Path), help=f"Replace the block in this page, not {PAGE.name}.")
@click.option("--faults", default=FAULTS, show_default=True, help="The most faults.")
@click.option("--relayed", is_flag=True, help="Put a relay between the nodes and the board.")
def main(write: Path | None, faults: int, relayed: bool) -> None:
    """Explore the worlds of one, two and three rounds, and print how many states they have."""
    found = rows(faults=faults, relayed=relayed)
    text = table_of(found)
    if write is None:
        click.echo(text)
    else:
        write_block("small world behind a relay" if relayed else "small world", text, write)
    sys.exit(any(not report.ok for *_, report in found))


if __name__ == "__main__":
    main()
