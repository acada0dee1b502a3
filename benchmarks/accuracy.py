"""Measured against predicted error of every protocol: a table of docs/accuracy.md, and what the page promises.

    python -m benchmarks.accuracy [--trials 400] [--processes P] [--write]
    python -m benchmarks.accuracy --check

Without --write the table is printed; with it it replaces its block in docs/accuracy.md. Runs are those of
`parley sweep`: the protocol's own analyst on tallies drawn by the fast simulation. --check reads the tables of the page
and says which promises they keep; exit code 1 if one is broken.
"""

import argparse
import re
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contracts import report
from benchmarks.grid import SEED, data, designed, table
from parley.emulator.protocol import Inputs
from parley.emulator.randomizer import Floats
from parley.launch.results.sweeps import Batch, batches, rmse, spread, trial
from parley.protocols.planning.limit import limit
from parley.protocols.workloads.kendall import Kendall

PAGE = Path(__file__).parent.parent / "docs" / "accuracy.md"
USERS = 100_000


def measure(cases: list[tuple[Any, Inputs, float]], trials: int, processes: int | None) -> list[Floats]:
    """The errors of every (protocol, inputs, truth), so many trials each."""
    work: list[Batch] = []
    for number, (protocol, inputs, truth) in enumerate(cases):
        work += batches(number, protocol, inputs, truth, trials=trials, seed=SEED, exact=False)
    errors: list[list[Floats]] = [[] for _ in cases]
    for outcome in spread(trial, work, processes):
        errors[outcome.case].append(outcome.errors)
    return [np.concatenate(each) for each in errors]


def sweep_table(trials: int, processes: int | None) -> str:
    """Kendall 16x16 at epsilon 1: measured, predicted, their ratio, and the ratio to the limit."""
    workload = Kendall(levels=(16, 16))
    inputs = data(workload, USERS)
    histogram, truth = workload.histogram(inputs), workload.exact(inputs)
    least = limit(workload, histogram, 1.0, USERS)
    made = designed(workload, 1.0, USERS)
    found = measure([(protocol, inputs, truth) for protocol in made.values()], trials, processes)
    rows = []
    for (name, protocol), errors in sorted(zip(made.items(), found, strict=True), key=lambda each: rmse(each[1])):
        measured, predicted = rmse(errors), protocol.predicted_rmse(histogram)
        rows.append([name, f"{measured:.4g}", f"{predicted:.4g}", f"{measured / predicted:.3f}"])
        rows[-1].append(f"{measured / least:.2f}")
    return table(("protocol", "RMSE", "predicted", "ratio", "over limit"), rows)


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
    parser.add_argument("--processes", type=int)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.check:
        raise SystemExit(report(PAGE.read_text()))
    text = sweep_table(options.trials, options.processes)
    print(text)
    if options.write:
        write("sweep", text)


if __name__ == "__main__":
    main()
