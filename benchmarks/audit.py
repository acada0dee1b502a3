"""Audit against run: every protocol's run between processes, then the audit of all its users.

    python -m benchmarks.audit [--users 1000000] [--levels 8x8] [--protocol NAME ...] [--before FOLDER] [--write]

Seconds are those of the whole commands `parley run` and `parley audit`, one right after the other; `ratio` is the
audit's over the run's. Processor time is that of all processes of a command together, and moves less on a busy machine.
`--before` names a checkout of another version: its audit reads the same record, and must say the same of it.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from benchmarks.page import installed, machine, table, write_block
from parley.protocols.registry import names

ROOT = Path(__file__).resolve().parent.parent
# Statistics of those protocols that do not do Kendall's tau, with as many inputs or so as 8x8.
PROBLEMS = {"hierarchical": ("auc", "32"), "quantise": ("gini-mean-difference", "64")}
# These take many minutes of processor time a million users: the reduction simulates as many for each of the inputs.
MOST_USERS = {"linear-queries-by-reduction": 100_000, "split-and-mix": 100_000}
HEADS = (
    "protocol",
    "users",
    "run s",
    "audit s",
    "ratio",
    "processor s of the run",
    "of the audit",
    "ratio of processor time",
)
BEFORE = ("audit s before", "before / after", "processor time before / after")
# What differs between two audits of one record: how long they took, and tests that draw at random.
RANDOM = ("seconds", "fidelity")


@dataclass(frozen=True, kw_only=True)
class Command:
    """What a command said with --json, its seconds, and the processor time of all its processes."""

    said: Mapping[str, Any]
    seconds: float
    processor: float


def parley(*arguments: str, checkout: Path = ROOT) -> Command:
    """Run the `parley` command of a checkout."""
    began, before = time.perf_counter(), _processor_seconds()
    done = subprocess.run(
        [sys.executable, "-m", "parley.launch.cli", *arguments, "--json", "--quiet"],
        cwd=checkout,
        env={**installed(), "PYTHONPATH": str(checkout)},
        capture_output=True,
        check=False,
    )
    seconds = time.perf_counter() - began
    if done.returncode not in (0, 1):
        raise click.ClickException(done.stderr.decode())
    return Command(said=json.loads(done.stdout), seconds=seconds, processor=_processor_seconds() - before)


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(protocol: str, users: int, levels: str, before: Path | None) -> tuple[list[object], dict[str, Any]]:
    """One row of the table, and what the audit said."""
    users = min(users, MOST_USERS.get(protocol, users))
    statistic, levels = PROBLEMS.get(protocol, ("kendall", levels))
    problem = ("--statistic", statistic, "--levels", levels, "--users", str(users), "--epsilon", "1")
    with TemporaryDirectory() as folder:
        out = str(Path(folder) / "run")
        run = parley("run", *problem, "--protocol", protocol, "--out", out)
        audit = parley("audit", out)
        row = [protocol, users, run.seconds, audit.seconds, audit.seconds / run.seconds]
        row += [run.processor, audit.processor, audit.processor / run.processor]
        if before is not None:
            old = parley("audit", out, checkout=before)
            row += [old.seconds, old.seconds / audit.seconds, old.processor / audit.processor]
            for name in set(old.said) - set(RANDOM):
                if old.said[name] != audit.said[name]:
                    raise click.ClickException(f"{protocol}: the audits differ in {name}")
    return row, dict(audit.said)


@click.command()
@click.option("--users", default=100_000, show_default=True, help="Users of each run.")
@click.option("--levels", default="8x8", show_default=True)
@click.option("--protocol", "chosen", multiple=True, help="Only these.  [default: every protocol]")
@click.option(
    "--before",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A checkout of another version to compare with.",
)
@click.option("--write", is_flag=True, help="Put the table into docs/performance.md.")
def main(users: int, levels: str, chosen: tuple[str, ...], before: Path | None, write: bool) -> None:
    """Run, audit, print both times."""
    load, rows = os.getloadavg()[0], []
    heads = HEADS if before is None else HEADS + BEFORE
    for protocol in chosen or names("shuffler"):
        row, said = measure(protocol, users, levels, None if before is None else before.resolve())
        rows.append(row)
        verdicts = {name: check["verdict"] for name, check in said.items() if isinstance(check, dict)}
        figures = ", ".join(f"{head} {value:.3g}" for head, value in zip(heads[1:], row[1:], strict=True))
        click.echo(f"{protocol}: {figures}; {json.dumps(verdicts)}", err=True)
    text = table(heads, rows)
    click.echo(text)
    if write:
        command = f"python -m benchmarks.audit --users {users}{'' if before is None else ' --before BEFORE'} --write"
        write_block("audit", f"{text}\n\n{machine(command, load)}")


if __name__ == "__main__":
    main()
