"""`parley show`: what is on record, and exactly where a record was cut or changed."""

from pathlib import Path

import pytest

from parley.emulator.record.records import Record
from parley.emulator.record.transcript import TranscriptReader
from tests.launch.conftest import Parley


@pytest.fixture(scope="module")
def records(finished: Path) -> list[Record]:
    return list(TranscriptReader(finished / "transcript.parley"))


def test_everything_is_listed(parley: Parley, finished: Path, records: list[Record]) -> None:
    shown = parley("show", finished, "--json")
    assert shown.code == 0
    assert shown.record["closing"] == {"outcome": "completed", "reason": ""}
    assert shown.record["damage"] is None
    listed = [(each["sequence"], each["sender"], each["kind"], each["bytes"]) for each in shown.record["records"]]
    assert listed == [(each.sequence, each.sender, each.message.kind, len(each.frame)) for each in records]


def test_table(parley: Parley, finished: Path, records: list[Record]) -> None:
    said = parley("show", finished / "transcript.parley")
    lines = said.out.splitlines()
    assert lines[0].split() == ["record", "time", "sender", "kind", "round", "bytes", "what"]
    assert len(lines) == len(records) + 2
    assert lines[-1] == f"completed after {len(records)} records"
    assert "no record fits" in parley("show", finished, "--user", 301).err


@pytest.mark.parametrize(
    ("filters", "kinds"),
    [
        (("--kind", "close"), ["close"] * 3),
        (("--kind", "replies", "--round", 2), ["replies"] * 2),
        (("--round", 3, "--kind", "announce"), ["announce"]),
        (("--user", 300, "--kind", "replies"), ["replies"] * 3),
        (("--user", 0, "--kind", "ready"), ["ready"]),
        (("--user", 301), []),
        (("--round", 4), []),
    ],
)
def test_filters(parley: Parley, finished: Path, filters: tuple[object, ...], kinds: list[str]) -> None:
    shown = parley("show", finished, "--json", *filters)
    assert [each["kind"] for each in shown.record["records"]] == kinds


def test_truncated(parley: Parley, finished: Path, records: list[Record], tmp_path: Path) -> None:
    cut = records[-1].offset + 7
    torn = tmp_path / "torn.parley"
    torn.write_bytes((finished / "transcript.parley").read_bytes()[:cut])
    said = parley("show", torn)
    assert said.code == 1
    assert len(said.out.splitlines()) == len(records)
    assert f"ends at byte {records[-1].offset}, after {len(records) - 1} whole records" in said.err
    assert len(said.err.splitlines()) == 1


def test_without_its_closing_record(parley: Parley, finished: Path, records: list[Record], tmp_path: Path) -> None:
    reader = TranscriptReader(finished / "transcript.parley")
    end = reader.verify().offset
    torn = tmp_path / "torn.parley"
    torn.write_bytes((finished / "transcript.parley").read_bytes()[:end])
    said = parley("show", torn, "--json")
    assert said.code == 1
    assert len(said.record["records"]) == len(records)
    assert f"byte {end}" in said.record["damage"]


def test_altered(parley: Parley, finished: Path, records: list[Record], tmp_path: Path) -> None:
    changed = bytearray((finished / "transcript.parley").read_bytes())
    victim = records[len(records) // 2]
    changed[victim.offset + 40] ^= 1
    altered = tmp_path / "altered.parley"
    altered.write_bytes(changed)
    said = parley("show", altered)
    assert said.code == 1
    assert len(said.out.splitlines()) == victim.sequence + 1
    assert f"record {victim.sequence} at byte {victim.offset}" in said.err


@pytest.mark.parametrize("content", [b"", b"PARLEY", b"dear diary, today nothing happened", b"PARLEY\r\n\xff\xff"])
def test_not_a_transcript(parley: Parley, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other").write_bytes(content)
    said = parley("show", "other")
    assert said.code == 1
    assert said.err.startswith("parley: other ")
    assert len(said.err.splitlines()) == 1
