"""What docs/accuracy.md promises, read off its own tables: `python -m benchmarks.accuracy --check`.

The tables are made by benchmarks/accuracy.py and benchmarks/separation.py; this file makes no number of its own, it
only says whether those on the page keep the promises, and which row is the nearest to breaking each.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from benchmarks.grid import BASELINES, EPSILONS, USERS, problems
from parley.protocols.planning.plan import statistics_names

Row = dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a promise is kept, with the row that comes nearest to breaking it."""

    promise: str
    kept: bool
    evidence: str


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A number of the page, and where it stands."""

    value: float
    where: str


def block(page: str, name: str) -> str:
    """The text between two marks; nothing if there are none."""
    found = re.search(rf"<!-- {name} -->\n(.*?)<!-- end {name} -->", page, re.DOTALL)
    return found[1] if found else ""


def rows(page: str, name: str) -> list[Row]:
    """A table of the page, by its headings."""
    lines = [line for line in block(page, name).splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]] if cells else []


def number(text: str) -> float:
    """The number a cell begins with."""
    found = re.match(r"[-+]?[\d,]*\.?\d+(e[-+]?\d+)?", text)
    if found is None:
        raise SystemExit(f"{text!r} should begin with a number")
    return float(found[0].replace(",", ""))


def within(promise: str, low: float, high: float, readings: Iterable[Reading], wanted: int) -> Verdict:
    """All numbers lie between two limits, and there are as many of them as there should be."""
    found = list(readings)
    if len(found) != wanted:
        return Verdict(promise=promise, kept=False, evidence=f"{len(found)} of {wanted} rows are there")
    nearest = min(found, key=lambda each: min(each.value - low, high - each.value))
    kept = all(low <= each.value <= high for each in found)
    return Verdict(promise=promise, kept=kept, evidence=f"{nearest.value:g} at {nearest.where}")


def predictions_hold(page: str) -> Verdict:
    found = rows(page, "sweep")
    names = [name for name in statistics_names() if name not in ("quantise", "hierarchical")]
    readings = (Reading(value=number(row["ratio"]), where=f"{row['protocol']}, {row['users']} users") for row in found)
    return within("measured within 15% of predicted", 0.85, 1.15, readings, len(names) * len(USERS))


def close_to_the_floor(page: str) -> Verdict:
    readings = (
        Reading(value=number(row["over floor"]), where=f"{row['users']} users")
        for row in rows(page, "sweep")
        if row["protocol"] == "two-round-tuned" and number(row["users"]) == USERS[-1]
    )
    return within("two-round-tuned at most 1.5 times the floor at the most users", 0.0, 1.5, readings, 1)


def tuning_pays(page: str) -> Verdict:
    errors = {(row["protocol"], row["users"]): number(row["RMSE"]) for row in rows(page, "sweep")}
    readings = (
        Reading(value=error / errors["one-round", users], where=f"{users} users")
        for (name, users), error in errors.items()
        if name == "one-round-tuned" and ("one-round", users) in errors
    )
    return within("one-round-tuned at most 0.75 of one-round", 0.0, 0.75, readings, len(USERS))


def auto_is_nearly_the_best(page: str) -> Verdict:
    return _auto(page, "auto at most 5% worse than the best of all", "over best other", 1.05)


def auto_beats_baselines(page: str) -> Verdict:
    return _auto(page, f"auto no worse than {', '.join(BASELINES)}", "over best baseline", 1.0)


def _auto(page: str, promise: str, column: str, limit: float) -> Verdict:
    readings = (
        Reading(value=number(row[column]), where=f"{row['problem']}, eps {row['epsilon']}, {row['users']} users")
        for row in rows(page, "auto")
    )
    return within(promise, 0.0, limit, readings, len(problems()) * len(EPSILONS) * len(USERS))


def intervals_cover(page: str) -> Verdict:
    found = rows(page, "coverage")
    readings = [
        Reading(value=number(row["held the truth"]), where=f"{row['protocol']}, {row['problem']}") for row in found
    ]
    there = {row["protocol"] for row in found}
    missing = set(statistics_names()) - there - {"quantise"}
    promise = "95% intervals hold the truth in 93% to 97% of the runs"
    return within(promise, 93.0, 97.0, readings, len(readings) + len(missing) or 1)


def rounds_separate(page: str) -> Verdict:
    """From some number of users on the best of three rounds is ahead of the best of one."""
    found = re.findall(r"- ([\d,]+) users: [\w-]+ (\S+), [\w-]+ (\S+)", block(page, "separation"))
    readings = [Reading(value=float(inner) / float(outer), where=f"{users} users") for users, inner, outer in found]
    promise = "interaction beats every protocol of one round on random signs"
    return within(promise, 0.0, 1.0, readings, max(len(readings), 3))


CONTRACTS: tuple[Callable[[str], Verdict], ...] = (
    predictions_hold,
    close_to_the_floor,
    tuning_pays,
    auto_is_nearly_the_best,
    auto_beats_baselines,
    intervals_cover,
    rounds_separate,
)


def report(page: str) -> int:
    """Print every verdict; 1 if a promise is broken."""
    verdicts = [contract(page) for contract in CONTRACTS]
    for verdict in verdicts:
        print(f"{'kept  ' if verdict.kept else 'BROKEN'} {verdict.promise}: nearest {verdict.evidence}")
    return 0 if all(verdict.kept for verdict in verdicts) else 1
