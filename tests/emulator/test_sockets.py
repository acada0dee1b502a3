"""The ZeroMQ transport under the contract of all transports, and what only sockets do."""

from emulator.sockets import (
    BoardAddresses,
    ZmqBoardPort,
    connect_analyst,
    connect_node,
    connect_observer,
    open_board,
)
from emulator.transport import AnalystPort, NodePort, ObserverPort
from tests.contracts.transport_contract import PATIENCE, QUEUE, Bench, TransportContract


class ZmqBench(Bench):
    """The board binds free ports the first time, and the same ones after that."""

    def __init__(self, addresses: BoardAddresses) -> None:
        super().__init__()
        self.addresses = addresses

    def make_board(self) -> ZmqBoardPort:
        board = open_board(self.addresses, queue=QUEUE, patience=PATIENCE)
        self.addresses = board.addresses
        return board

    def make_node(self, name: str) -> NodePort:
        return connect_node(self.addresses, queue=QUEUE, patience=PATIENCE)

    def make_analyst(self) -> AnalystPort:
        return connect_analyst(self.addresses, queue=QUEUE, patience=PATIENCE)

    def make_observer(self) -> ObserverPort:
        return connect_observer(self.addresses, queue=QUEUE)


class TestZmqTransport(TransportContract):
    def make_bench(self) -> Bench:
        return ZmqBench(BoardAddresses.on())
