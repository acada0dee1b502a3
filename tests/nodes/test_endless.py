"""Peers that send without end, at a real board and at real ports: hung up on before they fill anybody's memory."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.transport.addresses import BoardAddresses
from parley.emulator.transport.ports import NodePort
from parley.emulator.transport.zmq.channel import MANY_PARTS, NO_END, ONLY_LISTENS
from parley.emulator.transport.zmq.ports import connect_analyst, connect_node, open_board
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import Event, Message, Ready
from parley.emulator.wire.security import read_keys
from parley.launch.cluster.keyring import Keyring, make_keyring, parties
from tests.launch.processes.test_forkserver import until
from tests.nodes.endless import MEBIBYTE, MORE, frame, greet

ROOT = Path(__file__).parents[2]
MOST_MEMORY = 700 * 2**10  # KiB
# How many mebibytes are tried: more than the line carries before somebody looks.
AT_THE_BOARD = {
    "parts": ("inbox", 2048, NO_END),
    "small-parts": ("inbox", 60, NO_END),
    "topics": ("feed", 1024, ONLY_LISTENS),
    "topic": ("feed", 64, "more than a frame may have"),
    "subscriber-parts": ("feed", 1024, ONLY_LISTENS),
    "at-the-delivery": ("delivery", 1024, ONLY_LISTENS),
    "whole-at-the-delivery": ("delivery", 1024, ONLY_LISTENS),
}


class BoardProcess:
    """`python -m parley.nodes.board` for two nodes of two users each."""

    def __init__(self, folder: Path, ring: Keyring | None = None) -> None:
        self.transcript, addresses = folder / "transcript.parley", folder / "addresses.json"
        options = ["--run", "r", "--users", "4", "--nodes", "2", "--transcript", str(self.transcript)]
        keys = [] if ring is None else [str(word) for pair in ring.arguments("board").items() for word in pair]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "parley.nodes.board", *options, "--addresses", str(addresses), *keys], cwd=ROOT
        )
        until(addresses.exists)
        self.addresses = BoardAddresses(**json.loads(addresses.read_text()))

    @property
    def peak(self) -> int:
        """The most memory it ever had, in KiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0])

    @property
    def record(self) -> list[Message]:
        return [record.message for record in TranscriptReader(self.transcript)]

    def causes(self) -> str:
        return " ".join(each.detail for each in self.record if isinstance(each, Event) and each.event == "refused")

    def attack(self, how: str, channel: str, size: int, *keys: object) -> str:
        """What the attacker said when it was through, or was hung up on."""
        command = [sys.executable, "-m", "tests.nodes.endless", how, getattr(self.addresses, channel), str(size)]
        done = subprocess.run([*command, *map(str, keys)], cwd=ROOT, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.fixture
def board(tmp_path: Path) -> Iterator[BoardProcess]:
    found = BoardProcess(tmp_path)
    yield found
    found.process.kill()
    found.process.wait()


@pytest.mark.parametrize("how", AT_THE_BOARD)
async def test_a_board_hangs_up_on_who_sends_without_end(how: str, board: BoardProcess) -> None:
    channel, size, cause = AT_THE_BOARD[how]
    honest = connect_node(board.addresses)
    await honest.send(encode(Ready(node="node-0", first=0, users=2, pid=1)))
    assert await asyncio.to_thread(board.attack, how, channel, size) == "hung up on"
    await honest.send(encode(Ready(node="node-1", first=2, users=2, pid=1)))
    await asyncio.to_thread(until, lambda: sum(isinstance(each, Ready) for each in board.record) == 2)
    await asyncio.to_thread(until, lambda: cause in board.causes())
    assert board.peak < MOST_MEMORY
    assert board.process.poll() is None
    honest.close()


def test_every_flood_of_subscriptions_is_cut(board: BoardProcess) -> None:
    """libzmq is faster or slower than the sender by chance, and only if it is slower its call does not return."""
    said = [board.attack("topics", "feed", 256) for _ in range(10)]
    assert said == ["hung up on"] * 10
    until(lambda: f"{ONLY_LISTENS}: 10 connections" in board.causes())
    assert board.peak < MOST_MEMORY


def test_keys_do_not_open_the_door_to_a_message_without_end(tmp_path: Path) -> None:
    ring = make_keyring(tmp_path / "keys", parties(["node-0", "node-1"]))
    board = BoardProcess(tmp_path, ring)
    try:
        server = read_keys(ring.pair("board")).public
        board.attack("parts", "inbox", 1024, ring.pair("node-0"), server)
        until(lambda: NO_END in board.causes() or board.peak >= MOST_MEMORY)
        assert board.peak < MOST_MEMORY
    finally:
        board.process.kill()
        board.process.wait()


class HostileBoard(threading.Thread):
    """Greets whoever connects, then sends parts of a message that has no end."""

    def __init__(self, kind: bytes) -> None:
        super().__init__(daemon=True)
        self.kind = kind
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self.listener.getsockname()[1]}"
        self.sent = 0
        self.hung_up = False

    def run(self) -> None:
        peer, _ = self.listener.accept()
        # Who sends to the inbox is cut by libzmq itself if anything large comes back.
        parts = 2**16 if self.kind == b"PULL" else 1
        part = frame(bytes(8 * MEBIBYTE // parts), MORE) * parts
        try:
            greet(peer, self.kind)
            while self.sent < 1024 * MEBIBYTE:
                peer.sendall(part)
                self.sent += len(part)
        except ConnectionError:
            self.hung_up = True
        peer.close()
        self.listener.close()


def as_user(blocking: bool) -> Callable[[BoardAddresses], NodePort]:
    return lambda addresses: connect_node(addresses, blocking=blocking)


@pytest.mark.parametrize(
    ("kind", "connect"),
    [
        pytest.param(b"PUB", as_user(blocking=True), id="user node"),
        pytest.param(b"PUB", as_user(blocking=False), id="user node under conditions"),
        pytest.param(b"PUSH", connect_analyst, id="analyst"),
        pytest.param(b"PULL", as_user(blocking=True), id="user node at the inbox"),
        pytest.param(b"PULL", as_user(blocking=False), id="user node under conditions at the inbox"),
        pytest.param(b"PULL", connect_analyst, id="analyst at the inbox"),
    ],
)
async def test_a_hostile_board_cannot_fill_its_peers(
    kind: bytes, connect: Callable[[BoardAddresses], NodePort]
) -> None:
    hostile = HostileBoard(kind)
    elsewhere, there = "tcp://127.0.0.1:9", hostile.address
    inbox, heard = (there, elsewhere) if kind == b"PULL" else (elsewhere, there)
    port = connect(BoardAddresses(inbox=inbox, feed=heard, delivery=heard))
    hostile.start()
    end = time.monotonic() + 30
    while hostile.is_alive() and time.monotonic() < end:
        # Long enough for all of it to come while nobody but the port itself looks.
        assert await port.receive(3.0) == []
    port.close()
    assert hostile.hung_up
    assert hostile.sent < 512 * MEBIBYTE


@pytest.mark.parametrize("pause", [0.0, 0.3])
async def test_a_sender_whose_messages_end_is_never_hung_up_on(pause: float) -> None:
    """More than a gibibyte in large frames, to a reader that keeps up and to one that does not."""
    board = open_board(BoardAddresses.on())
    node = connect_node(board.addresses, queue=1)
    frames, size = 80, 16 * MEBIBYTE
    block = os.urandom(size)

    async def send() -> None:
        for _ in range(frames):
            await node.send(block)

    got = 0
    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        group.create_task(send())
        while got < frames:
            batch = await board.receive(1.0)
            got += sum(each.frame == block for each in batch)
            if batch and got < 5:
                await asyncio.sleep(pause)
    assert dict(board.refused) == {}
    node.close()
    board.close()


async def test_a_message_of_several_parts_is_refused_whole() -> None:
    board = open_board(BoardAddresses.on())
    host, port = board.addresses.inbox.removeprefix("tcp://").split(":")
    with socket.create_connection((host, int(port))) as peer:
        await asyncio.to_thread(greet, peer, b"PUSH")
        peer.sendall(frame(b"one", MORE) + frame(b"two", MORE) + frame(b"three", 0) + frame(b"alone", 0))
        assert [each.frame for each in await board.receive(10.0) or await board.receive(10.0)] == [b"alone"]
        peer.sendall(frame(b"x", MORE) * 2500 + frame(b"", 0) + frame(b"again", 0))
        batches = [await board.receive(1.0) for _ in range(6)]
    assert [each.frame for batch in batches for each in batch] == [b"again"]
    assert board.refused[MANY_PARTS] == 2
    board.close()
