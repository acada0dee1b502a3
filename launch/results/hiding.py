"""What a record says about bins: how many there were, where they began, and what they hide."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from parley.emulator.errors import RemoteProtocolError
from parley.emulator.randomizer import Floats
from parley.emulator.record.summary import Summary
from parley.emulator.wire.messages import Result
from parley.protocols.bins.binned import MEASURED_BY
from parley.protocols.bins.hidden import PARTS, Column, hidden_of

NAMES = {
    "kendall": "Kendall's tau-a",
    "kendall-b": "Kendall's tau-b",
    "auc": "the area under the curve",
    "gini-mean-difference": "Gini's mean difference",
    "gini-diversity": "Gini's diversity index",
}
BORDERS = "borders"
FOUND = "at private quantiles"
SAID = ("hidden", "hidden_error", "noise_low", "noise_high")


def bins_in(summary: Summary) -> Any:
    """The bins that the analyst made and broadcast; None where bins were agreed on before, or make no sense."""
    protocol: Any = summary.protocol
    if protocol is None or not hasattr(protocol, "binned_truth"):
        return None
    said = [each.announce.broadcast.get(BORDERS) for each in summary.rounds if each.number > 1]
    if not said or not isinstance(said[-1], np.ndarray) or said[-1].shape != (protocol.border_count,):
        return None
    try:
        return protocol.bins(said[-1])
    except RemoteProtocolError:
        return None


def columns_in(summary: Summary) -> list[Mapping[str, Any]]:
    """The columns that users agreed to; none where the record has nothing of the kind."""
    columns = () if summary.setup is None else summary.setup.domain.get("columns", ())
    if not isinstance(columns, tuple | list) or not all(isinstance(each, Mapping) for each in columns):
        return []
    return list(columns)


def measured(summary: Summary) -> str:
    """What was measured, in words: the statistic, its columns, and how many bins they have. Empty without columns."""
    workload, columns = getattr(summary.protocol, "workload", None), columns_in(summary)
    if workload is None or not columns:
        return ""
    levels = getattr(summary.protocol, "levels", None) or workload.shape
    kind = "bins" if any("low" in each for each in columns) else "categories"
    named = " and ".join(str(each.get("name"))[:64] for each in columns)
    where = f" {FOUND}" if tuple(levels) != tuple(workload.shape) else ""
    return f"{NAMES.get(workload.name, workload.name)} of {named}, {' x '.join(map(str, levels))} {kind}{where}"


def hidden_in(summary: Summary) -> dict[str, Any]:
    """What bins hide, and the two intervals: with it, and by noise alone. Empty where nobody can tell.

    The protocol `binned` says it itself. For bins that were agreed on it follows from how users are spread over them,
    if the protocol's result shows that.
    """
    result, workload = summary.ending, getattr(summary.protocol, "workload", None)
    if not isinstance(result, Result) or workload is None:
        return {}
    details, noise = result.details, (result.low, result.high)
    if all(isinstance(details.get(name), float) for name in SAID):
        amount, error, *ends = (details[name] for name in SAID)
        # Where each fine level is a bin, what lies within it is not known.
        said = {"hidden": amount, "hidden_error": error, "interval95_noise": tuple(ends), "interval95": noise}
        return said if error else {}
    margins, columns = _margins(details.get("margins"), workload.shape), columns_in(summary)
    fits = len(margins) == len(columns) and any("low" in each for each in columns)
    if not fits or workload.name not in MEASURED_BY.values() or not math.isfinite(result.estimate):
        return {}
    # Numbers may lie anywhere in their bin; categories are what they are.
    first, second = (
        Column(shares, np.full(len(shares), PARTS if "low" in each else 1))
        for shares, each in zip(margins, columns, strict=True)
    )
    found = hidden_of(workload, first, second, result.estimate)
    low, high = found.interval(result.estimate, result.predicted_rmse)
    return {
        "hidden": found.amount,
        "hidden_error": found.error,
        "interval95_noise": noise,
        # An interval that is not normal, as that of an area may be, is moved too.
        "interval95": (min(low, noise[0] + found.amount), max(high, noise[1] + found.amount)),
    }


def _margins(said: Any, shape: tuple[int, ...]) -> list[Floats]:
    """How users are spread over the levels of each column; empty where the result says nothing of the kind."""
    if not isinstance(said, tuple | list) or len(said) != 2 or len(shape) != 2:
        return []
    for shares, levels in zip(said, shape, strict=True):
        if not isinstance(shares, tuple | list) or len(shares) != levels:
            return []
        if not all(isinstance(share, float) and 0 <= share <= 1 + 1e-9 for share in shares) or not sum(shares) > 0:
            return []
    return [np.array(shares) / sum(shares) for shares in said]
