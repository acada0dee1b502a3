"""The problem flags of the command line, word by word."""

from pathlib import Path

import numpy as np
import pytest

from parley.emulator.errors import BadInput
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.choice import make_domain, make_workload
from parley.protocols.workloads.domain import Categories, Interval, Pair
from parley.protocols.workloads.gini import GiniDiversity, GiniMeanDifference
from parley.protocols.workloads.kendall import Kendall
from parley.protocols.workloads.kernel import Kernel
from parley.protocols.workloads.lipschitz import Lipschitz
from parley.protocols.workloads.workload import Workload
from tests.protocols.workloads.conftest import encode


@pytest.mark.parametrize(
    ("statistic", "levels", "expected"),
    [
        ("kendall", "16x16", Kendall(levels=(16, 16))),
        ("kendall", " 3X5 ", Kendall(levels=(3, 5))),
        ("auc", "32", AreaUnderCurve(levels=32)),
        ("gini-mean-difference", "32", GiniMeanDifference(levels=32)),
        ("gini-diversity", "7", GiniDiversity(levels=7)),
        ("squared-difference", "9", Lipschitz("squared-difference", levels=9)),
        ("huber", "9", Lipschitz("huber", levels=9)),
    ],
)
def test_statistics_by_name(statistic: str, levels: str, expected: Workload) -> None:
    assert make_workload(statistic, levels, None) == expected


def test_kernel_files(tmp_path: Path) -> None:
    np.save(tmp_path / "w.npy", np.eye(4))
    assert make_workload(None, None, tmp_path / "w.npy") == Kernel(np.eye(4))
    with pytest.raises(BadInput, match="leave out --statistic"):
        make_workload("kendall", None, tmp_path / "w.npy")
    with pytest.raises(BadInput, match="leave out --levels"):
        make_workload(None, "4", tmp_path / "w.npy")


@pytest.mark.parametrize(
    ("statistic", "levels", "sentence"),
    [
        (None, None, "say what to estimate: --statistic kendall|auc"),
        ("kendal", "4x4", r"unknown statistic 'kendal'; did you mean 'kendall'\?"),
        ("zzz", "4", "choose one of kendall, kendall-b, auc, gini-mean-difference, gini-diversity"),
        ("untied", "4", "unknown statistic"),
        ("kendall", "16", "such as 16x16, got '16'"),
        ("kendall", None, "such as 16x16, got nothing"),
        ("kendall", "16x16x16", "such as 16x16"),
        ("kendall", "16x1", "must lie between 2"),
        ("kendall", "99999x99999", "must lie between 2"),
        ("auc", "16x2", "one whole number, such as 32, got '16x2'"),
        ("auc", None, "got nothing"),
        ("gini-diversity", "1", "must lie between 2"),
        ("gini-diversity", "-4", "one whole number"),
        ("gini-mean-difference", "3.5", "one whole number"),
        ("gini-mean-difference", "9999999999999", "one whole number"),
    ],
)
def test_bad_flags_are_one_clear_sentence(statistic: str | None, levels: str | None, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence) as problem:
        make_workload(statistic, levels, None)
    assert "\n" not in str(problem.value)


def test_domains_from_flags() -> None:
    kendall = make_domain(Kendall(levels=(4, 3)), ["age", "pay"], ["age=0:120", "pay=-1e3:5e4"])
    assert kendall == Pair(Interval("age", 0, 120, 4), Interval("pay", -1000, 50000, 3))
    ordinal = make_domain(Kendall(levels=(4, 3)), ["age", "answer"], ["age=0:120"], ["answer=no,maybe,yes"])
    assert ordinal == Pair(Interval("age", 0, 120, 4), Categories("answer", ("no", "maybe", "yes")))
    area = make_domain(AreaUnderCurve(levels=8), ["score", "label"], ["score=0:1"])
    assert area == Pair(Interval("score", 0, 1, 8), Categories("label", ("0", "1")))
    assert area.size == AreaUnderCurve(levels=8).size
    assert encode(area, {"score": np.array([0.99]), "label": np.array([1])}).indices.tolist() == [15]
    colours = make_domain(GiniDiversity(levels=3), ["colour"], [], ["colour=red,green,blue"])
    assert encode(colours, {"colour": np.array(["blue", "red"])}).indices.tolist() == [2, 0]


@pytest.mark.parametrize(
    ("columns", "ranges", "categories", "sentence"),
    [
        (["age"], ["age=0:1"], [], "kendall needs two columns, such as --columns age,score; got 1: age"),
        (["a", "b"], ["a=0:1"], [], "declare the column 'b': numbers or dates with --range b=lo:hi"),
        (["age", "pay"], ["aeg=0:1"], [], r"names 'aeg'.* did you mean 'age'"),
        (["age", "pay"], ["age"], [], "'age' must look like age=0:120"),
        (["age", "pay"], ["age=0"], [], "must look like"),
        (["age", "pay"], ["age=0:x"], [], "must look like"),
        (["age", "pay"], ["age=0:1:2"], [], "must look like"),
        (["age", "pay"], ["age=2:1", "pay=0:1"], [], "low < high"),
        (["age", "pay"], ["age=0:1", "age=0:2"], [], "declared twice"),
        (["age", "pay"], ["age=0:1"], ["pay=low,high,top"], "pay has 3 categories, but --levels says 4; give 3"),
        (["age", "age"], ["age=0:1"], [], "cannot be both"),
    ],
)
def test_bad_domains_are_one_clear_sentence(
    columns: list[str], ranges: list[str], categories: list[str], sentence: str
) -> None:
    with pytest.raises(BadInput, match=sentence):
        make_domain(Kendall(levels=(4, 4)), columns, ranges, categories)


def test_one_column_statistics_want_one_column() -> None:
    with pytest.raises(BadInput, match="gini-diversity needs one column; got 0: none"):
        make_domain(GiniDiversity(levels=3), [])
