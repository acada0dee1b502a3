"""The problem flags of the command line: which statistic on how many levels, and how columns become inputs."""

import re
from collections.abc import Callable, Sequence
from functools import partial, reduce
from pathlib import Path

from parley.emulator.errors import BadInput
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.domain import Categories, Domain, Interval, Pair, nearest
from parley.protocols.workloads.gini import GiniDiversity, GiniMeanDifference
from parley.protocols.workloads.kendall import Kendall
from parley.protocols.workloads.kernel import load_kernel
from parley.protocols.workloads.lipschitz import DISTANCES, Lipschitz
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
ONE_LEVEL = r"\s*[0-9]{1,9}\s*"
PAIR_OF_LEVELS = ONE_LEVEL + "[xX]" + ONE_LEVEL
_EXAMPLES = {"--range": "age=0:120", "--categories": "answer=no,maybe,yes"}


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
    both = statistic == Kendall.name
    if levels is None or re.fullmatch(PAIR_OF_LEVELS if both else ONE_LEVEL, levels) is None:
        wanted = "for both columns, such as 16x16" if both else "as one whole number, such as 32"
        raise BadInput(f"{statistic} needs --levels {wanted}, got {'nothing' if levels is None else repr(levels)}")
    numbers = [int(number) for number in re.findall("[0-9]+", levels)]
    return Kendall(levels=(numbers[0], numbers[1])) if both else SINGLE[statistic](levels=numbers[0])


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
    made: list[Domain] = []
    for name, levels in zip(columns, question.shape, strict=True):
        declaration = declared.get(name)
        if declaration is None:
            raise BadInput(
                f"declare the column {name!r} with --range {name}=lo:hi; a range is never read off the private data"
            )
        if isinstance(declaration, Categories) and declaration.size != levels:
            raise BadInput(f"{name} has {declaration.size} categories, but the statistic expects {levels} levels")
        made.append(declaration if isinstance(declaration, Categories) else Interval(name, *declaration, levels))
    return reduce(Pair, made)


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
            if flag == "--categories":
                found[name] = Categories(name, tuple(rest.split(",")))
                continue
            try:
                low, high = (float(end) for end in rest.split(":"))
            except ValueError:
                raise BadInput(f"--range {text!r} must look like {_EXAMPLES['--range']}") from None
            found[name] = low, high
    return found
