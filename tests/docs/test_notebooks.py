"""The notebooks run from top to bottom, each in its own folder, and their assertions hold."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.launch.conftest import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def test_there_are_three() -> None:
    assert [each.stem for each in NOTEBOOKS] == ["faults-and-audit", "own-columns", "own-protocol"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    book = nbformat.read(path, as_version=4)
    assert all(not cell.outputs for cell in book.cells if cell.cell_type == "code"), "kept without outputs"
    NotebookClient(book, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
