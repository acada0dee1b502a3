"""`parley plan`: what every protocol is predicted to cost for a problem, best first."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Trust
from parley.emulator.randomizer import Floats
from parley.launch.api import check_promises, public_salt
from parley.launch.problem import ProblemFlags, asked, declared_domain, described, make_problem, problem_options
from parley.launch.results.display.effort import warning
from parley.launch.results.display.plot import check_plot, draw
from parley.launch.results.display.printable import fitted
from parley.launch.results.display.progress import Working
from parley.launch.results.plans import HEADINGS, Plan, make_plan
from parley.launch.settings import list_of, output_options, path_option, print_table
from parley.protocols.limits import check_sums
from parley.protocols.planning.influence import Influence
from parley.protocols.planning.influence import influence as influence_of
from parley.protocols.planning.limit import SKIPPED
from parley.protocols.planning.plan import bounds, checked_histogram, rank_protocols
from parley.protocols.planning.target import needed_epsilon, needed_users
from parley.protocols.registry import design
from parley.protocols.tuned.groups import salted
from parley.protocols.workloads.kernel import load_numbers


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
@click.option("--influence", is_flag=True, help="Show how far one crafted reply can move the estimate.")
@click.option("--target", type=float, metavar="RMSE", help="Find the users, or the epsilon, that this error needs.")
@path_option("--plot", help="Draw predicted RMSE against users (.svg, .png, .pdf).")
@path_option("--write", "--save", "write", help="Write the best protocol to this file, for a run by hand.")
@output_options("one record, or a list of them for several --users")
def plan(
    flags: ProblemFlags,
    like: Path | None,
    trust: Trust,
    influence: bool,
    target: float | None,
    plot: Path | None,
    write: Path | None,
    as_json: bool,
) -> None:
    """Predict every protocol's error, bytes and rounds for a problem; no private value is looked at.

    --users may be a list. With --target, leave out --users or --epsilon to hear how many or how much it takes.
    """
    check_plot(plot)
    asked_for: Any = flags
    if write is not None:
        check_new(write)
        if len(asked_for.users or ()) > 1:
            raise BadInput("--write is about one plan; give one number of --users")
    workload, bins, _ = asked(flags)
    if like is not None and bins is not None:
        raise BadInput("--like is a histogram of bins, and these bins are found in the run; leave out --like")
    guess = None if like is None else checked_histogram(workload, load_numbers(like, np.ravel))
    if bins is None and (slow := warning(workload, flags.protocol)) is not None:
        click.echo(f"parley: {slow}", err=True)
    # n is public: given, or the number of rows of the data.
    crowds: Sequence[int] = asked_for.users or ()
    if not crowds and flags.data is not None:
        crowds = [make_problem(replace(flags, users=None, epsilon=asked_for.epsilon or 1.0)).users]
    epsilon: float | None = asked_for.epsilon
    if epsilon is not None:
        check_promises(epsilon, flags.delta)
    common: dict[str, Any] = {"protocol": flags.protocol, "like": guess, "trust": trust, "delta": flags.delta}
    common["bins"] = bins
    reached: list[dict[str, Any]] = []
    if target is not None:
        with Working("searching for what the target needs"):
            found = Target(target, partial(make_plan, workload, **common))
            crowds, epsilon, reached = found.search(crowds, epsilon)
    if epsilon is None:
        raise BadInput("say how much privacy to promise with --epsilon, or which error to reach with --target")
    if not crowds:
        raise BadInput("say how many users with --users N, or which error to reach with --target")
    with Working("predicting errors"):
        plans = [make_plan(workload, epsilon=epsilon, users=each, **common) for each in crowds]
    records = [{**each.record(), **({"target": reached} if reached else {})} for each in plans]
    moved = add_influences(records, plans, guess) if influence else []
    if as_json:
        click.echo(json.dumps(records[0] if len(records) == 1 else records, indent=2))
    elif len(plans) == 1:
        show(plans[0])
    else:
        show_several(plans)
    if not as_json:
        if moved:
            show_influence(plans[0], moved[0])
        for each in reached:
            click.echo(fitted(f"target: {each['words']}"))
    users = plans[0].users
    if plot is not None and plans[0].bins is not None:
        raise BadInput("--plot cannot draw bins at quantiles; leave out --plot or --bins")
    if plot is not None:
        # Predictions from a tenth of the users to ten times as many.
        curves: dict[str, list[tuple[float, float]]] = {}
        lines: dict[str, list[tuple[float, float]]] = {"limit": [], "floor": []}
        with Working("predicting errors for other numbers of users"):
            for crowd in (max(2, users // 10), users, users * 10):
                if (limits := bounds(workload, epsilon, crowd, guess)) is not None:
                    lines["floor"].append((crowd, limits.floor))
                    lines["limit"] += [] if limits.limit is None else [(crowd, limits.limit)]
                named = [option.name for option in plans[0]]
                for option in rank_protocols(workload, epsilon, crowd, guess, named, trust, flags.delta):
                    curves.setdefault(option.name, []).append((crowd, option.predicted_rmse))
        draw(plot, f"{workload.name}, epsilon {epsilon:g}: predicted", curves, lines)
    if write is not None:
        write_best(write, plans[0], flags)
        if not as_json:
            click.echo(f"written to {write}: {plans[0].best.name}, for `parley node board` and `parley node analyst`")


def check_new(path: Path) -> None:
    """That a plan can be written there, before anything is worked out."""
    if path.exists():
        raise BadInput(f"--write {path} exists already; give a new file")
    if not path.parent.is_dir():
        raise BadInput(f"--write {path}: there is no folder {path.parent}")


# The same flags as everywhere, but here users may be several, and epsilon may be what is searched for.
_flags = {str(each.name): each for each in plan.params}
_flags["users"].type = list_of(int, "whole numbers such as 500,5000")
_flags["epsilon"].required = False


@dataclass(frozen=True)
class Target:
    """The error to reach, and what predicts the error of the best protocol."""

    rmse: float
    plan: Callable[..., Plan]

    def search(
        self, crowds: Sequence[int], epsilon: float | None
    ) -> tuple[Sequence[int], float | None, list[dict[str, Any]]]:
        if epsilon is None and not crowds:
            raise BadInput("with --target, say which --epsilon or how many --users you have")
        found: list[dict[str, Any]] = []
        first, given = (crowds[0] if crowds else None), epsilon
        if given is not None:
            start = 10_000 if first is None else first
            users = needed_users(lambda each: self._rmse(given, each), self.rmse, start)
            name = "" if users is None else f" with {self.plan(epsilon=given, users=users).best.name}"
            many = "more users than there can be" if users is None else f"about {users:,} users{name}"
            words = f"an error of {self.rmse:g} at epsilon {given:g} takes {many}"
            found.append({"rmse": self.rmse, "epsilon": given, "users": users, "words": words})
            crowds = crowds or ([] if users is None else [users])
        if first is not None:
            needed = needed_epsilon(lambda each: self._rmse(each, first), self.rmse)
            much = "a larger epsilon than there can be" if needed is None else f"epsilon {needed:g}"
            words = f"an error of {self.rmse:g} with {first:,} users takes {much}"
            found.append({"rmse": self.rmse, "epsilon": needed, "users": first, "words": words})
            epsilon = needed if epsilon is None else epsilon
        if epsilon is None or not crowds:
            raise BadInput(f"{found[0]['words']}; give a larger --target")
        return crowds, epsilon, found

    def _rmse(self, epsilon: float, users: int) -> float:
        return self.plan(epsilon=epsilon, users=users).best.predicted_rmse


def write_best(path: Path, planned: Plan, flags: ProblemFlags) -> None:
    """What an analyst that is started by hand asks: the best protocol, and the columns that its inputs come from."""
    from parley.nodes.analyst import write_plan

    workload, protocol = planned.question, planned.best.protocol
    if planned.bins is None:
        epsilon, users = planned.epsilon, planned.users
        protocol = design(planned.best.name, workload, epsilon=epsilon, users=users, delta=flags.delta)
    check_sums(protocol, planned.users)
    question = described(flags, workload, protocol.name)
    write_plan(path, salted(protocol, public_salt(flags.seed)), declared_domain(flags, workload), question)


def add_influences(
    records: list[dict[str, Any]], plans: Sequence[Plan], histogram: Floats | None
) -> list[dict[str, Influence | None]]:
    """How far one reply reaches in each plan, protocol by protocol; the records are told as well."""
    with Working("searching for the replies that reach furthest"):
        moved = [influences(each, histogram) for each in plans]
    for record, by_name in zip(records, moved, strict=True):
        for row in record["protocols"]:
            row["influence"] = None if (most := by_name[row["name"]]) is None else vars(most)
    return moved


def influences(planned: Plan, histogram: Floats | None) -> dict[str, Influence | None]:
    """How far one reply reaches, protocol by protocol; None where nobody has worked that out."""
    found: dict[str, Influence | None] = {}
    for option in planned:
        try:
            found[option.name] = influence_of(option.protocol, planned.users, histogram)
        except BadInput:
            found[option.name] = None
    return found


def show_influence(planned: Plan, found: Mapping[str, Influence | None]) -> None:
    rows = [
        (name, "", "", "") if most is None else (name, f"{most.crafted:.2g}", f"{most.lie:.2g}", f"{most.ratio:.3g}")
        for name, most in found.items()
    ]
    print_table(("one reply moves", "crafted", "a lie", "ratio"), rows, words=("one reply moves",))
    click.echo(
        "The most that one reply of the last round moves the estimate: a crafted one,\n"
        f"and one that only hides another input, among {planned.users:,} users."
    )


def show_several(plans: Sequence[Plan]) -> None:
    """The recommended protocol for each number of users."""
    click.echo(f"{plans[0].question.name}, k = {plans[0].question.size}, epsilon {plans[0].epsilon:g}")
    rows = []
    for each in plans:
        best = each.best
        errors = (f"{best.predicted_rmse:.3g}", f"±{1.96 * best.predicted_rmse:.2g}")
        rows.append((best.name, f"{each.users:,}", str(best.rounds), *errors))
    print_table(("recommended", "users", "rounds", "RMSE", "95% interval"), rows, words=("recommended",))
    for note in plans[0].notes[1:]:
        click.echo(note)


def show(planned: Plan) -> None:
    """The same for people, with the worst histogram beside it."""
    click.echo(planned.title)
    print_table(HEADINGS, planned.table_rows(), words=("protocol",))
    for note in planned.notes:
        click.echo(note)
    if (limits := planned.limits) is None:
        return
    low, high = limits.gamma_lower, limits.gamma_upper
    gamma = f"{low:.4g}" if low == high else f"in [{low:.4g}, {high:.4g}]"
    least = SKIPPED if limits.limit is None else f"{limits.limit:.3g}"
    for note in (
        f"limit: {least}; no unbiased protocol errs less with many users and no shuffler",
        f"floor: {limits.floor:.3g}; what one bit per user gives if the histogram is known",
        f"proven: on some data every protocol in which users speak once errs by at least {limits.lower_bound:.3g}",
        f"for experts: gamma_2 of W - cJ {gamma}; zeta/(epsilon sqrt n) {limits.scale:.3g}; users in the paper's "
        f"condition for three rounds, its constant taken as 1, {limits.separation:.2g}",
    ):
        click.echo(fitted(note))
