"""A relay after the result: nodes still learn through it that their last reply is on record."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from parley.emulator.roles.relay import RelayRole
from parley.emulator.transport.addresses import BoardAddresses
from parley.emulator.transport.ports import BROADCAST, PERSONAL, NodePort, topic_for
from parley.emulator.transport.zmq.ports import ZmqBoardPort, connect_node, open_board
from parley.emulator.wire.codec import decode, encode, envelope, open_envelope
from parley.emulator.wire.messages import Inquiry, Message, Ready, Receipt, Result
from parley.nodes import relay
from parley.nodes.bulk import apart
from parley.nodes.relay import RelayNode

RUN = "relayed"
NODES = ("node-0", "node-1")
RESULT = Result(run=RUN, estimate=0.0, predicted_rmse=1.0, low=-1.0, high=1.0, replied=2)
PATIENCE = 30.0


@dataclass
class Scene:
    """A board that the test plays, a relay, and two nodes that the test plays."""

    board: ZmqBoardPort
    inner: ZmqBoardPort
    outer: NodePort
    nodes: dict[str, NodePort]

    def relay(self) -> RelayNode:
        return RelayNode(RelayRole("relay-0"), self.inner, self.outer)

    async def at_board(self, kind: type[Message]) -> list[Message]:
        """Wait until words of this kind have come to the board; all that came with them."""
        found: list[Message] = []
        async with asyncio.timeout(PATIENCE):
            while not any(isinstance(each, kind) for each in found):
                for received in await self.board.receive(timeout=0.1):
                    found += [decode(each.frame) for each in apart(received)]
        return [each for each in found if isinstance(each, kind)]

    async def at_node(self, name: str, kind: type[Message]) -> Message:
        async with asyncio.timeout(PATIENCE):
            while True:
                for sealed in await self.nodes[name].receive(timeout=0.1):
                    message = decode(open_envelope(sealed)[2])
                    if isinstance(message, kind):
                        return message

    def show(self, name: str) -> None:
        receipt = Receipt(
            run=RUN,
            round=1,
            node=name,
            close=b"",
            chunks=(),
            sequences=(),
            times=(),
            paths=(),
            before=0,
            consistency=b"",
        )
        self.board.publish(topic_for(name), envelope(0, "board", encode(receipt)))

    async def end(self) -> None:
        """The board says the result, and both nodes hear it."""
        self.board.publish(BROADCAST, envelope(9, "board", encode(RESULT)))
        for name in NODES:
            await self.at_node(name, Result)


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    board, inner = open_board(BoardAddresses.on()), open_board(BoardAddresses.on())
    outer = connect_node(board.addresses, own=PERSONAL)
    nodes: dict[str, NodePort] = {name: connect_node(inner.addresses, own=topic_for(name)) for name in NODES}
    try:
        async with asyncio.timeout(PATIENCE):
            while board.subscribers < 1 or inner.subscribers < len(NODES):
                await asyncio.sleep(0.01)
        yield Scene(board, inner, outer, nodes)
    finally:
        for port in (*nodes.values(), outer, inner, board):
            port.close()


async def ask(table: Scene, name: str) -> None:
    """A node's question goes up, and the answer comes down to this node alone."""
    await table.nodes[name].send(encode(Inquiry(run=RUN, round=1, node=name)))
    assert [each.node for each in await table.at_board(Inquiry) if isinstance(each, Inquiry)] == [name]
    table.show(name)
    receipt = await table.at_node(name, Receipt)
    assert isinstance(receipt, Receipt)
    assert receipt.node == name


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The farewell is not what is tested, and a slow machine must not end it."""
    monkeypatch.setattr(relay, "FAREWELL_SECONDS", PATIENCE)


async def test_a_relay_that_has_heard_the_result_passes_questions_and_receipts_on() -> None:
    async with scene() as table:
        serving = asyncio.create_task(table.relay().serve())
        for number, name in enumerate(NODES):
            await table.nodes[name].send(encode(Ready(node=name, first=number, users=1, pid=1)))
            await table.at_board(Ready)
        await table.end()
        for name in NODES:
            await ask(table, name)
            await ask(table, name)
        for port in table.nodes.values():
            port.close()
        async with asyncio.timeout(PATIENCE / 2):
            await serving


async def test_a_relay_that_comes_back_knows_none_of_its_nodes_and_serves_them_all() -> None:
    """It learns who they are from what they say; the result comes to it from the board once more."""
    async with scene() as table:
        first = asyncio.create_task(table.relay().serve())
        await table.nodes["node-0"].send(encode(Ready(node="node-0", first=0, users=1, pid=1)))
        await table.at_board(Ready)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        second = asyncio.create_task(table.relay().serve())
        await ask(table, "node-1")
        await table.end()
        for name in NODES:
            await ask(table, name)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
