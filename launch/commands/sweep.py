"""`parley sweep`: measured against predicted error over numbers of users, epsilons and protocols."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.progress import Progress

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Inputs
from parley.launch.cluster.dask import run_on
from parley.launch.problem import ProblemFlags, make_problem, problem_options
from parley.launch.results.display.plot import check_plot, draw
from parley.launch.results.display.progress import Working
from parley.launch.results.sweeps import Batch, Outcome, batches, rmse, spread, trial
from parley.launch.settings import list_of, output_options, path_option, print_table
from parley.protocols.planned import truth_of
from parley.protocols.planning import plan
from parley.protocols.planning.limit import hardest_limit
from parley.protocols.planning.table import predicted_rmse
from parley.protocols.workloads.workload import Levels

FIELDS = ("protocol", "users", "epsilon", "trials", "rmse", "predicted_rmse", "limit", "floor")
# The same where people read it, in 80 columns.
HEADINGS = ("protocol", "users", "epsilon", "trials", "RMSE", "predicted", "limit", "floor")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One row of the table, `known` before anything is measured."""

    protocol: Any
    inputs: Inputs
    truth: float
    known: dict[str, Any]


@click.command(epilog="Example: parley sweep --statistic kendall --levels 4x4 --epsilon 1 --users 500,5000 --trials 20")
@problem_options
@click.option("--trials", default=100, show_default=True, help="Runs behind each row.")
@click.option("--exact", is_flag=True, help="Run the real roles user by user instead of drawing their sums.")
@click.option("--processes", type=int, metavar="P", help="Worker processes.  [default: one per core]")
@click.option("--on", metavar="dask://HOST:PORT", help="Spread the trials over the workers of this Dask cluster.")
@path_option("--plot", help="Draw measured RMSE against users (.svg, .png, .pdf).")
@click.option("--quiet", is_flag=True, help="Hide progress.")
@output_options("a list of records")
def sweep(
    flags: ProblemFlags,
    trials: int,
    exact: bool,
    processes: int | None,
    on: str | None,
    plot: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Measure protocols in memory: --users and --epsilon may be lists, --protocol a list, auto or all."""
    if trials < 2:
        raise BadInput(f"--trials {trials} says nothing about a spread; give at least 2")
    if processes is not None and processes < 1:
        raise BadInput(f"--processes {processes} starts nobody; give a number from 1 on")
    check_plot(plot)
    seed = 0 if flags.seed is None else flags.seed
    with Working("designing protocols", quiet=quiet):
        cases = make_cases(flags, seed)
    work: list[Batch] = []
    for number, case in enumerate(cases):
        work += batches(number, case.protocol, case.inputs, case.truth, trials=trials, seed=seed, exact=exact)
    if on is not None and processes is not None:
        raise BadInput("--on and --processes contradict each other: the cluster has as many workers as it has")
    outcomes = spread(trial, work, processes) if on is None else run_on(on, work)
    rows = measure(cases, outcomes, trials, quiet)
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    else:
        cells = (
            [f"{each:.4g}" if isinstance(each, float) else str(each or "") for each in row.values()] for row in rows
        )
        print_table(HEADINGS, cells, words=("protocol",))
    if plot is not None:
        draw_rows(plot, rows)


def draw_rows(plot: Path, rows: list[dict[str, Any]]) -> None:
    # A line for every protocol and epsilon; limit and floor are those of the largest epsilon.
    several = len({row["epsilon"] for row in rows}) > 1
    curves: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        name = f"{row['protocol']}, epsilon {row['epsilon']:g}" if several else row["protocol"]
        curves.setdefault(name, []).append((row["users"], row["rmse"]))
    largest = max(row["epsilon"] for row in rows)
    lines = {
        name: [(each["users"], each[name]) for each in rows if each["epsilon"] == largest and each[name] is not None]
        for name in ("limit", "floor")
    }
    draw(plot, f"measured, {rows[0]['trials']} trials each", curves, lines)


# The same flags as everywhere, but here users and epsilon may be several and all protocols are the default.
_flags = {str(each.name): each for each in sweep.params}
_flags["users"].type = list_of(int, "whole numbers such as 500,5000")
_flags["epsilon"].type = list_of(float, "numbers such as 0.5,1")
_flags["protocol"].default = "all"


def make_cases(flags: ProblemFlags, seed: int) -> list[Case]:
    """Every protocol for every number of users and every epsilon; a protocol that cannot be used is left out."""
    many: Any = flags
    cases = []
    for users in many.users or (None,):
        for epsilon in many.epsilon:
            problem = make_problem(replace(flags, users=users, epsilon=epsilon, seed=seed))
            question = problem.question
            histogram = np.bincount(problem.inputs, minlength=question.size) / problem.users
            limits: dict[str, float | None] = {"limit": None, "floor": None}
            if not isinstance(question, Levels):
                limits["limit"] = hardest_limit(question, [histogram], epsilon, problem.users)
                limits["floor"] = plan.floor(question, histogram, epsilon, problem.users)
            named = flags.protocol not in ("all", plan.AUTO)
            for name in flags.protocol.split(",") if flags.protocol != "all" else plan.suitable_names(question):
                try:
                    protocol: Any = problem.designed(name, epsilon)
                except BadInput:
                    if named:
                        raise
                    continue
                truth = truth_of(protocol, problem.inputs)
                if truth is None:
                    raise BadInput(f"{name} has no method `truth` to compare with; a sweep needs one")
                known = {"protocol": protocol.name, "users": problem.users, "epsilon": epsilon, **limits}
                known["predicted_rmse"] = predicted_rmse(protocol, problem.users, histogram)
                cases.append(Case(protocol=protocol, inputs=problem.inputs, truth=truth, known=known))
    return cases


def measure(cases: list[Case], outcomes: Iterator[Outcome], trials: int, quiet: bool) -> list[dict[str, Any]]:
    """Let everything run; one record a case, in order."""
    errors: list[list[Any]] = [[] for _ in cases]
    with Progress(console=Console(stderr=True), disable=quiet) as progress:
        task = progress.add_task("trials", total=trials * len(cases))
        for outcome in outcomes:
            errors[outcome.case].append(outcome.errors)
            progress.advance(task, len(outcome.errors))
    measured = [{"trials": trials, "rmse": rmse(np.concatenate(found))} for found in errors]
    rows = [{**case.known, **found} for case, found in zip(cases, measured, strict=True)]
    return [{name: row[name] for name in FIELDS} for row in rows]
