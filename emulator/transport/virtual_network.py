"""A network in virtual time: one seed decides how long every frame is on its way, and so who hears what first.

Frames of one link arrive in the order in which they were sent, as over TCP; frames of different links overtake each
other. To a server that is away a sender waits, as in `memory.py`; what was on its way to it when it died is lost. A
subscription takes its own time, and what is published before is missed. Faults from conditions come on top, by the
same `FaultyPort` as over sockets.
"""

import hashlib
import random
from collections.abc import Callable
from typing import TypeVar

from parley.emulator.transport.memory import MemoryBoard, MemoryNode, MemoryTransport, Queue
from parley.emulator.transport.ports import BoardPort, NodePort, Received
from parley.emulator.transport.virtual_time import Process, VirtualLoop

T = TypeVar("T")
# Around what loopback takes; whoever wants more writes `delay` into the conditions.
SHORTEST_SECONDS, LONGEST_SECONDS = 0.0001, 0.002
APART_SECONDS = 1e-6
Heard = Callable[[str, bytes], None]


class Schedule:
    """All that is free in a virtual run. Each link has its own sequence, so that one more frame here moves none there.

    `heard` is told every frame that somebody says, with the speaker's name, before any fault is applied.
    """

    def __init__(self, seed: str, loop: VirtualLoop, heard: Heard | None = None) -> None:
        self.seed, self.loop, self.heard = seed, loop, heard
        self._arrivals: dict[str, Arrivals] = {}

    def chance(self, *names: str) -> random.Random:
        """Chance for one purpose: the same for the same seed and names."""
        material = "\0".join((self.seed, *names)).encode()
        return random.Random(hashlib.sha256(material).digest())

    def link(self, source: str, target: str) -> "Arrivals":
        name = f"{source} > {target}"
        if name not in self._arrivals:
            self._arrivals[name] = Arrivals(self.chance("link", name), self.loop)
        return self._arrivals[name]


class Arrivals:
    """When the frames of one link arrive."""

    def __init__(self, chance: random.Random, loop: VirtualLoop) -> None:
        self._chance, self._loop, self._last = chance, loop, 0.0

    def next(self) -> float:
        """When the next frame arrives if it is sent now; never before the one that was sent before it."""
        late = self._chance.uniform(SHORTEST_SECONDS, LONGEST_SECONDS)
        # Apart by enough for the loop to tell them apart.
        self._last = max(self._last + APART_SECONDS, self._loop.time() + late)
        return self._last


class _Flight(Queue[T]):
    """A queue whose items arrive after a while. They count as soon as they are on their way."""

    def __init__(self, limit: int, size: Callable[[T], int], loop: VirtualLoop, arrival: Callable[[T], float]) -> None:
        super().__init__(limit, size)
        self._loop, self._arrival, self._flying = loop, arrival, 0

    def offer(self, item: T) -> bool:
        if self.closed or len(self._items) + self._flying >= self._limit:
            return False
        self._flying += 1
        self._loop.call_at(self._arrival(item), self._land, item)
        return True

    def _land(self, item: T) -> None:
        self._flying -= 1
        if not self.closed:
            self._items.append(item)
            self._changed.set()


class VirtualTransport(MemoryTransport):
    """The links to one server: the board, a shuffler, or a relay. Every port belongs to a process."""

    def __init__(self, server: str, schedule: Schedule) -> None:
        # Names tell links apart; the server does not hear them, because nobody has proved his.
        super().__init__(authenticated=True)
        self.server, self.schedule = server, schedule
        self._listening: dict[Queue[bytes], tuple[str, tuple[bytes, ...]]] = {}

    def serve(self, process: Process) -> BoardPort:
        """The server's port; listeners subscribe to it one after the other."""
        inner = self.board()
        assert isinstance(inner, MemoryBoard)
        self.feeds = []
        for queue in self._listening:
            self._subscribe_later(queue)
        return VirtualBoard(inner, process, self.schedule.heard)

    def connect(self, process: Process, *topics: bytes) -> NodePort:
        """The port of a node that hears these topics; without any, of one who only speaks."""
        queue = self._make_queue(process.name)
        if topics:
            self._listening[queue] = process.name, topics
            self._subscribe_later(queue)
        return VirtualNode(MemoryNode(self, process.name, queue), process)

    def connect_analyst(self, process: Process) -> NodePort:
        inner = self.analyst()
        assert isinstance(inner, MemoryNode)
        return VirtualNode(inner, process)

    def leave(self, queue: Queue[bytes]) -> None:
        self._listening.pop(queue, None)
        super().leave(queue)

    def _subscribe_later(self, queue: Queue[bytes]) -> None:
        server, (name, topics) = self.inbox, self._listening[queue]

        def subscribe() -> None:
            if queue in self._listening and self.inbox is server and server is not None:
                self.feeds.append((topics, queue))

        self.schedule.loop.call_at(self.schedule.link(name, f"{self.server} feed").next(), subscribe)

    def _make_inbox(self) -> Queue[Received]:
        def arrival(item: Received) -> float:
            return self.schedule.link(item.sender or "", self.server).next()

        return _Flight(self.queue, lambda item: len(item.frame), self.schedule.loop, arrival)

    def _make_queue(self, name: str) -> Queue[bytes]:
        link = self.schedule.link(self.server, name)
        return _Flight(self.queue, len, self.schedule.loop, lambda _: link.next())


class VirtualBoard(BoardPort):
    """A server's port that a pause holds up and a kill ends."""

    def __init__(self, inner: MemoryBoard, process: Process, heard: Heard | None) -> None:
        self._inner, self._process, self._heard, self.clock = inner, process, heard, process.clock

    @property
    def subscribers(self) -> int:
        return self._inner.subscribers

    async def receive(self, timeout: float) -> list[Received]:
        batch = await self._inner.receive(timeout)
        await self._process.awake()
        return [Received(each.frame, None) for each in batch]

    def publish(self, topic: bytes, frame: bytes) -> None:
        self._process.step()
        if self._heard is not None:
            self._heard(self._process.name, frame)
        self._inner.publish(topic, frame)

    async def deliver(self, frame: bytes) -> bool:
        self._process.step()
        taken = await self._inner.deliver(frame)
        await self._process.awake()
        return taken

    def close(self) -> None:
        self._inner.close()


class VirtualNode(NodePort):
    """A port that a pause holds up and a kill ends: what a faulty link has delayed is held up and lost with it."""

    def __init__(self, inner: MemoryNode, process: Process) -> None:
        self._inner, self._process, self.clock = inner, process, process.clock

    async def send(self, frame: bytes) -> None:
        await self._process.awake()
        await self._inner.send(frame)

    async def receive(self, timeout: float) -> list[bytes]:
        batch = await self._inner.receive(timeout)
        await self._process.awake()
        return batch

    def close(self) -> None:
        self._inner.close()


class Speaker(NodePort):
    """The port that a node sees: what it says is a step of its own, and is heard before any fault is applied."""

    def __init__(self, inner: NodePort, process: Process, heard: Heard | None = None) -> None:
        self._inner, self._process, self._heard, self.clock = inner, process, heard, process.clock

    async def send(self, frame: bytes) -> None:
        self._process.step()
        if self._heard is not None:
            self._heard(self._process.name, frame)
        await self._inner.send(frame)
        await self._process.awake()

    async def receive(self, timeout: float) -> list[bytes]:
        return await self._inner.receive(timeout)

    def close(self) -> None:
        self._inner.close()
