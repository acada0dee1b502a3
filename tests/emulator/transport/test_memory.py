"""The in-memory transport under the contract of all transports."""

import pytest

from parley.emulator.errors import LocalProtocolError
from parley.emulator.transport.memory import MemoryNode, MemoryTransport
from parley.emulator.transport.ports import ANALYST, BoardPort, NodePort, Received
from tests.contracts.transport_contract import QUEUE, Bench, TransportContract, present


class MemoryBench(Bench):
    def __init__(self) -> None:
        super().__init__()
        self.transport = MemoryTransport(queue=QUEUE)

    def make_board(self) -> BoardPort:
        self.transport.patience = self.transport.delivery_patience = self.patience
        return self.transport.board()

    def make_node(self, name: str, *, notices: bool = False) -> NodePort:
        return self.transport.node(name, notices=notices)

    def make_analyst(self) -> NodePort:
        return self.transport.analyst()

    def make_observer(self) -> NodePort:
        return MemoryNode(self.transport, "observer", self.transport.subscribe("observer", b""))


class TestMemoryTransport(TransportContract):
    def make_bench(self) -> Bench:
        return MemoryBench()


async def test_names_are_handed_over_only_where_senders_are_authenticated() -> None:
    for authenticated, names in ((False, [None, None]), (True, ["alice", ANALYST])):
        transport = MemoryTransport(authenticated=authenticated)
        board = transport.board()
        await transport.node("alice").send(b"reply")
        await transport.analyst().send(b"announce")
        assert await board.receive(0) == [Received(b"reply", names[0]), Received(b"announce", names[1])]


async def test_there_is_one_board() -> None:
    transport = MemoryTransport()
    transport.board()
    with pytest.raises(LocalProtocolError, match="already has a board"):
        transport.board()


async def test_a_closed_board_counts_nobody() -> None:
    transport = MemoryTransport()
    board = transport.board()
    transport.node("alice")
    await present(board, 1)
    board.close()
    with pytest.raises(LocalProtocolError, match="closed"):
        board.subscribers  # noqa: B018
