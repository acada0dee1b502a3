"""docs/transcript.md holds: its reader verifies real records, its example and its tables are those of the code."""

import hashlib
import re
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from parley.emulator.record.merkle import Tree, leaf_of
from parley.emulator.record.transcript import TranscriptReader, TranscriptWriter
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import MESSAGES, Replies
from parley.emulator.wire.signatures import Signer
from tests.docs.foreign import RUN, Table
from tests.docs.tables import DOCS, TABLES, example_record, made
from tests.emulator.record.test_batches import write as write_batches
from tests.vectors.make import HERE, golden_path
from tests.vectors.wire import ALICE, ANALYST, BOARD

PAGE = (DOCS / "transcript.md").read_text(encoding="utf-8")


def documented(after: str, language: str) -> str:
    """The first block of this language in a section of the page."""
    block = re.search(rf"## {after}\n.*?```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert block is not None
    return block[1]


@pytest.fixture(scope="module")
def reader() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "documented"}
    exec(documented("A reader", "python"), names)
    return names


def keys_of(table: Table) -> dict[str, bytes]:
    return {name: signer.public for name, signer in table.signers.items()}


def test_the_reader_reads_a_real_record(reader: dict[str, Any], played: Table) -> None:
    header, *messages, end = reader["read"](played.transcript)
    ours = TranscriptReader(played.transcript)
    assert [(each.sequence, each.time_ns, each.sender, each.frame) for each in ours] == messages
    assert header == ("header", ours.header)
    assert ours.closing is not None
    assert end == ("end", vars(ours.closing))
    for each in ours:
        (tag, *values), _, signature = reader["open_frame"](each.frame)
        kind = MESSAGES[tag]
        assert isinstance(each.message, kind)
        assert len(values) == len(fields(kind))
        assert len(signature) == 64
    replies = next(each for each in ours if isinstance(each.message, Replies))
    column = reader["open_frame"](replies.frame)[0][7]["category.category"]
    sent = replies.message.columns["category.category"]  # type: ignore[attr-defined]
    assert reader["array"](column) == ("u4", sent.shape, sent.tobytes())


def test_the_reader_finds_nothing_wrong_with_it(reader: dict[str, Any], played: Table, tmp_path: Path) -> None:
    assert reader["verify"](played.transcript, keys_of(played)) == []
    script = tmp_path / "reader.py"
    script.write_text(documented("A reader", "python"))
    command = [sys.executable, str(script), str(played.transcript), str(played.trust)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "every word is signed by its author\n"), done.stderr


def rewritten(table: Table, path: Path, *, drop: int | None = None, forge: int | None = None) -> Path:
    """The same record under a new chain and a new tree, as a board without its key could write it."""
    forger = Signer(b"f" * 32)
    with TranscriptWriter.create(path, RUN) as writer:
        for record in table.records():
            if record.sequence == drop:
                continue
            frame = record.frame
            if record.sequence == forge:
                frame = encode(record.message, forger, bytes(16))
            writer.append(record.sender, frame, record.time_ns)
        writer.close("completed", "", forger)
    return path


def test_a_rewritten_record_is_found(reader: dict[str, Any], played: Table, tmp_path: Path) -> None:
    places = [each.sequence for each in played.records() if isinstance(each.message, Replies)]
    close = places[-1] + 1
    dropped = reader["verify"](rewritten(played, tmp_path / "dropped", drop=places[0]), keys_of(played))
    assert dropped == [f"record {close - 1}: a close over another record", "the board did not sign the end"]
    forged = reader["verify"](rewritten(played, tmp_path / "forged", forge=places[1]), keys_of(played))
    node = played.records()[places[1]].sender
    assert forged == [
        f"record {places[1]}: {node} did not sign this replies",
        f"record {close}: a close over another record",
        "the board did not sign the end",
    ]


def test_keys_of_another_run_prove_nothing(reader: dict[str, Any], played: Table) -> None:
    others = {name: Signer(bytes([9]) * 32).public for name in keys_of(played)}
    wrong = reader["verify"](played.transcript, others)
    assert len(wrong) == len(played.records()) + 1


def test_the_reader_tells_truncated_from_altered(reader: dict[str, Any], played: Table, tmp_path: Path) -> None:
    data, path = played.transcript.read_bytes(), tmp_path / "t.parley"
    path.write_bytes(data[:-1])
    last = played.records()[-1]
    with pytest.raises(EOFError, match="truncated at byte") as found:
        list(reader["read"](path))
    assert int(str(found.value).rsplit(" ", 1)[1]) > last.offset
    path.write_bytes(data[:100] + bytes([data[100] ^ 1]) + data[101:])
    with pytest.raises(ValueError, match="altered"):
        list(reader["read"](path))
    path.write_bytes(data + b"\0")
    with pytest.raises(ValueError, match="altered"):
        list(reader["read"](path))


def test_the_reader_reads_format_1(reader: dict[str, Any]) -> None:
    golden = sorted(HERE.glob("transcript_*.parley"))
    old = [path for path in golden if path.read_bytes()[8:10] == b"\1\0" and "bad" not in path.name]
    assert golden_path("three-round") in golden
    for path in old:
        _, *messages, end = reader["read"](path)
        assert set(end[1]) == {"outcome", "reason", "records"}
        for _, _, _, frame in messages:
            (tag, *values), _, signature = reader["open_frame"](frame)
            kind = MESSAGES[tag]
            assert len(values) == len(fields(kind)) - len(kind.since_format_2)
            assert signature == b""


def test_the_reader_reads_batches(reader: dict[str, Any], tmp_path: Path) -> None:
    path = write_batches(tmp_path / "t", together=True)
    ours = list(TranscriptReader(path))
    _, *messages, _ = reader["read"](path)
    assert [(each.sequence, each.time_ns, each.sender, each.frame) for each in ours] == messages
    assert len({each.offset for each in ours}) < len(ours)
    leaves = [each.leaf for each in ours]
    closed = TranscriptReader(path)
    list(closed)
    assert closed.closing is not None
    assert reader["root"](leaves) == closed.closing.root


def test_the_heads_of_a_real_record(reader: dict[str, Any], played: Table) -> None:
    tree = Tree()
    for record in played.records():
        tree.append(leaf_of(record.sequence, record.time_ns, record.sender, hashlib.sha256(record.frame).digest()))
    leaves = [record.leaf for record in played.records()]
    assert [reader["root"](leaves[:size]) for size in range(len(leaves) + 1)] == [
        tree.root(size) for size in range(len(leaves) + 1)
    ]


def test_the_example_is_what_is_written(reader: dict[str, Any], tmp_path: Path) -> None:
    lines = documented("An example", "").splitlines()
    data = example_record(tmp_path / "t.parley")
    assert data == bytes.fromhex("".join(line[6:] for line in lines))
    keys = {"alice": Signer(b"\3" * 32).public, "board": Signer(b"\2" * 32).public}
    assert reader["verify"](tmp_path / "t.parley", keys) == []


def test_the_listed_keys_are_those_of_the_example() -> None:
    listed = tomllib.loads(documented("Signatures", "toml"))
    assert listed == {
        name: key.public.hex() for name, key in (("analyst", ANALYST), ("board", BOARD), ("alice", ALICE))
    }


@pytest.mark.parametrize("page", TABLES)
def test_tables_are_those_of_the_code(page: str) -> None:
    """Say `python -m tests.docs.tables --write` where this fails."""
    assert made(page) == (DOCS / page).read_text(encoding="utf-8")
