"""Transcripts of format 1 stay readable for good: shown, audited, replayed bit for bit; they are never continued."""

from pathlib import Path

import pytest

from parley.emulator.audit.integrity import check_integrity
from parley.emulator.audit.result import check_result
from parley.emulator.errors import BadInput, RemoteProtocolError, TranscriptError
from parley.emulator.record.replay import replay_analyst, replay_users
from parley.emulator.record.transcript import TranscriptReader, TranscriptWriter
from parley.emulator.wire.codec import decode, encode
from parley.emulator.wire.messages import Announce, Close, Ready, Replies, Roster, Setup
from parley.launch.cli import run
from parley.protocols.registry import names
from tests.emulator.audit.recordings import heard, witness_of
from tests.vectors.make import BAD, FORMAT_1, golden_inputs

PATHS = sorted(FORMAT_1.glob("transcript_*.parley"))
GOLDEN = {path.stem.removeprefix("transcript_"): path for path in PATHS if "_bad_" not in path.stem}
SPOKEN = [name for name in GOLDEN if name in names("shuffler") and heard(GOLDEN[name]).protocol is not None]
"""Those whose protocol still has the same words."""
SILENT = sorted(set(GOLDEN) - set(SPOKEN))


def test_they_are_all_there() -> None:
    assert len(GOLDEN) == 16
    assert len(PATHS) == 31
    assert {TranscriptReader(path).version for path in GOLDEN.values()} == {1}


@pytest.mark.parametrize("name", GOLDEN)
def test_every_message_is_read(name: str) -> None:
    reader = TranscriptReader(GOLDEN[name])
    messages = [record.message for record in reader]
    assert reader.closing is not None
    assert (reader.closing.outcome, reader.closing.root, reader.closing.signature) == ("completed", b"", b"")
    for message in messages:
        # What nobody said then is empty, and nothing else is made up.
        for field in message.since_format_2:
            assert getattr(message, field) in (b"", "", 0, (), {}) or field == "version"
    assert {Ready, Roster, Setup, Announce, Replies, Close} <= {type(message) for message in messages}
    # The one encoding of format 1 is what is on record.
    assert [encode(message, format=1) for message in messages] == [record.frame for record in reader]


@pytest.mark.parametrize("name", GOLDEN)
def test_they_are_shown(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", str(GOLDEN[name])]) == 0
    shown = capsys.readouterr().out.splitlines()
    count = len(list(TranscriptReader(GOLDEN[name])))
    assert shown[-1] == f"completed after {count} records"
    assert len(shown) == count + 2


@pytest.mark.parametrize("name", GOLDEN)
def test_their_integrity_is_checked(name: str) -> None:
    assert check_integrity(GOLDEN[name]).verdict == "pass"


@pytest.mark.parametrize("what", [what for what in BAD if BAD[what].check == "integrity"])
def test_damage_is_still_found(what: str) -> None:
    assert check_integrity(FORMAT_1 / f"transcript_bad_{what}.parley").verdict == "fail"


@pytest.mark.parametrize("name", SPOKEN)
def test_the_analyst_is_replayed_bit_for_bit(name: str) -> None:
    conversation = heard(GOLDEN[name])
    # On another kind of processor than the transcript was made on, rounding may differ: then it says so.
    assert replay_analyst(conversation).identical or check_result(conversation).verdict == "unknown"


@pytest.mark.parametrize("name", SPOKEN)
def test_users_are_replayed_byte_for_byte(name: str) -> None:
    """Their coins were those of the round, not of the question."""
    replay = replay_users(heard(GOLDEN[name]), witness_of(golden_inputs(name)))
    assert replay.identical
    assert replay.compared > 0


@pytest.mark.parametrize("name", SILENT)
def test_what_is_not_spoken_any_more_is_unknown(name: str) -> None:
    assert check_result(heard(GOLDEN[name])).verdict == "unknown"
    with pytest.raises(BadInput, match="cannot be replayed"):
        replay_analyst(heard(GOLDEN[name]))


def test_some_are_still_replayed_and_some_are_not() -> None:
    assert "frequency-grr" in SPOKEN
    assert "three-round" in SILENT


def test_they_are_read_and_not_continued(tmp_path: Path) -> None:
    path = tmp_path / "t.parley"
    path.write_bytes(GOLDEN["three-round"].read_bytes())
    with pytest.raises(TranscriptError, match="older version 1: it can be read, not continued"):
        TranscriptWriter.resume(path)


def test_a_frame_of_format_1_is_no_frame_of_today() -> None:
    """A node of today is not to be spoken to in the old way: there would be no nonce, and coins would repeat."""
    for record in TranscriptReader(GOLDEN["three-round"]):
        if record.message.since_format_2:
            with pytest.raises(RemoteProtocolError, match="fields instead of"):
                decode(record.frame)
