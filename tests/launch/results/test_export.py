"""`parley export`: no column overwrites another, every reply comes back from Parquet, and damage is never silent."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from parley.emulator.record.records import Record
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.wire.codec import DTYPES, encode
from parley.emulator.wire.messages import Replies
from parley.emulator.wire.sealing import new_secret
from parley.launch.results.export import COMMON, column_name, write_json_lines, write_parquet
from parley.protocols.registry import design, names
from parley.protocols.shuffle.sealed import COLUMN, sealed
from parley.protocols.workloads.gini import GiniDiversity
from tests.emulator.audit.recordings import heard, inputs_for, record, replace_first, rewrite
from tests.launch.conftest import Parley
from tests.launch.record_edits import chained, payloads_of, write_message
from tests.vectors.make import golden_path

GOLDEN = golden_path("three-round")


class Frames:
    """Frames of replies as if they were on record; each reading may find others."""

    def __init__(self, *readings: list[Replies]) -> None:
        self._readings = list(readings)

    def replies(self) -> Iterator[tuple[Record, Replies]]:
        found = self._readings.pop(0) if len(self._readings) > 1 else self._readings[0]
        for number, each in enumerate(found):
            yield Record(sequence=number, time_ns=number, sender=each.node, frame=b"", offset=0), each


def frame(columns: dict[str, Any], number: int = 1, rows: int = 3) -> Replies:
    return Replies(run="r", round=number, node="n", chunk=0, chunks=1, users=np.arange(rows), columns=columns)


def expected(path: Path) -> list[dict[str, Any]]:
    """The rows by the record itself."""
    rows = []
    for each in TranscriptReader(path):
        message = each.message
        if isinstance(message, Replies):
            for place, user in enumerate(message.users.tolist()):
                common = (each.sequence, each.time_ns, message.node, message.round, user)
                columns = {name: column[place].tolist() for name, column in message.columns.items()}
                rows.append({**dict(zip(COMMON, common, strict=True)), **columns})
    return rows


def said_rows(table: Any) -> list[dict[str, Any]]:
    """The rows of a table without what a round does not have."""
    return [{name: value for name, value in row.items() if value is not None} for row in table.to_pylist()]


def test_own_columns_are_never_overwritten(parley: Parley, tmp_path: Path) -> None:
    def claim_all(replies: Replies) -> Replies:
        lies = {name: np.full(len(replies.users), 7, np.uint8) for name in (*COMMON, "reply.user", "reply.reply.user")}
        return replace(replies, columns={**replies.columns, **lies})

    forged = rewrite(GOLDEN, tmp_path / "forged.parley", replace_first(Replies, claim_all))
    honest = expected(GOLDEN)

    def check(rows: list[dict[str, Any]]) -> None:
        assert [row["user"] for row in rows] == [row["user"] for row in honest]
        assert {name: rows[0][name] for name in honest[0]} == honest[0]
        assert {name for name in rows[0] if name.startswith("reply.") and rows[0][name] == 7} == {
            *(f"reply.{name}" for name in COMMON),
            "reply.reply.user",
            "reply.reply.reply.user",
        }

    check([json.loads(line) for line in parley("export", forged).out.splitlines()])
    assert parley("export", forged, "--out", tmp_path / "rows.parquet").code == 0
    check(said_rows(pyarrow.parquet.read_table(tmp_path / "rows.parquet")))


@given(st.sets(st.text("reply.us", max_size=14) | st.sampled_from([*COMMON, "reply.", "reply.user"])))
def test_no_two_columns_are_called_the_same(columns: set[str]) -> None:
    assert len({*COMMON, *map(column_name, columns)}) == len(COMMON) + len(columns)


@pytest.mark.parametrize("name", names("shuffler"))
def test_every_protocol_comes_back(parley: Parley, tmp_path: Path, name: str) -> None:
    """Column for column as the replies have it, with today's names."""
    path = golden_path(name)
    rows = expected(path)
    assert [json.loads(line) for line in parley("export", path).out.splitlines()] == rows
    said = parley("export", path, "--out", tmp_path / "rows.parquet")
    assert (said.code, said.err) == (0, "")
    table = pyarrow.parquet.read_table(tmp_path / "rows.parquet")
    assert said_rows(table) == rows
    types = [str(each) for each in table.schema.types]
    assert types[: len(COMMON)] == ["int64", "int64", "string", "int32", "int64"]


def test_sealed_replies_come_back(parley: Parley, tmp_path: Path) -> None:
    protocol = sealed(design("shuffled", GiniDiversity(levels=3), epsilon=1.0, users=30), new_secret())
    path = record(tmp_path / "sealed.parley", protocol, inputs_for(protocol, 30))
    assert parley("export", path, "--out", tmp_path / "rows.parquet").code == 0
    rows = said_rows(pyarrow.parquet.read_table(tmp_path / "rows.parquet"))
    assert rows == expected(path)
    assert len(rows) == 30
    assert all(len(row[COLUMN]) == protocol.rounds[0].reply[COLUMN][1][0] for row in rows)


COLUMNS = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 3), max_size=2)).flatmap(
        lambda each: arrays.arrays(
            each[0], (3, *each[1]), elements={"allow_nan": False, "allow_infinity": False} if "f" in each[0] else None
        )
    ),
    max_size=4,
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(columns=COLUMNS, number=st.integers(0, 2**62 - 1))
def test_whatever_a_frame_can_hold_comes_back(tmp_path: Path, columns: dict[str, Any], number: int) -> None:
    source = Frames([frame(columns, number)])
    assert write_parquet(source, tmp_path / "rows.parquet") == 3
    table = pyarrow.parquet.read_table(tmp_path / "rows.parquet")
    assert table["round"].to_pylist() == [number] * 3
    for name, column in columns.items():
        assert table[column_name(name)].to_pylist() == column.tolist()
        leaf = table.schema.field(column_name(name)).type
        for _ in column.shape[1:]:
            leaf = leaf.value_type
        assert leaf == pyarrow.from_numpy_dtype(column.dtype)


@pytest.mark.parametrize(("number", "kind"), [(3, "int32"), (2**31 - 1, "int32"), (2**31, "int64"), (2**61, "int64")])
def test_rounds_of_any_size(tmp_path: Path, number: int, kind: str) -> None:
    source = Frames([frame({"a": np.zeros(3)}, 1), frame({"b": np.full((3, 2), 2**64 - 1, np.uint64)}, number)])
    write_parquet(source, tmp_path / "rows.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "rows.parquet")
    assert str(table.schema.field("round").type) == kind
    assert table["round"].to_pylist() == [1] * 3 + [number] * 3
    assert table["b"].to_pylist() == [None] * 3 + [[2**64 - 1] * 2] * 3


def test_a_record_that_grows_meanwhile(tmp_path: Path) -> None:
    """What is said after the first reading may not fit the columns that it found."""
    first = [frame({"a": np.zeros(3)})]
    source = Frames(first, [*first, frame({"b": np.zeros(3)}, 2**40)])
    assert write_parquet(source, tmp_path / "rows.parquet") == 3
    assert pyarrow.parquet.read_table(tmp_path / "rows.parquet").num_rows == 3


def test_lines_hold_no_control_character(tmp_path: Path) -> None:
    with open(tmp_path / "rows", "w+", encoding="utf-8") as file:
        write_json_lines(Frames([frame({"\x7f\x1b\u2028": np.zeros(3)})]), file)
    lines = (tmp_path / "rows").read_bytes().decode("ascii").split("\n")
    assert len(lines) == 4
    assert all(line.isprintable() for line in lines)
    assert "\x7f\x1b\u2028" in json.loads(lines[0])


def test_whoever_has_a_conversation_can_write_it(tmp_path: Path) -> None:
    assert write_parquet(heard(GOLDEN), tmp_path / "rows.parquet") == len(expected(GOLDEN))


def second_frame(path: Path) -> Record:
    return [each for each in TranscriptReader(path) if isinstance(each.message, Replies)][1]


def cut(content: bytes, place: int) -> bytes:
    return content[: place + 9]


def alter(content: bytes, place: int) -> bytes:
    return content[: place + 9] + bytes([content[place + 9] ^ 1]) + content[place + 10 :]


@pytest.mark.parametrize("spoil", [cut, alter])
@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_damage_is_told(parley: Parley, tmp_path: Path, spoil: Callable[[bytes, int], bytes], form: str) -> None:
    victim = second_frame(GOLDEN)
    path, out = tmp_path / "damaged.parley", tmp_path / f"rows.{form}"
    path.write_bytes(spoil(GOLDEN.read_bytes(), victim.offset))
    whole = [row for row in expected(GOLDEN) if row["record"] < victim.sequence]
    assert whole
    said = parley("export", path, "--out", out, "--json")
    assert said.code == 1
    assert len(said.err.splitlines()) == 1
    assert f"byte {victim.offset}" in said.err
    assert f"only the {len(whole)} replies before that place were exported" in said.err
    assert said.record["rows"] == len(whole)
    assert f"byte {victim.offset}" in said.record["damage"]
    rows = (
        said_rows(pyarrow.parquet.read_table(out))
        if form == "parquet"
        else list(map(json.loads, out.read_text().splitlines()))
    )
    assert rows == whole
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted([path.name, out.name])


def test_damage_is_told_beside_rows_on_standard_output(parley: Parley, tmp_path: Path) -> None:
    path = tmp_path / "open.parley"
    reader = TranscriptReader(GOLDEN)
    end = reader.verify().offset
    path.write_bytes(GOLDEN.read_bytes()[:end])
    said = parley("export", path)
    assert said.code == 1
    assert [json.loads(line) for line in said.out.splitlines()] == expected(GOLDEN)
    assert "without a closing record" in said.err


@pytest.mark.parametrize("content", [b"", b"PARLEY", GOLDEN.read_bytes()[:30], b"dear diary, today nothing happened"])
def test_where_nothing_is_whole_nothing_is_written(parley: Parley, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "damaged.parley").write_bytes(content)
    said = parley("export", "damaged.parley", "--out", "rows.jsonl")
    assert (said.code, said.out) == (1, "")
    assert len(said.err.splitlines()) == 1
    assert [each.name for each in tmp_path.iterdir()] == ["damaged.parley"]


def test_a_frame_that_is_no_message_is_damage(parley: Parley, tmp_path: Path) -> None:
    victim = second_frame(GOLDEN)
    payloads = payloads_of(GOLDEN)
    write_message(payloads, victim.sequence + 1, victim, encode(victim.message)[:-1] + b"\0")
    path = tmp_path / "damaged.parley"
    path.write_bytes(chained(payloads, TranscriptReader(GOLDEN).version))
    said = parley("export", path)
    assert said.code == 1
    assert len(said.out.splitlines()) == sum(row["record"] < victim.sequence for row in expected(GOLDEN))


@pytest.mark.parametrize("command", ["diff", "replay"])
def test_no_other_command_takes_a_cut_record_for_a_whole_one(parley: Parley, tmp_path: Path, command: str) -> None:
    path = tmp_path / "cut.parley"
    golden = golden_path("one-round")
    end = TranscriptReader(golden).verify().offset
    path.write_bytes(golden.read_bytes()[:end])
    said = parley(command, path, golden) if command == "diff" else parley(command, path)
    assert said.code == 1
    assert said.out.startswith("identical: ")
    assert len(said.err.splitlines()) == 1
    assert "is truncated" in said.err
