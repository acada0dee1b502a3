"""Nodes that answer for nobody, against a real board: replies are counted against those who were asked.

A node of 990 of 1,000 users once sent an empty chunk, and the round closed with nobody missing at a quorum of 1.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import zmq

from parley.emulator.coins import question_of, terms_of
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import Abort, Announce, Close, Message, Ready, Replies
from tests.attacks.impostor import PATIENCE, ROOT
from tests.attacks.parties import RUN, setup_of, spoken

USERS, LARGE = 1000, 990
GRR = "frequency-grr"


class Peers:
    """Analyst and nodes, all through one raw socket."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self.folder, self.process = folder, process
        end = time.monotonic() + PATIENCE
        while not (folder / "addresses.json").exists():
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.02)
        self._context = zmq.Context()
        self._inbox = self._context.socket(zmq.PUSH)
        self._inbox.setsockopt(zmq.LINGER, 1000)
        self._inbox.connect(json.loads((folder / "addresses.json").read_text())["inbox"])

    def say(self, *messages: Message) -> None:
        for message in messages:
            self._inbox.send(encode(message))

    def until(self, *kinds: type[Message]) -> Message:
        """Wait until a message of one of these kinds is on record."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            found = [each for each in self.record() if isinstance(each, kinds)]
            if found:
                return found[-1]
            time.sleep(0.05)
        raise AssertionError(f"no {[each.kind for each in kinds]} in {[each.kind for each in self.record()]}")

    def record(self) -> list[Message]:
        return [each.message for each in TranscriptReader(self.folder / "transcript.parley")]

    def close(self) -> None:
        self._inbox.close()
        self._context.term()


@contextmanager
def board(folder: Path, quorum: float) -> Iterator[Peers]:
    command = [sys.executable, "-m", "parley.nodes.board", "--run", RUN, "--users", str(USERS), "--nodes", "2"]
    command += ["--transcript", str(folder / "transcript.parley"), "--addresses", str(folder / "addresses.json")]
    command += ["--quorum", str(quorum), "--deadline", "5"]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        peers = Peers(folder, process)
        try:
            yield peers
        finally:
            peers.close()
    finally:
        process.kill()
        process.wait()


def replies(node: str, first: int, users: int, chunk: int = 0, chunks: int = 1) -> Replies:
    numbers = np.arange(first, first + users, dtype=np.int64)
    columns = {"category.category": np.zeros(users, dtype=np.uint32)}
    question = question_of(terms_of(setup_of(spoken(GRR))), Announce(run=RUN, round=1, broadcast={}))
    return Replies(
        run=RUN,
        round=1,
        node=node,
        chunk=chunk,
        chunks=chunks,
        users=numbers,
        columns=columns,
        question=question,
    )


def sit(peers: Peers) -> None:
    peers.say(Ready(node="large", first=0, users=LARGE, pid=1))
    peers.say(Ready(node="small", first=LARGE, users=USERS - LARGE, pid=2))
    peers.say(setup_of(spoken(GRR)), Announce(run=RUN, round=1, broadcast={}, speakers=USERS))


EMPTY = {
    "one empty chunk": [replies("large", 0, 0)],
    "many empty chunks": [replies("large", 0, 0, chunk, 3) for chunk in range(3)],
    "one user and empty chunks": [replies("large", 0, 1, 0, 2), replies("large", 0, 0, 1, 2)],
}


@pytest.mark.parametrize("what", EMPTY)
def test_an_empty_answer_is_a_missing_one(what: str, tmp_path: Path) -> None:
    with board(tmp_path, quorum=1.0) as peers:
        sit(peers)
        peers.say(replies("small", LARGE, USERS - LARGE), *EMPTY[what])
        ending = peers.until(Abort, Close)
        assert isinstance(ending, Abort)
        assert "below the quorum" in ending.reason
        assert not [each for each in peers.record() if isinstance(each, Close)]


@pytest.mark.parametrize("what", EMPTY)
def test_below_the_quorum_they_count_as_missing(what: str, tmp_path: Path) -> None:
    there = USERS - LARGE + sum(len(each.users) for each in EMPTY[what])
    with board(tmp_path, quorum=0.01) as peers:
        sit(peers)
        peers.say(replies("small", LARGE, USERS - LARGE), *EMPTY[what])
        close = peers.until(Close)
        assert isinstance(close, Close)
        assert (close.replies, close.missing) == (there, USERS - there)


def test_chunks_that_never_come_name_the_node(tmp_path: Path) -> None:
    with board(tmp_path, quorum=0.01) as peers:
        sit(peers)
        peers.say(replies("small", LARGE, USERS - LARGE), replies("large", 0, 100, 0, 2))
        close = peers.until(Close)
        assert isinstance(close, Close)
        assert (close.replies, close.missing, close.absent) == (110, 890, ("large",))
