"""A batch on record: its messages are read as if each had a record of its own, and are written all or none."""

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.emulator.errors import LocalProtocolError, TranscriptError
from parley.emulator.record.merkle import Tree, leaf_hash
from parley.emulator.record.records import Record
from parley.emulator.record.transcript import AlteredTranscript, TranscriptReader, TranscriptWriter
from parley.emulator.wire.codec import encode, pack
from parley.emulator.wire.messages import Close, Ready, Replies
from parley.emulator.wire.shapes import Shape, Span, as_matrix
from parley.emulator.wire.signatures import Signer
from tests.emulator.record.test_transcript import END, HEADER, NOW, boundaries, chained
from tests.emulator.wire.test_codec import steady

SIGNER = Signer(bytes(range(32)))
READY = encode(Ready(node="user-1", first=0, users=3, pid=11))
CLOSE = encode(Close(run="r1", round=1, replies=3, missing=0))


def reply(user: int) -> Replies:
    column = np.array([user % 251], np.uint8)
    node = f"user-{user % 10}"
    return Replies(run="r1", round=1, node=node, chunk=0, chunks=1, users=np.array([user]), columns={"bit": column})


FRAMES = [encode(reply(user), SIGNER) for user in range(300, 320)]


def span_of(frame: bytes) -> Span:
    shape = Shape.of(frame, reply(300))
    assert shape is not None
    return shape.node


NAME = span_of(FRAMES[0])


def write(path: Path, *, together: bool, close: bool = True) -> Path:
    """A ready, twenty replies at one time, a close: the replies in one record or in one each."""
    with TranscriptWriter.create(path, "r1") as writer:
        writer.append("user-1", READY, NOW)
        if together:
            assert writer.append_batch(NAME, as_matrix(FRAMES), NOW + 1).sequence == 1
        else:
            for user, frame in enumerate(FRAMES, 300):
                writer.append(f"user-{user % 10}", frame, NOW + 1)
        assert writer.append("board", CLOSE, NOW + 2) == 21
        if close:
            writer.close("completed")
    return path


def said(records: list[Record]) -> list[Record]:
    """Without where they are in the file."""
    return [replace(each, offset=0) for each in records]


def test_everybody_reads_messages(tmp_path: Path) -> None:
    one, many = (TranscriptReader(write(tmp_path / str(way), together=way)) for way in (True, False))
    assert said(list(one)) == said(list(many))
    assert [each.leaf for each in one] == [each.leaf for each in many]
    assert one.closing is not None
    assert many.closing is not None
    assert one.closing == many.closing
    assert [encode(each.message, SIGNER) for each in one][1:21] == FRAMES
    assert one.path.stat().st_size < many.path.stat().st_size / 1.5
    for reader in (one, TranscriptReader(one.path), TranscriptReader(one.path, keep=2**20)):
        for start in (0, 1, 2, 7, 20, 21, 22):
            assert [each.sequence for each in reader.since(start)] == list(range(start, 22))


def test_a_record_that_is_read_while_it_grows(tmp_path: Path) -> None:
    with TranscriptWriter.create(tmp_path / "t", "r1") as writer:
        reader = TranscriptReader(tmp_path / "t")
        writer.append_batch(NAME, as_matrix(FRAMES[:10]), NOW)
        waiting = reader.since(0)
        assert [next(waiting).sequence for _ in range(3)] == [0, 1, 2]
        writer.append_batch(NAME, as_matrix(FRAMES[10:]), NOW)
        assert [each.sequence for each in reader.since(3)] == list(range(3, 20))
        assert [each.frame for each in reader] == FRAMES


def test_the_leaves_are_as_documented(tmp_path: Path) -> None:
    tree = Tree()
    for each in TranscriptReader(write(tmp_path / "t", together=True)):
        data = pack([each.sequence, each.time_ns, each.sender, hashlib.sha256(each.frame).digest()])
        tree.append(leaf_hash(data))
    closing = TranscriptReader(tmp_path / "t")
    list(closing)
    assert closing.closing is not None
    assert tree.root() == closing.closing.root


def test_a_batch_that_was_not_written_to_its_end_was_not_written(tmp_path: Path) -> None:
    """Wherever the writer was killed, the record goes on after the last whole record."""
    whole = write(tmp_path / "whole", together=True, close=False)
    data, (_, _, start, end, _) = whole.read_bytes(), boundaries(whole)
    for cut in range(start, end):
        path = tmp_path / "cut"
        path.write_bytes(data[:cut])
        reader = TranscriptReader(path)
        assert [each.sequence for each in reader] == [0]
        assert reader.truncated_at == start
        if cut % 37 == 0 or cut == end - 1:
            with TranscriptWriter.resume(path) as writer:
                assert writer.sequence == 1
                writer.append_batch(NAME, as_matrix(FRAMES), NOW + 1)
                writer.append("board", CLOSE, NOW + 2)
            assert path.read_bytes() == data


def test_a_writer_goes_on_after_a_batch(tmp_path: Path) -> None:
    path = write(tmp_path / "t", together=True, close=False)
    with TranscriptWriter.resume(path) as writer:
        assert writer.sequence == 22
        assert len(writer.tree) == 22
        writer.close("completed")
    assert said(list(TranscriptReader(path))) == said(list(TranscriptReader(write(tmp_path / "u", together=False))))


@given(st.data())
@steady(60)
def test_a_changed_byte_is_found(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = write(tmp_path_factory.mktemp("changed") / "t", together=True)
    content, (_, _, start, end, *_) = bytearray(path.read_bytes()), boundaries(path)
    content[data.draw(st.integers(start, end - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    reader = TranscriptReader(path)
    with pytest.raises(AlteredTranscript, match="record 1 at byte"):
        list(reader)


def test_what_is_not_a_batch_in_its_place_is_altered(tmp_path: Path) -> None:
    first, places = FRAMES[0], np.flatnonzero((as_matrix(FRAMES[:2]) != as_matrix(FRAMES[:1])).any(axis=0))
    rows = as_matrix(FRAMES[1:2])[:, places]
    name, marked = [NAME.start, NAME.end - NAME.start], places.astype(np.uint16)
    good = pack([0, NOW, name, first, marked, rows])
    path = tmp_path / "t"
    path.write_bytes(chained(HEADER, good))
    assert [each.frame for each in TranscriptReader(path)] == FRAMES[:2]
    for wrong, what in (
        (pack([1, NOW, name, first, marked, rows]), "its number is 1"),
        (pack([0, NOW, name, first, marked[:-1], rows]), "rows of shape"),
        (pack([0, NOW, [0, 4], first, marked, rows]), "a message from"),
    ):
        path.write_bytes(chained(HEADER, wrong, END))
        with pytest.raises(AlteredTranscript, match=what):
            list(TranscriptReader(path))
    path.write_bytes(chained(HEADER, good, version=1))
    with pytest.raises(AlteredTranscript, match="neither a header nor a message"):
        list(TranscriptReader(path))
    path.write_bytes(chained(HEADER, good, END))
    with pytest.raises(AlteredTranscript, match="counts 1 messages, there are 2"):
        list(TranscriptReader(path))


def test_what_cannot_be_a_batch_is_not_written(tmp_path: Path) -> None:
    with TranscriptWriter.create(tmp_path / "t", "r1") as writer:
        for name, frames, now in (
            (NAME, FRAMES[:1], NOW),
            (NAME, FRAMES[:1] * 3, NOW),
            (NAME, FRAMES, -1),
            (Span(0, 4), FRAMES, NOW),
            (Span(0, 1), [b"abcd", b"bbcd"], NOW),
        ):
            with pytest.raises(LocalProtocolError, match="no record of"):
                writer.append_batch(name, as_matrix(frames), now)
        assert writer.sequence == 0
    assert list(TranscriptReader(tmp_path / "t")) == []


def test_a_full_disk_takes_the_whole_batch_back(tmp_path: Path) -> None:
    writer = TranscriptWriter.create(tmp_path / "t", "r1")
    before = (tmp_path / "t").read_bytes()

    def full(descriptor: int, data: bytes | memoryview, offset: int) -> int:
        raise OSError(28, "No space left on device")

    really, writer.pwrite = writer.pwrite, full
    with pytest.raises(TranscriptError, match="No space"):
        writer.append_batch(NAME, as_matrix(FRAMES), NOW)
    assert (tmp_path / "t").read_bytes() == before
    writer.pwrite = really
    assert writer.append_batch(NAME, as_matrix(FRAMES), NOW).sequence == 0
    writer.abandon()
    assert [each.frame for each in TranscriptReader(tmp_path / "t")] == FRAMES
