"""Brings back, one by one, the faults that attacks once found, and shows that a test fails because of each.

    python -m benchmarks.findings [--only 1,3c] [--jobs J] [--write docs/reliability.md]

A test that passes proves little; one that fails when its mend is taken out proves that it looks. For each fault
(benchmarks/mended_faults.toml) the tracked files are copied, the test must pass there, the mend is taken out by a small
edit, and the test must then fail in the expected way: in its body, by an assertion or by the error that the fault
means, and not because the edited code cannot be read or imported.
"""

import os
import re
import shutil
import string
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import click

from benchmarks.page import table, write_block

ROOT = Path(__file__).resolve().parent.parent
TABLE = Path(__file__).with_name("mended_faults.toml")
BLOCK = "findings"
# What the tests start as processes; each must be imported from the copy.
PACKAGES = ("parley", "benchmarks", "tests")
PASSED, FAILED = 0, 1
LIMIT_SECONDS = 600.0
NOTICED, UNNOTICED = "noticed", "UNNOTICED"


@dataclass(frozen=True, kw_only=True)
class Edit:
    """A text that stands in a file exactly once, and what takes its place."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A part of a finding: the edits that bring it back, the test, and how the test then fails."""

    name: str
    what: str
    edits: tuple[Edit, ...]
    test: str
    fails_with: str = "AssertionError"

    @property
    def finding(self) -> str:
        """The number without the letter of the part."""
        return self.name.rstrip(string.ascii_lowercase)


@dataclass(frozen=True, kw_only=True)
class Run:
    """What pytest said of one test: its exit code, and how the test failed in its body, if it did."""

    code: int
    failure: str
    broken: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of one fault."""

    fault: Fault
    word: str
    why: str
    seconds: float


class CannotEdit(Exception):
    """The text of an edit does not stand where it should, exactly once."""


def read_faults() -> list[Fault]:
    """The table of faults."""
    listed = tomllib.loads(TABLE.read_text())["fault"]
    return [Fault(**{**each, "edits": tuple(Edit(**edit) for edit in each["edits"])}) for each in listed]


def apply_edit(root: Path, edit: Edit) -> None:
    """Replace the text, which must stand in the file exactly once."""
    path = root / edit.file
    content = path.read_text() if path.is_file() else ""
    if (times := content.count(edit.old)) != 1:
        raise CannotEdit(f"{edit.file} has {edit.old!r} {times} times instead of once; bring the table up to date")
    path.write_text(content.replace(edit.old, edit.new))


def copy_tracked(target: Path) -> None:
    """The tracked files as they stand in the working tree."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        source, place = ROOT / name, target / name
        if source.is_file() or source.is_symlink():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, place, follow_symlinks=False)


def environment(root: Path) -> dict[str, str]:
    """Processes of the tests, and processes of those, import the copy before anything that is installed."""
    calm = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return {**os.environ, **calm, "PYTHONPATH": str(root)}


def check_imports(root: Path) -> None:
    """A process that is started anywhere with this environment must find every package in the copy."""
    code = "import importlib, sys; print(*(importlib.import_module(each).__path__[0] for each in sys.argv[1:]))"
    found = subprocess.run(
        [sys.executable, "-c", code, *PACKAGES],
        cwd=root.parent,
        env=environment(root),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    if found != [str(root / name) for name in PACKAGES]:
        raise click.ClickException(f"packages are not imported from the copy: {', '.join(found)}")


def run_test(root: Path, test: str, report: Path) -> Run:
    """Run one test in a copy and read what pytest reports of it."""
    kept = (f"--junitxml={report}", f"--basetemp={report.with_suffix('.files')}")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *kept, test]
    began = time.monotonic()
    try:
        done = subprocess.run(
            command, cwd=root, env=environment(root), capture_output=True, text=True, timeout=LIMIT_SECONDS
        )
    except subprocess.TimeoutExpired:
        return Run(code=-1, failure="", broken="it hung", seconds=time.monotonic() - began)
    seconds = time.monotonic() - began
    if not report.exists():
        said = (done.stdout + done.stderr).strip().splitlines()
        return Run(code=done.returncode, failure="", broken=said[-1] if said else "no report", seconds=seconds)
    cases = ElementTree.parse(report).getroot()
    # pytest calls what happens in the body of a test a failure, and all else (setup, teardown, collection) an error.
    failures, errors = list(cases.iter("failure")), list(cases.iter("error"))
    return Run(
        code=done.returncode,
        failure=described(failures[0]) if failures else "",
        broken=first_line(errors[0].get("message", "")) if errors else "",
        seconds=seconds,
    )


def described(failure: ElementTree.Element) -> str:
    """The kind of a failure and the first line of its message: `AssertionError: assert 2 == 1`."""
    last = (failure.text or "").rstrip().rpartition("\n")[2]
    kind = last.rpartition(": ")[2]
    # pytest leaves the kind out of plain assertions, and gives the module of all others.
    message = re.sub(rf"^([\w.]+\.)?{re.escape(kind)}: ", "", first_line(failure.get("message", "")))
    return f"{kind}: {message}"


def first_line(text: str) -> str:
    return next(iter(text.strip().splitlines()), "")


def judge(fault: Fault, run: Run) -> tuple[str, str]:
    """The verdict on a run with the fault, and why."""
    if run.code == PASSED:
        return UNNOTICED, "the test passes"
    if run.broken or run.code != FAILED:
        return UNNOTICED, f"the test does not get to fail: {run.broken or f'exit code {run.code}'}"
    if not run.failure.startswith(fault.fails_with):
        return UNNOTICED, f"it fails otherwise than with {fault.fails_with}: {run.failure}"
    return NOTICED, run.failure


def bring_back(fault: Fault, pristine: Path, folder: Path) -> Verdict:
    """Copy, edit, run the test, judge."""
    place = folder / fault.name
    shutil.copytree(pristine, place, symlinks=True)
    try:
        for edit in fault.edits:
            apply_edit(place, edit)
        run = run_test(place, fault.test, folder / f"{fault.name}.xml")
        word, why = judge(fault, run)
        return Verdict(fault=fault, word=word, why=why.replace(str(place), "."), seconds=run.seconds)
    except CannotEdit as error:
        return Verdict(fault=fault, word=UNNOTICED, why=str(error), seconds=0.0)
    finally:
        shutil.rmtree(place)


def check_unedited(tests: Sequence[str], pristine: Path, folder: Path, jobs: int) -> None:
    """Every test passes as long as nothing is brought back; otherwise its failure would show nothing."""

    def passes(numbered: tuple[int, str]) -> str:
        number, test = numbered
        run = run_test(pristine, test, folder / f"unedited-{number}.xml")
        click.echo(f"unedited: {test}: {'passes' if run.code == PASSED else 'FAILS'} ({run.seconds:.1f} s)", err=True)
        return "" if run.code == PASSED else f"{test}: {run.failure or run.broken or f'exit code {run.code}'}"

    with ThreadPoolExecutor(jobs) as pool:
        wrong = list(filter(None, pool.map(passes, enumerate(tests))))
    if wrong:
        raise click.ClickException("tests that fail although nothing was brought back: " + "; ".join(wrong))


def examine(faults: Sequence[Fault], folder: Path, jobs: int) -> list[Verdict]:
    """All of these faults, several at a time."""
    pristine = folder / "pristine"
    copy_tracked(pristine)
    check_imports(pristine)
    check_unedited(list(dict.fromkeys(fault.test for fault in faults)), pristine, folder, jobs)
    verdicts = []
    with ThreadPoolExecutor(jobs) as pool:
        for verdict in pool.map(lambda fault: bring_back(fault, pristine, folder), faults):
            verdicts.append(verdict)
            fault = verdict.fault
            click.echo(f"{fault.name}: {verdict.word} in {verdict.seconds:.1f} s: {verdict.why:.300}", err=True)
    return verdicts


def chosen(only: str | None) -> list[Fault]:
    """The faults of these findings (`3`) or just these (`3c`)."""
    faults = read_faults()
    wanted = [each.strip() for each in only.split(",")] if only else []
    known = {name for fault in faults for name in (fault.name, fault.finding)}
    if strange := [each for each in wanted if each not in known]:
        names = ", ".join(fault.name for fault in faults)
        raise click.BadParameter(f"no finding is called {', '.join(strange)}; there are {names}")
    return [fault for fault in faults if not wanted or fault.name in wanted or fault.finding in wanted]


def as_table(verdicts: Iterable[Verdict]) -> str:
    """The verdicts as Markdown."""
    heads = ("finding", "what was brought back", "test that must fail", "verdict", "seconds")
    rows = [
        (each.fault.name, each.fault.what, f"`{escaped(each.fault.test)}`", each.word, f"{each.seconds:.1f}")
        for each in verdicts
    ]
    return table(heads, rows)


def escaped(text: str) -> str:
    return re.sub(r"\|", r"\\|", text)


@click.command()
@click.option("--only", help="Findings or parts of findings, such as 1,3c.  [default: all]")
@click.option("--jobs", default=2, show_default=True, help="Tests at a time.")
@click.option("--write", type=click.Path(path_type=Path), help="Put the table into this page.")
def main(only: str | None, jobs: int, write: Path | None) -> None:
    """Bring faults back and see whether the tests notice."""
    with tempfile.TemporaryDirectory(prefix="parley-findings-") as folder:
        verdicts = examine(chosen(only), Path(folder), jobs)
    click.echo(as_table(verdicts))
    missed = [each.fault.name for each in verdicts if each.word != NOTICED]
    click.echo(f"{len(verdicts) - len(missed)} of {len(verdicts)} faults are noticed")
    if write is not None:
        write_block(BLOCK, as_table(verdicts), write)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
