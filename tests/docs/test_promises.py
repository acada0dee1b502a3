"""Promises name the tests that break them, and those tests exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
PAGES = ("threat-model.md", "reliability.md", "wallet.md", "audit.md", "shuffle.md", "wire.md", "transcript.md")


@pytest.mark.parametrize("page", PAGES)
def test_every_named_test_exists(page: str) -> None:
    found = NAMED.findall((ROOT / "docs" / page).read_text())
    missing = [
        f"{file}::{name}"
        for file, name in found
        if not (ROOT / file).is_file() or (name and f"def {name}(" not in (ROOT / file).read_text())
    ]
    assert missing == []


@pytest.mark.parametrize("page", ["threat-model.md", "reliability.md"])
def test_every_line_of_a_table_with_tests_names_one(page: str) -> None:
    lines = (ROOT / "docs" / page).read_text().splitlines()
    promised = False
    for line in lines:
        if not line.startswith("|"):
            promised = False
        elif line.rstrip().endswith("| test |"):
            promised = True
        elif promised and not line.startswith("|---"):
            assert NAMED.search(line), line
