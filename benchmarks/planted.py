"""Protocols with planted faults: which check of `parley test` finds each, and after how many seconds.

    python -m benchmarks.planted [--write docs/testing.md] [--json]

Each protocol stands in tests/launch/testkit/planted_protocols. Time is counted from the start of the first stage until
the check that finds the fault has given its verdict, with the effort of `--quick`.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from parley.launch.testkit.stages import find_stages, run_stages
from parley.launch.testkit.target import find_target
from parley.launch.testkit.verdicts import Report

FOLDER = Path(__file__).resolve().parent.parent / "tests/launch/testkit/planted_protocols"
STAGES = ("contract", "accuracy")
BEGIN, END = "<!-- planted: begin -->", "<!-- planted: end -->"


@dataclass(frozen=True)
class Fault:
    """A file, what is wrong in it, and the check that is there to find it."""

    file: str
    what: str
    check: str


FAULTS = (
    Fault("weak_branch", "noise too small in one branch", "sampler follows likelihood"),
    Fault("reused_coins", "coins used twice", "sampler follows likelihood"),
    Fault("missing_clip", "a clip that is missing", "exact loss"),
    Fault("own_range", "range taken from the input", "sampler follows likelihood"),
    Fault("shard_dither", "a reply that differs with sharding", "sharding changes nothing"),
    Fault("ordered_tally", "a tally that depends on order", "order changes nothing"),
    Fault("wrong_variance", "a wrong variance", "coverage"),
    Fault("unchecked_broadcast", "an unchecked broadcast", "exact loss"),
    Fault("double_budget", "a budget that sums to more than the claim", "budget"),
    Fault("input_silence", "silence that depends on the input", "same for every input"),
    Fault("boot_salt", "coins that a process makes its own, and a restart", "a restart changes nothing"),
    Fault("forgotten_limit", "a limit that a restart forgets, and a lie", "a restart changes nothing"),
    Fault("set_order", "a list in the order of a set, and a replay", "a restart changes nothing"),
    Fault("first_user", "one user who is not like the others", "sampler follows likelihood"),
    Fault("open_door", "a reply that is not checked, and a liar", "crafted replies"),
    Fault("twin_replies", "equal replies taken for duplicates", "order changes nothing"),
    Fault("lost_users", "a loss and a wrong denominator", "users missing"),
)


def examine(fault: Fault) -> Report:
    """What the contract and the accuracy of a planted protocol look like."""
    return run_stages(find_target(str(FOLDER / f"{fault.file}.py")), "quick", find_stages(STAGES))


def row_of(fault: Fault, report: Report) -> dict[str, Any]:
    """Who found it, when, and what it said."""
    seconds = 0.0
    for verdict in report.verdicts:
        seconds += verdict.seconds
        if verdict.outcome == "fail" and verdict.check == fault.check:
            others = [each.check for each in report.failures if each.check != fault.check]
            found = {"stage": verdict.stage, "check": verdict.check, "says": verdict.says, "also": others}
            return {"fault": fault.what, "file": fault.file, **found, "seconds": round(seconds, 2)}
    return {
        "fault": fault.what,
        "file": fault.file,
        "stage": None,
        "check": None,
        "says": "",
        "also": [],
        "seconds": None,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    lines = ["| planted fault | stage | found by | seconds | what it says |", "|---|---|---|---|---|"]
    for row in rows:
        link = f"[{row['fault']}](../tests/launch/testkit/planted_protocols/{row['file']}.py)"
        if row["check"] is None:
            lines.append(f"| {link} | | not found | | |")
        else:
            lines.append(f"| {link} | {row['stage']} | {row['check']} | {row['seconds']:.2f} | {row['says']} |")
    return "\n".join(lines)


@click.command()
@click.option("--write", type=click.Path(path_type=Path), help="Put the table into this page.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(write: Path | None, as_json: bool) -> None:
    """Look for every planted fault."""
    rows = [row_of(fault, examine(fault)) for fault in FAULTS]
    click.echo(json.dumps(rows, indent=2) if as_json else table(rows))
    if write is not None:
        before, rest = write.read_text().split(BEGIN)
        write.write_text(f"{before}{BEGIN}\n{table(rows)}\n{END}{rest.split(END)[1]}")
    sys.exit(0 if all(row["check"] for row in rows) else 1)


if __name__ == "__main__":
    main()
