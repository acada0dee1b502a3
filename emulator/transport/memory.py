"""A transport that keeps all ports in one event loop."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from parley.emulator.errors import LocalProtocolError
from parley.emulator.transport import ports

T = TypeVar("T")


class Queue(Generic[T]):
    """A bounded queue between coroutines of one loop that is read in batches."""

    def __init__(self, limit: int, size: Callable[[T], int]) -> None:
        self._limit = limit
        self._size = size
        self._items: deque[T] = deque()
        self._changed = asyncio.Event()
        self.closed = False

    def offer(self, item: T) -> bool:
        if self.closed or len(self._items) >= self._limit:
            return False
        self._items.append(item)
        self._changed.set()
        return True

    async def put(self, item: T, timeout: float) -> bool:
        return self.offer(item) or await self._until(lambda: self.offer(item), timeout)

    async def take(self, timeout: float) -> list[T]:
        """Wait for one item, then a batch. The pause comes first, so that a cancelled reader has taken nothing."""
        self.check_open()
        await asyncio.sleep(0)
        if not self._items:
            await self._until(lambda: bool(self._items), timeout)
        batch, taken = list[T](), 0
        while self._items and len(batch) < ports.MOST_FRAMES and taken < ports.MOST_BYTES:
            batch.append(self._items.popleft())
            taken += self._size(batch[-1])
        self._changed.set()
        return batch

    def check_open(self) -> None:
        """A closed port is a mistake of ours."""
        if self.closed:
            raise LocalProtocolError("this port is closed; open another to go on")

    def close(self) -> None:
        """Nothing more goes in or comes out; who waits is woken."""
        self.closed = True
        self._items.clear()
        self._changed.set()

    async def _until(self, done: Callable[[], bool], timeout: float) -> bool:
        try:
            async with asyncio.timeout(timeout):
                while not done():
                    if self.closed:
                        return False
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True


class MemoryTransport:
    """All ports in one event loop, under the same contract as sockets.

    `authenticated` hands the board each sender's name, as CURVE does between processes.
    """

    def __init__(self, *, queue: int = ports.QUEUE, authenticated: bool = False) -> None:
        self.queue, self.authenticated = queue, authenticated
        self.patience, self.delivery_patience = ports.PATIENCE, ports.DELIVERY_PATIENCE
        self.inbox: Queue[ports.Received] | None = None
        self.delivery: Queue[bytes] | None = None
        self.feeds: list[tuple[tuple[bytes, ...], Queue[bytes]]] = []
        self.opened = asyncio.Event()

    def board(self) -> ports.BoardPort:
        """The one board; another may be opened when it is closed."""
        if self.inbox is not None:
            raise LocalProtocolError("this transport already has a board; close it before opening another")
        self.inbox = self._make_inbox()
        self.opened.set()
        return MemoryBoard(self, self.inbox)

    def node(self, name: str, *, notices: bool = False) -> ports.NodePort:
        """A user node that hears broadcasts and its own topic, with `notices` also what needs no answer."""
        topics = (ports.BROADCAST, ports.topic_for(name), *([ports.NOTICE] if notices else []))
        return MemoryNode(self, name, self.subscribe(name, *topics))

    def analyst(self) -> ports.NodePort:
        """The analyst; the delivery serves the one that came last."""
        self.delivery = self._make_queue(ports.ANALYST)
        return MemoryNode(self, ports.ANALYST, self.delivery)

    def leave(self, queue: Queue[bytes]) -> None:
        queue.close()
        self.feeds = [each for each in self.feeds if each[1] is not queue]
        if self.delivery is queue:
            self.delivery = None

    def subscribe(self, name: str, *topics: bytes) -> Queue[bytes]:
        """What is published under these topics from now on, for whoever has this name."""
        queue = self._make_queue(name)
        self.feeds.append((topics, queue))
        return queue

    def _make_inbox(self) -> Queue[ports.Received]:
        return Queue(self.queue, lambda item: len(item.frame))

    def _make_queue(self, name: str) -> Queue[bytes]:
        """What is on its way from the board to whoever has this name."""
        return Queue(self.queue, len)


class MemoryBoard(ports.BoardPort):
    def __init__(self, transport: MemoryTransport, inbox: Queue[ports.Received]) -> None:
        self._transport = transport
        self._inbox = inbox
        self._stalled = False

    @property
    def subscribers(self) -> int:
        self._inbox.check_open()
        return sum(ports.BROADCAST in topics for topics, _ in self._transport.feeds)

    async def receive(self, timeout: float) -> list[ports.Received]:
        return await self._inbox.take(timeout)

    def publish(self, topic: bytes, frame: bytes) -> None:
        self._inbox.check_open()
        ports.check_topic(topic)
        ports.check_frame(frame)
        for prefixes, queue in self._transport.feeds:
            if topic.startswith(prefixes):
                queue.offer(frame)

    async def deliver(self, frame: bytes) -> bool:
        self._inbox.check_open()
        ports.check_frame(frame)
        delivery = self._transport.delivery
        patience = 0 if self._stalled else self._transport.delivery_patience
        taken = delivery is not None and await delivery.put(frame, patience)
        self._stalled = delivery is not None and not taken
        return taken

    def close(self) -> None:
        if not self._inbox.closed:
            self._inbox.close()
            self._transport.inbox = None
            self._transport.opened.clear()


class MemoryNode(ports.NodePort):
    def __init__(self, transport: MemoryTransport, name: str, queue: Queue[bytes]) -> None:
        self._transport = transport
        self._queue = queue
        self._sender = name if transport.authenticated else None

    async def receive(self, timeout: float) -> list[bytes]:
        return await self._queue.take(timeout)

    def close(self) -> None:
        self._transport.leave(self._queue)

    async def send(self, frame: bytes) -> None:
        self._queue.check_open()
        ports.check_frame(frame)
        item = ports.Received(frame, self._sender)
        patience = self._transport.patience
        try:
            async with asyncio.timeout(patience):
                # A board may close while we wait at its mark: the frame then goes to the next one.
                while self._transport.inbox is None or not await self._transport.inbox.put(item, patience):
                    await self._transport.opened.wait()
        except TimeoutError:
            raise ports.SendTimeout(f"no board took a frame within {patience:g} s") from None
