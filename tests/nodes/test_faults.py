"""Whole runs on bad links: the replies and the estimate of a quiet run, every fault on record."""

import asyncio
from pathlib import Path

import pytest

from parley.emulator.simulate import simulate
from parley.emulator.transport.conditions import Conditions, Fault
from parley.emulator.transport.faults import FaultyPort
from parley.emulator.transport.memory import MemoryTransport
from parley.emulator.wire.messages import Event
from tests.nodes.table import INPUTS, KEY, USERS, Table, done, seat, spoken

RULES = {
    "loss": Fault(kind="loss", probability=0.15),
    "burst": Fault(kind="loss", probability=0.05, burst=3),
    "no request": Fault(kind="loss", direction="down", messages=("announce",), probability=0.6),
    "no reply": Fault(kind="loss", direction="up", messages=("replies",), probability=0.3),
    "no receipt": Fault(kind="loss", messages=("receipt", "inquiry"), probability=0.6),
    "duplicate": Fault(kind="duplicate", probability=0.5),
    "reorder": Fault(kind="reorder", probability=0.8, seconds=0.1),
    "corrupt": Fault(kind="corrupt", probability=0.3),
    "delay": Fault(kind="delay", distribution="lognormal", seconds=0.05, spread=1.0),
    "bandwidth": Fault(kind="bandwidth", bytes_per_second=5000.0),
    "hold": Fault(kind="hold", nodes="node-1", until=1.0),
    "partition": Fault(kind="partition", nodes="node-1", until=1.0),
    "one-way": Fault(kind="partition", nodes="node-0", direction="up", until=1.0),
    "straggler": Fault(kind="straggler", nodes="node-2", seconds=0.5),
}


@pytest.mark.parametrize("name", RULES)
async def test_a_run_survives(name: str, tmp_path: Path) -> None:
    conditions = Conditions(seed=11, faults=(RULES[name],))
    transport, table = MemoryTransport(), Table.laid(tmp_path, 3)
    board_port = transport.board()
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(table.board(board_port).serve())
        faulty = FaultyPort(transport.analyst(), conditions, "analyst")
        group.create_task(seat(table.analyst(faulty)))
        for number in range(3):
            port = FaultyPort(transport.node(f"node-{number}"), conditions, f"node-{number}")
            group.create_task(seat(table.user(number, port)))
    board_port.close()
    assert len(table.replies()) == 3 * USERS
    assert table.result().estimate == simulate(spoken(), INPUTS, KEY).estimate
    causes = {message.event for message in table.record() if isinstance(message, Event)}
    assert RULES[name].kind in causes
    assert [done(table.state(number)) for number in range(3)] == [["seated", 1, 2, 3, "finished"]] * 3
    assert table.evidence() == []
