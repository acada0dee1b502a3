"""`parley audit`: what a run's record proves about it."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from parley.emulator.audit.report import Report
from parley.emulator.audit.report import audit as audit_transcript
from parley.emulator.record.conversation import quiet
from parley.launch.results.against import compare_evidence, compare_records, is_evidence
from parley.launch.results.display.printable import fitted, printable, printable_json
from parley.launch.results.display.progress import RateColumn, show_bar
from parley.launch.results.run_files import TRUST, find_run, run_argument, witness_option
from parley.launch.settings import CHECK_FAILED, GOOD, command_seconds, output_options, path_option

# What the bars of these checks count; the others count bytes of the record.
COUNTED = {"privacy": "users", "fidelity": "rounds", "empirical": "inputs"}


@click.command(epilog="Example: parley audit runs/latest")
@run_argument
@witness_option
@path_option(
    "--trust",
    metavar="FILE",
    help=f"Whose signatures count, from a source you trust.  [default: {TRUST} beside the run]",
)
@path_option(
    "--against",
    metavar="OTHER|EVIDENCE",
    help="Only compare RUN with another copy of its record, or with evidence that a node kept.",
)
@click.option("--sample", type=click.IntRange(min=1), metavar="N", help="Look at N users chosen at random.")
@click.option("--empirical", is_flag=True, help="Swap one user's input and bound epsilon from below.")
@click.option(
    "--trials", type=click.IntRange(min=100), default=20_000, show_default=True, help="Conversations per input."
)
@click.option("--strict", is_flag=True, help="A check that could not be made counts as failed.")
@click.option("--quiet", "silent", is_flag=True, help="Hide progress.")
@output_options()
def audit(
    run: Path,
    witness: Path | None,
    trust: Path | None,
    against: Path | None,
    sample: int | None,
    empirical: bool,
    trials: int,
    strict: bool,
    as_json: bool,
    silent: bool,
) -> int:
    """Check RUN: integrity, authorship, rounds, exact privacy loss of every user, fidelity, side channels, result.

    RUN is the folder of a run, its name in runs/, or a transcript; without it, the latest run.
    """
    files = find_run(run, witness, trust)
    if against is not None:
        if is_evidence(against):
            found = compare_evidence(files.transcript, against, files.load_keys())
        else:
            found = compare_records(files.transcript, find_run(against).transcript)
        lines = "\n".join(map(printable, found.findings))
        click.echo(printable_json(found.record(), indent=2) if as_json else lines)
        return GOOD if found.good else CHECK_FAILED
    console = Console(stderr=True)
    watched = console.is_terminal and not silent
    times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), RateColumn(COUNTED), *times)
    with Bars(*columns, console=console, disable=not watched) as bars:
        report = audit_transcript(
            files.transcript,
            files.build,
            witness=files.load_witness(),
            keys=files.load_keys(),
            sample=sample,
            trials=trials if empirical else None,
            progress=partial(show_bar, bars) if watched else quiet,
        )
    seconds = command_seconds()
    good = report.ok and not (strict and report.named("unknown"))
    record = {**report.record(), "ok": good, "seconds": seconds}
    click.echo(printable_json(record, indent=2) if as_json else describe(report, good, seconds))
    return GOOD if good else CHECK_FAILED


def describe(report: Report, good: bool, seconds: float) -> str:
    """The report for people: a line a check, how long it took, and in the end what "good" does not speak about."""
    record = report.record()
    lines = [f"{name:<13} {verdict:<8} {detail}" for name, verdict, detail in details(report)]
    if sys.stdout.isatty():
        lines = [fitted(line, 23) for line in lines]
    lines += [f"{'warning':<13} {printable(each)}" for each in record["integrity"].get("warnings", ())]
    users = record["privacy"].get("users")
    speed = f", {users / seconds:,.0f} users a second" if users else ""
    if "seconds" in record["integrity"]:
        speed += f"; the run itself took {record['integrity']['seconds']:.2f} s"
    last = "good" if good else "NOT GOOD"
    for label, names in (("failed", report.named("fail")), ("not tested", report.named("unknown"))):
        if names:
            last += f"; {label}: {', '.join(names).replace('_', ' ')}"
    return "\n".join([*lines, f"{'time':<13} {seconds:.2f} s{speed}", last])


def details(report: Report) -> list[tuple[str, str, str]]:
    """Each check with its verdict, and why or on what grounds."""
    record, found = report.record(), list[tuple[str, str, str]]()
    for name in report.verdicts:
        detail = record[name].get("reason") or DETAILS[name](record[name])
        found.append((name.replace("_", " "), record[name]["verdict"], printable(detail)))
    return found


def _privacy(check: dict[str, Any]) -> str:
    if "delta_shown" in check:
        alone = "" if check["local_loss"] is None else f"; one reply alone loses at most {check['local_loss']:.6g}"
        shown = f"delta {check['delta_shown']:.3g} of {check['delta']:g} at epsilon {check['claim']:g}"
        return f"{shown}, {check['users']} anonymous replies{alone}"
    part = "" if check["users"] == check["population"] else f" of {check['population']}"
    return f"largest loss {check['max_loss']:.6g} of epsilon {check['claim']:g}, {check['users']}{part} users"


DETAILS: dict[str, Callable[[dict[str, Any]], str]] = {
    "integrity": lambda check: f"{check['records']} records, chain {check['chain'][:16]}, closed as {check['outcome']}",
    "authorship": lambda check: (
        f"{check['signatures']} signatures of {check['authors']} parties, {check['heads']} heads of the record"
        + (f"; {check['meaning']}" if "meaning" in check else "")
    ),
    "rounds": lambda check: (
        f"{check['declared']} declared, {check['observed']} observed, {check['interaction']['observed']}; "
        f"transport: {', '.join(f'{count} {kind}' for kind, count in check['transport'].items())}"
    ),
    "privacy": _privacy,
    "fidelity": lambda check: f"{check['tests']} tests, smallest p-value {check['p_value']:.2g}",
    "side_channels": lambda check: f"{check['tests']} tests, smallest p-value {check['p_value']:.2g}",
    "empirical": lambda check: (
        f"epsilon is at least {check['lower_bound']:.4g}, claimed {check['claim']:g}; {check['event']}"
    ),
    "result": lambda check: f"estimate {check['estimate']:.12g} recomputed bit for bit",
}
