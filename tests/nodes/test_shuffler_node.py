"""The shuffler's driver between board and nodes in memory: what it logs, lets in, and does when its disk is full."""

import asyncio
import errno
import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.emulator.coins import question_of, terms_of
from parley.emulator.errors import LocalProtocolError
from parley.emulator.roles.board import Terms
from parley.emulator.roles.shuffler import Shuffler, ShufflerRole
from parley.emulator.transport.memory import MemoryTransport
from parley.emulator.transport.ports import BROADCAST, BoardPort, NodePort
from parley.emulator.wire.codec import decode, encode, envelope, open_envelope
from parley.emulator.wire.messages import (
    Announce,
    Event,
    Inquiry,
    Message,
    Ready,
    Refusal,
    Reminder,
    Replies,
    Seating,
    Setup,
)
from parley.emulator.wire.signatures import derived
from parley.nodes.shuffler import ShufflerNode
from parley.nodes.state.batches import Batches
from parley.nodes.state.disk import Disk

RUN = "driven"
NAMES = ("anna-7", "bert-8")
SETUP = Setup(
    run=RUN,
    protocol="any",
    parameters={"shuffle": {"crowd": 4, "axes": {}}},
    epsilon=1.0,
    delta=1e-6,
    rounds=1,
    nonce=bytes(16),
)
ANNOUNCE = Announce(run=RUN, round=1, broadcast={}, speakers=6)
QUESTION = question_of(terms_of(SETUP), ANNOUNCE)
ANALYST = derived(bytes(32), "analyst")


def ready(node: str, first: int, **changes: Any) -> Ready:
    return Ready(**{"node": node, "first": first, "users": 3, "pid": 4711, **changes})


def replies(node: str, first: int, users: int = 3, **changes: Any) -> Replies:
    numbers = np.arange(first, first + users)
    fields = {"run": RUN, "round": 1, "node": node, "chunk": 0, "chunks": 1, "users": numbers, "question": QUESTION}
    return Replies(**{**fields, "columns": {"value": numbers}, **changes})


class Scene:
    """The shuffler between a board and two nodes that the test plays."""

    def __init__(self, folder: Path, *, authenticated: bool = False, disk: Disk | None = None) -> None:
        self.inside, self.outside = MemoryTransport(authenticated=authenticated), MemoryTransport()
        self.board: BoardPort = self.outside.board()
        self.batches = Batches(folder, RUN, disk=disk or Disk())
        terms = Terms(run=RUN, users=6, nodes=2, patience=0.05)
        role = ShufflerRole(terms, signer=derived(bytes(32), "shuffler"), memory=self.batches.memory)
        self.node = ShufflerNode(role, self.inside.board(), self.outside.node("shuffler", notices=True), self.batches)
        self.nodes: dict[str, NodePort] = {name: self.inside.node(name) for name in NAMES}
        self.serving = asyncio.create_task(self.node.serve())

    async def open(self) -> None:
        """Everybody is there, and the round is open."""
        for number, name in enumerate(NAMES):
            await self.nodes[name].send(encode(ready(name, 3 * number)))
        await self.until(lambda: self.node.role.state is Shuffler.SEATED)
        self.ask()
        await self.until(lambda: self.node.role.state is Shuffler.OPEN)

    def ask(self) -> None:
        for sequence, message in enumerate((SETUP, ANNOUNCE)):
            self.board.publish(BROADCAST, envelope(sequence, "analyst", encode(message, ANALYST, bytes(16))))

    async def until(self, done: Any) -> None:
        async with asyncio.timeout(20):
            while not done() and not self.serving.done():
                await asyncio.sleep(0.01)

    async def posted(self) -> list[Message]:
        return [decode(frame) for frame in await self.frames(0.2)]

    async def frames(self, timeout: float) -> list[bytes]:
        return [received.frame for received in await self.board.receive(timeout=timeout)]

    async def close(self) -> None:
        self.serving.cancel()
        await asyncio.gather(self.serving, return_exceptions=True)
        self.batches.close()


HOSTILE: list[bytes] = [
    b"anna-7 says nothing",
    encode(ready("bert-8", 3))[:-3],
    encode(ready("bert-8", 3, users=2)),
    encode(ready("carl-9", 2)),
    encode(ready("carl-9", 5)),
    encode(ready("carl-9", 0, run="another")),
    encode(replies("carl-9", 0)),
    encode(replies("bert-8", 0)),
    encode(replies("bert-8", 3, chunks=99)),
    encode(replies("bert-8", 3, question=bytes(32))),
    encode(replies("bert-8", 3, run="another")),
    encode(Refusal(run=RUN, round=1, node="carl-9", reason="user 5 of carl-9 has value 17")),
    encode(Inquiry(run=RUN, round=1, node="bert-8")),
    encode(Setup(**{**vars(SETUP), "epsilon": 2.0})),
]


async def test_the_log_names_nobody_whatever_is_sent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Neither names nor places nor values nor sizes of what a node has sent are in it, nor in what goes on record."""
    caplog.set_level(logging.DEBUG)
    scene = Scene(tmp_path)
    try:
        await scene.open()
        event = Event(event="loss", node="bert-8", round=1, detail="replies of bert-8")
        for frame in (*HOSTILE, encode(event)):
            await scene.nodes["bert-8"].send(frame)
        refusal = Refusal(run=RUN, round=1, node="bert-8", reason="node bert-8: user 5 has value 17")
        await scene.nodes["bert-8"].send(encode(refusal))
        await scene.nodes["anna-7"].send(encode(replies("anna-7", 0)))
        await scene.until(lambda: scene.node.role.state is Shuffler.POSTED)
        said = await scene.posted()
    finally:
        await scene.close()
    lines = [record.getMessage() for record in caplog.records if record.name == "shuffler"]
    assert sum(line.startswith("dropped a frame") for line in lines) == len(HOSTILE)
    assert not [line for line in lines if any(word in line for word in ("anna", "bert", "carl", "17", "99", "4711"))]
    (refused,) = [each for each in said if isinstance(each, Refusal)]
    assert (refused.node, refused.reason) == ("shuffler", "3 replies are fewer than the crowd of 6; nodes refused")


async def test_with_keys_a_node_speaks_for_itself_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(tmp_path, authenticated=True)
    try:
        await scene.open()
        await scene.nodes["bert-8"].send(encode(replies("anna-7", 0)))
        await scene.nodes["bert-8"].send(encode(replies("bert-8", 3)))
        await scene.until(lambda: bool(scene.node.role.seats["bert-8"].held))
        assert not scene.node.role.seats["anna-7"].held
    finally:
        await scene.close()
    assert "dropped a frame: shuffler: a node spoke in the name of another" in caplog.messages


async def test_nodes_get_the_analysts_own_frames_after_the_pledge(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    try:
        await scene.open()
        heard = [open_envelope(sealed)[2] for sealed in await scene.nodes["anna-7"].receive(timeout=1.0)]
    finally:
        await scene.close()
    heard = [frame for frame in heard if not isinstance(decode(frame), Seating)]
    assert decode(heard[0]).kind == "pledge"
    assert heard[1:3] == [encode(each, ANALYST, bytes(16)) for each in (SETUP, ANNOUNCE)]


async def test_one_that_comes_back_finds_the_round_and_posts_its_batch_without_a_node(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    try:
        await scene.open()
        for number, name in enumerate(NAMES):
            await scene.nodes[name].send(encode(replies(name, 3 * number)))
        await scene.until(lambda: scene.node.role.state is Shuffler.POSTED)
        before = [each for each in await scene.frames(1.0) if isinstance(decode(each), Replies)]
    finally:
        await scene.close()
    again = Scene(tmp_path)
    try:
        assert [decode(each).kind for each in await again.frames(20.0)] == ["ready"], "it asks the board by itself"
        again.ask()
        after = await again.frames(20.0)
    finally:
        await again.close()
    assert len(before) == 1
    assert after == before


class FullDisk(Disk):
    """Has no room for a batch."""

    def write(self, descriptor: int, content: bytes, offset: int) -> int:
        if len(content) > 150:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(descriptor, content, offset)


async def test_with_a_full_disk_no_frame_leaves(tmp_path: Path) -> None:
    scene = Scene(tmp_path, disk=FullDisk())
    try:
        await scene.open()
        for number, name in enumerate(NAMES):
            await scene.nodes[name].send(encode(replies(name, 3 * number)))
        with pytest.raises(LocalProtocolError, match="No space left on device; nothing was sent"):
            await asyncio.wait_for(scene.serving, 20)
        # The board asks at this very moment.
        reminder = Reminder(run=RUN, round=1, missing={"shuffler": ()})
        with pytest.raises(LocalProtocolError, match="says nothing more"):
            await scene.node.put(scene.node.role.hear(reminder, 0.0))
        assert not [each for each in await scene.posted() if isinstance(each, Replies)]
    finally:
        await scene.close()
