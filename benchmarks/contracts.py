"""What docs/accuracy.md promises, read off its own tables: `python -m benchmarks.accuracy --check`.

Benchmarks make the tables; this file makes no number of its own, it only says whether those on the page keep the
promises, and which row is the nearest to breaking each.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

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
    """A table of the page, by its headings; the last one of its block."""
    tables = [part for part in block(page, name).split("\n\n") if part.startswith("|")]
    lines = tables[-1].splitlines() if tables else []
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]] if cells else []


def number(text: str) -> float:
    """The number a cell begins with."""
    found = re.match(r"[-+]?[\d,]*\.?\d+(e[-+]?\d+)?", text)
    if found is None:
        raise SystemExit(f"{text!r} should begin with a number")
    return float(found[0].replace(",", ""))


def within(promise: str, low: float, high: float, readings: Iterable[Reading], wanted: int) -> Verdict:
    """All numbers lie between two limits, and there are as many of them as there should be, or more."""
    found = list(readings)
    if len(found) < wanted:
        return Verdict(promise=promise, kept=False, evidence=f"{len(found)} of {wanted} rows are there")
    nearest = min(found, key=lambda each: min(each.value - low, high - each.value))
    kept = all(low <= each.value <= high for each in found)
    return Verdict(promise=promise, kept=kept, evidence=f"{nearest.value:g} at {nearest.where}")


def predictions_hold(page: str) -> Verdict:
    names = [name for name in statistics_names() if name not in ("quantise", "hierarchical")]
    readings = (Reading(value=number(row["ratio"]), where=row["protocol"]) for row in rows(page, "sweep"))
    return within("measured within 15% of predicted", 0.85, 1.15, readings, len(names))


def tuning_pays(page: str) -> Verdict:
    errors = {row["protocol"]: number(row["RMSE"]) for row in rows(page, "sweep")}
    pairs = [errors[name] for name in ("one-round-tuned", "one-round") if name in errors]
    readings = [Reading(value=pairs[0] / pairs[1], where="the table of all protocols")] if len(pairs) == 2 else []
    return within("one-round-tuned at most 0.75 of one-round", 0.0, 0.75, readings, 1)


# How near to the limit, for so many users at epsilon 1 and 2.
NEAR = {"10,000": 1.40, "100,000": 1.30, "1,000,000": 1.20}


def near_the_limit(page: str) -> Verdict:
    readings = [
        Reading(value=number(row["over limit"]) / NEAR[row["users"]], where=_cell(row))
        for row in _main(page)
        if row["epsilon"] in ("1", "2")
    ]
    said = ", ".join(f"{most:g} for {users} users" for users, most in NEAR.items())
    return within(f"two-round-tuned over the limit: at most {said} (of that)", 0.0, 1.0, readings, 24)


def tuned_intervals_cover(page: str) -> Verdict:
    readings = [Reading(value=number(row["coverage"]), where=_cell(row)) for row in _main(page)]
    return within("95% intervals of two-round-tuned hold the truth in 93% to 98% of the runs", 93.0, 98.0, readings, 32)


def _main(page: str) -> list[Row]:
    """The rows of Kendall, AUC and GMD with two rounds."""
    names = ("kendall16", "kendall8", "auc32", "gmd64")
    return [row for row in rows(page, "near limit") if row["protocol"] == "two-round-tuned" and row["data"] in names]


def _cell(row: Row) -> str:
    return f"{row['data']}, seed {row['seed']}, eps {row['epsilon']}, {row['users']} users"


def auto_is_nearly_the_best(page: str) -> Verdict:
    found = re.findall(r"Over (\d+) problems .*?, on (\d+);", block(page, "auto grid"))
    readings = [Reading(value=int(near) / int(many), where=f"{near} of {many}") for many, near in found]
    promise = "auto within 5% of the best other, beyond three standard errors, on 95 of 100 problems"
    return within(promise, 0.95, 1.0, readings, 1)


def intervals_cover(page: str) -> Verdict:
    found = rows(page, "auto grid")
    readings = [
        Reading(value=number(row["below 92%"]) / number(row["problems"]), where=row["protocol"]) for row in found
    ]
    promise = "a protocol's intervals hold the truth in less than 92% of the runs on at most 2% of these problems"
    return within(promise, 0.0, 0.02, readings, len(statistics_names()))


def rounds_separate(page: str) -> Verdict:
    """From some number of users on the best of three rounds is ahead of the best of one."""
    found = re.findall(r"- ([\d,]+) users: [\w-]+ (\S+), [\w-]+ (\S+)", block(page, "separation"))
    readings = [Reading(value=float(inner) / float(outer), where=f"{users} users") for users, inner, outer in found]
    promise = "interaction beats every protocol of one round on random signs"
    return within(promise, 0.0, 1.0, readings, max(len(readings), 3))


CONTRACTS: tuple[Callable[[str], Verdict], ...] = (
    predictions_hold,
    tuning_pays,
    near_the_limit,
    tuned_intervals_cover,
    auto_is_nearly_the_best,
    intervals_cover,
    rounds_separate,
)


def report(page: str) -> int:
    """Print every verdict; 1 if a promise is broken."""
    verdicts = [contract(page) for contract in CONTRACTS]
    for verdict in verdicts:
        print(f"{'kept  ' if verdict.kept else 'BROKEN'} {verdict.promise}: nearest {verdict.evidence}")
    return 0 if all(verdict.kept for verdict in verdicts) else 1
