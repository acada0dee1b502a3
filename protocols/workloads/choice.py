"""The problem flags of the command line: which statistic on how many levels, and how columns become inputs."""

import re
from collections.abc import Callable, Sequence
from functools import partial, reduce
from pathlib import Path

from parley.emulator.errors import BadInput
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.distances import DISTANCES
from parley.protocols.workloads.domain import Categories, Domain, Interval, Pair, nearest
from parley.protocols.workloads.gini import GiniDiversity, GiniMeanDifference
from parley.protocols.workloads.kendall import Kendall
from parley.protocols.workloads.kernel import load_kernel
from parley.protocols.workloads.lipschitz import Lipschitz
from parley.protocols.workloads.workload import Levels, Workload

SINGLE: dict[str, Callable[..., Workload]] = {
    AreaUnderCurve.name: AreaUnderCurve,
    GiniMeanDifference.name: GiniMeanDifference,
    GiniDiversity.name: GiniDiversity,
    # Lipschitz losses on [0, 1], each under the name of its distance.
    **{name: partial(Lipschitz, name) for name in DISTANCES},
}
STATISTICS = (Kendall.name, *SINGLE)
LABELS = ("0", "1")


def make_question(statistic: str | None, levels: str | None, kernel: str | Path | None) -> Workload | Levels:
    """The workload, or with `--levels` alone the inputs of a protocol that estimates something else."""
    if statistic is not None or kernel is not None or levels is None:
        return make_workload(statistic, levels, kernel)
    if re.fullmatch(r"\s*[0-9]{1,9}(\s*[xX]\s*[0-9]{1,9})*\s*", levels) is None:
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
    if statistic == Kendall.name:
        return Kendall(levels=_two_levels(levels))
    return SINGLE[statistic](levels=_one_level(statistic, levels))


def make_domain(
    question: Workload | Levels, columns: Sequence[str], ranges: Sequence[str] = (), categories: Sequence[str] = ()
) -> Domain:
    """How the named columns become inputs, from `column=lo:hi` and `column=value,value,...`."""
    needed = len(question.shape)
    if len(columns) != needed:
        many = {1: "one column", 2: "two columns"}.get(needed, f"{needed} columns")
        raise BadInput(f"{question.name} needs {many}, got {len(columns)}: {', '.join(columns) or 'none'}")
    declared = _declared(columns, ranges, categories)
    if isinstance(question, AreaUnderCurve):
        declared.setdefault(columns[1], Categories(columns[1], LABELS))
    return reduce(Pair, [_column(name, size, declared) for name, size in zip(columns, question.shape, strict=True)])


def _two_levels(levels: str | None) -> tuple[int, int]:
    match = re.fullmatch(r"\s*([0-9]{1,9})\s*[xX]\s*([0-9]{1,9})\s*", levels or "")
    if match is None:
        given = "nothing" if levels is None else repr(levels)
        raise BadInput(f"kendall needs --levels for both columns, such as 16x16, got {given}")
    return int(match[1]), int(match[2])


def _one_level(statistic: str, levels: str | None) -> int:
    if levels is None or re.fullmatch(r"\s*[0-9]{1,9}\s*", levels) is None:
        given = "nothing" if levels is None else repr(levels)
        raise BadInput(f"{statistic} needs --levels as one whole number, such as 32, got {given}")
    return int(levels)


def _declared(
    columns: Sequence[str], ranges: Sequence[str], categories: Sequence[str]
) -> dict[str, Categories | tuple[float, float]]:
    """Each column's declaration, at most one a column."""
    found: dict[str, Categories | tuple[float, float]] = {}
    for flag, texts in (("--range", ranges), ("--categories", categories)):
        for text in texts:
            name, separator, rest = text.partition("=")
            if not separator:
                raise BadInput(f"{flag} {text!r} must look like {_EXAMPLES[flag]}")
            if name not in columns:
                raise BadInput(f"{flag} names {name!r}, which is not among the columns{nearest(name, list(columns))}")
            if name in found:
                raise BadInput(f"the column {name!r} is declared twice")
            found[name] = _range(text, rest) if flag == "--range" else Categories(name, tuple(rest.split(",")))
    return found


_EXAMPLES = {"--range": "age=0:120", "--categories": "answer=no,maybe,yes"}


def _range(text: str, ends: str) -> tuple[float, float]:
    try:
        low, high = (float(end) for end in ends.split(":"))
    except ValueError:
        raise BadInput(f"--range {text!r} must look like {_EXAMPLES['--range']}") from None
    return low, high


def _column(name: str, levels: int, declared: dict[str, Categories | tuple[float, float]]) -> Domain:
    """An interval with that many levels, or declared categories of exactly that number."""
    declaration = declared.get(name)
    if declaration is None:
        raise BadInput(
            f"declare the column {name!r} with --range {name}=lo:hi; a range is never read off the private data"
        )
    if isinstance(declaration, Categories):
        if declaration.size != levels:
            raise BadInput(f"{name} has {declaration.size} categories, but the statistic expects {levels} levels")
        return declaration
    return Interval(name, *declaration, levels)
