"""The guide: every command on its pages runs, ends with the exit code written there, and prints what is shown."""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.docs.test_docs import BLOCK
from tests.launch.conftest import ROOT

GUIDE = ROOT / "docs" / "guide"
CHAPTERS = sorted(GUIDE.glob("[0-9]-*.md"))
CODE = re.compile(r"# exit code (\d)")
LONGEST = 60


@dataclass
class Typed:
    """One command of a page, its exit code, and the lines that are shown below it."""

    words: list[str]
    code: int
    shown: list[str] = field(default_factory=list)


def typed_in(block: str) -> list[Typed]:
    found: list[Typed] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            said = CODE.search(line)
            found.append(Typed(shlex.split(line[2:], comments=True), 0 if said is None else int(said[1])))
        elif line.strip():
            found[-1].shown.append(" ".join(line.split()))
    return found


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda page: page.stem)
def test_every_command_does_what_the_page_says(page: Path, tmp_path: Path) -> None:
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    environment = {
        "PYTHONPATH": str(ROOT),
        "PATH": os.environ["PATH"],
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONIOENCODING": "utf-8",
    }
    blocks = BLOCK.findall(page.read_text())
    assert any(kind == "console" for kind, _ in blocks)
    for kind, block in blocks:
        if kind == "python":
            run([sys.executable, "-c", block], tmp_path, environment)
        for typed in typed_in(block) if kind == "console" else ():
            program, *words = typed.words
            command = [sys.executable, *(["-m", "parley.launch.cli"] if program == "parley" else []), *words]
            done = run(command, tmp_path, environment, typed.code)
            lines = [" ".join(line.split()) for line in done.splitlines()]
            for shown in typed.shown:
                assert any(line.startswith(shown) for line in lines), f"{typed.words}: no line {shown!r} in\n{done}"


def run(command: list[str], folder: Path, environment: dict[str, str], code: int = 0) -> str:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=250)
    assert done.returncode == code, f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_there_are_six_short_chapters() -> None:
    assert [page.name[0] for page in CHAPTERS] == list("123456")
    index = (GUIDE / "README.md").read_text()
    assert [page.name for page in CHAPTERS if f"]({page.name})" not in index] == []
    for page in CHAPTERS[:-1]:
        assert len(page.read_text().splitlines()) <= LONGEST, page.name


def test_each_chapter_breaks_something() -> None:
    for page in CHAPTERS:
        assert CODE.search(page.read_text()), f"nothing fails in {page.name}"
