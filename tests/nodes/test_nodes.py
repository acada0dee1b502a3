"""The drivers around the roles: barrier, slow joiners, stalls, loss, refusal, restart; in memory and over sockets."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from parley.emulator.errors import LocalProtocolError
from parley.emulator.record.merkle import Tree
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.roles.board import Board
from parley.emulator.simulate import conversation, simulate
from parley.emulator.transport.addresses import BoardAddresses
from parley.emulator.transport.memory import MemoryTransport
from parley.emulator.transport.ports import BoardPort, NodePort, topic_for
from parley.emulator.transport.zmq.ports import connect_analyst, connect_node, open_board
from parley.emulator.wire.codec import decode, encode, open_envelope, said_by
from parley.emulator.wire.messages import Abort, Announce, Close, Event, Ready, Refusal, Reminder, Replies, Result
from tests.nodes.table import INPUTS, KEY, NONCE, USERS, Table, done, seat, spoken, until


class Places:
    """Where parties sit: in memory or at sockets."""

    def __init__(self, kind: str) -> None:
        self.memory = MemoryTransport() if kind == "memory" else None
        self._board: BoardPort = self.memory.board() if self.memory else open_board(BoardAddresses.on())
        self._open: list[BoardPort | NodePort] = [self._board]

    @property
    def board(self) -> BoardPort:
        return self._board

    def node(self, name: str) -> NodePort:
        board: Any = self._board
        port = self.memory.node(name) if self.memory else connect_node(board.addresses, own=topic_for(name))
        self._open.append(port)
        return port

    def analyst(self) -> NodePort:
        port = self.memory.analyst() if self.memory else connect_analyst(self._board.addresses)  # type: ignore[attr-defined]
        self._open.append(port)
        return port

    def close(self) -> None:
        for port in self._open:
            port.close()


@pytest.fixture(params=["memory", "sockets"])
async def places(request: pytest.FixtureRequest) -> AsyncIterator[Places]:
    found = Places(request.param)
    yield found
    found.close()


class Lossy(NodePort):
    """A node's port that loses the first publications, as a slow joiner does, or stalls before it reads on."""

    def __init__(self, port: NodePort, *, lose: int = 0, stall: float = 0.0) -> None:
        self.port = port
        self.lose = lose
        self.stall = stall

    async def receive(self, timeout: float) -> list[bytes]:
        batch = await self.port.receive(timeout)
        if batch and self.stall:
            wait, self.stall = self.stall, 0.0
            await asyncio.sleep(wait)
        lost, self.lose = batch[: self.lose], max(0, self.lose - len(batch))
        return batch[len(lost) :]

    async def send(self, frame: bytes) -> None:
        await self.port.send(frame)

    def close(self) -> None:
        self.port.close()


async def play(table: Table, places: Places, *, troubled: dict[int, Lossy] | None = None) -> None:
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(table.board(places.board).serve())
        group.create_task(seat(table.analyst(places.analyst())))
        for number in range(table.nodes):
            port = (troubled or {}).get(number) or places.node(f"node-{number}")
            group.create_task(seat(table.user(number, port)))


@pytest.mark.parametrize("signed", [True, False])
async def test_a_run_over_any_transport_is_the_run_in_memory(places: Places, tmp_path: Path, signed: bool) -> None:
    table = Table.laid(tmp_path, 3, signed=signed)
    await play(table, places)
    assert table.result().estimate == simulate(spoken(), INPUTS, KEY).estimate
    expected = {
        (message.round, int(user))
        for _, message in conversation(spoken(), INPUTS, KEY)
        if isinstance(message, Replies)
        for user in message.users
    }
    assert set(table.replies()) == expected
    assert sum(isinstance(message, Ready) for message in table.record()) == 3
    assert [done(table.state(number)) for number in range(3)] == [["seated", 1, 2, 3, "finished"]] * 3
    assert table.evidence() == []


async def test_everything_on_record_is_signed_by_who_said_it(places: Places, tmp_path: Path) -> None:
    table = Table.laid(tmp_path, 2)
    await play(table, places)
    reader = TranscriptReader(table.transcript)
    tree = Tree()
    for record in reader:
        assert said_by(table.public(record.sender), record.frame, record.message, NONCE), record.message.kind
        if isinstance(record.message, Close):
            assert (record.message.size, record.message.root) == (len(tree), tree.root())
        tree.append(record.leaf)
    assert reader.closing is not None
    assert reader.closing.root == tree.root()
    assert reader.closing.said_by(table.public("board"), NONCE)


@pytest.mark.parametrize("lose", [1, 2, 5])
async def test_a_slow_joiner_still_takes_part(places: Places, tmp_path: Path, lose: int) -> None:
    """The first publications never reach node 1; repeats do."""
    table = Table.laid(tmp_path, 3)
    await play(table, places, troubled={1: Lossy(places.node("node-1"), lose=lose)})
    assert len(table.replies()) == 3 * USERS
    assert table.result().estimate == simulate(spoken(), INPUTS, KEY).estimate


async def test_a_stalled_subscriber_still_takes_part(places: Places, tmp_path: Path) -> None:
    table = Table.laid(tmp_path, 2)
    await play(table, places, troubled={0: Lossy(places.node("node-0"), stall=1.0)})
    assert len(table.replies()) == 3 * USERS
    assert any(isinstance(message, Reminder) for message in table.record())


async def test_who_comes_after_the_roster_gets_no_seat(places: Places, tmp_path: Path) -> None:
    """Who takes which number is settled before the nonce is known; the others go on without."""
    table = Table.laid(tmp_path, 2, quorum=0.4, join_deadline=0.3)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        board = table.board(places.board)
        group.create_task(board.serve())
        group.create_task(seat(table.user(0, places.node("node-0"))))
        await until(lambda: board.role.state is Board.SEATED)
        late = asyncio.create_task(seat(table.user(1, places.node("node-1"))))
        await until(lambda: len([each for each in table.record() if isinstance(each, Event)]) > 0)
        group.create_task(seat(table.analyst(places.analyst())))
    with pytest.raises(LocalProtocolError, match=r"nobody said that this node holds the seat|silent"):
        await late
    assert {user for _, user in table.replies()} == set(range(USERS // 2))
    assert len(table.replies()) == 3 * USERS // 2
    assert not [each for each in table.record() if isinstance(each, Event) and "which has no seat" in each.detail]
    causes = [message.detail for message in table.record() if isinstance(message, Event)]
    assert "node node-1 comes after the roster was closed" in causes[0]


async def test_a_restarted_analyst_reads_the_record_and_goes_on(places: Places, tmp_path: Path) -> None:
    table = Table.laid(tmp_path, 2)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        board = table.board(places.board)
        group.create_task(board.serve())
        for number in range(2):
            group.create_task(seat(table.user(number, places.node(f"node-{number}"))))
        port = places.analyst()
        first = asyncio.create_task(table.analyst(port).serve())
        await until(lambda: board.role.round >= 2)
        first.cancel()
        port.close()
        group.create_task(seat(table.analyst(places.analyst())))
    assert table.result().estimate == simulate(spoken(), INPUTS, KEY).estimate
    assert [m.round for m in table.record() if isinstance(m, Announce)] == [1, 2, 3]


class Died(Exception):
    """A node is gone."""


class Mortal(NodePort):
    """A port whose node dies when it is about to send a reply of this round; of its chunks some may have left."""

    def __init__(self, port: NodePort, number: int, chunk: int) -> None:
        self.port, self.at = port, (number, chunk)

    async def receive(self, timeout: float) -> list[bytes]:
        return await self.port.receive(timeout)

    async def send(self, frame: bytes) -> None:
        message = decode(frame)
        if isinstance(message, Replies) and (message.round, message.chunk) == self.at:
            raise Died
        await self.port.send(frame)

    def close(self) -> None:
        self.port.close()


@pytest.mark.parametrize("chunk", [0, 2])
@pytest.mark.parametrize("number", [1, 2, 3])
async def test_a_restarted_node_gives_the_same_replies(places: Places, tmp_path: Path, number: int, chunk: int) -> None:
    table = Table.laid(tmp_path, 2)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(table.board(places.board).serve())
        group.create_task(seat(table.analyst(places.analyst())))
        group.create_task(seat(table.user(0, places.node("node-0"))))
        port = Mortal(places.node("node-1"), number, chunk)
        with pytest.raises(Died):
            await table.user(1, port).serve()
        port.close()
        group.create_task(seat(table.user(1, places.node("node-1"))))
    assert table.result().estimate == simulate(spoken(), INPUTS, KEY).estimate
    assert done(table.state(1)) == ["seated", 1, 2, 3, "finished"]
    assert table.evidence() == []


async def test_a_node_that_comes_back_after_the_end_learns_that_it_is_over(places: Places, tmp_path: Path) -> None:
    """Its last reply is on record and it did not hear the result; a result without the setup it does not believe."""
    table = Table.laid(tmp_path, 2)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        board = table.board(places.board)
        group.create_task(board.serve())
        group.create_task(seat(table.analyst(places.analyst())))
        group.create_task(seat(table.user(0, places.node("node-0"))))
        port = places.node("node-1")
        first = table.user(1, Deaf(port))
        life = asyncio.create_task(first.serve())
        await until(lambda: board.role.over)
        life.cancel()
        # The board stays while somebody listens.
        group.create_task(seat(table.user(1, places.node("node-1"))))
        await asyncio.sleep(0)
        port.close()
    assert done(table.state(1)) == ["seated", 1, 2, 3, "finished"]
    assert table.evidence() == []


class Deaf(NodePort):
    """A port that hears everything but the end of the run."""

    def __init__(self, port: NodePort) -> None:
        self.port = port

    async def receive(self, timeout: float) -> list[bytes]:
        batch = await self.port.receive(timeout)
        return [each for each in batch if not isinstance(decode(open_envelope(each)[2]), Result)]

    async def send(self, frame: bytes) -> None:
        await self.port.send(frame)

    def close(self) -> None:
        self.port.close()


async def test_a_restarted_board_shows_nodes_what_it_recorded_before(places: Places, tmp_path: Path) -> None:
    table = Table.laid(tmp_path, 2)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        board = table.board(places.board)
        first = asyncio.create_task(board.serve())
        for number in range(2):
            group.create_task(seat(table.user(number, places.node(f"node-{number}"))))
        group.create_task(seat(table.analyst(places.analyst())))
        await until(lambda: board.role.round >= 2)
        first.cancel()
        assert board.writer is not None
        board.writer.abandon()
        again = table.board(places.board)
        again.restore(time.monotonic())
        assert again.role.nonce == board.role.nonce
        group.create_task(again.serve())
    assert table.result().estimate == simulate(spoken(), INPUTS, KEY).estimate
    assert table.evidence() == []


async def test_noise_on_the_inbox_is_dropped_with_its_cause(places: Places, tmp_path: Path) -> None:
    table = Table.laid(tmp_path, 1)
    stranger = places.node("stranger")
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(table.board(places.board).serve())
        for frame in (b"noise", encode(Announce(run="table", round=1, broadcast={})), bytes(100)):
            await stranger.send(frame)
        await asyncio.sleep(0.2)
        group.create_task(seat(table.analyst(places.analyst())))
        group.create_task(seat(table.user(0, places.node("node-0"))))
    causes = [message.detail for message in table.record() if isinstance(message, Event)]
    assert len(causes) == 3
    assert table.result().replied == 3 * USERS


async def test_a_stopped_board_closes_its_record_as_aborted(places: Places, tmp_path: Path) -> None:
    table = Table.laid(tmp_path, 1)
    board = table.board(places.board)
    user = table.user(0, places.node("node-0"))
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(board.serve())
        group.create_task(seat(user))
        await until(lambda: len(board.role.seats) == 1)
        board.stop("stopped by a test")
    last = table.record()[-1]
    assert isinstance(last, Abort)
    assert last.outcome == "aborted"


async def test_users_that_refuse_end_the_run_below_the_quorum(places: Places, tmp_path: Path) -> None:
    table = Table.laid(tmp_path, 1)
    table.cap = 0.5
    user = table.user(0, places.node("node-0"))
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(table.board(places.board).serve())
        group.create_task(seat(table.analyst(places.analyst())))
        group.create_task(seat(user))
    refusals = [message.reason for message in table.record() if isinstance(message, Refusal)]
    assert "above this user's cap 0.5" in refusals[0]
    assert done(table.state(0)) == []
    assert isinstance(table.record()[-1], Abort)
    assert table.replies() == {}
