"""What the table of the shape counts apart is there, and is counted as it is written."""

import ast
from pathlib import Path

import pytest

from benchmarks.shape import FEATURES, ROOT, definitions, lines_of_features, owners

PLACES = [place for places in FEATURES.values() for place in places]


@pytest.mark.parametrize("place", PLACES)
def test_what_is_counted_apart_is_there(place: str) -> None:
    file, _, name = place.partition("::")
    assert (ROOT / file).exists()
    assert not name or name in definitions(ast.parse((ROOT / file).read_text()))


def test_nothing_is_counted_twice() -> None:
    assert len(set(PLACES)) == len(PLACES)
    for place in PLACES:
        file, _, name = place.partition("::")
        others = {each for each in PLACES if each != place}
        assert not others & {parent.as_posix() for parent in Path(file).parents}
        assert not name or not others & {file, f"{file}::{name.partition('.')[0]}"}


SOURCE = '''"""Some."""

import json
import os
import re

# Of the text.
LINES = """
of text
"""
SHARED = 3


@property
def one() -> str:
    return json.dumps(LINES) + os.name


class Two:
    """Both."""

    shown = os.name

    # Of three.
    def three(self) -> int:
        return SHARED
'''


def test_a_definition_has_the_lines_above_it_and_what_nothing_else_uses() -> None:
    module = ast.parse(SOURCE)
    assert {name: (lines[0], lines[-1]) for name, lines in definitions(module).items()} == {
        "json": (2, 3), "os": (4, 4), "re": (5, 5), "LINES": (6, 10), "SHARED": (11, 11), "one": (12, 16),
        "Two": (17, 26), "Two.shown": (21, 22), "Two.three": (23, 26),
    }  # fmt: skip
    found = owners(module, {"one": "first", "Two.three": "second"}, {"SHARED"})
    assert [line for line, feature in found.items() if feature == "first"] == [*range(12, 17), 2, 3, *range(6, 11)]
    assert [line for line, feature in found.items() if feature == "second"] == [23, 24, 25, 26]


def test_lines_of_folders_files_and_definitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "launch" / "part" / "some.py"
    source.parent.mkdir(parents=True)
    source.write_text(SOURCE)
    features = {"whole": ("launch/part",), "half": ("launch/part/some.py::one", "launch/part/some.py::absent")}
    monkeypatch.setattr("benchmarks.shape.FEATURES", {**features, "none": ("launch/absent.py::one", "nodes")})
    assert lines_of_features(tmp_path) == {"whole": 26, "half": 12, "none": 0}
