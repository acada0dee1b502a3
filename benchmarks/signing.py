"""What signatures cost: the same runs signed and unsigned, in turn, as a ratio.

    python -m benchmarks.signing [--users N] [--processes P] [--times T]

A run is `parley run` as a person would start it; the two kinds alternate, so that a busy machine is busy for both.
"""

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

from benchmarks.page import table

ROOT = Path(__file__).resolve().parent.parent
KINDS = ("signed", "unsigned")
HEADS = ("run", "signed s", "unsigned s", "ratio", "ratio of the whole command")


def run(arguments: list[str], *, signed: bool) -> tuple[float, float]:
    """One run: seconds from the first record to the last, and of the whole command."""
    folder = Path(tempfile.mkdtemp(prefix="parley-signing-"))
    words = [*arguments, "--out", str(folder / "run"), "--quiet", "--json", "--signed" if signed else "--unsigned"]
    began = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "parley.launch.cli", "run", *words],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        return float(json.loads(done.stdout)["seconds"]), time.monotonic() - began
    finally:
        shutil.rmtree(folder)


def compare(title: str, arguments: list[str], times: int) -> tuple[object, ...]:
    """Both kinds, several times in turn: medians, and the median of the ratios of neighbours."""
    found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    for number in range(times):
        # Whoever is first finds a colder machine: take turns at that as well.
        for kind in KINDS if number % 2 else KINDS[::-1]:
            found[kind].append(run(arguments, signed=kind == "signed"))
            click.echo(f"{title}, {kind}: {found[kind][-1][0]:.2f} s", err=True)
    ratios = [one[0] / other[0] for one, other in zip(found["signed"], found["unsigned"], strict=True)]
    whole = [one[1] / other[1] for one, other in zip(found["signed"], found["unsigned"], strict=True)]
    medians = [statistics.median(each[0] for each in found[kind]) for kind in KINDS]
    return (title, *medians, statistics.median(ratios), statistics.median(whole))


@click.command()
@click.option("--users", default=1_000_000, show_default=True, help="Users of the large run.")
@click.option("--processes", default=1000, show_default=True, help="Processes of the crowded run.")
@click.option("--times", default=5, show_default=True, help="Pairs of runs.")
def main(users: int, processes: int, times: int) -> None:
    """Measure what signatures cost."""
    common = ["--statistic", "kendall", "--epsilon", "1", "--protocol", "three-round", "--seed", "1"]
    rows = [
        compare(
            f"{users:,} users, 2 processes, k = 256",
            [*common, "--levels", "16x16", "--users", str(users), "--processes", "2"],
            times,
        ),
        compare(
            f"{processes:,} users, {processes:,} processes, k = 16",
            [*common, "--levels", "4x4", "--users", str(processes), "--process-per-user"],
            times,
        ),
    ]
    click.echo(table(HEADS, rows))


if __name__ == "__main__":
    main()
