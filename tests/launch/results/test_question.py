"""The record knows its question: what is public stands in its header, what depends on the data does not."""

import json
import sys
from pathlib import Path

import pytest

from parley.emulator.errors import BadInput
from parley.emulator.record.question import LONGEST_TITLE, make_question, question_in
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.record.witness import Witness
from parley.launch.cli import run
from parley.launch.report.model import make_model
from parley.launch.results.display.wording import described, shape_of, source_words, usual_title

AGE = {"name": "age", "levels": 4, "type": "number", "low": 0.0, "high": 50.0}
SCORE = {"name": "score", "levels": 4, "type": "number", "low": 0.0, "high": 100.0}


@pytest.mark.parametrize(
    ("name", "columns", "title"),
    [
        ("kendall", ["dep_delay", "arr_delay"], "Kendall's tau of dep_delay and arr_delay"),
        ("auc", ["score", "label"], "AUC of score for label"),
        ("gini-diversity", ["country"], "Gini diversity of country"),
        ("my-own-mean", ["age"], "my-own-mean of age"),
        ("kendall", ["a\nb", "c" * 99], f"Kendall's tau of a?b and {'c' * 39}…"),
        ("kendall", [], "Kendall's tau"),
    ],
)
def test_titles(name: str, columns: list[str], title: str) -> None:
    assert usual_title(name, columns) == title
    make_question(title, (2, 2), {})


def test_words_about_columns() -> None:
    assert described(AGE) == "age from 0 to 50 in 4 bins"
    day = {"name": "day", "levels": 2, "type": "date", "low": 0.0, "high": 86400.0 * 31}
    assert described(day) == "day from 1970-01-01 to 1970-02-01 in 2 bins"
    answer = {"name": "answer", "levels": 8, "type": "categories", "categories": tuple("abcdefgh")}
    assert described(answer) == "answer: a, b, c, d, e, f and 2 more"
    assert [shape_of((4, 4), (AGE, SCORE)), shape_of((8,), (answer,)), shape_of((4, 8), (AGE, answer))] == [
        *("4 x 4 bins", "8 categories", "4 x 8 levels"),
    ]
    assert source_words({"clipped": {"age": 1234}, "dropped": 2}) == [
        "1,234 values of age lie outside its declared range and were clipped",
        "2 rows without a value were left out",
    ]


@pytest.mark.parametrize("title", ["", "two\nlines", "x" * (LONGEST_TITLE + 1)])
def test_titles_that_do_not_fit_are_refused(title: str) -> None:
    with pytest.raises(BadInput, match="--title must be 1 to 120 printable characters"):
        make_question(title, (2, 2), {})


def test_a_header_may_say_anything() -> None:
    for strange in (None, 5, {"title": 5, "levels": ()}, {"title": "t", "levels": ("a",)}, {"title": "t", "more": 1}):
        assert question_in({"question": strange}) == {}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run about two columns of a file, in which ages above 50 are clipped."""
    folder = tmp_path_factory.mktemp("asked")
    (folder / "secret-name.csv").write_text("age,score\n" + "".join(f"{age},{age % 7}\n" for age in range(10, 70)))
    flags = ("--columns", "age,score", "--range", "age=0:50", "--range", "score=0:100", "--levels", "4x4")
    data = ("--statistic", "kendall", "--data", folder / "secret-name.csv", *flags)
    how = ("--epsilon", 4, "--protocol", "one-round-tuned", "--processes", 1, "--in-memory", "--quiet")
    assert run([str(each) for each in ("run", *data, *how, "--out", folder / "run")]) == 0
    return folder / "run"


def test_the_header_holds_the_question_and_nothing_private(asked: Path) -> None:
    question = {"title": "Kendall's tau of age and score", "levels": (4, 4), "columns": (AGE, SCORE)}
    assert TranscriptReader(asked / "transcript.parley").header["question"] == question
    for word in (b"secret-name", b"clipped"):
        assert word not in (asked / "transcript.parley").read_bytes()


def test_the_private_side_knows_the_file_and_what_was_clipped(asked: Path) -> None:
    source = {"origin": "secret-name.csv", "clipped": {"age": 19}}
    result = json.loads((asked / "result.json").read_text())
    assert result["source"] == source
    assert Witness.load(asked / "witness.parley").source == {**source, "unbinned": result["truth_unbinned"]}
    assert result["title"] == result["question"]["title"] == "Kendall's tau of age and score"


def test_the_page_is_called_by_its_question(asked: Path) -> None:
    witness = Witness.load(asked / "witness.parley")
    private, public = make_model(asked / "transcript.parley", witness=witness), make_model(asked / "transcript.parley")
    for model in (private, public):
        assert (model["title"], model["shape"]) == ("Kendall's tau of age and score", "4 x 4 bins")
        assert model["columns"] == ["age from 0 to 50 in 4 bins", "score from 0 to 100 in 4 bins"]
    assert private["source"] == ["19 values of age lie outside its declared range and were clipped"]
    assert "source" not in public
    assert "secret-name" not in json.dumps(public)
    assert "<title>Kendall&#x27;s tau of age and score — Parley</title>" in (asked / "report.html").read_text()


def test_a_page_is_opened_in_the_browser(asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = tmp_path / "opened"
    code = f"import sys; open({str(note)!r}, 'w').write(sys.argv[1])"
    (tmp_path / "browser.py").write_text(code)
    monkeypatch.setenv("BROWSER", f"{sys.executable} {tmp_path / 'browser.py'} %s")
    monkeypatch.setattr("webbrowser._tryorder", None)
    assert run(["report", str(asked), "--out", str(tmp_path / "page.html"), "--open"]) == 0
    assert note.read_text() == (tmp_path / "page.html").as_uri()
