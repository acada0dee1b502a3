"""What a stranger reads: the welcome, the help, and examples that work word for word."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from parley.launch.cli import COMMANDS, parley, run

ROOT = Path(__file__).parents[2]


def spoken(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "parley.launch.cli", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=280)


def example(name: str) -> str:
    """The command line that a command's help shows."""
    command = parley.get_command(click.Context(parley), name)
    assert command is not None
    assert command.epilog is not None
    assert command.epilog.startswith(f"Example: parley {name} ")
    return command.epilog.removeprefix("Example: ")


def test_without_arguments_there_are_three_commands_to_start_with(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    welcome = capsys.readouterr().out
    assert [line.split()[1] for line in welcome.splitlines() if line.startswith("  parley ")] == [
        "plan",
        "run",
        "audit",
    ]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == 0
    assert "Example: " + example(name) in " ".join(capsys.readouterr().out.split())


def test_the_examples_work_one_after_the_other(tmp_path: Path) -> None:
    shutil.copy(ROOT / "docs" / "examples" / "scores.csv", tmp_path)
    columns = ("--users", "5000", "--column", "age=18:90/8", "--column", "score=0:100/8")
    spoken(tmp_path, "node", "init", "state", "--run", "survey", "--node", "node-0", *columns, "--cap", "1")
    for name in COMMANDS:
        done = spoken(tmp_path, *shlex.split(example(name))[1:])
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
    assert (tmp_path / "replies.parquet").exists()


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        (["rnu"], "there is no command 'rnu'; did you mean run?"),
        (["run", "--statistic", "kendal", "--levels", "4x4", "--epsilon", "1", "--users", "9"], "kendall"),
        (["plan", "--statistic", "kendall", "--levels", "4", "--epsilon", "1", "--users", "9"], "such as 16x16"),
        (
            [
                "run",
                "--statistic",
                "gini-diversity",
                "--levels",
                "4",
                "--epsilon",
                "1",
                "--users",
                "9",
                "--protocol",
                "tree-round",
            ],
            "did you mean three-round",
        ),
        (["audit", "nowhere"], "no run called"),
    ],
)
def test_errors_say_what_to_type_instead(typed: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(typed) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    assert "_PARLEY_COMPLETE" in capsys.readouterr().out
