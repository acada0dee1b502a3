"""The problem flags of the command line: which statistic on how many levels, and how columns become inputs."""

import re
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import Literal, NamedTuple

from parley.emulator.errors import BadInput
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.domain import MISSING, Categories, Domain, Interval, Pair, Uneven, nearest
from parley.protocols.workloads.gini import GiniDiversity, GiniMeanDifference
from parley.protocols.workloads.kendall import Kendall, KendallTauB
from parley.protocols.workloads.kernel import Kernel, load_kernel
from parley.protocols.workloads.lipschitz import DISTANCES, Lipschitz
from parley.protocols.workloads.values import read_ends
from parley.protocols.workloads.workload import LABELLED, Levels, Workload

# What becomes of rows without a value: refused, left out (by the launcher of an emulation), or a category of their own,
# which alone tells nobody who has none.
Missing = Literal["refuse", "drop", "as-category"]
SINGLE: dict[str, Callable[..., Workload]] = {
    AreaUnderCurve.name: AreaUnderCurve,
    GiniMeanDifference.name: GiniMeanDifference,
    GiniDiversity.name: GiniDiversity,
    # Lipschitz losses on [0, 1], each under the name of its distance.
    **{name: partial(Lipschitz, name) for name in DISTANCES},
}
PAIRED = {Kendall.name: Kendall, KendallTauB.name: KendallTauB}
STATISTICS = (*PAIRED, *SINGLE)
LABELS = ("0", "1")
ONE_LEVEL = r"\s*[0-9]{1,9}\s*"
PAIR_OF_LEVELS = ONE_LEVEL + "[xX]" + ONE_LEVEL
_EXAMPLES = {"--range": "age=0:120 or day=2024-01-01:2024-12-31", "--categories": "answer=no,maybe,yes"}
# Here categories have no order, so that one for missing values may stand anywhere.
UNORDERED = (GiniDiversity, Kernel)


def make_question(statistic: str | None, levels: str | None, kernel: str | Path | None) -> Workload | Levels:
    """The workload, or with `--levels` alone the inputs of a protocol that estimates something else."""
    if statistic is not None or kernel is not None or levels is None:
        return make_workload(statistic, levels, kernel)
    if re.fullmatch(f"{ONE_LEVEL}([xX]{ONE_LEVEL})*", levels) is None:
        raise BadInput(f"--levels should be a whole number such as 32, or 16x16 for two columns, got {levels!r}")
    return Levels(tuple(int(number) for number in re.findall("[0-9]+", levels)))


def make_workload(statistic: str | None, levels: str | None, kernel: str | Path | None) -> Workload:
    """The workload that `--statistic` with `--levels`, or `--kernel` alone, asks for."""
    if kernel is not None:
        if statistic is not None or levels is not None:
            other = "--statistic" if statistic is not None else "--levels"
            raise BadInput(f"--kernel {kernel} already says everything; leave out {other}")
        return load_kernel(kernel)
    if statistic is None:
        raise BadInput(f"say what to estimate: --statistic {'|'.join(STATISTICS)}, or --kernel FILE")
    if statistic not in STATISTICS:
        raise BadInput(f"unknown statistic {statistic!r}{nearest(statistic, list(STATISTICS))}")
    both = statistic in PAIRED
    if levels is None or re.fullmatch(PAIR_OF_LEVELS if both else ONE_LEVEL, levels) is None:
        wanted = "for both columns, such as 16x16" if both else "as one whole number, such as 32"
        if levels is None and statistic == GiniDiversity.name:
            wanted += ", or --categories COLUMN=A,B,..."
        raise BadInput(f"{statistic} needs --levels {wanted}, got {'nothing' if levels is None else repr(levels)}")
    numbers = [int(number) for number in re.findall("[0-9]+", levels)]
    return PAIRED[statistic](levels=(numbers[0], numbers[1])) if both else SINGLE[statistic](levels=numbers[0])


def implied_levels(
    statistic: str | None, columns: Sequence[str], categories: Sequence[str], missing: Missing = "refuse"
) -> str | None:
    """The levels that need not be said, because every column is declared by its categories; else None."""
    counted = {name: len(values) for name, values in (_named_values("--categories", text) for text in categories)}
    named = levelled_columns(statistic, list(columns) or list(counted))
    if not named or not all(name in counted for name in named):
        return None
    for name in named:
        if counted[name] < 2:
            raise BadInput(f"{name} needs at least 2 categories, got {counted[name]}")
    if missing == "as-category" and statistic == GiniDiversity.name:
        (text,) = (text for text in categories if text.partition("=")[0] == named[0])
        counted[named[0]] += MISSING not in _named_values("--categories", text)[1]
    return "x".join(str(counted[name]) for name in named)


def levelled_columns(statistic: str | None, columns: Sequence[str]) -> list[str]:
    """Those whose levels have to be said: a label has its two anyway."""
    return list(columns)[:1] if statistic in LABELLED else list(columns)


def make_domain(
    question: Workload | Levels,
    columns: Sequence[str],
    ranges: Sequence[str] = (),
    categories: Sequence[str] = (),
    missing: Missing = "refuse",
    edges: Mapping[str, tuple[float, ...]] | None = None,
) -> Domain:
    """How the named columns become inputs, from `column=lo:hi` and `column=value,value,...`.

    `edges` are those of columns whose bins were declared one by one.
    """
    needed = len(question.shape)
    if len(columns) != needed:
        many = {1: "one column", 2: "two columns, such as --columns age,score"}.get(needed, f"{needed} columns")
        if isinstance(question, AreaUnderCurve):
            many = "a score and a label, such as --columns score --label answer"
        raise BadInput(f"{question.name} needs {many}; got {len(columns)}: {', '.join(columns) or 'none'}")
    declared = _declared(columns, ranges, categories, edges or {})
    if question.labelled:
        declared.setdefault(columns[-1], LABELS)
    made: list[Domain] = []
    for name, levels in zip(columns, question.shape, strict=True):
        declaration = declared.get(name)
        if declaration is None:
            raise BadInput(
                f"declare the column {name!r}: numbers or dates with --range {name}=lo:hi, text with "
                f"--categories {name}=A,B,...; neither is ever read off the private data"
            )
        if isinstance(declaration, Ends):
            if missing == "as-category":
                raise BadInput(
                    f"--missing as-category needs categories, and the range of {name} has none; give "
                    f"--categories {name}=A,B,..., or leave such rows out with --missing drop"
                )
            interval = Interval(name, declaration.low, declaration.high, levels, declaration.dates)
            if edges and name in edges:
                interval = Uneven(name, declaration.low, declaration.high, levels, declared_edges=edges[name])
            made.append(interval)
            continue
        if missing == "as-category":
            declaration = _with_missing(question, name, declaration)
        found = Categories(name, declaration, missing == "as-category")
        if found.size != levels:
            if isinstance(question, AreaUnderCurve) and name == columns[1]:
                raise BadInput(f"the label {name} has {found.size} categories; it needs two, the positive one last")
            raise BadInput(f"{name} has {found.size} categories, but --levels says {levels}; give {found.size}")
        made.append(found)
    return reduce(Pair, made)


def _with_missing(question: Workload | Levels, name: str, categories: tuple[str, ...]) -> tuple[str, ...]:
    """The categories of a column with the one of those who have no value."""
    if MISSING in categories:
        return categories
    if not isinstance(question, UNORDERED):
        said = ",".join((*categories, MISSING))
        raise BadInput(
            f"{question.name} depends on the order of values; say where missing ones stand, for instance last: "
            f"--categories {name}={said}"
        )
    return (*categories, MISSING)


class Ends(NamedTuple):
    """A declared range."""

    low: float
    high: float
    dates: bool


def _declared(
    columns: Sequence[str], ranges: Sequence[str], categories: Sequence[str], edges: Mapping[str, tuple[float, ...]]
) -> dict[str, Ends | tuple[str, ...]]:
    """Each column's declaration, at most one a column."""
    found: dict[str, Ends | tuple[str, ...]] = {}
    for flag, texts in (("--range", ranges), ("--categories", categories)):
        for text in texts:
            name, values = _named_values(flag, text)
            if name not in columns:
                raise BadInput(f"{flag} names {name!r}, which is not among the columns{nearest(name, list(columns))}")
            if name in found:
                raise BadInput(f"the column {name!r} is declared twice; give it one --range or one --categories")
            if flag == "--categories":
                found[name] = values
                continue
            ends = read_ends(",".join(values))
            if ends is None and re.fullmatch(r"\d{4}-\d\d-\d\d:\d{4}-\d\d-\d\d", values[0]):
                raise BadInput(f"--range {text!r}: one of these days is not in the calendar")
            if ends is None:
                raise BadInput(f"--range {text!r} must look like {_EXAMPLES['--range']}")
            low, high, dates = ends
            if dates and low >= high:
                raise BadInput(f"--range {text!r} ends before it begins")
            found[name] = Ends(*ends)
    return found | _ends_of_bins(columns, edges, found)


def _ends_of_bins(
    columns: Sequence[str], edges: Mapping[str, tuple[float, ...]], declared: Container[str]
) -> dict[str, Ends]:
    """The ranges of columns whose bins were declared one by one."""
    found: dict[str, Ends] = {}
    for name, own in edges.items():
        if name not in columns:
            raise BadInput(f"--bins names {name!r}, which is not among the columns{nearest(name, list(columns))}")
        if name in declared:
            raise BadInput(f"the column {name!r} is declared twice; its --bins already say where it begins and ends")
        found[name] = Ends(own[0], own[-1], dates=False)
    return found


def _named_values(flag: str, text: str) -> tuple[str, tuple[str, ...]]:
    """Column and values of `column=value,value,...`."""
    name, separator, rest = text.partition("=")
    if not separator:
        raise BadInput(f"{flag} {text!r} must look like {_EXAMPLES[flag]}")
    return name, tuple(rest.split(","))
