"""Bins as people ask for them: equally wide, at private quantiles, or at declared edges; and how many.

Without `--bins` they are equally wide, `--levels` says how many, and users consent to exactly these. At quantiles users
consent to fine levels (a range and a resolution, `--range age=18:90/720`), of which a run makes bins.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Inputs, Protocol
from parley.emulator.randomizer import Floats
from parley.emulator.record.summary import Summary
from parley.launch.ranks import auc, taus
from parley.launch.results.hiding import bins_in
from parley.protocols.bins.binned import MEASURED_BY, check_ranks
from parley.protocols.planned import truth_of
from parley.protocols.workloads.choice import levelled_columns
from parley.protocols.workloads.kendall import KendallTauB
from parley.protocols.workloads.workload import LABELLED, Levels, Workload

EQUAL, QUANTILE, AUTO = "equal", "quantile", "auto"
# Fine levels of a column whose resolution nobody declared.
RESOLUTION = 1024
RANKS = tuple(MEASURED_BY)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What was asked for: the kind of bins, the edges of columns that declare them, the resolution of the others."""

    kind: str = EQUAL
    edges: Mapping[str, tuple[float, ...]]
    resolutions: Mapping[str, int]
    ranges: tuple[str, ...]

    @classmethod
    def of(cls, bins: Sequence[str], ranges: Sequence[str]) -> "Wanted":
        """From `equal`, `quantile` or `column=edge,edge,...`, and ranges with or without a resolution."""
        kinds = [each for each in bins if "=" not in each]
        edges = dict(_edges(each) for each in bins if "=" in each)
        if len(kinds) > 1 or (kinds and edges) or not set(kinds) <= {EQUAL, QUANTILE}:
            said = " and ".join(f"--bins {each}" for each in bins)
            raise BadInput(f"{said} cannot be used; give equal, quantile, or COLUMN=EDGE,EDGE,... for each column")
        kind, plain, resolutions = kinds[0] if kinds else EQUAL, [], dict[str, int]()
        for text in ranges:
            start, slash, fine = text.rpartition("/")
            name = text.partition("=")[0]
            if not slash or "/" in start:
                plain.append(text)
                continue
            if kind != QUANTILE:
                raise BadInput(f"--range {text}: a resolution goes with --bins quantile; leave out /{fine}")
            if not fine.isdecimal() or int(fine) < 2:
                raise BadInput(f"--range {text}: the resolution should be a whole number of fine levels, at least 2")
            plain.append(start)
            resolutions[name] = int(fine)
        return cls(kind=kind, edges=edges, resolutions=resolutions, ranges=tuple(plain))

    def levels(self, statistic: str | None, levels: str | None, columns: Sequence[str]) -> str | None:
        """The levels that follow from declared edges, or those that were given."""
        if levels == AUTO and self.kind != QUANTILE:
            raise BadInput("--levels auto goes with --bins quantile; say how many equally wide bins, such as 16x16")
        if not self.edges:
            return levels
        if levels is not None:
            raise BadInput("--bins already says how many bins there are; leave out --levels")
        named = levelled_columns(statistic, columns)
        if missing := [name for name in named if name not in self.edges]:
            raise BadInput(f"--bins gives no edges for {missing[0]!r}; give --bins {missing[0]}=EDGE,EDGE,...")
        check_ranks(statistic)
        return "x".join(str(len(self.edges[name]) - 1) for name in named)

    def fine_levels(self, statistic: str | None, columns: Sequence[str], categories: Sequence[str]) -> str:
        """The fine levels of the columns, for a statistic of ranks."""
        check_ranks(statistic)
        named = {text.partition("=")[0]: len(text.split(",")) for text in categories}
        wanted = levelled_columns(statistic, columns or ("", ""))
        return "x".join(str(named.get(name) or self.resolutions.get(name, RESOLUTION)) for name in wanted)


def _edges(text: str) -> tuple[str, tuple[float, ...]]:
    name, _, listed = text.partition("=")
    try:
        edges = tuple(float(each) for each in listed.split(","))
    except ValueError:
        raise BadInput(f"--bins {text!r} should look like age=18,30,45,65,90") from None
    if len(edges) < 3 or not (np.isfinite(edges).all() and (np.diff(edges) > 0).all()):
        raise BadInput(f"--bins {text!r}: edges are at least 3 finite numbers that rise, with both ends of the range")
    return name, edges


def coarse_levels(levels: str | None, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """How many bins to make of so many fine levels; None for as many as are best."""
    if levels is None or levels == AUTO:
        return None
    parts = levels.lower().split("x")
    if not all(part.strip().isdecimal() for part in parts):
        raise BadInput(f"--levels should be auto, or a number of bins such as 16x16, got {levels!r}")
    given = tuple(int(part) for part in parts)
    given = (*given, 2) if len(shape) == 2 and shape[1] == 2 and len(given) == 1 else given
    if len(given) != len(shape) or any(many < 2 or many > fine for many, fine in zip(given, shape, strict=True)):
        fine = "x".join(map(str, shape))
        raise BadInput(
            f"--levels {levels} does not fit columns of {fine} fine levels; give auto or fewer bins than these"
        )
    return given


def wraps(question: Workload | Levels, wanted: bool) -> bool:
    """Whether a first round about the margins is needed."""
    return wanted or isinstance(question, KendallTauB)


def unbinned_truth(statistic: str, values: Iterable[Floats]) -> float | None:
    """The statistic of the values as they are, without bins; None where nobody has worked it out."""
    if statistic not in RANKS:
        return None
    if statistic in LABELLED:
        scores, labels = values
        return auc(scores, labels > 0)
    return taus(values)[statistic == KendallTauB.name]


def binned_truth(protocol: Protocol, inputs: Inputs, summary: Summary) -> float | None:
    """What an estimate is compared with: the statistic in the bins of the record."""
    bins = bins_in(summary)
    own: Any = protocol
    return truth_of(protocol, inputs) if bins is None else float(own.binned_truth(inputs, bins))
