"""Mended faults can still be brought back, and a fault that goes unnoticed is not taken for one that is noticed."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks import findings
from benchmarks.findings import (
    NOTICED,
    ROOT,
    UNNOTICED,
    CannotEdit,
    Edit,
    Fault,
    Verdict,
    apply_edit,
    chosen,
    examine,
    read_faults,
)

FAULTS = read_faults()
# The fault shows in a process that the test starts: it must import the copy as well.
CHEAP = "3f"


def edited(fault: Fault, folder: Path) -> list[Path]:
    """The files of a fault with its edits."""
    for file in {edit.file for edit in fault.edits}:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes((ROOT / file).read_bytes())
    for edit in fault.edits:
        apply_edit(folder, edit)
    return [folder / edit.file for edit in fault.edits]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_every_edit_applies_and_can_be_read(fault: Fault, tmp_path: Path) -> None:
    for path in edited(fault, tmp_path):
        if path.suffix == ".py":
            compile(path.read_text(), path, "exec")


def test_every_finding_is_there_and_every_name_is_given_once() -> None:
    assert {fault.finding for fault in FAULTS} == {str(number) for number in range(1, 16)}
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


def test_every_named_test_exists() -> None:
    tests = sorted({fault.test for fault in FAULTS})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *tests]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr


def test_a_fault_is_noticed_and_what_is_none_is_not(tmp_path: Path) -> None:
    (real,) = chosen(CHEAP)
    (edit,) = real.edits
    (tmp_path / "copies").mkdir()
    others = {
        "harmless": Edit(file=edit.file, old=edit.old, new=f"{edit.old}  # as before"),
        "unreadable": Edit(file=edit.file, old=edit.old, new="raise ("),
        "gone": Edit(file=edit.file, old="this stands nowhere", new=""),
    }
    faults = [real, *(Fault(name=name, what="", edits=(each,), test=real.test) for name, each in others.items())]
    verdicts = examine(faults, tmp_path / "copies", jobs=2)
    assert [each.word for each in verdicts] == [NOTICED, UNNOTICED, UNNOTICED, UNNOTICED]
    assert verdicts[0].why == "AssertionError: assert 1 == 3"
    assert verdicts[1].why == "the test passes"
    assert verdicts[2].why.startswith("the test does not get to fail")
    assert verdicts[3].why.startswith(f"{edit.file} has 'this stands nowhere' 0 times instead of once")


@pytest.mark.parametrize(("word", "code"), [(NOTICED, 0), (UNNOTICED, 1)])
def test_the_exit_code_and_the_page_tell(word: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(faults: list[Fault], *_: object) -> list[Verdict]:
        return [Verdict(fault=each, word=word, why="", seconds=1.0) for each in faults]

    monkeypatch.setattr(findings, "examine", found)
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- findings -->\nold\n<!-- /findings -->\nafter\n")
    done = CliRunner().invoke(findings.main, ["--only", "8", "--write", str(page)])
    assert done.exit_code == code, done.output
    assert f"{1 - code} of 1 faults are noticed" in done.output
    assert f"| {word} | 1.0 |" in page.read_text()
    assert "old" not in page.read_text()


def test_a_finding_that_is_not_there_is_refused() -> None:
    done = CliRunner().invoke(findings.main, ["--only", "8,99"])
    assert done.exit_code == 2
    assert "no finding is called 99" in done.output


def test_text_that_stands_twice_is_not_edited(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("one two one")
    with pytest.raises(CannotEdit, match="2 times"):
        apply_edit(tmp_path, Edit(file="file", old="one", new="three"))
    assert (tmp_path / "file").read_text() == "one two one"
