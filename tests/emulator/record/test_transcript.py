"""The transcript: what is written is read back, what is cut is read up to the cut, what is changed is found."""

import hashlib
import resource
import signal
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.emulator.errors import BadInput, LocalProtocolError, TranscriptError
from parley.emulator.record import records as parts
from parley.emulator.record.merkle import EMPTY, Tree
from parley.emulator.record.records import LARGEST_PAYLOAD, MAGIC, VERSION, VERSIONS
from parley.emulator.record.transcript import AlteredTranscript, TranscriptReader, TranscriptWriter
from parley.emulator.wire.codec import LARGEST_FRAME, encode, pack
from parley.emulator.wire.messages import Close, Ready, Replies
from parley.emulator.wire.signatures import Signer

ROOT = Path(__file__).parents[3]
NOW = 1_700_000_000_000_000_000
FRAMES = [
    encode(Ready(node="user-1", first=0, users=3, pid=11)),
    encode(
        Replies(
            run="r1",
            round=1,
            node="user-1",
            chunk=0,
            chunks=1,
            users=np.arange(3),
            columns={"bit": np.array([1, 0, 1], dtype=np.uint8)},
        )
    ),
    encode(Close(run="r1", round=1, replies=3, missing=0)),
]
SENDERS = ["user-1", "user-1", "board"]


def write(path: Path, records: int = 3, outcome: Any = "completed") -> Path:
    """A small transcript; without an outcome it is left open."""
    with TranscriptWriter.create(path, "r1", created=NOW, software="test") as writer:
        for number in range(records):
            assert writer.append(SENDERS[number % 3], FRAMES[number % 3], NOW + number) == number
        if outcome:
            writer.close(outcome, "all replied")
    return path


def chained(*payloads: bytes, version: int = VERSION) -> bytes:
    """A file of these payloads with a chain that holds: what somebody who rewrites a transcript can make."""
    head = MAGIC + struct.pack("<H", version)
    pieces, link = [head], hashlib.sha256(head).digest()
    for payload in payloads:
        length = struct.pack("<I", len(payload))
        link = hashlib.sha256(link + length + payload).digest()
        pieces += [length, payload, link]
    return b"".join(pieces)


HEADER = pack(["header", {"run": "r1"}])
MESSAGE = pack([0, NOW, "board", FRAMES[2]])


def end(version: int = VERSION, **changes: Any) -> bytes:
    """A closing record of an empty record, with something changed."""
    fields: dict[str, Any] = {"outcome": "failed", "reason": "", "records": 0}
    signed: dict[str, Any] = {"root": EMPTY, "signature": b""} if version > 1 else {}
    return pack(["end", {**fields, **signed, **changes}])


END = end(outcome="completed", records=1)


def boundaries(path: Path) -> list[int]:
    """Where records begin, by the framing alone, and where the file ends."""
    data, at = path.read_bytes(), 10
    found = [at]
    while at < len(data):
        at += 4 + struct.unpack_from("<I", data, at)[0] + 32
        found.append(at)
    return found


def drain(path: Path) -> TranscriptReader:
    """Read all of it, messages included."""
    reader = TranscriptReader(path)
    for record in reader:
        assert record.message is not None
    return reader


def tree_of(records: list[parts.Record]) -> Tree:
    """The tree over these records, by the documentation: a leaf holds number, time, sender and digest of the frame."""
    tree = Tree()
    for each in records:
        data = pack([each.sequence, each.time_ns, each.sender, hashlib.sha256(each.frame).digest()])
        tree.append(hashlib.sha256(b"\0" + data).digest())
    return tree


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parley")
    reader = TranscriptReader(path)
    records = list(reader)
    assert reader.header == {"run": "r1", "created": NOW, "software": "test"}
    assert (reader.run, reader.version) == ("r1", VERSION)
    assert [record.sequence for record in records] == [0, 1, 2]
    assert [record.frame for record in records] == FRAMES
    assert [record.sender for record in records] == SENDERS
    assert [record.time_ns for record in records] == [NOW, NOW + 1, NOW + 2]
    assert [record.offset for record in records] == boundaries(path)[1:4]
    assert records[0].time == pytest.approx(NOW / 1e9)
    assert isinstance(records[1].message, Replies)
    assert records[1].message is records[1].message
    root = tree_of(records).root()
    assert reader.closing == parts.Closing(outcome="completed", reason="all replied", records=3, root=root)
    assert reader.truncated_at is None


frames = st.binary(min_size=5, max_size=300)
senders = st.text("aZ09._:-", max_size=63).map(lambda rest: "n" + rest)


@given(st.lists(st.tuples(senders, frames, st.integers(0, 2**63 - 1)), max_size=6), st.text("aé€ \n", max_size=30))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_any_bytes_of_any_sender_come_back(
    tmp_path_factory: pytest.TempPathFactory, messages: list[tuple[str, bytes, int]], reason: str
) -> None:
    path = tmp_path_factory.mktemp("run") / "t.parley"
    with TranscriptWriter.create(path, "r1") as writer:
        for message in messages:
            writer.append(*message)
        writer.close("failed", reason)
    reader = TranscriptReader(path)
    assert [(record.sender, record.frame, record.time_ns) for record in reader] == messages
    root = tree_of(list(reader)).root()
    assert reader.closing == parts.Closing(outcome="failed", reason=reason, records=len(messages), root=root)


def test_every_truncation_is_read_to_its_last_whole_record(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parley")
    data, starts = path.read_bytes(), boundaries(path)
    for length in range(len(data)):
        path.write_bytes(data[:length])
        if length < starts[1]:
            with pytest.raises(TranscriptError, match=f"byte {min(length, 10)}, before|does not begin"):
                TranscriptReader(path)
            continue
        reader = drain(path)
        whole = max(index for index, start in enumerate(starts) if start <= length)
        assert reader.closing is None
        assert reader.truncated_at == starts[whole]
        assert sum(1 for _ in reader) == whole - 1


def test_every_changed_byte_is_found(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parley")
    data, starts = path.read_bytes(), boundaries(path)
    for at in range(len(data)):
        for flip in (0x01, 0x80, 0xFF):
            path.write_bytes(data[:at] + bytes([data[at] ^ flip]) + data[at + 1 :])
            with pytest.raises(TranscriptError) as caught:
                drain(path)
            if at >= 10:
                assert isinstance(caught.value, AlteredTranscript)
                assert caught.value.offset == max(start for start in starts if start <= at)
                assert f"byte {caught.value.offset}:" in str(caught.value)


def test_a_changed_byte_is_never_mistaken_for_a_torn_record(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parley")
    data, starts = path.read_bytes(), boundaries(path)
    for at in range(starts[1], len(data)):
        altered = data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]
        path.write_bytes(altered)
        with pytest.raises(TranscriptError):
            TranscriptWriter.resume(path)
        assert path.read_bytes() == altered


@pytest.mark.parametrize("cut", [0, 1, 3, 4, 5, 20, 60])
def test_resume_cuts_a_torn_record_and_goes_on(tmp_path: Path, cut: int) -> None:
    path = write(tmp_path / "t.parley", records=3, outcome=None)
    whole = write(tmp_path / "whole.parley")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) - cut])
    with TranscriptWriter.resume(path) as writer:
        assert writer.sequence == (3 if cut == 0 else 2)
        if cut:
            assert writer.append(SENDERS[2], FRAMES[2], NOW + 2) == 2
        writer.close("completed", "all replied")
    assert path.read_bytes() == whole.read_bytes()


def test_resume_refuses_what_is_closed_altered_missing_or_written_by_another(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parley")
    with pytest.raises(TranscriptError, match="closed"):
        TranscriptWriter.resume(path)
    with pytest.raises(BadInput):
        TranscriptWriter.resume(tmp_path / "none.parley")
    with (
        TranscriptWriter.create(tmp_path / "u.parley", "r1"),
        pytest.raises(BadInput, match="written by another"),
    ):
        TranscriptWriter.resume(tmp_path / "u.parley")
    (tmp_path / "v.parley").write_bytes(b"")
    with pytest.raises(TranscriptError):
        TranscriptWriter.resume(tmp_path / "v.parley")


def test_resume_keeps_an_old_version_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "t.parley"
    path.write_bytes(chained(HEADER, MESSAGE, version=1))
    before = path.read_bytes()
    with pytest.raises(TranscriptError, match="older version 1: it can be read, not continued"):
        TranscriptWriter.resume(path)
    assert path.read_bytes() == before
    assert len(list(TranscriptReader(path))) == 1


def test_a_resumed_transcript_has_the_tree_of_all_its_messages(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parley", outcome=None)
    with TranscriptWriter.resume(path) as writer:
        assert writer.tree.root() == tree_of(list(TranscriptReader(path))).root()
        writer.append("board", FRAMES[2], NOW)
        assert writer.tree.root() == tree_of(list(TranscriptReader(path))).root()


def test_the_closing_record_is_signed_with_everything_it_says(tmp_path: Path) -> None:
    signer, nonce = Signer(bytes(32)), bytes(16)
    path = tmp_path / "t.parley"
    with TranscriptWriter.create(path, "r1") as writer:
        writer.append("board", FRAMES[2], NOW)
        writer.close("completed", "so", signer, nonce)
    closing = drain(path).closing
    assert closing is not None
    assert closing.said_by(signer.public, nonce)
    assert not closing.said_by(Signer(bytes([1] * 32)).public, nonce)
    assert not closing.said_by(signer.public, bytes([1] * 16))
    for changes in ({"outcome": "failed"}, {"reason": ""}, {"records": 0}, {"root": bytes(32)}, {"signature": b""}):
        assert not replace(closing, **changes).said_by(signer.public, nonce)  # type: ignore[arg-type]
    unsigned = drain(write(tmp_path / "u.parley")).closing
    assert unsigned is not None
    assert unsigned.signature == b""
    assert not unsigned.said_by(signer.public, nonce)


def test_nothing_is_written_over(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parley")
    before = path.read_bytes()
    with pytest.raises(BadInput, match="exists"):
        TranscriptWriter.create(path, "r1")
    assert path.read_bytes() == before
    with pytest.raises(BadInput, match="cannot be written"):
        TranscriptWriter.create(tmp_path / "no" / "t.parley", "r1")


@pytest.mark.parametrize(
    ("error", "write_it"),
    [
        (BadInput, lambda path: TranscriptWriter.create(path, "not a name")),
        (LocalProtocolError, lambda path: TranscriptWriter.create(path, "r1", more=object())),
        (LocalProtocolError, lambda path: TranscriptWriter.create(path, "r1", more="a" * 5000)),
        (LocalProtocolError, lambda path: TranscriptWriter.create(path, "r1", more=float("nan"))),
    ],
)
def test_a_bad_header_leaves_no_file(
    tmp_path: Path, error: type[Exception], write_it: Callable[[Path], object]
) -> None:
    with pytest.raises(error):
        write_it(tmp_path / "t.parley")
    assert list(tmp_path.iterdir()) == []


def test_bad_records_and_records_after_the_end_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parley"
    writer = TranscriptWriter.create(path, "r1")
    for sender, frame, time_ns in (
        ("not a name", FRAMES[0], NOW),
        ("board", b"1234", NOW),
        ("board", bytes(LARGEST_FRAME + 1), NOW),
        ("board", FRAMES[0], -1),
        ("board", FRAMES[0], 2**63),
    ):
        with pytest.raises(LocalProtocolError):
            writer.append(sender, frame, time_ns)
    with pytest.raises(LocalProtocolError):
        writer.close("over")  # type: ignore[arg-type]
    writer.sync()
    writer.close("aborted", "because \ud800" + "x" * 9000)
    for late in (lambda: writer.append("board", FRAMES[0], NOW), lambda: writer.close("failed"), writer.sync):
        with pytest.raises(LocalProtocolError, match="closed"):
            late()
    reader = drain(path)
    assert reader.closing is not None
    assert reader.closing.records == 0
    assert len(reader.closing.reason) == 4096


def test_a_full_disk_takes_the_part_back(tmp_path: Path) -> None:
    path = tmp_path / "t.parley"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with TranscriptWriter.create(path, "r1") as writer:
        writer.append("board", bytes(1000), NOW)
        size = path.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 500, hard))
        try:
            with pytest.raises(TranscriptError, match="cannot be written"):
                writer.append("board", bytes(1000), NOW)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert path.stat().st_size == size
        assert writer.append("board", bytes(1000), NOW) == 1
        writer.close("completed")
    assert len(list(TranscriptReader(path))) == 2


def test_kill_loses_nothing_that_was_written(tmp_path: Path) -> None:
    path = tmp_path / "t.parley"
    program = (
        "import sys; from parley.emulator.record.transcript import TranscriptWriter\n"
        "writer = TranscriptWriter.create(sys.argv[1], 'r1')\n"
        "while True: print(writer.append('board', bytes(70), 0), flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        assert child.stdout is not None
        for _ in range(200):
            last = int(child.stdout.readline())
        child.send_signal(signal.SIGKILL)
        last = int([str(last), *child.stdout.read().split("\n")[:-1]][-1])
    with TranscriptWriter.resume(path) as writer:
        assert writer.sequence >= last + 1
        writer.close("failed", "killed")
    assert len(list(TranscriptReader(path))) == writer.sequence - 1


def test_since_follows_a_transcript_that_is_being_written(tmp_path: Path) -> None:
    path = tmp_path / "t.parley"
    with TranscriptWriter.create(path, "r1") as writer:
        reader = TranscriptReader(path)
        assert list(reader) == []
        heard: list[int] = []
        for number in range(50):
            writer.append("board", bytes(100_000), number)
            heard += [record.sequence for record in reader.since(len(heard))]
            assert reader.truncated_at == path.stat().st_size
            assert reader.closing is None
        assert heard == list(range(50))
        assert [record.sequence for record in reader.since(47)] == [47, 48, 49]
        assert list(reader.since(99)) == []
        writer.close("completed")
    assert list(reader.since(50)) == []
    assert reader.closing is not None
    assert reader.truncated_at is None


def test_a_record_that_is_half_written_is_not_yet_there(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parley")
    data, growing = path.read_bytes(), tmp_path / "growing.parley"
    growing.write_bytes(data[: boundaries(path)[1]])
    reader, heard = TranscriptReader(growing), 0
    for length in range(boundaries(path)[1], len(data) + 1):
        growing.write_bytes(data[:length])
        heard += sum(1 for _ in reader.since(heard))
    assert heard == 3
    assert reader.closing is not None


def test_one_reader_serves_several_readings_at_once(tmp_path: Path) -> None:
    reader = TranscriptReader(write(tmp_path / "t.parley"))
    pairs = [(left.sequence, right.sequence) for left in reader for right in reader.since(1)]
    assert pairs == [(left, right) for left in range(3) for right in (1, 2)]


def test_a_newer_version_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.parley"
    path.write_bytes(chained(HEADER, version=7))
    with pytest.raises(TranscriptError, match=r"version 7; this program reads 1, 2$"):
        TranscriptReader(path)


def test_each_version_has_its_own_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Version 0 never was: a stand-in with its sender last shows that old payloads become today's records."""

    def parse_version_0(payload: bytes, position: Any) -> Any:
        entry = VERSIONS[VERSION](payload, position) if b"board" not in payload else None
        return entry or parts.Record(
            sequence=position.sequence, time_ns=0, sender="board", frame=FRAMES[2], offset=position.offset
        )

    monkeypatch.setattr(parts, "VERSIONS", {0: parse_version_0, **VERSIONS})
    path = tmp_path / "t.parley"
    path.write_bytes(chained(HEADER, pack([FRAMES[2], "board"]), END, version=0))
    assert [record.frame for record in TranscriptReader(path)] == [FRAMES[2]]


@pytest.mark.parametrize(
    ("what", "data"),
    [
        ("not a transcript", b""),
        ("not a transcript", b"PK\x03\x04 something else"),
        ("not a transcript", b"PARLEY\n"),
        ("before its header", MAGIC + b"\x01"),
        ("before its header", MAGIC + b"\x01\x00"),
        ("not a header", chained(END)),
        ("its number is", chained(MESSAGE)),
        ("does not name its run", chained(pack(["header", {}]))),
        ("does not name its run", chained(pack(["header", {"run": 5}]))),
        ("does not name its run", chained(pack(["header", {"run": "a b"}]))),
        ("neither", chained(pack(["header", {"run": "r1"}, 1]))),
        ("neither", chained(pack("header"))),
        ("the header holds a bytes", chained(pack(["header", {"run": "r1", "more": b""}]))),
        ("second header", chained(HEADER, HEADER)),
        ("its number is 1", chained(HEADER, pack([1, NOW, "board", FRAMES[0]]))),
        ("neither", chained(HEADER, pack([False, NOW, "board", FRAMES[0]]))),
        ("neither", chained(HEADER, pack([0, 1.5, "board", FRAMES[0]]))),
        ("neither", chained(HEADER, pack([0, NOW, "board", "text"]))),
        ("neither", chained(HEADER, pack([0, NOW, "board"]))),
        ("neither", chained(HEADER, pack(["other", {}]))),
        ("neither", chained(HEADER, pack(7))),
        ("a message of", chained(HEADER, pack([0, -1, "board", FRAMES[0]]))),
        ("a message of", chained(HEADER, pack([0, NOW, "no name", FRAMES[0]]))),
        ("a message of", chained(HEADER, pack([0, NOW, "board", b"1234"]))),
        ("not in its shortest form", chained(HEADER, b"\x94\xcc" + MESSAGE[1:])),
        ("bytes for a value", chained(HEADER, MESSAGE + b"\x00")),
        ("middle of a value", chained(HEADER, b"")),
        ("counts 1 messages, there are 0", chained(HEADER, END)),
        ("bytes after the closing", chained(HEADER, MESSAGE, END) + b"\x00"),
        ("bytes after the closing", chained(HEADER, MESSAGE, END, END)),
        ("outcome, reason", chained(HEADER, pack(["end", {"outcome": "completed", "records": 0}]))),
        ("outcome, reason", chained(HEADER, end(x=0))),
        ("outcome, reason, records, root, signature", chained(HEADER, end(version=1))),
        ("outcome, reason, records$", chained(HEADER, end(), version=1)),
        ("unknown outcome", chained(HEADER, end(outcome="fine"))),
        ("unknown outcome", chained(HEADER, end(outcome=np.zeros(3)))),
        ("not a short text", chained(HEADER, end(reason="a" * 5000))),
        ("does not count", chained(HEADER, end(records=False))),
        ("invalid root or signature", chained(HEADER, end(root=bytes(31)))),
        (
            "invalid root or signature",
            chained(HEADER, end(root="")),
        ),
        ("invalid root or signature", chained(HEADER, end(signature=bytes(63)))),
        ("invalid root or signature", chained(HEADER, end(signature=7))),
        ("nested too deeply", chained(HEADER, b"\x91" * 100_000)),
        ("nested too deeply", chained(b"\x92\xa6header\x81\xa3run" + b"\x91" * 500 + b"\xc0")),
        ("claims to be 4294967295 bytes", chained(HEADER) + b"\xff" * 40),
        ("claims to be", chained(HEADER) + struct.pack("<I", LARGEST_PAYLOAD + 1)),
        ("claims to be 200 bytes long and holds", chained(HEADER) + struct.pack("<I", 200) + MESSAGE),
    ],
)
def test_hostile_files_get_a_clear_error(tmp_path: Path, what: str, data: bytes) -> None:
    path = tmp_path / "t.parley"
    path.write_bytes(data)
    with pytest.raises(TranscriptError, match=what) as caught:
        drain(path)
    assert str(path) in str(caught.value)


def test_the_file_those_were_made_from_is_good(tmp_path: Path) -> None:
    path = tmp_path / "t.parley"
    path.write_bytes(chained(HEADER, MESSAGE, END))
    assert drain(path).closing is not None
    message = pack([0, NOW, "board", encode(Close(run="r1", round=1, replies=3, missing=0), format=1)])
    path.write_bytes(chained(HEADER, message, end(1, records=1), version=1))
    old = drain(path)
    assert old.closing == parts.Closing(outcome="failed", reason="", records=1)


def test_a_recorded_frame_that_is_no_message_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.parley"
    path.write_bytes(chained(HEADER, pack([0, NOW, "board", b"no message"])))
    (record,) = TranscriptReader(path)
    with pytest.raises(TranscriptError, match=f"record 0 at byte {record.offset}"):
        assert record.message


values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**64 - 1) | st.text("abe", max_size=5) | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab", max_size=3), inner, max_size=3),
    max_leaves=8,
)
payloads = (
    st.sampled_from([HEADER, MESSAGE, END])
    | st.binary(max_size=40)
    | values.map(pack)
    | st.tuples(st.integers(0, 2), values, values, values).map(pack)
    | st.tuples(st.sampled_from(["header", "end"]), values).map(pack)
)


@given(st.lists(payloads, max_size=4), st.binary(max_size=50), st.booleans())
@settings(max_examples=250, deadline=None, derandomize=True)
def test_only_transcript_errors(
    tmp_path_factory: pytest.TempPathFactory, entries: list[bytes], tail: bytes, proper: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.parley"
    path.write_bytes(chained(*([HEADER] if proper else []), *entries) + tail)
    try:
        reader = drain(path)
    except TranscriptError:
        return
    assert (reader.closing is None) == (reader.truncated_at is not None)


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path, frame = tmp_path / "t.parley", bytes(2**16)
    with TranscriptWriter.create(path, "r1") as writer:
        for number in range(1000):
            writer.append("board", frame, number)
        writer.close("completed")
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    assert sum(1 for _ in TranscriptReader(path)) == 1000
    _, peak = tracemalloc.get_traced_memory()
    assert path.stat().st_size > 60 * 2**20
    assert peak - before < 2**20


def test_the_largest_frame_fits(tmp_path: Path) -> None:
    path = tmp_path / "t.parley"
    longest = "n" * 64
    with TranscriptWriter.create(path, "r1") as writer:
        writer.append(longest, bytes(LARGEST_FRAME), 2**63 - 1)
        writer.close("completed")
    (record,) = TranscriptReader(path)
    assert (len(record.frame), record.sender) == (LARGEST_FRAME, longest)


def test_what_is_not_there_or_no_file_is_bad_input(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path, Path("/dev/zero")):
        with pytest.raises(BadInput):
            TranscriptReader(path)


def test_kept_records_are_decoded_once_and_new_ones_still_come(tmp_path: Path) -> None:
    path = tmp_path / "transcript.parley"
    with TranscriptWriter.create(path, "run") as writer:
        for number in range(5):
            writer.append("node-1", FRAMES[number % 3], number)
        reader, forgetful = TranscriptReader(path, keep=2**20), TranscriptReader(path)
        before = list(reader)
        assert all(again is record for again, record in zip(reader, before, strict=True))
        assert not any(again is record for again, record in zip(forgetful, list(forgetful), strict=True))
        writer.append("node-1", FRAMES[0], 5)
        assert [record.sequence for record in reader] == [0, 1, 2, 3, 4, 5]
        assert [record.sequence for record in reader.since(3)] == [3, 4, 5]
    few = TranscriptReader(path, keep=before[3].offset)
    assert [each.frame for each in few] == [each.frame for each in few] == [each.frame for each in forgetful]
