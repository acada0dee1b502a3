"""The command as people meet it: help, completion, tables that cut nothing, a word where something takes long."""

import csv
import json
import os
import subprocess
import sys
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from parley.launch import settings
from parley.launch.cli import COMMANDS
from parley.launch.cluster.fault_driver import ready_made
from parley.launch.help import TOPICS
from parley.launch.results.display import progress
from parley.launch.results.display.effort import about, warning
from parley.launch.results.display.progress import Standing, Terminal, Working
from parley.nodes.environment import SINGLE_THREADED
from parley.protocols.registry import names
from parley.protocols.workloads.choice import STATISTICS, make_question
from parley.protocols.workloads.synthetic import LABELLED, PAIRS, SCALARS
from tests.launch.conftest import ROOT, Parley


def offered(*words: str) -> list[str]:
    """What bash is offered for the last word."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "_PARLEY_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("parley", *words)),
        "COMP_CWORD": str(len(words)),
    }
    command = [sys.executable, "-c", "from parley.launch.cli import parley; parley(prog_name='parley')"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


def test_values_are_completed() -> None:
    assert offered("run", "--statistic", "gini") == [name for name in STATISTICS if name.startswith("gini")]
    assert offered("run", "--protocol", "two") == [name for name in names("shuffler") if name.startswith("two")]
    assert offered("run", "--conditions", "l") == [name for name in ready_made() if name.startswith("l")]
    assert offered("help", "ep") == ["epsilon"]


def test_a_list_is_completed_after_its_last_comma() -> None:
    complete = settings.complete(lambda: ("one-round", "two-round"))
    assert complete(None, None, "one-round,t") == ["one-round,two-round"]


def test_help_names_what_can_be_given(parley: Parley) -> None:
    # Lines are broken at hyphens, too.
    said = "".join(parley("run", "--help").out.split())
    for name in (*ready_made(), *STATISTICS, *PAIRS, *SCALARS, *LABELLED, "refuse", "drop", "as-category"):
        assert name in said, name


@pytest.mark.parametrize("topic", TOPICS)
def test_every_topic_fits_a_terminal(parley: Parley, topic: str) -> None:
    said = parley("help", topic)
    assert said.code == 0
    assert max(map(len, said.out.splitlines())) <= 80
    assert parley("help", topic, "--json").record[topic]


def test_help_about_commands_and_about_nothing(parley: Parley) -> None:
    assert all(topic in parley("help").out for topic in TOPICS)
    assert parley("help", "audit").out.splitlines()[0].startswith("Usage: parley audit")
    missed = parley("help", "epsilons")
    assert (missed.code, missed.err) == (2, "parley: there is no help about 'epsilons'; did you mean epsilon?\n")


def test_no_name_is_cut_in_a_narrow_terminal(parley: Parley, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    said = parley("protocols")
    shown = {line.split()[0].rstrip(":") for line in said.out.splitlines() if line.strip()}
    assert set(names("shuffler")) <= shown
    assert "…" not in said.out
    assert max(map(len, said.out.splitlines())) <= 80


def test_a_csv_file_holds_csv(parley: Parley, finished: Path, tmp_path: Path) -> None:
    assert parley("export", finished, "--out", "replies.csv").code == 0
    assert parley("export", finished, "--out", "replies.jsonl").code == 0
    with open("replies.csv", newline="") as file:
        table = list(csv.DictReader(file))
    lines = [json.loads(line) for line in Path("replies.jsonl").read_text().splitlines()]
    assert len(table) == len(lines) == 3 * 301
    for row, line in zip(table, lines, strict=True):
        found = {name: json.loads(cell) for name, cell in row.items() if cell and name != "node"}
        assert {**found, "node": row["node"]} == line
    refused = parley("export", finished, "--out", "replies.xlsx")
    assert refused.code == 2
    assert ".jsonl, .csv or .parquet" in refused.err


def test_the_time_shown_is_that_of_the_command(parley: Parley, finished: Path) -> None:
    given = ("--statistic", "gini-diversity", "--levels", "4", "--epsilon", "2", "--users", "50", "--quiet")
    line = next(line for line in parley("run", *given).out.splitlines() if line.startswith("seconds"))
    whole, conversation = float(line.split()[1].rstrip(",")), float(line.split()[-1])
    assert whole > conversation > 0


def test_bars_count_against_those_who_are_asked() -> None:
    """With split users a complete run ends with full bars."""
    shown = Terminal(Console(file=StringIO()))
    for number, asked in ((1, 30), (2, 70)):
        for replies in (0, asked):
            shown.show(Standing(nodes=2, joined=2, users=100, declared=2, round=number, asked=asked, replies=replies))
    totals = {task.description: (task.completed, task.total) for task in shown.bars.tasks}
    assert totals == {"start-up": (2, 2), "round 1 of 2": (30, 30), "round 2 of 2": (70, 70)}


@pytest.mark.parametrize(
    ("patience", "terminal", "spoken"), [(0.0, True, True), (60.0, True, False), (0.0, False, False)]
)
def test_what_takes_long_is_named_on_a_terminal(
    patience: float,
    terminal: bool,
    spoken: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", patience)
    monkeypatch.setattr(progress, "Console", partial(Console, force_terminal=terminal))
    with Working("counting") as working:
        if patience == 0:
            working._timer.join()
    said = capsys.readouterr().err
    assert ("counting" in said) == spoken
    assert (said == "") != spoken


def test_quiet_work_says_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.0)
    with Working("counting", quiet=True) as working:
        working._timer.join()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("statistic", "levels", "protocol", "words"),
    [
        ("kendall", "200x200", "auto", ("200x200", "40000 inputs", "about 5 minutes", "fewer levels")),
        ("kendall", "800x800", "auto", ("about 12 hours",)),
        ("gini-mean-difference", "4000", "all", ("4000", "minutes")),
        ("kendall", "16x16", "auto", None),
        ("kendall", "200x200", "frequency-oue", None),
    ],
)
def test_too_many_levels_are_told_before_the_wait(statistic: str, levels: str, protocol: str, words: Any) -> None:
    found = warning(make_question(statistic, levels, None), protocol)
    assert (found is None) == (words is None)
    assert all(word in (found or "") for word in words or ())


def test_durations_as_people_say_them() -> None:
    assert [about(each) for each in (12.3, 89, 150, 7200)] == [
        "about 12 seconds",
        "about 89 seconds",
        "about 2 minutes",
        "about 2 hours",
    ]


def test_every_command_is_listed_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text()
    assert [name for name in COMMANDS if f"parley {name}" not in text] == []


@pytest.mark.parametrize(("given", "expected"), [({}, "1"), ({"OPENBLAS_NUM_THREADS": "3"}, "3")])
def test_linear_algebra_runs_on_one_thread_unless_somebody_says_otherwise(given: dict[str, str], expected: str) -> None:
    """Set before numpy is loaded, which reads it once."""
    kept = {name: value for name, value in os.environ.items() if name not in SINGLE_THREADED}
    program = (
        "import os, sys; from parley.launch.cli import run; early = 'numpy' in sys.modules; run(['--version']); "
        "print(early, os.environ['OPENBLAS_NUM_THREADS'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**kept, **given, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == f"False {expected}"
