"""Users who do not answer before a round is closed leave a broken arrow."""

from pathlib import Path

from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.wire.messages import Close, Replies
from parley.launch.report.story import Story
from tests.launch.report.conftest import ROUNDS, USERS
from tests.launch.report.test_story import marks


def test_missing_users(small: Path) -> None:
    """The small run, retold without the replies of its second node."""
    story = Story()
    for record in TranscriptReader(small / "transcript.parley"):
        message = record.message
        if isinstance(message, Replies) and message.node == "node-1":
            continue
        if isinstance(message, Close):
            short = Close(run=message.run, round=message.round, replies=3, missing=3)
            object.__setattr__(record, "message", short)
        story.take(record)
    missing = marks(story, kind="missing")
    assert len(missing) == ROUNDS * USERS // 2
    assert {mark["start"] for mark in missing} == {3, 4, 5}
    assert all(mark["broken"] for mark in missing)
    assert [(each["replies"], each["due"], each["missing"]) for each in story.record()["rounds"]] == [(3, 6, 3)] * 3
