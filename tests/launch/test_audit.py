"""`parley audit`, `replay`, `diff` and `export` as a person calls them: what they print and how they exit."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet
import pytest

from benchmarks.forgery import Draft
from tests.launch.conftest import Parley

USERS = 301


@pytest.fixture
def transcript(finished: Path, tmp_path: Path) -> Path:
    """The transcript alone, in a folder of its own."""
    return Path(shutil.copy(finished / "transcript.parley", tmp_path / "copied.parley"))


def test_audit_of_a_good_run(parley: Parley, finished: Path) -> None:
    said = parley("audit", finished, "--json")
    assert said.code == 0
    report = said.record
    assert report["ok"] is True
    checks = ("integrity", "authorship", "rounds", "privacy", "fidelity", "result")
    assert [report[name]["verdict"] for name in checks] == ["pass"] * 6
    assert report["side_channels"]["verdict"] == "unknown", "six frames have no order to test"
    assert "not tested" in report["side_channels"]["reason"]
    assert (report["rounds"]["declared"], report["rounds"]["observed"]) == (3, 3)
    assert 0 < report["privacy"]["max_loss"] <= report["privacy"]["claim"] == 4.0
    assert report["privacy"]["users"] == USERS
    assert report["result"]["estimate"] == json.loads((finished / "result.json").read_text())["estimate"]


def test_audit_in_words(parley: Parley, finished: Path) -> None:
    said = parley("audit", finished)
    assert said.code == 0
    lines = said.out.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == [
        "integrity", "authorship", "rounds", "privacy", "fidelity", "side", "result", "time",
    ]  # fmt: skip
    assert "users a second; the run itself took" in lines[-2]
    assert lines[-1] == "good; not tested: side channels"


def test_audit_of_the_transcript_alone(parley: Parley, transcript: Path) -> None:
    said = parley("audit", transcript, "--json", "--sample", 20)
    assert said.code == 0
    assert said.record["fidelity"]["verdict"] == said.record["authorship"]["verdict"] == "unknown"
    assert said.record["privacy"]["users"] == 20
    assert parley("audit", transcript).out.endswith("good; not tested: authorship, fidelity, side channels\n")
    assert parley("audit", transcript, "--strict").code == 1


def test_audit_with_a_witness_named(parley: Parley, transcript: Path, finished: Path) -> None:
    said = parley("audit", transcript, "--witness", finished / "witness.parley", "--json")
    assert said.record["fidelity"]["verdict"] == "pass"


def test_audit_by_experiment(parley: Parley, finished: Path) -> None:
    said = parley("audit", finished, "--empirical", "--trials", 1000, "--json")
    assert said.record["empirical"]["verdict"] == "pass"
    assert said.record["empirical"]["lower_bound"] <= 4.0


def test_audit_of_a_changed_transcript(parley: Parley, transcript: Path) -> None:
    content = bytearray(transcript.read_bytes())
    content[-300] ^= 1
    transcript.write_bytes(content)
    said = parley("audit", transcript, "--json")
    assert said.code == 1
    assert said.record["integrity"]["verdict"] == "fail"
    assert said.record["integrity"]["byte"] <= len(content) - 300
    assert "NOT GOOD; failed: integrity; not tested: authorship, rounds" in parley("audit", transcript).out


def test_audit_with_keys_named(parley: Parley, transcript: Path, finished: Path) -> None:
    said = parley("audit", transcript, "--trust", finished / "trust.toml", "--json")
    assert said.record["authorship"]["verdict"] == "pass"
    assert said.record["authorship"]["authors"] == 4
    assert said.record["authorship"]["heads"] == 3


def test_audit_with_the_keys_of_others(parley: Parley, transcript: Path, finished: Path, tmp_path: Path) -> None:
    lines = (finished / "trust.toml").read_text().splitlines()
    foreign = [line[:-10] + "0123456789"[:9] + '"' if line.startswith('"node-1"') else line for line in lines]
    (tmp_path / "others.toml").write_text("\n".join(foreign))
    said = parley("audit", transcript, "--trust", tmp_path / "others.toml")
    assert said.code == 1
    assert "node-1 came with a foreign key" in said.out
    assert "NOT GOOD; failed: authorship" in said.out


def test_text_of_strangers_is_made_visible(parley: Parley, finished: Path, tmp_path: Path) -> None:
    draft = Draft.read(finished / "transcript.parley")
    draft.header["\x1b[2J"] = 1
    forged = tmp_path / "forged.parley"
    forged.write_bytes(draft.bytes(heads=False))
    said = parley("audit", forged, "--trust", finished / "trust.toml")
    assert said.code == 1
    assert "the header also holds \\x1b[2J, which nobody signed" in said.out
    assert "\x1b" not in said.out


def test_audit_with_a_list_that_is_none(parley: Parley, transcript: Path, tmp_path: Path) -> None:
    (tmp_path / "list.toml").write_text("what is this")
    said = parley("audit", transcript, "--trust", tmp_path / "list.toml")
    assert said.code == 2
    assert "is not a list of signing keys" in said.err


@pytest.mark.parametrize("command", ["audit", "replay", "export"])
def test_a_run_that_is_not_there(parley: Parley, command: str) -> None:
    said = parley(command, "nowhere")
    assert said.code == 2
    assert "no run called 'nowhere'" in said.err


def test_a_folder_without_a_transcript(parley: Parley, tmp_path: Path) -> None:
    said = parley("audit", tmp_path)
    assert said.code == 2
    assert "holds no transcript.parley" in said.err


@pytest.mark.parametrize("role", ["analyst", "users", "all"])
def test_replay(parley: Parley, finished: Path, role: str) -> None:
    said = parley("replay", finished, "--role", role, "--json")
    assert said.code == 0
    assert {name: said.record[name] for name in ("role", "identical", "first_difference")} == {
        "role": role,
        "identical": True,
        "first_difference": None,
    }


def test_replay_live(parley: Parley, finished: Path) -> None:
    said = parley("replay", finished, "--live")
    assert said.code == 0
    assert said.out.startswith("identical: 5 messages")


def test_replay_of_users_needs_a_witness(parley: Parley, transcript: Path) -> None:
    said = parley("replay", transcript, "--role", "users")
    assert said.code == 2
    assert "--witness" in said.err


def test_replay_of_a_changed_transcript(parley: Parley, transcript: Path) -> None:
    content = bytearray(transcript.read_bytes())
    content[-300] ^= 1
    transcript.write_bytes(content)
    said = parley("replay", transcript)
    assert said.code == 2
    assert "see `parley audit`" in said.err


def test_recorded_timing_is_for_live(parley: Parley, finished: Path) -> None:
    assert parley("replay", finished, "--timing", "recorded").code == 2


def test_diff(parley: Parley, finished: Path, transcript: Path) -> None:
    said = parley("diff", finished, transcript)
    assert said.code == 0
    assert said.out.startswith(f"identical: {3 * USERS} and {3 * USERS} replies")


def test_export_to_json_lines(parley: Parley, finished: Path, tmp_path: Path) -> None:
    said = parley("export", finished)
    rows = [json.loads(line) for line in said.out.splitlines()]
    assert len(rows) == 3 * USERS
    assert {(row["round"], row["user"]) for row in rows} == {
        (number, user) for number in (1, 2, 3) for user in range(USERS)
    }
    assert set(rows[0]) == {"record", "time_ns", "node", "round", "user", "y_R.seed", "y_R.index"}
    written = parley("export", finished, "--out", tmp_path / "rows.jsonl", "--json")
    assert written.record["rows"] == 3 * USERS
    assert (tmp_path / "rows.jsonl").read_text() == said.out
    assert parley("export", finished, "--out", tmp_path / "rows.jsonl").code == 2, "a file is never written over"


def test_export_to_parquet(parley: Parley, finished: Path, tmp_path: Path) -> None:
    assert parley("export", finished, "--out", tmp_path / "rows.parquet").code == 0
    table = pyarrow.parquet.read_table(tmp_path / "rows.parquet")
    rows = [json.loads(line) for line in parley("export", finished).out.splitlines()]
    assert [{name: value for name, value in row.items() if value is not None} for row in table.to_pylist()] == rows


def test_parquet_does_not_go_to_the_terminal(parley: Parley, finished: Path) -> None:
    assert parley("export", finished, "--format", "parquet").code == 2
