"""What every transport owes the roles. A transport's tests inherit `TransportContract` and say how ports are made."""

import asyncio
import gc
import itertools
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from parley.emulator.errors import LocalProtocolError
from parley.emulator.transport.ports import (
    BROADCAST,
    MOST_BYTES,
    MOST_FRAMES,
    NOTICE,
    REPLY,
    BoardPort,
    NodePort,
    SendTimeout,
)
from parley.emulator.wire.codec import LARGEST_FRAME

QUEUE = 50
LONG = 60.0
Port = TypeVar("Port", BoardPort, NodePort)


class Bench(ABC):
    """Makes the ports of one test, with short queues and `patience`, and closes them after it."""

    def __init__(self) -> None:
        self.patience = LONG
        self._ports: list[BoardPort | NodePort] = []

    @abstractmethod
    def make_board(self) -> BoardPort: ...

    @abstractmethod
    def make_node(self, name: str, *, notices: bool = False) -> NodePort: ...

    @abstractmethod
    def make_analyst(self) -> NodePort: ...

    @abstractmethod
    def make_observer(self) -> NodePort: ...

    def board(self) -> BoardPort:
        return self.keep(self.make_board())

    def node(self, name: str = "node", *, notices: bool = False) -> NodePort:
        return self.keep(self.make_node(name, notices=notices))

    def analyst(self) -> NodePort:
        return self.keep(self.make_analyst())

    def observer(self) -> NodePort:
        return self.keep(self.make_observer())

    def close(self) -> None:
        for port in reversed(self._ports):
            port.close()

    def keep(self, port: Port) -> Port:
        self._ports.append(port)
        return port


class TransportContract(ABC):
    """Frames whole and in order; inbox and delivery lose nothing; the feed never waits; nothing hangs or leaks."""

    @abstractmethod
    def make_bench(self) -> Bench: ...

    @pytest.fixture
    async def bench(self):
        bench = self.make_bench()
        yield bench
        bench.close()

    async def test_nothing_arrives_within_the_timeout(self, bench: Bench) -> None:
        board, node, analyst, observer = bench.board(), bench.node(), bench.analyst(), bench.observer()
        assert [await port.receive(0.01) for port in (board, node, analyst, observer)] == [[], [], [], []]
        assert await board.receive(0) == []

    async def test_frames_of_all_sizes_arrive_whole(self, bench: Bench) -> None:
        board, node, analyst, observer = bench.board(), bench.node(), bench.analyst(), bench.observer()
        await present(board, 1)
        await heard(board, observer)
        frames = [b"", b"\0", b"B", bytes(range(256)) * 16, os.urandom(70_000), os.urandom(3_000_000)]
        for frame in frames:
            await node.send(frame)
            assert [each.frame for each in await board.receive(LONG)] == [frame]
            board.publish(BROADCAST, frame)
            assert await node.receive(LONG) == [frame]
            assert await observer.receive(LONG) == [frame]
            assert await delivered(board, frame)
            assert await analyst.receive(LONG) == [frame]

    async def test_everybody_present_hears_a_broadcast_and_only_observers_the_replies(self, bench: Bench) -> None:
        board, nodes, observer = bench.board(), [bench.node(f"node-{each}") for each in range(5)], bench.observer()
        await present(board, 5)
        await heard(board, observer)
        board.publish(REPLY, b"reply")
        board.publish(BROADCAST, b"first")
        board.publish(BROADCAST, b"second")
        for node in nodes:
            assert await collect(node, 2) == [b"first", b"second"]
            assert await node.receive(0.01) == []
        assert await collect(observer, 3) == [b"reply", b"first", b"second"]

    async def test_a_notice_reaches_only_those_who_asked_for_notices(self, bench: Bench) -> None:
        board, node, shuffler, observer = bench.board(), bench.node(), bench.node(notices=True), bench.observer()
        await present(board, 2)
        await heard(board, observer)
        said = ((BROADCAST, b"announce"), (NOTICE, b"close"), (REPLY, b"reply"), (BROADCAST, b"result"))
        for topic, frame in said:
            board.publish(topic, frame)
        assert await collect(node, 2) == [b"announce", b"result"]
        assert await collect(shuffler, 3) == [b"announce", b"close", b"result"]
        assert await collect(observer, 4) == [frame for _, frame in said]

    async def test_a_late_subscriber_misses_the_past_and_hears_the_rest(self, bench: Bench) -> None:
        board, early = bench.board(), bench.node("early")
        await present(board, 1)
        board.publish(BROADCAST, b"early")
        late = bench.node("late")
        await present(board, 2)
        board.publish(BROADCAST, b"late")
        assert await collect(early, 2) == [b"early", b"late"]
        assert await collect(late, 1) == [b"late"]

    async def test_subscribers_are_counted_as_they_come_and_go(self, bench: Bench) -> None:
        board, nodes = bench.board(), [bench.node(f"node-{each}") for each in range(4)]
        await present(board, 4)
        nodes[0].close()
        nodes[2].close()
        await present(board, 2)

    async def test_a_stalled_subscriber_holds_up_nobody(self, bench: Bench) -> None:
        board, reader, stalled = bench.board(), bench.node("reader"), bench.node("stalled")
        await present(board, 2)
        published = 1500
        for start in range(0, published, 10):
            batch = [number.to_bytes(4, "big") + bytes(32_000) for number in range(start, start + 10)]
            for frame in batch:
                board.publish(BROADCAST, frame)
            assert await collect(reader, 10) == batch
        kept = [frame[:4] for frame in await read_to_mark(board, stalled, BROADCAST)]
        assert kept == sorted(kept)
        assert QUEUE <= len(kept) < published

    async def test_the_inbox_loses_nothing_and_keeps_each_senders_order(self, bench: Bench) -> None:
        senders, each_sends = 4, 5000
        board, nodes = bench.board(), [bench.node(f"node-{each}") for each in range(senders)]

        async def send(number: int) -> None:
            for step in range(each_sends):
                await nodes[number].send(bytes([number]) + step.to_bytes(4, "big"))

        async with asyncio.TaskGroup() as tasks:
            for number in range(senders):
                tasks.create_task(send(number))
            frames = [each.frame for each in await collect(board, senders * each_sends)]
        for number in range(senders):
            steps = [int.from_bytes(frame[1:], "big") for frame in frames if frame[0] == number]
            assert steps == list(range(each_sends))

    async def test_two_tasks_may_send_through_one_port(self, bench: Bench) -> None:
        board, node = bench.board(), bench.node()

        async def send(name: bytes) -> None:
            for _ in range(500):
                await node.send(name)

        async with asyncio.TaskGroup() as tasks:
            for name in (b"a", b"b", b"c"):
                tasks.create_task(send(name))
            frames = await collect(board, 1500)
        assert Counter(each.frame for each in frames) == {b"a": 500, b"b": 500, b"c": 500}

    async def test_batches_are_bounded(self, bench: Bench) -> None:
        board, nodes = bench.board(), [bench.node(f"node-{each}") for each in range(3)]
        await present(board, 3)
        frame = bytes(MOST_BYTES // 8)
        async with asyncio.TaskGroup() as tasks:
            for node in nodes:
                tasks.create_task(send_all(node, [frame] * 6))
            batches = []
            while sum(map(len, batches)) < 18:
                batches.append(await board.receive(LONG))
        assert max(map(len, batches)) <= min(MOST_FRAMES, 8)

    async def test_deliver_without_an_analyst_says_so_at_once(self, bench: Bench) -> None:
        board = bench.board()
        assert not await board.deliver(b"nobody")

    async def test_the_delivery_waits_for_a_slow_analyst_and_loses_nothing(self, bench: Bench) -> None:
        board, analyst = bench.board(), bench.analyst()
        assert await delivered(board, b"start")
        frames = [number.to_bytes(4, "big") + bytes(50_000) for number in range(1, 400)]

        async def deliver() -> list[bool]:
            return [await board.deliver(frame) for frame in frames]

        delivery = asyncio.create_task(deliver())
        await asyncio.sleep(0.1)
        assert await collect(analyst, 400) == [b"start", *frames]
        assert all(await delivery)

    async def test_deliver_gives_up_on_an_analyst_that_stalls(self, bench: Bench) -> None:
        bench.patience = 0.3
        board, analyst = bench.board(), bench.analyst()
        taken = 0
        assert await delivered(board, bytes(200_000))
        while await board.deliver(bytes(200_000)):
            taken += 1
            assert taken < 5000
        assert [await board.deliver(b"full") for _ in range(100)] == [False] * 100
        assert len(await collect(analyst, taken + 1)) == taken + 1
        assert await delivered(board, b"last")
        assert await collect(analyst, 1) == [b"last"]

    async def test_the_delivery_serves_the_next_analyst(self, bench: Bench) -> None:
        board, first = bench.board(), bench.analyst()
        assert await delivered(board, b"one")
        assert await first.receive(LONG) == [b"one"]
        first.close()
        await until(lambda: not_delivered(board))
        second = bench.analyst()
        assert await delivered(board, b"two")
        assert await collect(second, 1) == [b"two"]

    async def test_the_analyst_speaks_through_the_inbox(self, bench: Bench) -> None:
        board, analyst = bench.board(), bench.analyst()
        await analyst.send(b"announce")
        assert [each.frame for each in await board.receive(LONG)] == [b"announce"]

    async def test_sending_to_no_board_ends(self, bench: Bench) -> None:
        bench.patience = 0.3
        board, node = bench.board(), bench.node()
        await until(lambda: sent(node, b"there"))
        assert await board.receive(LONG)
        board.close()
        with pytest.raises(SendTimeout, match=r"within 0\.3 s"):
            await send_all(node, [b"gone"] * (10 * QUEUE))

    async def test_a_new_board_is_found_again(self, bench: Bench) -> None:
        board, node, analyst = bench.board(), bench.node(), bench.analyst()
        await node.send(b"before")
        assert len(await board.receive(LONG)) == 1
        board.close()
        board = bench.board()
        listening = asyncio.create_task(node.receive(LONG))
        await present(board, 1)
        await until(lambda: sent(node, b"after"))
        assert (await board.receive(LONG))[0].frame == b"after"
        board.publish(BROADCAST, b"again")
        assert await listening == [b"again"]
        assert await delivered(board, b"delivery")
        assert await analyst.receive(LONG) == [b"delivery"]

    async def test_a_cancelled_reader_has_taken_nothing(self, bench: Bench) -> None:
        board, node = bench.board(), bench.node()
        for number in range(200):
            reading = asyncio.create_task(board.receive(LONG))
            await node.send(number.to_bytes(2, "big"))
            for _ in range(number % 4):
                await asyncio.sleep(0)
            reading.cancel()
            done = await asyncio.gather(reading, return_exceptions=True)
            frames = [] if isinstance(done[0], BaseException) else done[0]
            if not frames:
                frames = await board.receive(LONG)
            assert [each.frame for each in frames] == [number.to_bytes(2, "big")]

    async def test_what_cannot_be_sent_is_refused(self, bench: Bench) -> None:
        board, node = bench.board(), bench.node()
        large = bytes(LARGEST_FRAME + 1)
        with pytest.raises(LocalProtocolError, match="larger"):
            await node.send(large)
        with pytest.raises(LocalProtocolError, match="larger"):
            board.publish(BROADCAST, large)
        with pytest.raises(LocalProtocolError, match="larger"):
            await board.deliver(large)
        with pytest.raises(LocalProtocolError, match="no such topic"):
            board.publish(b"X", b"frame")

    async def test_closing_wakes_who_waits(self, bench: Bench) -> None:
        for port in (bench.board(), bench.node(), bench.analyst(), bench.observer()):
            reading = asyncio.create_task(port.receive(LONG))
            await asyncio.sleep(0.02)
            port.close()
            assert await reading == []

    async def test_closing_is_final_idempotent_and_leaves_nothing_open(self, bench: Bench) -> None:
        gc.collect()
        before = held()
        board, node, analyst, observer = bench.board(), bench.node(), bench.analyst(), bench.observer()
        await node.send(b"frame")
        await board.receive(LONG)
        for port in (board, node, analyst, observer):
            port.close()
            port.close()
            with pytest.raises(LocalProtocolError, match="closed"):
                await port.receive(0)
        with pytest.raises(LocalProtocolError, match="closed"):
            await node.send(b"frame")
        with pytest.raises(LocalProtocolError, match="closed"):
            await board.deliver(b"frame")
        with pytest.raises(LocalProtocolError, match="closed"):
            board.publish(BROADCAST, b"frame")
        assert held() == before


async def present(board: BoardPort, nodes: int) -> None:
    """Wait until so many nodes hear broadcasts."""
    async with asyncio.timeout(LONG):
        while board.subscribers != nodes:
            await asyncio.sleep(0.002)


async def heard(board: BoardPort, observer: NodePort) -> None:
    """Wait until the observer hears, and read all that this took."""
    async with asyncio.timeout(LONG):
        while True:
            board.publish(REPLY, b"hear?")
            if await observer.receive(0.01):
                await read_to_mark(board, observer, REPLY)
                return


async def read_to_mark(board: BoardPort, reader: NodePort, topic: bytes) -> list[bytes]:
    """Read until the last mark published has come, so that nothing more is on its way; marks are left out."""
    frames: list[bytes] = []
    async with asyncio.timeout(LONG):
        for number in itertools.count():
            mark = b"mark %d" % number
            board.publish(topic, mark)
            while batch := await reader.receive(0.2):
                frames += batch
                if frames[-1] == mark:
                    return [frame for frame in frames if not frame.startswith(b"mark")]
    return frames


async def delivered(board: BoardPort, frame: bytes) -> bool:
    """Deliver as soon as an analyst is there."""
    async with asyncio.timeout(LONG):
        while not await board.deliver(frame):
            await asyncio.sleep(0.002)
    return True


async def not_delivered(board: BoardPort) -> bool:
    return not await board.deliver(b"nobody")


async def sent(node: NodePort, frame: bytes) -> bool:
    try:
        await node.send(frame)
    except SendTimeout:
        return False
    return True


async def send_all(node: NodePort, frames: list[bytes]) -> None:
    for frame in frames:
        await node.send(frame)


async def until(done: Callable[[], "asyncio.Future[bool]"]) -> None:
    async with asyncio.timeout(LONG):
        while not await done():
            await asyncio.sleep(0.002)


async def collect(port, count: int) -> list:
    """Read until there are so many; more than that is a failure."""
    items: list = []
    async with asyncio.timeout(LONG):
        while len(items) < count:
            items += await port.receive(LONG)
    assert len(items) == count
    return items


def held() -> tuple[int, int]:
    """Open files and threads of this process, those of libzmq included."""
    return tuple(len(list(Path(f"/proc/self/{each}").iterdir())) for each in ("fd", "task"))
