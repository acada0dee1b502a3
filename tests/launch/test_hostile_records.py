"""Whatever a forger writes into a record, the commands that read it end with an exit code and visible words."""

import shutil
from collections import Counter
from pathlib import Path

from parley.launch.cli import run
from tests.launch.record_edits import EDITS, Original, chained, commands, payloads_of, try_edits
from tests.vectors.make import golden_path


def test_edits_start_from_the_record_itself() -> None:
    path = golden_path("three-round")
    original = Original.read(path)
    assert chained(payloads_of(path), original.version) == path.read_bytes()


def test_no_edit_ends_in_a_traceback(tmp_path: Path) -> None:
    codes: Counter[tuple[str, int | None]] = Counter()
    for command, code, broken in try_edits(EDITS, seed=1, folder=tmp_path, every_command=False):
        assert broken is None, f"{broken.command}: {broken.said[-2000:]}"
        codes[command, code] += 1
    # The edits reach what they are meant to reach: each command both succeeds and finds damage.
    wanted = {arguments[0] for arguments in commands(tmp_path, tmp_path, tmp_path)}
    assert {command for command, code in codes if code == 0} == wanted
    assert {command for command, code in codes if code in (1, 2)} == wanted


def test_no_link_in_a_folder_of_a_stranger_is_written_through(tmp_path: Path) -> None:
    """A report goes into the folder of the run, and whoever made that folder may have left links there."""
    folder, ours = tmp_path / "run", tmp_path / "ours"
    folder.mkdir()
    ours.write_text("ours")
    shutil.copy(golden_path("three-round"), folder / "transcript.parley")
    for name in ("report.html", ".report.html.new", ".report.html"):
        (folder / name).symlink_to(ours)
    assert run(["report", str(folder)]) == 0
    assert ours.read_text() == "ours"
    assert (folder / "report.html").read_text().startswith("<!")
