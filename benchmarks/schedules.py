"""Schedules of a protocol in virtual time, with kills of any process: how many a second, and how many go wrong.

    TMPDIR=/dev/shm python -m benchmarks.schedules --schedules 10000 --write docs/reliability.md

Thousands of folders are made and removed, which is a little faster in memory.
A schedule that breaks a rule is shrunk, written to a conditions file, and printed with the command that repeats it.
"""

import time
from pathlib import Path

import click

from benchmarks.page import table, write_block
from parley.launch.testkit.schedules.search import Tally, World, search, shrink

SHOW_EVERY = 500


def rows(tally: Tally, world: World, processor: float) -> list[tuple[str, object]]:
    """What came of a search, for the page; `processor`: seconds of one core that it took."""
    return [
        ("protocol", world.protocol),
        ("schedules", tally.schedules),
        ("completed, with the estimate of the quiet run or, at a quorum, of fewer replies", tally.completed),
        ("ended cleanly without a result", tally.failed),
        ("violations", len(tally.findings)),
        ("faults", ", ".join(f"{kind} {count:,}" for kind, count in sorted(tally.faults.items()))),
        ("kills", ", ".join(f"{sort} {count:,}" for sort, count in sorted(tally.killed.items()))),
        ("hours of virtual time", tally.virtual_seconds / 3600),
        ("seconds of one core", processor),
        ("schedules per second of one core", tally.schedules / processor),
    ]


@click.command()
@click.option("--schedules", default=10_000, show_default=True, help="How many to try.")
@click.option("--protocol", default="three-round", show_default=True, help="Which protocol.")
@click.option("--fewest", default=2, show_default=True, help="The fewest users of a run.")
@click.option("--most", default=6, show_default=True, help="The most users of a run.")
@click.option("--delta", type=float, help="Behind a shuffler: the delta of the claim.")
@click.option("--seed", default=0, show_default=True, help="Which schedules: the same seed, the same schedules.")
@click.option("--found", type=click.Path(path_type=Path), default="found.toml", help="Where a failing schedule goes.")
@click.option("--write", type=click.Path(path_type=Path), help="Put the table into this page.")
def main(
    schedules: int,
    protocol: str,
    fewest: int,
    most: int,
    delta: float | None,
    seed: int,
    found: Path,
    write: Path | None,
) -> None:
    """Try schedules of a protocol; exit code 1 if one of them breaks a rule."""

    def progress(tally: Tally) -> None:
        if tally.schedules % SHOW_EVERY == 0:
            click.echo(f"{tally.schedules} schedules, {len(tally.findings)} violations", err=True)

    world = World(protocol=protocol, fewest=fewest, most=most, delta=delta)
    began = time.process_time()
    tally = search(world, schedules, seed=seed, progress=progress)
    text = table(("", ""), rows(tally, world, time.process_time() - began))
    click.echo(text)
    for finding in tally.findings:
        smallest = shrink(world, finding)
        again = smallest.save(world, found)
        click.echo(f"\nschedule {finding.number} of seed {seed} breaks a rule:", err=True)
        for violation in smallest.violations:
            click.echo(f"  {violation}", err=True)
        click.echo(f"repeat it with: {again}", err=True)
    if write is not None:
        write_block("schedules", text, write)
    raise SystemExit(1 if tally.findings else 0)


if __name__ == "__main__":
    main()
