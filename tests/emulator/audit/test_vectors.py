"""Golden transcripts stay readable and replayable for good; bad ones are rejected by the check made for them."""

import pytest

from parley.emulator.audit.report import CHECKS
from parley.emulator.audit.result import check_result
from parley.emulator.record.replay import replay_analyst, replay_users
from parley.protocols.registry import names
from tests.emulator.audit.recordings import audited, heard, witness_of
from tests.vectors.make import BAD, bad_path, golden_inputs, golden_path

MAKE = "make it with `python -m tests.vectors.make`"


@pytest.mark.parametrize("name", names("shuffler"))
def test_golden_transcripts_are_good(name: str) -> None:
    path = golden_path(name)
    assert path.is_file(), f"{name} has no golden transcript: {MAKE}"
    report = audited(path, golden_inputs(name))
    assert report.ok, report.record()
    # On another kind of processor than the transcript was made on, rounding may differ: then it says so.
    assert report.verdicts["result"].verdict == "pass" or "up to rounding" in report.verdicts["result"].reason


@pytest.mark.parametrize("name", names("shuffler"))
def test_golden_transcripts_are_replayed_byte_for_byte(name: str) -> None:
    conversation = heard(golden_path(name))
    assert replay_analyst(conversation).identical or check_result(conversation).verdict == "unknown"
    assert replay_users(conversation, witness_of(golden_inputs(name))).identical


@pytest.mark.parametrize("what", BAD)
def test_bad_transcripts_are_rejected(what: str) -> None:
    bad = BAD[what]
    assert bad_path(what).is_file(), f"there is no bad transcript {what}: {MAKE}"
    report = audited(bad_path(what), golden_inputs(bad.base, bad.users))
    assert report.verdicts[bad.check].verdict == "fail", report.record()
    assert report.verdicts[bad.check].reason
    assert not report.ok


def test_every_check_has_a_transcript_that_it_rejects() -> None:
    # Of authorship a record alone says nothing: test_authorship.py forges signed records.
    assert {bad.check for bad in BAD.values()} == set(CHECKS) - {"authorship"}
