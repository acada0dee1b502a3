"""What the table of the shape counts apart is there, and is counted as it is written."""

from pathlib import Path

import pytest

from benchmarks.shape import FEATURES, ROOT, lines_at

PLACES = [place for places in FEATURES.values() for place in places]


@pytest.mark.parametrize("place", PLACES)
def test_what_is_counted_apart_is_there(place: str) -> None:
    assert lines_at(ROOT, place) > 0


def test_nothing_is_counted_twice() -> None:
    assert len(set(PLACES)) == len(PLACES)
    for place in PLACES:
        file, _, name = place.partition("::")
        others = {each for each in PLACES if each != place}
        assert not others & {parent.as_posix() for parent in Path(file).parents}
        assert not name or not others & {file, f"{file}::{name.partition('.')[0]}"}


def test_lines_of_folders_files_and_definitions(tmp_path: Path) -> None:
    source = tmp_path / "launch" / "part" / "some.py"
    source.parent.mkdir(parents=True)
    source.write_text(
        '''"""Some."""

LINES = """
of text
"""


@property
def one() -> int:
    return 1


class Two:
    def three(self) -> None:
        pass
'''
    )
    assert lines_at(tmp_path, "launch/part") == lines_at(tmp_path, "launch/part/some.py") == 15
    assert [lines_at(tmp_path, f"launch/part/some.py::{name}") for name in ("LINES", "one", "Two", "Two.three")] == [
        3, 3, 3, 2,
    ]  # fmt: skip
    assert lines_at(tmp_path, "launch/part/some.py::absent") == lines_at(tmp_path, "launch/absent.py::one") == 0
