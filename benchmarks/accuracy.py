"""Measured against predicted error of every protocol: makes the tables of docs/accuracy.md.

    python -m benchmarks.accuracy [--trials 400] [--coverage-runs 1000] [--processes P] [--only sweep,auto] [--write]
    python -m benchmarks.accuracy --only auto --resume runs/auto.jsonl --write
    python -m benchmarks.accuracy --check

Without --write the tables are printed; with it each replaces its block in docs/accuracy.md. Runs are those of
`parley sweep`: the protocol's own analyst on tallies drawn by the fast simulation, except where a table says otherwise.
--resume keeps every finished problem of the `auto` table in a file, so that an interrupted run can go on; a file is
good for one version of the protocols. --check reads the tables of the page and says which promises they keep; exit code
1 if one is broken.
"""

import argparse
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.auto import races, render
from benchmarks.contracts import report
from benchmarks.grid import SEED, USERS, data, designed, table
from parley.emulator.protocol import Inputs
from parley.emulator.randomizer import Floats
from parley.launch.results.sweeps import Batch, batches, rmse, spread, trial
from parley.protocols.planning import plan
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.gini import GiniDiversity
from parley.protocols.workloads.kendall import Kendall

PAGE = Path(__file__).parent.parent / "docs" / "accuracy.md"


@dataclass(frozen=True, kw_only=True)
class Trials:
    """Errors of one protocol on one problem, and the share of its intervals that held the truth."""

    errors: Floats
    coverage: float


def measure(cases: list[tuple[Any, Inputs, float]], trials: int, processes: int | None) -> list[Trials]:
    """Every (protocol, inputs, truth), so many trials each."""
    work: list[Batch] = []
    for number, (protocol, inputs, truth) in enumerate(cases):
        work += batches(number, protocol, inputs, truth, trials=trials, seed=SEED, exact=False)
    errors: list[list[Floats]] = [[] for _ in cases]
    covered = [0] * len(cases)
    for outcome in spread(trial, work, processes):
        errors[outcome.case].append(outcome.errors)
        covered[outcome.case] += outcome.covered
    return [
        Trials(errors=np.concatenate(each), coverage=held / trials) for each, held in zip(errors, covered, strict=True)
    ]


def sweep_table(options: argparse.Namespace) -> str:
    """Kendall 16x16 at epsilon 1: measured, predicted, their ratio, and the ratio to the floor."""
    workload, rows, cases, said = Kendall(levels=(16, 16)), [], [], []
    for users in USERS:
        inputs = data(workload, users)
        histogram = workload.histogram(inputs)
        floor = plan.floor(workload, histogram, 1.0, users)
        for name, protocol in designed(workload, 1.0, users).items():
            cases.append((protocol, inputs, workload.exact(inputs)))
            said.append((name, users, protocol.predicted_rmse(histogram), floor))
    for (name, users, predicted, floor), found in zip(
        said, measure(cases, options.trials, options.processes), strict=True
    ):
        measured = rmse(found.errors)
        rows.append(
            [
                name,
                f"{users:,}",
                f"{measured:.4g}",
                f"{predicted:.4g}",
                f"{measured / predicted:.3f}",
                f"{measured / floor:.2f}",
            ]
        )
    return table(("protocol", "users", "RMSE", "predicted", "ratio", "over floor"), rows)


def auto_table(options: argparse.Namespace) -> str:
    """`auto` against all it could have chosen."""
    return render(races(options.trials // 2, options.processes, options.resume))


def coverage_table(options: argparse.Namespace) -> str:
    """How often 95% intervals hold the truth."""
    cases, said = [], []
    for title, workload, users in (
        ("Kendall 8x8", Kendall(levels=(8, 8)), 20_000),
        ("AUC 32", AreaUnderCurve(levels=32), 20_000),
        ("diversity 64", GiniDiversity(levels=64), 100_000),
    ):
        inputs = data(workload, users)
        for name, protocol in designed(workload, 1.0, users).items():
            cases.append((protocol, inputs, workload.exact(inputs)))
            said.append((title, f"{users:,}", name))
    found = measure(cases, options.coverage_runs, options.processes)
    rows = [[*each, f"{100 * trials.coverage:.1f}%"] for each, trials in zip(said, found, strict=True)]
    return table(("problem", "users", "protocol", "held the truth"), rows)


TABLES: dict[str, Callable[[argparse.Namespace], str]] = {
    "sweep": sweep_table,
    "auto": auto_table,
    "coverage": coverage_table,
}


def write(name: str, text: str) -> None:
    """Put a table between its two marks."""
    page = PAGE.read_text()
    block = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
    if not block.search(page):
        raise SystemExit(f"{PAGE} has no block named {name}")
    PAGE.write_text(block.sub(lambda found: f"{found[1]}{text}\n{found[2]}", page))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--coverage-runs", type=int, default=1000)
    parser.add_argument("--processes", type=int)
    parser.add_argument("--only", default=",".join(TABLES))
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.check:
        raise SystemExit(report(PAGE.read_text()))
    for name in options.only.split(","):
        text = TABLES[name](options)
        print(f"## {name}\n{text}\n", flush=True)
        if options.write:
            write(name, text)


if __name__ == "__main__":
    main()
