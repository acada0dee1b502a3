"""The model: from whole, cut, altered and hostile records, with and without the witness."""

import json
import stat
from pathlib import Path

import numpy as np
import pytest

from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.record.witness import Witness
from parley.launch.report.model import make_model, tell
from parley.launch.report.page import DATA, read_model, render, safe_json, write_page
from parley.launch.report.story import Story
from parley.launch.results.display.printable import printable
from tests.launch.conftest import Parley
from tests.launch.report.conftest import ROUNDS, USERS, expected_arrows
from tests.launch.report.hostile import HOSTILE, write_hostile


def marks(model: dict[str, object]) -> list[dict[str, object]]:
    diagram = model["diagram"]
    assert isinstance(diagram, dict)
    return [mark for band in diagram["bands"] for mark in band["marks"]]


def test_whole_run(small: Path) -> None:
    result = json.loads((small / "result.json").read_text())
    model = make_model(small / "transcript.parley", witness=Witness.load(small / "witness.parley"))
    answer, facts = model["answer"], model["facts"]
    assert (answer["estimate"], answer["truth"]) == (result["estimate"], result["truth"])
    assert [answer["low"], answer["high"]] == result["interval95"]
    assert answer["error"] == pytest.approx(result["error"])
    assert 0 < answer["limit"] < answer["predicted_rmse"]
    for name in ("protocol", "statistic", "users", "replied", "epsilon", "bytes_up", "bytes_down", "seconds"):
        assert facts[name] == result[name], name
    assert {"declared": facts["declared"], "observed": facts["observed"]} == result["rounds"]
    assert {name: each["verdict"] for name, each in model["verdicts"].items()} == dict.fromkeys(
        ("integrity", "rounds", "privacy", "result", "authorship"), "pass"
    )
    assert len(marks(model)) == expected_arrows(small)
    assert sum(model["loss"]["counts"]) == model["loss"]["users"] == USERS
    assert [each["replies"] for each in model["rounds"]] == [USERS] * ROUNDS
    assert [each["due"] for each in model["rounds"]] == [USERS] * ROUNDS
    assert model["messages"]["total"] == len(model["messages"]["rows"]) == facts["records"]


def test_the_run_wrote_its_report(small: Path) -> None:
    page = small / "report.html"
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    expected = make_model(small / "transcript.parley", witness=Witness.load(small / "witness.parley"))
    assert read_model(page) == json.loads(safe_json(expected))


def test_without_a_witness(copied: Path) -> None:
    model = make_model(copied)
    assert model["emulation"] is False
    assert not {"truth", "limit"} & set(model["answer"])
    assert all(row["realised"] is None for row in model["budget"]["sources"])


def test_witness_of_another_run(small: Path) -> None:
    witness = Witness.load(small / "witness.parley")
    other = Witness(run="another", key=witness.key, inputs=witness.inputs)
    assert make_model(small / "transcript.parley", witness=other)["emulation"] is False


def test_a_sample_is_said_to_be_one(copied: Path) -> None:
    loss = make_model(copied, sample=4)["loss"]
    assert (loss["users"], loss["population"]) == (4, USERS)


def test_every_cut(copied: Path) -> None:
    """Wherever the record ends, there is a page that says so."""
    whole = copied.read_bytes()
    offsets = [record.offset for record in TranscriptReader(copied)]
    for cut in [*offsets[1:], offsets[-1] + 9, len(whole) - 1]:
        copied.write_bytes(whole[:cut])
        model = make_model(copied)
        assert model["outcome"] == "truncated"
        assert (
            str(max(offset for offset in [*offsets, len(whole)] if offset <= cut)) in model["reason"]
            or cut > offsets[-1]
        )
        assert model["verdicts"]["integrity"]["verdict"] == "fail"
        render(model)


def test_altered(copied: Path) -> None:
    content = bytearray(copied.read_bytes())
    at = [record.offset for record in TranscriptReader(copied)][10]
    content[at + 20] ^= 1
    copied.write_bytes(content)
    model = make_model(copied)
    assert model["outcome"] == "altered"
    assert "record 10" in model["reason"]
    assert model["messages"]["total"] == 10
    assert model["loss"] is None
    render(model)


def test_no_text_leaves_its_place(tmp_path: Path) -> None:
    page = render(make_model(write_hostile(tmp_path / "transcript.parley")))
    data = page[page.index(DATA) + len(DATA) :]
    data = data[: data.index("</script>")]
    assert page.count("</script>") == 2
    assert not set("<>&\u2028\u2029") & set(data)
    assert json.loads(data)["reason"] == printable(HOSTILE) != HOSTILE


def test_unknown_protocol_and_strange_numbers(tmp_path: Path) -> None:
    story = Story()
    assert tell(story, TranscriptReader(write_hostile(tmp_path / "transcript.parley")))[0] == "failed"
    model = story.record()
    assert "the protocol of the setup cannot be built" in model["problem"]
    assert model["facts"]["users"] == 3
    assert model["faults"]["total"] == 2


def test_safe_json_keeps_the_value() -> None:
    value = {"a": [1.5, float("nan"), None, HOSTILE], "b": {"c": True}}
    assert json.loads(safe_json(value)) == {"a": [1.5, None, None, HOSTILE], "b": {"c": True}}


def test_command(parley: Parley, small: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    said = parley("report", small, "--public", "--out", page, "--json")
    assert (said.code, said.record["emulation"]) == (0, False)
    assert stat.S_IMODE(page.stat().st_mode) & 0o077
    assert "truth" not in read_model(page)["answer"]
    assert parley("report", small, "--out", page).code == 0
    assert "truth" in read_model(page)["answer"]
    assert stat.S_IMODE(page.stat().st_mode) == 0o600


def test_command_refuses(parley: Parley, tmp_path: Path, copied: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    assert parley("report", tmp_path / "empty").code == 2
    said = parley("report", copied, "--out", tmp_path / "no" / "such" / "page.html")
    assert said.code == 2
    assert "cannot be written" in said.err


def test_write_page_leaves_nothing_half(tmp_path: Path, copied: Path) -> None:
    page = tmp_path / "page.html"
    model = make_model(copied)
    write_page(page, model)
    before = page.read_bytes()
    with pytest.raises(TypeError):
        write_page(page, {**model, "reason": np.zeros(2)})
    assert page.read_bytes() == before
    assert {each.name for each in tmp_path.iterdir()} == {"page.html", "transcript.parley"}
