"""Private columns from files and frames: what is read, what is clipped, and what is refused in one sentence."""

import tracemalloc
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pytest

import parley
from parley.emulator.errors import BadInput
from parley.launch import data
from parley.launch.data import batches_of, file_batches
from parley.launch.problem import ProblemFlags, make_problem

AGES = [20, 35, 50, 65, 90, 17]
SCORES = [10.0, 40.0, 55.0, 70.0, 99.0, 101.0]
FRAME = {"age": AGES, "score": SCORES, "answer": ["no", "yes", "no", "yes", "yes", "no"]}


def written(folder: Path, kind: str) -> Path:
    path = folder / f"people.{kind}"
    frame = polars.DataFrame(FRAME)
    if kind == "parquet":
        frame.write_parquet(path)
    else:
        frame.write_csv(path, separator="\t" if kind == "tsv" else ",")
    return path


def flags(path: Path, **changes: Any) -> ProblemFlags:
    settings: dict[str, Any] = {
        "statistic": "kendall",
        "levels": "4x4",
        "data": path,
        "columns": "age,score",
        "ranges": ("age=18:90", "score=0:100"),
        "epsilon": 1.0,
        "protocol": "three-round",
    }
    return ProblemFlags(**{**settings, **changes})


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet"])
def test_every_kind_of_file_gives_the_same_problem(kind: str, tmp_path: Path) -> None:
    problem = make_problem(flags(written(tmp_path, kind)))
    bins = ((0, 0), (0, 1), (1, 2), (2, 2), (3, 3), (0, 3))
    assert problem.inputs.tolist() == [4 * age + score for age, score in bins]
    assert problem.clipped == {"age": 1, "score": 1}


def test_categories_and_labels_by_name(tmp_path: Path) -> None:
    path = written(tmp_path, "csv")
    kept = flags(path, ranges=("age=18:90",), categories=("answer=no,yes",), columns="age,answer", levels="4x2")
    assert (make_problem(kept).inputs % 2).tolist() == [0, 1, 0, 1, 1, 0]
    auc = flags(path, statistic="auc", levels="4", columns="score", label="answer", ranges=("score=0:101",))
    assert (make_problem(auc).inputs % 2).tolist() == [0, 1, 0, 1, 1, 0]
    (tmp_path / "grades.csv").write_text("score,answer\n1,pass\n2,fail\n")
    with pytest.raises(BadInput, match="row 1 of answer holds 'pass', which is not a declared category"):
        make_problem(replace(auc, data=tmp_path / "grades.csv"))
    graded = replace(auc, data=tmp_path / "grades.csv", categories=("answer=fail,pass",))
    assert (make_problem(graded).inputs % 2).tolist() == [1, 0]


def test_spaces_around_names_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "spaced.csv").write_text("age , score\n20, 1\n35, 2\n")
    assert make_problem(flags(tmp_path / "spaced.csv")).inputs.tolist() == [0, 0]


@pytest.mark.parametrize("make", [pandas.DataFrame, polars.DataFrame, dict], ids=["pandas", "polars", "mapping"])
def test_frames_of_every_kind(make: Any) -> None:
    columns = next(batches_of(make(FRAME), ["score", "answer"]))
    assert columns["score"].tolist() == SCORES
    assert columns["answer"].tolist() == FRAME["answer"]
    with pytest.raises(BadInput, match=r"no column 'scores'.*score"):
        next(batches_of(make(FRAME), ["scores"]))


def test_missing_values_come_out_as_missing(tmp_path: Path) -> None:
    (tmp_path / "gaps.csv").write_text("a,b\n1,x\n,y\n3,z\n")
    assert np.isnan(next(file_batches(tmp_path / "gaps.csv", ["a"]))["a"][1])
    with pytest.raises(BadInput, match="row 2"):
        make_problem(
            flags(tmp_path / "gaps.csv", statistic="gini-mean-difference", levels="4", columns="a", ranges=("a=0:9",))
        )


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"ranges": ("age=18:90",)}, "--range score=lo:hi, text with --categories score=A,B"),
        ({"columns": None}, "--columns age,score"),
        ({"columns": "age,scor", "ranges": ("age=18:90", "scor=0:1")}, "no column 'scor'"),
        ({"users": 10}, "leave out --users"),
        ({"data": None, "users": 10}, "--data FILE"),
        ({"data": Path("nowhere.csv")}, "is not a file"),
        ({"ranges": ("age=90:18", "score=0:100")}, "low < high"),
        ({"ranges": ("age", "score=0:100")}, "age=0:120"),
    ],
)
def test_one_sentence_for_what_is_wrong(changes: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=sentence):
        make_problem(flags(written(tmp_path, "csv"), **changes))


def test_files_of_another_kind(tmp_path: Path) -> None:
    for name, content in (("a.xlsx", b"x"), ("b.parquet", b"not parquet"), ("c.csv", b"a,b\n1\n")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(BadInput, match=name):
            next(file_batches(tmp_path / name, ["a"]))


YES = ["yes", "Yes", "TRUE", "true", "t", "1", True, 1, 1.0]
NO = ["no", "NO", "False", "f", "n", "0", False, 0, 0.0]


def gini(**changes: Any) -> ProblemFlags:
    return flags(Path(), **{"statistic": "gini-diversity", "levels": None, "ranges": (), "columns": "x", **changes})


def inputs(column: Any, tmp_path: Path, **changes: Any) -> list[int]:
    """The inputs of a column, the same from a Parquet file and from a frame of pandas."""
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.parquet"
    polars.DataFrame({"x": column}).write_parquet(path)
    found = make_problem(gini(data=path, **changes)).inputs.tolist()
    given = {
        each: getattr(gini(**changes), each) for each in ("statistic", "levels", "ranges", "categories", "missing")
    }
    assert parley.problem(pandas.DataFrame({"x": column}), columns="x", **given).inputs.tolist() == found
    return found


@pytest.mark.parametrize("words", ["no,yes", "false,true", "0,1", "N,Y"])
def test_every_spelling_of_yes_and_no(words: str) -> None:
    column = np.array([*YES, *NO], dtype=object)
    found = parley.problem({"x": column}, "gini-diversity", columns="x", categories=[f"x={words}"])
    assert found.inputs.tolist() == [1] * len(YES) + [0] * len(NO)
    with pytest.raises(BadInput, match="holds 'maybe'"):
        parley.problem({"x": ["yes", "maybe"]}, "gini-diversity", columns="x", categories=[f"x={words}"])


def test_a_yes_counts_only_where_it_is_clear_which_category_it_is(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="holds 'yes'"):
        parley.problem({"x": ["yes", "no"]}, "gini-diversity", columns="x", categories=["x=0,1,2"])


def test_booleans(tmp_path: Path) -> None:
    assert inputs([True, False, True], tmp_path, categories=("x=no,yes",)) == [1, 0, 1]
    assert inputs([True, False, True], tmp_path, ranges=("x=0:1",), levels="2") == [1, 0, 1]


def test_dates_are_a_range(tmp_path: Path) -> None:
    """Four quarters of 2023, the last day included."""
    days = [date(2023, 1, 1), date(2023, 5, 17), date(2023, 8, 1), date(2023, 12, 31)]
    year = {"ranges": ("x=2023-01-01:2023-12-31",), "levels": "4"}
    assert inputs(days, tmp_path, **year) == [0, 1, 2, 3]
    assert inputs([datetime(day.year, day.month, day.day, 23, 59) for day in days], tmp_path, **year) == [0, 1, 2, 3]
    (tmp_path / "days.csv").write_text("x,y\n" + "".join(f"{day},1\n" for day in days))
    assert make_problem(gini(data=tmp_path / "days.csv", **year)).inputs.tolist() == [0, 1, 2, 3]
    zoned = "x\n2023-01-01T00:00:00Z\n2023-12-31T23:59:00-05:00\n2024-01-01\n"
    (tmp_path / "times.csv").write_text(zoned)
    found = make_problem(gini(data=tmp_path / "times.csv", **year))
    assert (found.inputs.tolist(), found.clipped) == ([0, 3, 3], {"x": 1})
    daily = make_problem(gini(data=tmp_path / "days.csv", ranges=year["ranges"], levels="365"))
    assert daily.inputs.tolist() == [(day - days[0]).days for day in days]
    hours = "x=2023-01-01T06:00:2023-01-01T10:00"
    assert inputs([datetime(2023, 1, 1, 7), datetime(2023, 1, 1, 9, 30)], tmp_path, ranges=(hours,), levels="4") == [
        1,
        3,
    ]
    assert daily.domain is not None
    assert daily.domain["columns"][0]["type"] == "date"


@pytest.mark.parametrize(
    ("cells", "changes", "sentence"),
    [
        (
            ["2023-01-01", "old"],
            {"ranges": ("x=2023-01-01:2023-12-31",)},
            "row 2 of x holds 'old', which is not a date",
        ),
        (["2023-01-01"], {"ranges": ("x=0:9",)}, "row 1 of x holds '2023-01-01', which is a date; declare --range x="),
        (["UA", "AA"], {"ranges": ("x=0:9",)}, "row 1 of x holds 'UA', which is not a number; declare text with --cat"),
    ],
)
def test_cells_of_another_kind(cells: list[str], changes: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    (tmp_path / "cells.csv").write_text("x\n" + "".join(f"{cell}\n" for cell in cells))
    with pytest.raises(BadInput, match=sentence):
        make_problem(gini(data=tmp_path / "cells.csv", levels="4", **changes))


@pytest.mark.parametrize("batch", [1, 3, 10**6])
def test_missing_values(batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused with their rows, left out and counted, or a category; however the file is cut into batches."""
    monkeypatch.setattr(data, "BATCH_ROWS", batch)
    cells = ["UA", None, "AA", None, "DL", "UA"]
    path = tmp_path / "gaps.parquet"
    polars.DataFrame({"x": cells, "n": [1.0, 2.0, None, 4.0, 5.0, 6.0]}).write_parquet(path)
    named = {"data": path, "categories": ("x=AA,DL,UA",)}
    with pytest.raises(BadInput, match="x has no value in rows 2, 4; leave such rows out with --missing drop"):
        make_problem(gini(**named))
    left = make_problem(gini(**named, missing="drop"))
    assert (left.inputs.tolist(), left.dropped) == ([2, 0, 1, 2], 2)
    kept = make_problem(gini(**named, missing="as-category"))
    assert (kept.inputs.tolist(), kept.question.size) == ([2, 3, 0, 3, 1, 2], 4)
    placed = make_problem(gini(data=path, categories=("x=missing,AA,DL,UA",), missing="as-category"))
    assert placed.inputs.tolist() == [3, 0, 1, 0, 2, 3]
    both = {"columns": "n,x", "statistic": "kendall", "levels": "3x3", "ranges": ("n=0:6",)}
    pairs = make_problem(gini(**named, **both, missing="drop"))
    assert (pairs.inputs.tolist(), pairs.dropped) == ([2, 7, 8], 3)
    with pytest.raises(BadInput, match="the range of n has none"):
        make_problem(gini(**named, **both, missing="as-category"))
    ordered = {"statistic": "kendall", "columns": "x,n", "categories": ("x=AA,DL,UA", "n=1,2,4,5,6")}
    with pytest.raises(
        BadInput, match="say where missing ones stand, for instance last: --categories x=AA,DL,UA,missing"
    ):
        make_problem(gini(data=path, missing="as-category", **ordered))


@pytest.mark.parametrize("word", ["", "NA", "n/a", "NaN", "null", "None"])
def test_spellings_of_nothing(word: str, tmp_path: Path) -> None:
    (tmp_path / "gaps.csv").write_text(f"x,n\nUA,1\n{word},{word}\nAA,3\n")
    left = make_problem(gini(data=tmp_path / "gaps.csv", categories=("x=AA,UA",), missing="drop"))
    assert (left.inputs.tolist(), left.dropped) == ([1, 0], 1)
    named = {"data": tmp_path / "gaps.csv", "columns": "n", "ranges": ("n=0:4",), "levels": "4"}
    assert make_problem(gini(**named, missing="drop")).dropped == 1


def test_a_declared_category_may_be_called_na(tmp_path: Path) -> None:
    (tmp_path / "land.csv").write_text("x\nNA\nZA\n")
    assert make_problem(gini(data=tmp_path / "land.csv", categories=("x=NA,ZA",))).inputs.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "is empty; it needs a line with the names of its columns"),
        ("x\n", "has no rows; each row is a user"),
        ("x\n3\n", "has only one row; each row is a user, and a run needs at least 2"),
        ('x\n3\n""\n', "has 2 rows, of which 1 lack a value"),
        ("x;y\n3;4\n", "separates its columns by semicolons"),
        ("x,x\n3,4\n", "several columns called 'x'"),
    ],
)
def test_files_that_are_too_small_or_strange(content: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "some.csv").write_text(content)
    with pytest.raises(BadInput, match=sentence):
        make_problem(gini(data=tmp_path / "some.csv", levels="4", ranges=("x=0:9",), missing="drop"))


def test_batches_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column that looks like whole numbers at first and like text later, cut into many batches and into one."""
    cells = [*map(str, range(2000)), "3.5", " 7 "]
    (tmp_path / "late.csv").write_text("x,y\n" + "".join(f"{cell},1\n" for cell in cells))
    asked = gini(data=tmp_path / "late.csv", levels="50", ranges=("x=0:1500",))
    whole = make_problem(asked)
    monkeypatch.setattr(data, "BLOCK_BYTES", 64)
    cut = make_problem(asked)
    assert whole.inputs.tolist() == cut.inputs.tolist() == [min(int(float(cell) / 30), 49) for cell in cells]
    assert whole.clipped == cut.clipped == {"x": 499}
    monkeypatch.setattr(data, "BATCH_ROWS", 7)
    frame = polars.read_csv(tmp_path / "late.csv", infer_schema_length=0)
    cut = parley.problem(frame, "gini-diversity", columns=["x"], levels=50, ranges={"x": (0, 1500)})
    assert cut.inputs.tolist() == whole.inputs.tolist()


def test_a_file_takes_its_values_once_and_leaves_a_byte_a_row(tmp_path: Path) -> None:
    """The truth without bins needs two columns of values; all else is done in batches or in four bytes a row."""
    rows = 2_000_000
    values = np.random.default_rng(1).normal(size=(2, rows))
    polars.DataFrame({"age": values[0], "score": values[1]}).write_parquet(tmp_path / "many.parquet")
    asked = flags(tmp_path / "many.parquet", ranges=("age=-3:3", "score=-3:3"))
    make_problem(replace(asked, data=written(tmp_path, "parquet"), ranges=flags(tmp_path).ranges))
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        problem = make_problem(asked)
        kept, peak = (each - before for each in tracemalloc.get_traced_memory())
    finally:
        tracemalloc.stop()
    assert problem.inputs.nbytes == rows
    assert kept < 1.5 * rows
    # Two columns of values, an input, the ranks of one column, and what sorting a part of it takes.
    assert peak < (2 * 8 + 1 + 4 + 5) * rows
