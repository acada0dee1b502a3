"""The problem flags, the same for every command, and the problem they describe."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_args

import click

from parley.emulator.record.question import Question
from parley.emulator.roles.consent import domain_of
from parley.launch import api
from parley.launch.api import Problem, asked_for, check_promises, check_seed, declared, describe, names_of
from parley.launch.bins import Wanted
from parley.launch.settings import complete, protocol_file_option
from parley.protocols.registry import names as protocol_names
from parley.protocols.workloads.choice import STATISTICS, Missing, make_domain
from parley.protocols.workloads.synthetic import LABELLED, PAIRS, SCALARS
from parley.protocols.workloads.workload import Levels, Workload

FILE = click.Path(path_type=Path)
# Flags that are not called like their field.
NAMES = {"ranges": "range"}


def _flag(default: Any = None, **settings: Any) -> Any:
    """A flag called like its field, with these settings of `click.option`."""
    return field(default=default, metadata={"default": default, **settings})


@dataclass(frozen=True, kw_only=True)
class ProblemFlags:
    statistic: str | None = _flag(
        metavar="NAME", help=f"What to estimate: {', '.join(STATISTICS)}.", shell_complete=complete(lambda: STATISTICS)
    )
    levels: str | None = _flag(
        metavar="LEVELS",
        help="How many bins or categories a column has: 16x16 for kendall, else one number; auto with --bins quantile.",
    )
    bins: tuple[str, ...] = _flag(
        (),
        multiple=True,
        metavar="equal|quantile|A=E,E,...",
        help="Bins of equal width, at private quantiles, or with declared edges for each column.  [default: equal]",
    )
    kernel: Path | None = _flag(type=FILE, help="A k x k matrix (.npy or .csv) instead of a statistic.")  # noqa: RUF009
    data: Path | None = _flag(type=FILE, help="A .csv, .tsv or .parquet file; each row is a user.")  # noqa: RUF009
    columns: str | None = _flag(metavar="A,B", help="Which columns of the data, in the order of the statistic.")
    label: str | None = _flag(metavar="B", help="For auc: the column of labels; --columns then names the score.")
    ranges: tuple[str, ...] = _flag(
        (),
        multiple=True,
        metavar="A=LO:HI",
        help="The public range of a column: numbers or dates, 2024-01-01:2024-12-31.",
    )
    categories: tuple[str, ...] = _flag(
        (), multiple=True, metavar="A=X,Y", help="The public categories of a column, in their order."
    )
    missing: Missing = _flag(  # noqa: RUF009
        "refuse",
        type=click.Choice(get_args(Missing)),
        show_default=True,
        help="What to do with rows that lack a value.",
    )
    users: int | None = _flag(type=int, metavar="N", help="Number of users with synthetic data.")
    synthetic: str | None = _flag(
        metavar="NAME",
        help=f"Kind of synthetic data. For two columns: {', '.join(PAIRS)}; for one: {', '.join(SCALARS)}; for auc: "
        f"{', '.join(LABELLED)}.  [default: the first]",
        shell_complete=complete(lambda: dict.fromkeys((*PAIRS, *SCALARS, *LABELLED))),
    )
    title: str | None = _flag(metavar="TEXT", help="What to call the question.  [default: statistic and columns]")
    epsilon: float = field(
        metadata={
            "type": float,
            "required": True,
            "help": "No user loses more privacy than this; see `parley help epsilon`.",
        }
    )
    delta: float | None = _flag(type=float, help="The delta of protocols that trust a shuffler.  [default: 1e-6]")
    seed: int | None = _flag(type=int, help="Make data and noise repeatable; such a run is not private.")
    protocol: str = _flag(
        "auto",
        metavar="NAME",
        show_default=True,
        help="A name from `parley protocols`, or auto for the best.",
        shell_complete=complete(lambda: ("auto", *protocol_names("shuffler"))),
    )


def problem_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the problem flags, collected as its argument `flags`."""

    @functools.wraps(command)
    def collected(**given: Any) -> Any:
        flags = ProblemFlags(**{each.name: given.pop(each.name) for each in fields(ProblemFlags)})
        return command(flags=flags, **given)

    decorated: Callable[..., Any] = protocol_file_option(collected)
    for each in reversed(fields(ProblemFlags)):
        decorated = click.option(f"--{NAMES.get(each.name, each.name)}", each.name, **each.metadata)(decorated)
    return decorated


def make_problem(flags: ProblemFlags) -> Problem:
    """The problem the flags describe, or BadInput naming the flag that is wrong."""
    check_promises(flags.epsilon, flags.delta)
    check_seed(flags.seed)
    others = ("epsilon", "delta", "protocol")
    given = {each.name: getattr(flags, each.name) for each in fields(flags) if each.name not in others}
    return api.make_problem(**{**given, "columns": flags.columns or ()})


def asked(flags: ProblemFlags) -> tuple[Workload | Levels, tuple[int, ...] | None, Wanted]:
    """What the flags ask for, whoever has the data: the question, how many bins, and what else was said about them."""
    described = declared(flags.ranges, flags.categories)
    given = (flags.statistic, flags.levels, flags.bins, _columns(flags), *described)
    return asked_for(*given, missing=flags.missing, kernel=flags.kernel)


def declared_domain(flags: ProblemFlags, question: Workload | Levels) -> dict[str, Any]:
    """What the inputs mean: the columns the flags declare, or just how many there are."""
    names, wanted = _columns(flags), asked(flags)[2]
    described = (wanted.ranges, flags.categories, flags.missing, wanted.edges)
    columns = make_domain(question, names, *described).declared if names else ()
    return domain_of(question.size, columns)


def described(flags: ProblemFlags, question: Workload | Levels, protocol: str) -> Question:
    """The question in public words, for the header of a record."""
    return describe(question, declared_domain(flags, question), flags.title or "", protocol)


def _columns(flags: ProblemFlags) -> list[str]:
    return [*names_of(flags.columns or ()), *([] if flags.label is None else [flags.label])]
