"""What the newcomer types is what the pages say, and a terminal of 80 columns shows it."""

import shutil
from pathlib import Path

import pytest

from benchmarks.newcomer import COLUMNS, Terminal, commands
from tests.launch.conftest import ROOT


def test_the_commands_of_the_pages_are_found_in_order(tmp_path: Path) -> None:
    typed = list(commands(ROOT / "README.md", tmp_path))
    assert typed[:4] == ["./launch/demo.sh", "./launch/test.sh", "source .venv/bin/activate", "parley --version"]
    assert any(each.startswith("parley run --statistic kendall --data docs/examples/scores.csv") for each in typed)
    assert all(each.startswith(("./launch/", "source ", "parley ")) for each in typed), typed
    tutorial = list(commands(ROOT / "docs" / "tutorial.md", tmp_path))
    assert tutorial[0].startswith("python ")
    assert sum(each.startswith("parley ") for each in tutorial) >= 6
    assert "scores.csv" in Path(tutorial[0].split()[1]).read_text()


@pytest.mark.skipif(shutil.which("tmux") is None, reason="there is no tmux")
def test_a_terminal_tells_what_became_of_a_command(tmp_path: Path) -> None:
    with Terminal(tmp_path, tmp_path) as terminal:
        assert terminal.type("true")[0] == 0
        code, shown = terminal.type("stty size; false")
        assert code == 1
        assert str(COLUMNS) in shown.split()
