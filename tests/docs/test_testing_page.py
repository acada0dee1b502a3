"""docs/testing.md names every check and every stage, shows every planted fault as found, and its own tests run."""

import re
import subprocess
import sys
from pathlib import Path

from benchmarks.planted import BEGIN, END, FAULTS
from parley.launch.testkit.stages import CHECKS, MODULES
from tests.docs.test_docs import BLOCK
from tests.launch.conftest import ROOT

PAGE = (ROOT / "docs" / "testing.md").read_text()


def test_every_check_and_every_stage_has_its_place() -> None:
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| [^|]+ \|$", PAGE, re.MULTILINE)
    assert [row for row in rows if row in {each.title for each in CHECKS}] == [each.title for each in CHECKS]
    said = [name.lower() for name in re.findall(r"^\*\*([^*]+)\.\*\*", PAGE, re.MULTILINE)]
    assert said == [name.replace("-", " ") for name in MODULES]


def test_every_planted_fault_is_shown_as_found() -> None:
    table = PAGE[PAGE.index(BEGIN) : PAGE.index(END)]
    assert [fault.what for fault in FAULTS if f"[{fault.what}]" not in table] == []
    assert table.count("|\n") == len(FAULTS) + 2
    for fault in FAULTS:
        (line,) = [line for line in table.splitlines() if f"[{fault.what}]" in line]
        assert f"| {fault.check} |" in line


def test_the_tests_on_the_page_run(tmp_path: Path) -> None:
    (block,) = [block for kind, block in BLOCK.findall(PAGE) if kind == "python" and "parley.testing" in block]
    (tmp_path / "test_page.py").write_text(block)
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_page.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stdout
