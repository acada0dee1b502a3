"""What a sender may add to the record: limited in bytes and number, for each name and in all, and across restarts."""

import time
from pathlib import Path

import pytest
import zmq

from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import Event, Ready
from parley.nodes.state.allowance import MOST_BYTES, MOST_BYTES_EACH, MOST_RECORDS_EACH, USED_UP, Allowance
from tests.nodes.test_endless import BoardProcess


def event(name: str) -> Event:
    """As large as an event can be."""
    return Event(event="pause", node=name, round=0, detail="\U0001f600" * 4000)


def write(allowance: Allowance, name: str, size: int) -> list[Event]:
    """As the board does; what it put on record."""
    if allowance.permits(name, size):
        said = Event(event="pause", node=name, round=0, detail="")
    elif last := allowance.last_word(name, size):
        said, size = Event(event="drop", node=name, round=0, detail=last), len(last)
    else:
        return []
    allowance.charge(said, size)
    return [said]


def test_one_name_has_its_bytes_and_one_last_word() -> None:
    allowance = Allowance()
    said = [each for _ in range(100) for each in write(allowance, "mallory", 2**16)]
    assert [each.event for each in said] == ["pause"] * (MOST_BYTES_EACH // 2**16) + ["drop"]
    assert "of mallory" in said[-1].detail
    assert write(allowance, "alice", 100)


def test_small_events_are_limited_in_number() -> None:
    allowance = Allowance()
    said = [each for _ in range(MOST_RECORDS_EACH + 50) for each in write(allowance, "mallory", 1)]
    assert len(said) == MOST_RECORDS_EACH + 1


def test_invented_names_share_one_allowance() -> None:
    allowance = Allowance()
    said = [each for number in range(1000) for each in write(allowance, f"n{number}", 2**16)]
    assert [each.event for each in said] == ["pause"] * (MOST_BYTES // 2**16) + ["drop"]
    assert write(allowance, "another", 1) == []


def test_a_restarted_board_goes_on_from_its_record() -> None:
    allowance, again = Allowance(), Allowance()
    for _ in range(100):
        for said in write(allowance, "mallory", 2**16):
            again.charge(said, 2**16 if said.event == "pause" else len(said.detail))
    assert write(again, "mallory", 1) == []


@pytest.mark.parametrize("attack", ["one name", "many names", "restarts", "noise"])
def test_a_flood_leaves_the_record_small(attack: str, tmp_path: Path) -> None:
    """50 MB from a raw socket; at the end an honest node is heard, and the record has its allowance and no more."""
    board = BoardProcess(tmp_path)
    context = zmq.Context()
    peer = context.socket(zmq.PUSH)
    peer.connect(board.addresses.inbox)
    frames = {
        "one name": (encode(event("mallory")) for _ in range(3200)),
        "many names": (encode(event(f"m{number}")) for number in range(3200)),
        "restarts": (encode(Ready(node="node-0", first=0, users=2, pid=number + 1)) for number in range(20_000)),
        "noise": (b"noise" * 10 for _ in range(20_000)),
    }
    try:
        for frame in frames[attack]:
            peer.send(frame)
        peer.send(encode(Ready(node="node-1", first=2, users=2, pid=1)))
        limit = time.monotonic() + 60
        while not any(isinstance(each, Ready) and each.node == "node-1" for each in board.record):
            assert time.monotonic() < limit
            time.sleep(0.2)
        record = board.record
    finally:
        context.destroy(0)
        board.process.kill()
        board.process.wait()
    most = MOST_BYTES if attack == "many names" else MOST_BYTES_EACH
    assert board.transcript.stat().st_size < 1.7 * most
    last = [each.detail for each in record if isinstance(each, Event) and each.detail.startswith(USED_UP)]
    assert len(last) == 1
