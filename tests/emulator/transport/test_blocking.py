"""A user node's port that waits in the call itself, in a process (here: a thread) that has no event loop."""

import asyncio

import pytest

from parley.emulator.errors import LocalProtocolError
from parley.emulator.transport.addresses import BoardAddresses
from parley.emulator.transport.ports import BROADCAST, SendTimeout
from parley.emulator.transport.zmq.ports import connect_node, open_board
from parley.nodes.common import run_blocking

LONG = 20.0


async def answer(addresses: BoardAddresses) -> int:
    """Say ready until something is heard, then answer it twice."""
    port = connect_node(addresses, blocking=True)
    try:
        heard: list[bytes] = []
        while not heard:
            await port.send(b"ready")
            heard = await port.receive(timeout=0.2)
        for _ in range(2):
            await port.send(b"answer to " + heard[0])
    finally:
        port.close()
    return len(heard)


async def test_a_port_without_an_event_loop_hears_and_speaks() -> None:
    board = open_board(BoardAddresses.on())
    try:
        node = asyncio.get_running_loop().run_in_executor(None, run_blocking, answer(board.addresses))
        answers = 0
        async with asyncio.timeout(LONG):
            while answers < 2:
                for frame, _ in await board.receive(timeout=1.0):
                    answers += frame == b"answer to question"
                    if frame == b"ready":
                        board.publish(BROADCAST, b"question")
            assert await node >= 1
    finally:
        board.close()


async def silent(addresses: BoardAddresses) -> int:
    port = connect_node(addresses, blocking=True, patience=0.1)
    try:
        assert await port.receive(timeout=0.05) == []
        with pytest.raises(SendTimeout, match="took no frame"):
            await port.send(b"ready")
    finally:
        port.close()
    with pytest.raises(LocalProtocolError, match="closed"):
        await port.receive(timeout=0.05)
    return 0


def test_nobody_there_is_noticed_in_time() -> None:
    assert run_blocking(silent(BoardAddresses.on(first_port=1))) == 0


def test_a_coroutine_that_wants_an_event_loop_is_refused() -> None:
    async def nap() -> int:
        await asyncio.sleep(0)
        return 0

    with pytest.raises(LocalProtocolError, match="event loop"):
        run_blocking(nap())
