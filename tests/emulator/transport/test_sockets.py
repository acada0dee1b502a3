"""The ZeroMQ transport under the contract of all transports (with and without keys), and what only sockets do."""

import asyncio
import resource
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import zmq

from parley.emulator.errors import BadInput
from parley.emulator.transport.addresses import BoardAddresses
from parley.emulator.transport.ports import (
    ANALYST,
    BROADCAST,
    NodePort,
    Received,
    SendTimeout,
)
from parley.emulator.transport.zmq.ports import ZmqBoardPort, ZmqNodePort, connect_analyst, connect_node, open_board
from parley.emulator.transport.zmq.sockets import Sockets, make_keys
from parley.emulator.wire.codec import LARGEST_FRAME
from parley.emulator.wire.security import KeyPair, Security
from tests.contracts.transport_contract import (
    LONG,
    QUEUE,
    Bench,
    TransportContract,
    collect,
    delivered,
    present,
)

BOARD_KEYS = make_keys()
LISTED = {"node": make_keys(), ANALYST: make_keys(), "observer": make_keys(), "alice": make_keys()}
BOARD = Security(keys=BOARD_KEYS, allowed={pair.public: name for name, pair in LISTED.items()})


def peer(keys: KeyPair, server: str = BOARD_KEYS.public) -> Security:
    return Security(keys=keys, server=server)


def connect_observer(addresses: BoardAddresses, security: Security | None = None) -> NodePort:
    """The port of one who hears all that is published from now on."""
    sockets = Sockets(QUEUE, security)
    feed = sockets.subscribe(addresses.feed, b"")
    return ZmqNodePort(sockets, feed, feed, patience=1.0)


class ZmqBench(Bench):
    """The board binds free ports the first time, and the same ones after that."""

    def __init__(self, addresses: BoardAddresses) -> None:
        super().__init__()
        self.addresses = addresses

    def make_board(self) -> ZmqBoardPort:
        board = open_board(self.addresses, queue=QUEUE, patience=self.patience)
        self.addresses = board.addresses
        return board

    def make_node(self, name: str, *, notices: bool = False) -> NodePort:
        return connect_node(self.addresses, queue=QUEUE, patience=self.patience, notices=notices)

    def make_analyst(self) -> NodePort:
        return connect_analyst(self.addresses, queue=QUEUE, patience=self.patience)

    def make_observer(self) -> NodePort:
        return connect_observer(self.addresses)


class SecureBench(ZmqBench):
    """The same with keys; one key serves all the nodes of a test."""

    def make_board(self) -> ZmqBoardPort:
        board = open_board(self.addresses, BOARD, queue=QUEUE, patience=self.patience)
        self.addresses = board.addresses
        return board

    def make_node(self, name: str, *, notices: bool = False) -> NodePort:
        board, own = self.addresses, peer(LISTED["node"])
        return connect_node(board, own, queue=QUEUE, patience=self.patience, notices=notices)

    def make_analyst(self) -> NodePort:
        return connect_analyst(self.addresses, peer(LISTED[ANALYST]), queue=QUEUE, patience=self.patience)

    def make_observer(self) -> NodePort:
        return connect_observer(self.addresses, peer(LISTED["observer"]))


class TestZmqTransport(TransportContract):
    def make_bench(self) -> Bench:
        return ZmqBench(BoardAddresses.on())


class TestSecureZmqTransport(TransportContract):
    def make_bench(self) -> Bench:
        return SecureBench(BoardAddresses.on())


@pytest.fixture
async def open_bench() -> AsyncIterator[ZmqBench]:
    bench = ZmqBench(BoardAddresses.on())
    yield bench
    bench.close()


@pytest.fixture
async def secure() -> AsyncIterator[SecureBench]:
    bench = SecureBench(BoardAddresses.on())
    yield bench
    bench.close()


async def test_real_ports_are_told(open_bench: ZmqBench) -> None:
    board = open_bench.board()
    ports = {address.rsplit(":", 1)[1] for address in vars(board.addresses).values()}
    assert len(ports) == 3
    assert "0" not in ports


async def test_a_port_in_use_is_named_and_nothing_stays_bound(open_bench: ZmqBench) -> None:
    taken = open_bench.keep(open_bench.make_board())
    delivery = taken.addresses.delivery
    port = delivery.rsplit(":", 1)[1]
    with pytest.raises(BadInput, match=f"port {port} on 127.0.0.1 is in use; choose another"):
        open_board(BoardAddresses(inbox="tcp://127.0.0.1:0", feed="tcp://127.0.0.1:0", delivery=delivery))
    with pytest.raises(BadInput, match="in use"):
        open_board(taken.addresses)
    taken.close()
    open_board(taken.addresses).close()


async def test_ipc_works_and_a_living_path_is_not_taken_over(tmp_path: Path) -> None:
    addresses = BoardAddresses(**{each: f"ipc://{tmp_path}/{each}" for each in ("inbox", "feed", "delivery")})
    board, node = open_board(addresses), connect_node(addresses)
    await node.send(b"frame")
    assert await board.receive(LONG) == [Received(b"frame", None)]
    with pytest.raises(BadInput, match="in use; choose another path"):
        open_board(addresses)
    node.close()
    board.close()
    open_board(addresses).close()


@pytest.mark.parametrize("host", ["0.0.0.0", "*", "192.0.2.1", "eth0", "example.org", "[::]"])
async def test_other_machines_are_kept_out_without_keys(host: str) -> None:
    with pytest.raises(BadInput, match="other machines, where without keys anyone could listen"):
        open_board(BoardAddresses.on(host))
    with pytest.raises(BadInput, match="give keys" if host != "*" else "real host"):
        connect_node(BoardAddresses.on(host, 5555))


async def test_keys_open_the_board_to_other_machines() -> None:
    board = open_board(BoardAddresses.on("0.0.0.0"), BOARD)
    port = board.addresses.inbox.rsplit(":", 1)[1]
    reachable = BoardAddresses(**dict.fromkeys(("inbox", "feed", "delivery"), f"tcp://127.0.0.1:{port}"))
    node = connect_node(reachable, peer(LISTED["alice"]), patience=LONG)
    await node.send(b"from afar")
    assert await board.receive(LONG) == [Received(b"from afar", "alice")]
    node.close()
    board.close()


@pytest.mark.parametrize("host", ["localhost", "[::1]", "127.0.0.2"])
async def test_every_spelling_of_this_machine_works(host: str) -> None:
    if host == "[::1]" and not _has_ipv6():
        pytest.skip("this machine has no IPv6 loopback")
    board = open_board(BoardAddresses.on(host))
    node = connect_node(board.addresses)
    await node.send(b"frame")
    assert len(await board.receive(LONG)) == 1
    node.close()
    board.close()


@pytest.mark.parametrize(
    "address", ["127.0.0.1:5555", "tcp://127.0.0.1", "tcp://127.0.0.1:70000", "ipc://", "udp://x:1"]
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(BadInput):
        BoardAddresses(inbox=address, feed="tcp://127.0.0.1:0", delivery="tcp://127.0.0.1:0")


async def test_an_address_of_another_machine_cannot_be_bound() -> None:
    with pytest.raises(BadInput, match=r"cannot listen at tcp://192\.0\.2\.1:0"):
        open_board(BoardAddresses.on("192.0.2.1"), BOARD)


async def test_a_frame_beyond_the_limit_cuts_only_its_sender_off(open_bench: ZmqBench) -> None:
    board, good = open_bench.board(), open_bench.node("good")
    context = zmq.Context()
    hostile = context.socket(zmq.PUSH)
    hostile.connect(open_bench.addresses.inbox)
    hostile.send(b"before")
    assert await board.receive(LONG) == [Received(b"before", None)]
    hostile.send(bytes(LARGEST_FRAME + 65))
    await good.send(b"good")
    assert await board.receive(LONG) == [Received(b"good", None)]
    assert await board.receive(0.3) == []
    hostile.close(0)
    context.term()


async def test_the_largest_frame_passes_with_all_that_keys_add_to_it(secure: SecureBench) -> None:
    board, node = secure.board(), secure.node()
    await present(board, 1)
    frame = bytes(LARGEST_FRAME)
    await node.send(frame)
    assert [len(each.frame) for each in await board.receive(LONG)] == [LARGEST_FRAME]
    board.publish(BROADCAST, frame)
    assert [len(each) for each in await node.receive(LONG)] == [LARGEST_FRAME]


async def test_a_port_must_be_known_to_connect() -> None:
    with pytest.raises(BadInput, match="give the board's real host and port"):
        connect_node(BoardAddresses.on())


async def test_garbage_on_the_wire_disturbs_nobody(secure: SecureBench) -> None:
    board, node = secure.keep(secure.make_board()), secure.node()
    host, port = secure.addresses.inbox.removeprefix("tcp://").split(":")
    for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" + bytes(100), bytes(1000)):
        with socket.create_connection((host, int(port))) as stranger:
            stranger.sendall(garbage)
    await node.send(b"frame")
    assert await board.receive(LONG) == [Received(b"frame", "node")]
    assert await board.receive(0.1) == []


async def test_want_of_open_files_is_counted(open_bench: ZmqBench) -> None:
    board = open_bench.keep(open_bench.make_board())
    host, port = board.addresses.inbox.removeprefix("tcp://").split(":")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as caller:
        resource.setrlimit(resource.RLIMIT_NOFILE, (caller.fileno() + 1, hard))
        try:
            caller.connect((host, int(port)))
            await _refusals(board, 1)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert board.refused["no more open files"] >= 1


async def test_the_board_knows_who_speaks(secure: SecureBench) -> None:
    board, analyst = secure.board(), secure.analyst()
    alice = connect_node(secure.addresses, peer(LISTED["alice"]))
    await alice.send(b"reply")
    assert await board.receive(LONG) == [Received(b"reply", "alice")]
    await analyst.send(b"announce")
    assert await board.receive(LONG) == [Received(b"announce", ANALYST)]
    alice.close()


@pytest.mark.parametrize(
    ("security", "cause"),
    [
        pytest.param(peer(make_keys()), "key not listed", id="a key that is not listed"),
        pytest.param(
            peer(LISTED["alice"], server=make_keys().public),
            "no keys or the wrong board's key",
            id="another board's key",
        ),
        pytest.param(None, "no keys or the wrong board's key", id="no key"),
    ],
)
async def test_strangers_are_refused_on_every_channel(
    secure: SecureBench, security: Security | None, cause: str
) -> None:
    board, known = secure.keep(secure.make_board()), secure.node()
    stranger = connect_node(secure.addresses, security, patience=0.4)
    reader = connect_analyst(secure.addresses, security, patience=0.4)
    observer = connect_observer(secure.addresses, security)
    await present(board, 1)
    with pytest.raises(SendTimeout, match="check that it runs"):
        await stranger.send(b"let me in")
    assert await board.receive(0.05) == []
    board.publish(BROADCAST, b"for members")
    assert not await _delivered_soon(board)
    assert await known.receive(LONG) == [b"for members"]
    assert [await each.receive(0.05) for each in (stranger, reader, observer)] == [[], [], []]
    assert board.subscribers == 1
    await _refusals(board, 2)
    # On a busy machine a stranger may be gone before it is known what was wrong with it.
    await _refusals(board, 1, among=cause)
    for port in (stranger, reader, observer, board):
        port.close()


async def test_a_plain_board_is_refused_by_a_peer_with_keys(open_bench: ZmqBench) -> None:
    board = open_bench.board()
    node = connect_node(open_bench.addresses, peer(LISTED["alice"]), patience=0.4)
    with pytest.raises(SendTimeout, match="lists our key"):
        await node.send(b"secret")
    assert await board.receive(0.05) == []
    node.close()


async def test_only_the_analyst_is_served_at_the_delivery(secure: SecureBench) -> None:
    board = secure.keep(secure.make_board())
    thief = connect_analyst(secure.addresses, peer(LISTED["alice"]))
    await _refusals(board, 1, among="not the analyst")
    analyst = secure.analyst()
    frames = [bytes([number]) for number in range(20)]
    for frame in frames:
        assert await delivered(board, frame)
    assert await collect(analyst, 20) == frames
    assert await thief.receive(0.05) == []
    thief.close()
    board.close()


async def test_keys_must_fit_together() -> None:
    mixed = KeyPair(public=make_keys().public, secret=make_keys().secret)
    with pytest.raises(BadInput, match="does not belong to its secret key"):
        connect_node(BoardAddresses.on(first_port=5555), peer(mixed))
    with pytest.raises(BadInput, match="without the board's public key"):
        connect_node(BoardAddresses.on(first_port=5555), Security(keys=make_keys()))
    with pytest.raises(BadInput, match="no list of keys it admits"):
        open_board(BoardAddresses.on(), Security(keys=make_keys()))


async def _refusals(board: ZmqBoardPort, count: int, among: str | None = None) -> None:
    """Wait until so many connections were turned away."""
    async with asyncio.timeout(LONG):
        while (board.refused.get(among, 0) if among else sum(board.refused.values())) < count:
            await asyncio.sleep(0.005)


async def _delivered_soon(board: ZmqBoardPort) -> bool:
    """Offered for as long as a stranger might need to slip in."""
    return any([await board.deliver(b"for the analyst") for _ in range(5)])


def _has_ipv6() -> bool:
    with socket.socket(socket.AF_INET6) as probe:
        return probe.connect_ex(("::1", 9)) != 99


async def test_many_peers_get_more_time() -> None:
    """Heartbeats come more rarely, and none carries a time that libzmq would cut to 16 bits."""
    usual, many = open_board(BoardAddresses.on()), open_board(BoardAddresses.on(), pace=10.0)
    node = connect_node(many.addresses, pace=10.0, patience=0.01)
    try:
        feeds = [each._feed.socket for each in (usual, many)] + [node._source.socket]
        for option in (zmq.HEARTBEAT_IVL, zmq.HEARTBEAT_TIMEOUT, zmq.HANDSHAKE_IVL):
            first, *others = (feed.getsockopt(option) for feed in feeds)
            assert others == [10 * first] * 2
        assert {feed.getsockopt(zmq.HEARTBEAT_TTL) for feed in feeds} == {0}
    finally:
        for port in (node, usual, many):
            port.close()
