"""`parley audit --against`: another copy of the record, and what a node kept."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.signed import RUN, honest_words, public_keys, signers_for, words_of, write_signed
from parley.emulator.coins import key_from_seed
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.roles.node_memory import Evidence
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import Close, Replies, Roster
from parley.emulator.wire.security import write_trust
from parley.nodes.state.user_state import save_evidence
from parley.protocols.registry import design
from parley.protocols.workloads.kendall import Kendall
from tests.launch.conftest import Parley

USERS, NODES = 30, 3
KEY = key_from_seed(51)
SIGNERS = signers_for(KEY, NODES)


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a signed run without processes."""
    folder = tmp_path_factory.mktemp("signed")
    protocol = design("three-round", Kendall(levels=(3, 3)), epsilon=1.0, users=USERS)
    inputs = np.random.default_rng(5).integers(0, protocol.inputs, USERS)
    write_signed(folder / "transcript.parley", honest_words(protocol, inputs, KEY, nodes=NODES, chunk=4096), SIGNERS)
    write_trust(folder / "trust.toml", public_keys(SIGNERS))
    return folder


def frames_of(folder: Path, node: str, number: int) -> tuple[bytes, tuple[bytes, ...], bytes]:
    """The close of a round, a node's frames in it, and the nonce of the run."""
    close, frames, nonce = b"", [], b""
    for record in TranscriptReader(folder / "transcript.parley"):
        message = record.message
        if isinstance(message, Roster):
            nonce = message.nonce
        elif isinstance(message, Close) and message.round == number:
            close = record.frame
        elif isinstance(message, Replies) and (message.round, message.node) == (number, node):
            frames.append(record.frame)
    return close, tuple(frames), nonce


def evidence(folder: Path, tmp_path: Path, **changes: object) -> Path:
    close, frames, _ = frames_of(folder, "node-2", 2)
    kept = Evidence(run=RUN, node="node-2", round=2, reason="so", close=close, frames=frames)
    return save_evidence(tmp_path, replace(kept, **changes))  # type: ignore[arg-type]


def test_the_same_record(parley: Parley, signed: Path) -> None:
    said = parley("audit", signed, "--against", signed / "transcript.parley", "--json")
    assert said.code == 0
    assert said.record["ok"] is True
    assert said.record["against"]["relation"] == "same"
    assert parley("audit", signed, "--against", signed).out.startswith("same: ")


def test_a_prefix_and_the_reverse(parley: Parley, signed: Path, tmp_path: Path) -> None:
    content = (signed / "transcript.parley").read_bytes()
    reader = TranscriptReader(signed / "transcript.parley")
    offset = list(reader)[7].offset
    short = tmp_path / "short.parley"
    short.write_bytes(content[: offset + 5])
    said = parley("audit", short, "--against", signed)
    assert said.code == 1
    assert "short.parley is a prefix of" in said.out
    assert "after 7 records" in said.out
    said = parley("audit", signed, "--against", short)
    assert said.code == 0, "nothing of the other copy is missing"
    assert "short.parley is a prefix of" in said.out


def test_records_that_differ(parley: Parley, signed: Path, tmp_path: Path) -> None:
    words = words_of(signed / "transcript.parley")
    others = write_signed(tmp_path / "others.parley", words, {**SIGNERS, "node-1": SIGNERS["node-0"]})
    said = parley("audit", signed, "--against", others, "--json")
    assert said.code == 1
    assert said.record["against"]["findings"] == ["they differ from record 1 on"]
    ended = write_signed(tmp_path / "ended.parley", words, SIGNERS, closed_by=None)
    assert parley("audit", signed, "--against", ended).out == "they differ from the closing record on\n"


def test_everything_is_on_record(parley: Parley, signed: Path, tmp_path: Path) -> None:
    said = parley("audit", signed, "--against", evidence(signed, tmp_path), "--json")
    assert said.code == 0
    assert said.record["against"]["findings"] == ["everything that node-2 kept of round 2 is on record"]


def test_a_reply_that_is_missing(parley: Parley, signed: Path, tmp_path: Path) -> None:
    words = [
        (sender, message)
        for sender, message in words_of(signed / "transcript.parley")
        if not (isinstance(message, Replies) and message.node == "node-2" and message.round == 2)
    ]
    cut = write_signed(tmp_path / "cut.parley", words, SIGNERS)
    said = parley("audit", cut, "--trust", signed / "trust.toml", "--against", evidence(signed, tmp_path))
    assert said.code == 1
    lines = said.out.splitlines()
    assert lines[0].startswith("the board signed two different closes of round 2: the one in evidence and record ")
    assert lines[1] == "the reply of node-2 in round 2 (chunk 0) is missing from the record"


def test_two_closes(parley: Parley, signed: Path, tmp_path: Path) -> None:
    close = next(
        message
        for _, message in words_of(signed / "transcript.parley")
        if isinstance(message, Close) and message.round == 2
    )
    nonce = frames_of(signed, "node-2", 2)[2]
    another = encode(replace(close, absent=("node-2",)), SIGNERS["board"], nonce)
    said = parley("audit", signed, "--against", evidence(signed, tmp_path, close=another))
    assert said.code == 1
    assert "the board signed two different closes of round 2" in said.out


def test_a_reply_that_was_exchanged(parley: Parley, signed: Path, tmp_path: Path) -> None:
    _, frames, nonce = frames_of(signed, "node-2", 2)
    message = next(
        each
        for _, each in words_of(signed / "transcript.parley")
        if isinstance(each, Replies) and each.node == "node-2" and each.round == 2
    )
    other = replace(message, columns={name: column[::-1] for name, column in message.columns.items()})
    kept = evidence(signed, tmp_path, frames=(encode(other, SIGNERS["node-2"], nonce),))
    assert (
        "is another reply of node-2 in round 2 than the one it kept" in parley("audit", signed, "--against", kept).out
    )
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    forgotten = parley("audit", signed, "--against", evidence(signed, nothing, frames=()))
    assert "a reply of node-2 in round 2 that is not among those it kept" in forgotten.out
    assert len(frames) == 1


@pytest.mark.parametrize(
    ("forged", "expected"),
    [("close", "the board did not sign the close"), ("frames", "node-2 did not sign the replies")],
)
def test_evidence_that_is_not_signed_proves_nothing(
    parley: Parley, signed: Path, tmp_path: Path, forged: str, expected: str
) -> None:
    nonce = frames_of(signed, "node-2", 2)[2]
    words = [message for _, message in words_of(signed / "transcript.parley")]
    reply = next(each for each in words if isinstance(each, Replies) and each.node == "node-2" and each.round == 2)
    closed = next(each for each in words if isinstance(each, Close) and each.round == 2)
    lies = {"close": encode(closed, SIGNERS["node-0"], nonce), "frames": (encode(reply, SIGNERS["node-0"], nonce),)}
    kept = evidence(signed, tmp_path, **{forged: lies[forged]})
    said = parley("audit", signed, "--against", kept)
    assert said.code == 2
    assert "proves nothing about this record" in said.err
    assert expected in said.err


def test_evidence_needs_keys_and_the_run_it_is_about(parley: Parley, signed: Path, tmp_path: Path) -> None:
    kept = evidence(signed, tmp_path)
    alone = tmp_path / "alone.parley"
    alone.write_bytes((signed / "transcript.parley").read_bytes())
    assert "proves nothing without its signers' keys" in parley("audit", alone, "--against", kept).err
    folder = tmp_path / "other"
    folder.mkdir()
    other = evidence(signed, folder, run="another")
    assert "belongs to the run 'another'" in parley("audit", signed, "--against", other).err


def test_a_history_that_was_written_anew(parley: Parley, signed: Path, tmp_path: Path) -> None:
    """A node that saw another head of round 1 can show that the board signed both."""
    seen, _, nonce = frames_of(signed, "node-2", 1)
    kept = evidence(signed, tmp_path, before=seen)
    assert parley("audit", signed, "--against", kept).code == 0
    first = next(
        message
        for _, message in words_of(signed / "transcript.parley")
        if isinstance(message, Close) and message.round == 1
    )
    folder = tmp_path / "rewritten"
    folder.mkdir()
    other = encode(replace(first, root=bytes(32)), SIGNERS["board"], nonce)
    said = parley("audit", signed, "--against", evidence(signed, folder, before=other))
    assert said.code == 1
    assert "the board signed two different closes of round 1" in said.out
    for number, useless in enumerate((encode(first), b"nonsense", encode(first, SIGNERS["node-2"], nonce))):
        place = tmp_path / str(number)
        place.mkdir()
        said = parley("audit", signed, "--against", evidence(signed, place, before=useless))
        assert said.code == 2
        assert "proves nothing about this record" in said.err


@pytest.mark.parametrize("field", ["run", "node", "round", "reason", "close", "frames", "before"])
def test_evidence_of_other_types_is_refused_in_one_sentence(
    parley: Parley, signed: Path, tmp_path: Path, field: str
) -> None:
    """It comes from a stranger, who may put anything into any field."""
    values: list[object] = [None, True, 1.5, {}, ("x",), np.zeros((2, 2)), 3 if field != "round" else "3"]
    for number, value in enumerate(values):
        folder = tmp_path / str(number)
        folder.mkdir()
        said = parley("audit", signed, "--against", evidence(signed, folder, **{field: value}))
        assert said.code == 2
        assert len(said.err.splitlines()) == 1
        assert "is not evidence that a node kept" in said.err
