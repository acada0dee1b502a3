"""No user randomises twice for one round: a node is killed between draw, journal, send and acknowledgement."""

import asyncio
import json
import signal
import sys
from pathlib import Path

import pytest

from emulator.addresses import BoardAddresses
from emulator.messages import Event, Message, Replies
from emulator.simulate import conversation
from emulator.sockets import ZmqBoardPort, connect_analyst, connect_node, open_board
from emulator.witness import Witness
from tests.nodes.fragile import POINTS
from tests.nodes.table import INPUTS, KEY, RUN, USERS, Table, seat, spoken

ROOT = Path(__file__).parents[2]


async def live(folder: Path, point: str) -> int:
    """One life of the fragile node, which hosts the first half of the users; how it ended."""
    options = ["--addresses", folder / "addresses.json", "--node", "node-0", "--users", USERS // 2, "--cap", 1.0]
    options += ["--witness", folder / "witness", "--journal", folder / "journal"]
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


def laid(folder: Path, port: ZmqBoardPort) -> Table:
    board = port.addresses
    addresses = {"post": board.post, "feed": board.feed, "desk": board.desk}
    (folder / "addresses.json").write_text(json.dumps(addresses))
    Witness(run=RUN, key=KEY, inputs=INPUTS).save(folder / "witness")
    return Table.laid(folder, 2)


def single_replies(messages: list[Message]) -> dict[tuple[int, int], bytes]:
    return {
        (message.round, int(user)): b"".join(message.columns[name][row].tobytes() for name in sorted(message.columns))
        for message in messages
        if isinstance(message, Replies)
        for row, user in enumerate(message.users)
    }


@pytest.mark.parametrize("point", POINTS)
async def test_one_draw_for_each_user_and_round(point: str, tmp_path: Path) -> None:
    port = open_board(BoardAddresses.on())
    table = laid(tmp_path, port)
    async with asyncio.timeout(120), asyncio.TaskGroup() as group:
        group.create_task(table.board(port).serve())
        group.create_task(seat(table.analyst(connect_analyst(port.addresses))))
        group.create_task(seat(table.user(1, connect_node(port.addresses))))
        fragile = group.create_task(lives(tmp_path, point))
    port.close()
    assert fragile.result() == [-signal.SIGKILL, 0]
    honest = [message for _, message in conversation(spoken(), INPUTS, KEY, run=RUN)]
    assert table.replies() == single_replies(honest)
    details = [message.detail for message in table.record() if isinstance(message, Event)]
    assert not [detail for detail in details if "other bytes" in detail or "again" in detail]
    assert any("is now pid" in detail for detail in details)
    rounds = [json.loads(line)["round"] for line in (tmp_path / "journal").read_text().splitlines()]
    assert rounds == [1, 2, 3]
