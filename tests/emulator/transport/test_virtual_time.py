"""Virtual time: the loop that never waits, processes that die at every step, and the network under the contract."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from parley.emulator.record.records import EPOCH_SECONDS
from parley.emulator.transport.ports import BROADCAST, NOTICE, BoardPort, NodePort, topic_for
from parley.emulator.transport.virtual_network import LONGEST_SECONDS, Schedule, Speaker, VirtualTransport
from parley.emulator.transport.virtual_time import Killed, Process, Stalled, VirtualLoop
from tests.contracts.transport_contract import QUEUE, Bench, TransportContract


def play(work: Callable[[VirtualLoop], Coroutine[Any, Any, Any]]) -> Any:
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(work(loop))
    finally:
        loop.close()


def test_hours_pass_at_once_and_in_order() -> None:
    async def work(loop: VirtualLoop) -> list[tuple[float, str]]:
        seen: list[tuple[float, str]] = []

        async def sleep(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            seen.append((round(loop.elapsed, 6), name))

        await asyncio.gather(sleep("day", 86_400.0), sleep("now", 0.0), sleep("hour", 3600.0), sleep("other", 3600.0))
        return seen

    assert play(work) == [(0.0, "now"), (3600.0, "hour"), (3600.0, "other"), (86_400.0, "day")]


def test_timeouts_follow_the_virtual_clock() -> None:
    async def work(loop: VirtualLoop) -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(600):
                await asyncio.Event().wait()
        return loop.elapsed

    assert play(work) == pytest.approx(600)


def test_who_waits_for_ever_is_told() -> None:
    with pytest.raises(Stalled, match="nothing will ever happen"):
        play(lambda loop: asyncio.Event().wait())


def test_the_record_begins_at_the_same_moment_whenever_it_is_made() -> None:
    async def work(loop: VirtualLoop) -> tuple[int, int]:
        process = Process("node-0", loop, 1001)
        await asyncio.sleep(1.5)
        return process.clock.time_ns(), process.clock.process_id()

    assert play(work) == (EPOCH_SECONDS * 10**9 + 1_500_000_000, 1001)


@pytest.mark.parametrize("step", range(1, 6))
def test_a_process_that_is_killed_at_a_step_does_not_take_it(step: int) -> None:
    async def work(loop: VirtualLoop) -> list[int]:
        process, done = Process("node-0", loop, 1001), list[int]()
        process.strike_at(step, process.kill)

        async def live() -> int:
            for number in range(1, 6):
                process.step()
                done.append(number)
                await asyncio.sleep(0)
            return 0

        process.task = asyncio.ensure_future(live())
        with pytest.raises(Killed):
            await process.task
        with pytest.raises(Killed):
            process.step()
        return done

    assert play(work) == list(range(1, step))


def test_a_frozen_process_hears_everything_later() -> None:
    async def work(loop: VirtualLoop) -> tuple[list[bytes], float]:
        transport = VirtualTransport("board", Schedule("1", loop))
        board, frozen = transport.serve(Process("board", loop, 1)), Process("node-0", loop, 2)
        node = transport.connect(frozen, BROADCAST)
        await asyncio.sleep(1)
        frozen.stop()
        board.publish(BROADCAST, b"early")
        loop.call_later(7, frozen.wake)
        return await node.receive(1.0), loop.elapsed

    assert play(work) == ([b"early"], pytest.approx(8))


def test_what_was_on_its_way_to_a_server_that_died_is_lost_and_later_frames_wait_for_it() -> None:
    async def work(loop: VirtualLoop) -> list[bytes]:
        transport = VirtualTransport("board", Schedule("1", loop))
        board, node = transport.serve(Process("board", loop, 1)), transport.connect(Process("node-0", loop, 2))
        await node.send(b"lost")
        board.close()
        sending = asyncio.ensure_future(node.send(b"kept"))
        await asyncio.sleep(1)
        again = transport.serve(Process("board", loop, 3))
        await sending
        return [each.frame for each in await again.receive(1.0)]

    assert play(work) == [b"kept"]


def order(seed: int) -> list[bytes]:
    """In which order frames of three nodes reach the board."""

    async def work(loop: VirtualLoop) -> list[bytes]:
        transport = VirtualTransport("board", Schedule(str(seed), loop))
        board = transport.serve(Process("board", loop, 1))
        nodes = [transport.connect(Process(f"node-{each}", loop, 2 + each)) for each in range(3)]
        for number in range(5):
            for each, node in enumerate(nodes):
                await node.send(b"%d.%d" % (each, number))
        await asyncio.sleep(20 * LONGEST_SECONDS)
        return [each.frame for each in await board.receive(0.0)]

    return list(play(work))


def test_one_seed_one_order_and_each_link_keeps_its_own() -> None:
    orders = [order(seed) for seed in range(8)]
    assert orders == [order(seed) for seed in range(8)]
    assert len({tuple(each) for each in orders}) > 1
    for each in orders:
        for node in b"012":
            assert [frame for frame in each if frame[0] == node] == [b"%c.%d" % (node, number) for number in range(5)]


class VirtualBench(Bench):
    """Under the event loop of the tests: it has the same clock, only that it waits."""

    def __init__(self) -> None:
        super().__init__()
        self.loop: Any = asyncio.get_running_loop()
        self.transport = VirtualTransport("board", Schedule(str(random.Random(0).random()), self.loop))
        self.transport.queue = QUEUE

    def process(self, name: str) -> Process:
        return Process(name, self.loop, 1)

    def make_board(self) -> BoardPort:
        self.transport.patience = self.transport.delivery_patience = self.patience
        return self.transport.serve(self.process("board"))

    def make_node(self, name: str, *, notices: bool = False) -> NodePort:
        process, topics = self.process(name), [BROADCAST, topic_for(name), *([NOTICE] if notices else [])]
        return Speaker(self.transport.connect(process, *topics), process)

    def make_analyst(self) -> NodePort:
        return self.transport.connect_analyst(self.process("analyst"))

    def make_observer(self) -> NodePort:
        return self.transport.connect(self.process("observer"), b"")


class TestVirtualTransport(TransportContract):
    def make_bench(self) -> Bench:
        return VirtualBench()
