"""A question in people's words: its title, what was measured, and how its columns were cut into levels."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from parley.emulator.record.question import LONGEST_TITLE
from parley.protocols.workloads.workload import LABELLED

STATISTICS = {
    "kendall": "Kendall's tau",
    "kendall-b": "Kendall's tau-b",
    "auc": "AUC",
    "gini-mean-difference": "Gini mean difference",
    "gini-diversity": "Gini diversity",
    "kernel": "Mean of a kernel",
    "lipschitz": "Mean of a Lipschitz loss",
    "absolute-difference": "Mean absolute difference",
    "squared-difference": "Mean squared difference",
    "huber": "Mean Huber loss",
    "truncated-difference": "Mean truncated difference",
    "gaussian": "Mean Gaussian similarity",
}
LONGEST_COLUMN = 40
CATEGORIES = 6


def usual_title(name: str, columns: Sequence[str], *, synthetic: bool = False) -> str:
    """`Kendall's tau of age and score`: what a question is called if nobody gives it a title."""
    several = [each if len(each) <= LONGEST_COLUMN else f"{each[: LONGEST_COLUMN - 1]}…" for each in columns]
    link = " for " if name in LABELLED else " and "
    of = f" of {link.join(several)}" if several else " of synthetic data" if synthetic else ""
    title = "".join(each if each.isprintable() else "?" for each in f"{STATISTICS.get(name, name)}{of}")
    return title[:LONGEST_TITLE]


def shape_of(levels: Sequence[int], columns: Sequence[Mapping[str, Any]] = ()) -> str:
    """`16 x 16 bins`, `8 categories`, `64 levels`."""
    kinds = {each.get("type") for each in columns}
    noun = "categories" if kinds == {"categories"} else "bins" if kinds and "categories" not in kinds else "levels"
    return f"{' x '.join(map(str, levels))} {noun}"


def described(column: Mapping[str, Any]) -> str:
    """`age from 18 to 90 in 16 bins`, `answer: no, maybe, yes`."""
    name, categories = str(column.get("name")), column.get("categories")
    if isinstance(categories, list | tuple):
        named = ", ".join(map(str, categories[:CATEGORIES]))
        return f"{name}: {named}" + (
            f" and {len(categories) - CATEGORIES} more" if len(categories) > CATEGORIES else ""
        )
    low, high = (_end(column.get(end), column.get("type") == "date") for end in ("low", "high"))
    return f"{name} from {low} to {high} in {column.get('levels')} bins"


def source_words(source: Mapping[str, Any]) -> list[str]:
    """What had to be done to the data before they became inputs, sentence by sentence."""
    clipped, dropped = source.get("clipped", {}), source.get("dropped", 0)
    one, several = "lies outside its declared range and was clipped", "lie outside its declared range and were clipped"
    said = [
        f"1 value of {name} {one}" if count == 1 else f"{count:,} values of {name} {several}"
        for name, count in clipped.items()
    ]
    rows = "1 row without a value was" if dropped == 1 else f"{dropped:,} rows without a value were"
    return [*said, *([f"{rows} left out"] if dropped else [])]


def _end(value: Any, dates: bool) -> str:
    if not isinstance(value, int | float):
        return "?"
    if not dates:
        return f"{value:g}"
    try:
        moment = datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{value:g}"
    midnight = (moment.hour, moment.minute, moment.second) == (0, 0, 0)
    return moment.strftime("%Y-%m-%d" if midnight else "%Y-%m-%d %H:%M:%S")
