"""`parley plan`: what every protocol is predicted to cost for a problem, best first."""

import json
import time
from pathlib import Path
from typing import Any

import click
import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Analysis, Protocol, Trust
from parley.launch.api import check_promises, public_salt
from parley.launch.problem import ProblemFlags, asked, declared_domain, make_problem, problem_options
from parley.launch.results.effort import warning
from parley.launch.results.plans import make_plan, read_numbers
from parley.launch.results.plot import check_plot, draw
from parley.launch.results.progress import Working
from parley.launch.settings import output_options, path_option, print_table
from parley.nodes.analyst import write_plan
from parley.protocols.planning import fast_simulation
from parley.protocols.planning.plan import Bounds, Option, bounds, checked_histogram, rank_protocols
from parley.protocols.registry import design
from parley.protocols.tuned.groups import salted

TIMED_USERS = 2000
MOST_TIMED = 4096


@click.command(epilog="Example: parley plan --statistic kendall --levels 8x8 --epsilon 1 --users 50000")
@problem_options
@path_option("--like", help="A public guess of the histogram: k numbers, .npy or .csv.")
@click.option(
    "--trust",
    type=click.Choice(["nobody", "shuffler"]),
    default="nobody",
    show_default=True,
    help="Whom users trust; with a shuffler, (epsilon, delta) is what the transcript shows.",
)
@path_option("--plot", help="Draw predicted RMSE against users (.svg, .png, .pdf).")
@path_option("--save", help="Write the best protocol to this file, for `parley node analyst --plan`.")
@output_options("one record")
def plan(
    flags: ProblemFlags, like: Path | None, trust: Trust, plot: Path | None, save: Path | None, as_json: bool
) -> None:
    """Predict every protocol's error, bytes and rounds for a problem; no private value is looked at."""
    check_plot(plot)
    check_promises(flags.epsilon, flags.delta)
    workload = asked(flags)
    # n is public: given, or the number of rows of the data.
    users = make_problem(flags).users if flags.users is None else flags.users
    if (slow := warning(workload, flags.protocol)) is not None:
        click.echo(f"parley: {slow}", err=True)
    guess = None if like is None else checked_histogram(workload, read_numbers(like))
    with Working("predicting errors"):
        planned = make_plan(
            workload,
            epsilon=flags.epsilon,
            users=users,
            protocol=flags.protocol,
            like=guess,
            trust=trust,
            delta=flags.delta,
        )
    options = list(planned)
    if as_json:
        click.echo(json.dumps(planned.record(), indent=2))
    else:
        show(planned.title, planned.limits, options)
    if plot is not None:
        # Predictions from a tenth of the users to ten times as many.
        curves: dict[str, list[tuple[float, float]]] = {}
        floor = []
        with Working("predicting errors for other numbers of users"):
            for crowd in (max(2, users // 10), users, users * 10):
                if (found := bounds(workload, flags.epsilon, crowd, guess)) is not None:
                    floor.append((crowd, found.floor))
                named = [option.name for option in options]
                for option in rank_protocols(workload, flags.epsilon, crowd, guess, named, trust, flags.delta):
                    curves.setdefault(option.name, []).append((crowd, option.predicted_rmse))
        draw(plot, f"{workload.name}, epsilon {flags.epsilon:g}: predicted", curves, floor)
    if save is not None:
        # What an analyst that is started by hand asks: the protocol, and the columns that its inputs come from.
        if save.exists():
            raise BadInput(f"--save {save} exists already; give a new file")
        protocol = design(options[0].name, workload, epsilon=flags.epsilon, users=users, delta=flags.delta)
        write_plan(save, salted(protocol, public_salt(flags.seed)), declared_domain(flags, workload))


def show(title: str, limits: Bounds | None, options: list[Option]) -> None:
    """The same for people, with the worst histogram and the analyst's time beside it."""
    headings = ("protocol", "rounds", "RMSE", "worst RMSE", "B up", "B down", "analyst s")
    rows = []
    # With many inputs the timing would take longer than the plan.
    timed = options[0].protocol.inputs <= MOST_TIMED
    with Working("timing the analyst"):
        for option in options:
            errors = (f"{option.predicted_rmse:.3g}", f"{option.worst_rmse:.3g}")
            costs = (
                f"{option.bytes_up:.1f}",
                f"{option.bytes_down:.0f}",
                f"{analyst_seconds(option.protocol):.2f}" if timed else "",
            )
            rows.append((option.name, str(option.rounds), *errors, *costs))
    click.echo(title)
    print_table(headings, rows, words=("protocol",))
    if limits is None:
        return
    low, high = limits.gamma_lower, limits.gamma_upper
    gamma = f"{low:.4g}" if low == high else f"in [{low:.4g}, {high:.4g}]"
    click.echo(f"gamma_2 of W - cJ: {gamma}")
    click.echo(f"floor (h known, one scalar a user): {limits.floor:.3g}")
    click.echo(f"bound for one round, its constant taken as 1: {limits.lower_bound:.3g}")


def analyst_seconds(protocol: Protocol) -> float:
    """How long the analyst thinks between and after rounds, measured once; it does not depend on the users."""
    generator = np.random.default_rng(0)
    counts = generator.multinomial(TIMED_USERS, np.full(protocol.inputs, 1 / protocol.inputs)).astype(np.int64)
    speakers = fast_simulation.speakers(protocol, counts, fast_simulation.group_sizes(protocol, TIMED_USERS), generator)
    analysis = Analysis(protocol)
    said: Any = analysis.open()
    spent = 0.0
    for step, speaking in zip(protocol.rounds, speakers, strict=True):
        heard = fast_simulation.tally(step, said, speaking, generator)
        started = time.perf_counter()
        said = analysis.hear(said, heard)
        spent += time.perf_counter() - started
    return spent
