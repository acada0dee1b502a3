"""Board and analyst against lying users: real processes lie over real sockets; each lie is dropped with its cause."""

import asyncio
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from parley.emulator.audit.report import audit
from parley.emulator.record.witness import Witness
from parley.emulator.simulate import conversation
from parley.emulator.transport.addresses import BoardAddresses
from parley.emulator.transport.ports import NodePort, topic_for
from parley.emulator.transport.zmq.ports import ZmqBoardPort, connect_analyst, connect_node, open_board
from parley.emulator.transport.zmq.sockets import make_keys
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import Event, Ready, Replies
from parley.emulator.wire.security import Security, read_allowed, read_keys
from parley.launch.cluster.keyring import Keyring, make_keyring, parties
from parley.nodes.common import write_addresses
from parley.protocols.registry import build
from tests.nodes.liar import ATTACKS
from tests.nodes.table import INPUTS, KEY, RUN, USERS, Table, seat, spoken

ROOT = Path(__file__).parents[2]
HALF = USERS // 2
# What the record says about each lie, in this order.
CAUSES = {
    "other_users": ["users that are not its own"],
    "another_name": ["node-0 sent a replies in the name of node-1"],
    "twice": ["answers twice, with other bytes", "answers for users of another chunk again"],
    "other_chunks": ["in 1000000000 chunks", "replies of run another", "in the name of nobody"],
    "malformed": ["a frame of 0 bytes", *["checksum"] * 5, *[""] * 6],
    "unwelcome": [
        *(
            "in the name of analyst",
            "in the name of analyst",
            "does not sign with the key that is listed",
            "in the name of analyst",
        ),
        *("in the name of no name at all", "in the name of node-1"),
    ],
    "out_of_range": [],
    "other_columns": [],
    "one_gigabyte": [],
}


def laid(folder: Path) -> Table:
    """The liar asks for no receipts: it would find its own lies out, and leave."""
    table = Table.laid(folder, 2)
    table.careless = frozenset({0})
    table.state(0)
    return table


class Room:
    """A board with keys, and everybody's way to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ring: Keyring = make_keyring(folder / "keys", parties(["node-0", "node-1"]))
        self.security = Security(keys=read_keys(self.ring.pair("board")), allowed=read_allowed(self.ring.allowed))
        self.port: ZmqBoardPort = open_board(BoardAddresses.on(), self.security)
        write_addresses(folder / "addresses.json", self.port.addresses)
        Witness(run=RUN, key=KEY, inputs=INPUTS).save(folder / "witness")
        self.table = laid(folder)

    def node(self, name: str) -> NodePort:
        return connect_node(self.port.addresses, self.ring.security(name), own=topic_for(name))

    async def lie(self, attack: str) -> int:
        options = ["--addresses", self.folder / "addresses.json", "--state", self.folder / "state-0"]
        options += ["--witness", self.folder / "witness"]
        options += [word for pair in self.ring.arguments("node-0").items() for word in pair]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.nodes.liar", attack, *map(str, options)), cwd=ROOT
        )
        try:
            return await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    def causes(self, *kinds: str) -> list[str]:
        return [each.detail for each in self.table.record() if isinstance(each, Event) and each.event in kinds]


@contextmanager
def entered(folder: Path) -> Iterator[Room]:
    room = Room(folder)
    try:
        yield room
    finally:
        room.port.close()


def test_every_attack_is_expected() -> None:
    assert set(CAUSES) == set(ATTACKS)


@pytest.mark.parametrize("attack", sorted({*CAUSES} - {"one_gigabyte"}))
async def test_a_lie_is_dropped_with_its_cause(attack: str, tmp_path: Path) -> None:
    with entered(tmp_path) as room:
        async with asyncio.timeout(120), asyncio.TaskGroup() as group:
            group.create_task(room.table.board(room.port).serve())
            analyst = connect_analyst(room.port.addresses, room.ring.security("analyst"))
            group.create_task(seat(room.table.analyst(analyst)))
            group.create_task(seat(room.table.user(1, room.node("node-1"))))
            liar = group.create_task(room.lie(attack))
    assert liar.result() == 0
    found = room.causes("drop")
    assert len(found) == len(CAUSES[attack]), found
    for cause, expected in zip(found, CAUSES[attack], strict=True):
        assert expected in cause
    check_the_honest(room)
    assert room.table.evidence() == []
    rejected = {"out_of_range": {"node-0": HALF // 2}, "other_columns": {"node-0": HALF}}
    assert room.table.result().details.get("rejected") == rejected.get(attack)
    if attack not in rejected:
        assert audit(room.table.transcript, build).ok
        assert room.table.result().replied == 3 * USERS


def check_the_honest(room: Room) -> None:
    """Those who did not lie are on record with the replies they gave."""
    spoken_in_memory = {
        (message.round, int(user)): b"".join(message.columns[name][row].tobytes() for name in sorted(message.columns))
        for _, message in conversation(spoken(), INPUTS, KEY, run=RUN)
        if isinstance(message, Replies)
        for row, user in enumerate(message.users)
        if message.round < 3 and user >= HALF
    }
    on_record = room.table.replies()
    assert {place: on_record[place] for place in spoken_in_memory} == spoken_in_memory


async def test_a_gibibyte_is_not_even_read(tmp_path: Path) -> None:
    """Without keys, so that the length is read before anything else is known of its sender."""
    port = open_board(BoardAddresses.on())
    write_addresses(tmp_path / "addresses.json", port.addresses)
    Witness(run=RUN, key=KEY, inputs=INPUTS).save(tmp_path / "witness")
    table = laid(tmp_path)
    options = ["--addresses", tmp_path / "addresses.json", "--state", tmp_path / "state-0"]
    options += ["--witness", tmp_path / "witness"]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with asyncio.timeout(120), asyncio.TaskGroup() as group:
        group.create_task(table.board(port).serve())
        group.create_task(seat(table.analyst(connect_analyst(port.addresses))))
        group.create_task(seat(table.user(1, connect_node(port.addresses, own=topic_for("node-1")))))
        liar = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.nodes.liar", "one_gigabyte", *map(str, options)), cwd=ROOT
        )
        assert await liar.wait() == 0
    port.close()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**19, "KiB"
    assert table.result().replied == 3 * USERS
    details = [each.detail for each in table.record() if isinstance(each, Event) and each.event == "refused"]
    assert [detail for detail in details if "it sent more than a frame may have" in detail]


async def test_strangers_stay_outside(tmp_path: Path) -> None:
    """A key that is not listed, no key, another board's key: refused, counted, and on record."""
    with entered(tmp_path) as room:
        board = room.port.addresses
        server = read_keys(room.ring.pair("board")).public
        strangers = {
            "key not listed": Security(keys=make_keys(), server=server),
            "wrong board": Security(keys=read_keys(room.ring.pair("node-0")), server=make_keys().public),
            "plain": None,
        }
        ports = [connect_node(board, security, patience=0.5) for security in strangers.values()]
        async with asyncio.timeout(120), asyncio.TaskGroup() as group:
            group.create_task(room.table.board(room.port).serve())
            for port in ports:
                ready = Ready(node="node-0", first=0, users=USERS, pid=1)
                with pytest.raises(Exception, match="took no frame"):
                    await port.send(encode(ready))
            analyst = connect_analyst(board, room.ring.security("analyst"))
            group.create_task(seat(room.table.analyst(analyst)))
            for number in range(2):
                group.create_task(seat(room.table.user(number, room.node(f"node-{number}"))))
        for port in ports:
            port.close()
    assert room.table.result().replied == 3 * USERS
    refused = " ".join(room.causes("refused"))
    assert "key not listed" in refused
    assert "no keys or the wrong board's key" in refused
    assert room.causes("drop") == []
