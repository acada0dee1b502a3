"""No user randomises twice for one round: a node is killed between draw, state, send and acknowledgement."""

import asyncio
import json
import signal
import sys
from pathlib import Path

import pytest

from parley.emulator.record.witness import Witness
from parley.emulator.simulate import conversation
from parley.emulator.transport.addresses import BoardAddresses
from parley.emulator.transport.ports import topic_for
from parley.emulator.transport.zmq.ports import ZmqBoardPort, connect_analyst, connect_node, open_board
from parley.emulator.wire.messages import Abort, Event, Message, Replies
from parley.nodes.common import BAD_INPUT
from tests.nodes.fragile import POINTS
from tests.nodes.table import INPUTS, KEY, RUN, USERS, Table, done, seat, spoken

ROOT = Path(__file__).parents[2]


async def live(folder: Path, point: str) -> int:
    """One life of the fragile node, which hosts the first half of the users; how it ended."""
    options = ["--addresses", folder / "addresses.json", "--state", folder / "state-0"]
    options += ["--witness", folder / "witness"]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.nodes.fragile", point, str(folder / "mark"), *map(str, options)), cwd=ROOT
    )
    try:
        return await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def lives(folder: Path, point: str) -> list[int]:
    return [await live(folder, point), await live(folder, point)]


def laid(folder: Path, port: ZmqBoardPort, **terms: float) -> Table:
    board = port.addresses
    addresses = {"inbox": board.inbox, "feed": board.feed, "delivery": board.delivery}
    (folder / "addresses.json").write_text(json.dumps(addresses))
    Witness(run=RUN, key=KEY, inputs=INPUTS).save(folder / "witness")
    table = Table.laid(folder, 2, **terms)
    table.state(0)
    return table


def single_replies(messages: list[Message]) -> dict[tuple[int, int], bytes]:
    return {
        (message.round, int(user)): b"".join(message.columns[name][row].tobytes() for name in sorted(message.columns))
        for message in messages
        if isinstance(message, Replies)
        for row, user in enumerate(message.users)
    }


async def played(table: Table, port: ZmqBoardPort, point: str) -> list[int]:
    async with asyncio.timeout(120), asyncio.TaskGroup() as group:
        group.create_task(table.board(port).serve())
        group.create_task(seat(table.analyst(connect_analyst(port.addresses))))
        group.create_task(seat(table.user(1, connect_node(port.addresses, own=topic_for("node-1")))))
        fragile = group.create_task(lives(table.folder, point))
    port.close()
    return fragile.result()


@pytest.mark.parametrize("point", sorted({*POINTS} - {"torn state"}))
async def test_one_draw_for_each_user_and_round(point: str, tmp_path: Path) -> None:
    port = open_board(BoardAddresses.on())
    table = laid(tmp_path, port)
    assert await played(table, port, point) == [-signal.SIGKILL, 0]
    honest = [message for _, message in conversation(spoken(), INPUTS, KEY, run=RUN)]
    assert table.replies() == single_replies(honest)
    details = [message.detail for message in table.record() if isinstance(message, Event)]
    assert not [detail for detail in details if "other bytes" in detail or "again" in detail]
    assert any("is now pid" in detail for detail in details)
    assert done(tmp_path / "state-0") == ["seated", 1, 2, 3, "finished"]
    assert table.evidence() == []


async def test_a_node_killed_while_it_writes_says_nothing_in_its_next_life(tmp_path: Path) -> None:
    """Half an entry: nobody knows any more what was answered, so nothing is."""
    port = open_board(BoardAddresses.on())
    table = laid(tmp_path, port, deadline=6.0)
    assert await played(table, port, "torn state") == [-signal.SIGKILL, BAD_INPUT]
    assert {number for number, user in table.replies() if user < USERS // 2} == {1}
    last = table.record()[-1]
    assert isinstance(last, Abort)
    assert "round 2: 30 of 60 users answered, below the quorum" in last.reason
