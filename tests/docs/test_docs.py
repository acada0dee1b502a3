"""The documentation tells the truth: links lead somewhere, commands parse, Python runs, the tutorial works."""

import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from parley.launch.cli import parley
from parley.launch.settings import Settings
from parley.nodes.common import LONGEST_SILENCE
from parley.protocols.plugins import VARIABLE
from parley.protocols.registry import BUILT_IN

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "protocols").glob("*.md")]
    if ".venv" not in path.parts
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def headings(page: Path) -> set[str]:
    """Anchors as a forge makes them: lower case, no punctuation, dashes for spaces."""
    lines = re.sub(BLOCK, "", page.read_text()).splitlines()
    titles = [line.lstrip("#").strip() for line in lines if line.startswith("#")]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(BLOCK.sub("", page.read_text())):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        name, _, anchor = target.partition("#")
        found = (page.parent / name).resolve() if name else page
        assert found.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in headings(found), f"{page.name}: {target}"


def commands(page: Path) -> list[list[str]]:
    """Every `parley ...` line of a fenced block, without the prompt."""
    lines = [line for _, block in BLOCK.findall(page.read_text()) for line in block.replace("\\\n", " ").splitlines()]
    typed = [line.strip().removeprefix("$ ") for line in lines]
    return [shlex.split(line.removesuffix(" &"), comments=True)[1:] for line in typed if line.startswith("parley ")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_are_spelled_right(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parsed as they would be, then not carried out."""
    monkeypatch.chdir(ROOT)
    # `--protocol-file` tells child processes by the environment; other tests must not hear of it.
    monkeypatch.setenv(VARIABLE, "")
    for arguments in commands(page):
        if not arguments or "..." in arguments:
            continue
        group, words = parley, arguments
        context = click.Context(parley, obj=Settings())
        while isinstance(group, click.Group) and words and not words[0].startswith("-"):
            found = group.get_command(context, words[0])
            assert found is not None, arguments
            group, words = found, words[1:]  # type: ignore[assignment]
        if not {"--help", "--version"} & set(words):
            group.make_context("parley", list(words), parent=context, resilient_parsing=False)


def test_the_tutorial_works_word_for_word(tmp_path: Path) -> None:
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "OPENBLAS_NUM_THREADS": "1"}
    blocks = BLOCK.findall((ROOT / "docs" / "tutorial.md").read_text())
    assert len(blocks) >= 6
    for kind, block in blocks:
        steps = [["-c", block]]
        if kind == "console":
            steps = [["-m", "parley.launch.cli", *shlex.split(line)[2:]] for line in block.splitlines()]
        for step in steps:
            done = subprocess.run(
                [sys.executable, *step], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280
            )
            assert done.returncode == 0, f"{step}: {done.stdout}{done.stderr}"
    assert (tmp_path / "replies.parquet").exists()


def test_every_protocol_has_its_place_on_the_page() -> None:
    page = (ROOT / "docs" / "protocols.md").read_text()
    assert [name for name in BUILT_IN if f"`{name}`" not in page] == []
    assert [name for name in BUILT_IN if f"### {name}\n" not in page] == []


def test_documents_agree_on_how_long_the_board_may_be_silent() -> None:
    """One number, wherever it is written down; in the code it is written down once."""
    for page, words in (("reliability", "without a word from the board"), ("deploy", "")):
        text = " ".join((ROOT / "docs" / f"{page}.md").read_text().split())
        said = re.findall(rf"(\d+) s {words}", text) if words else re.findall(r"silent for (\d+) s", text)
        assert [float(each) for each in said] == [LONGEST_SILENCE], page
    nodes = [path for path in (ROOT / "nodes").glob("*.py") if "LONGEST_SILENCE =" in path.read_text()]
    assert [path.name for path in nodes] == ["common.py"]


def test_the_way_of_one_reply_names_what_there_is() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    way = text[text.index("## The way of one reply") : text.index("## Decisions")]
    assert len(re.findall(r"^[0-9]+\. ", way, re.MULTILINE)) <= 25
    named = re.findall(r"`([\w/]+)\.py::([\w.]+)`", way)
    assert len(named) >= 25
    for path, name in named:
        found: object = importlib.import_module(f"parley.{path.replace('/', '.')}")
        for part in name.split("."):
            assert hasattr(found, part), f"{path}.py has no {name}"
            found = getattr(found, part)
        assert callable(found), name
