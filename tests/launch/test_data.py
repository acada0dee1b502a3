"""Private columns from files and frames: what is read, what is clipped, and what is refused in one sentence."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pytest

from parley.emulator.errors import BadInput
from parley.launch.data import columns_of, read_columns
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
    with pytest.raises(BadInput, match="answer"):
        make_problem(auc)
    labelled = make_problem(
        flags(
            path,
            statistic="auc",
            levels="4",
            columns="score",
            label="answer",
            ranges=("score=0:101",),
            categories=("answer=no,yes",),
        )
    )
    assert (labelled.inputs % 2).tolist() == [0, 1, 0, 1, 1, 0]


@pytest.mark.parametrize("make", [pandas.DataFrame, polars.DataFrame, dict], ids=["pandas", "polars", "mapping"])
def test_frames_of_every_kind(make: Any) -> None:
    columns = columns_of(make(FRAME), ["score", "answer"])
    assert columns["score"].tolist() == SCORES
    assert columns["answer"].tolist() == FRAME["answer"]
    with pytest.raises(BadInput, match=r"no column 'scores'.*score"):
        columns_of(make(FRAME), ["scores"])


def test_missing_values_come_out_as_missing(tmp_path: Path) -> None:
    (tmp_path / "gaps.csv").write_text("a,b\n1,x\n,y\n3,z\n")
    assert np.isnan(read_columns(tmp_path / "gaps.csv", ["a"])["a"][1])
    with pytest.raises(BadInput, match="row 2"):
        make_problem(
            flags(tmp_path / "gaps.csv", statistic="gini-mean-difference", levels="4", columns="a", ranges=("a=0:9",))
        )


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"ranges": ("age=18:90",)}, "--range score=lo:hi"),
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
            read_columns(tmp_path / name, ["a"])
