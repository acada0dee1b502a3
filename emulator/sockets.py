"""Ports over ZeroMQ, between processes and hosts. The only file that imports zmq.

Each port owns a context, made when the port is opened (so after a fork) and gone when it is closed. Readiness is
awaited once, then frames are moved without blocking: an await a message would cost twenty times as much.
"""

import asyncio
import errno
import socket as plain_socket
from collections.abc import Callable, Mapping
from contextlib import suppress

import zmq
from zmq.utils.monitor import parse_monitor_message

from emulator.addresses import BoardAddresses, check_private, descriptors_for, host_and_port, raise_file_limit
from emulator.codec import LARGEST_FRAME
from emulator.errors import BadInput, LocalProtocolError
from emulator.transport import (
    BROADCAST,
    MOST_BYTES,
    MOST_FRAMES,
    PATIENCE,
    QUEUE,
    AnalystPort,
    BoardPort,
    NodePort,
    ObserverPort,
    Received,
    SendTimeout,
    check_frame,
    check_topic,
)

__all__ = [
    "BoardAddresses",
    "ZmqBoardPort",
    "connect_analyst",
    "connect_node",
    "connect_observer",
    "descriptors_for",
    "open_board",
    "raise_file_limit",
]

_OPTIONS: dict[int, int] = {
    zmq.LINGER: 0,
    # One byte of topic comes on top; libzmq cuts a connection that announces more.
    zmq.MAXMSGSIZE: LARGEST_FRAME + 1,
    zmq.BACKLOG: 4096,
    zmq.HANDSHAKE_IVL: 15_000,
    zmq.CONNECT_TIMEOUT: 2_000,
    zmq.RECONNECT_IVL: 50,
    zmq.RECONNECT_IVL_MAX: 500,
    # A peer that is gone without a word is noticed; one that is merely starved of processor time is kept.
    zmq.HEARTBEAT_IVL: 10_000,
    zmq.HEARTBEAT_TIMEOUT: 30_000,
    zmq.HEARTBEAT_TTL: 30_000,
    zmq.TCP_KEEPALIVE: 1,
    zmq.TCP_KEEPALIVE_IDLE: 30,
    zmq.TCP_KEEPALIVE_INTVL: 10,
    zmq.TCP_KEEPALIVE_CNT: 3,
}
# A closing sender gives what is already queued this long to leave.
_LINGER: dict[int, int] = {zmq.LINGER: 1000}
_WATCHED = zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED | zmq.EVENT_ACCEPT_FAILED


def open_board(addresses: BoardAddresses, *, queue: int = QUEUE, patience: float = PATIENCE) -> "ZmqBoardPort":
    """Bind the board's channels; its `addresses` then hold the real ports. Needs the running event loop."""
    sockets = _Sockets(queue)
    try:
        return ZmqBoardPort(sockets, addresses, patience)
    except BaseException:
        sockets.close()
        raise


def connect_node(addresses: BoardAddresses, *, queue: int = QUEUE, patience: float = PATIENCE) -> NodePort:
    """A user node's port: broadcasts in, frames to the post out."""
    sockets = _Sockets(queue)
    return _ZmqSender(sockets, sockets.subscribe(addresses.feed, BROADCAST), sockets.push(addresses.post), patience)


def connect_analyst(addresses: BoardAddresses, *, queue: int = QUEUE, patience: float = PATIENCE) -> AnalystPort:
    """The analyst's port: the desk in, frames to the post out."""
    sockets = _Sockets(queue)
    return _ZmqAnalyst(sockets, sockets.pull(addresses.desk), sockets.push(addresses.post), patience)


def connect_observer(addresses: BoardAddresses, *, queue: int = QUEUE) -> ObserverPort:
    """An observer's port: all that is published from now on."""
    sockets = _Sockets(queue)
    return _ZmqListener(sockets, sockets.subscribe(addresses.feed, b""))


class _Channel:
    """One socket: waits for its file descriptor, then moves frames without blocking."""

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self.socket = socket
        self._turn = asyncio.Lock()
        self._waiter: asyncio.Future[None] | None = None

    async def readable(self, timeout: float) -> bool:
        """Wait until there is something to read, letting others run in any case."""
        self.check_open()
        await asyncio.sleep(0)
        async with self._turn:
            return await self._ready(zmq.POLLIN, asyncio.get_running_loop().time() + timeout)

    def drain(self) -> list[bytes]:
        """What is there, up to a batch. No await follows, so a cancelled reader has taken nothing."""
        frames: list[bytes] = []
        size = 0
        receive = self.socket.recv
        with suppress(zmq.Again):
            while len(frames) < MOST_FRAMES and size < MOST_BYTES:
                frame = receive(zmq.NOBLOCK)
                frames.append(frame)
                size += len(frame)
        return frames

    async def send(self, frame: bytes, timeout: float) -> bool:
        """Send, waiting at the high-water mark; False when it did not go within `timeout` seconds."""
        if self.offer(frame):
            return True
        deadline = asyncio.get_running_loop().time() + timeout
        async with self._turn:
            while not self._try(frame):
                if not await self._ready(zmq.POLLOUT, deadline):
                    return False
        return True

    def offer(self, frame: bytes) -> bool:
        """Send unless others wait to, the high-water mark is reached or nobody is there."""
        return not self._turn.locked() and self._try(frame)

    def _try(self, frame: bytes) -> bool:
        self.check_open()
        try:
            self.socket.send(frame, zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def check_open(self) -> None:
        """A closed port is a mistake of ours."""
        if self.socket.closed:
            raise LocalProtocolError("this port is closed; open another to go on")

    def wake(self) -> None:
        """Let whoever waits look again."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        """Close the socket; who waits on it is woken and finds it closed."""
        if self._waiter is not None:
            self._waiter.get_loop().remove_reader(self.socket.FD)
            self.wake()
        self.socket.close()

    async def _ready(self, event: int, deadline: float) -> bool:
        """Asking for EVENTS clears libzmq's signal, which the next change raises again: no change goes unseen."""
        loop = asyncio.get_running_loop()
        while not self.socket.closed and not _events(self.socket) & event:
            if loop.time() >= deadline:
                return False
            await self._signal(loop, deadline)
        return not self.socket.closed

    async def _signal(self, loop: asyncio.AbstractEventLoop, deadline: float) -> None:
        descriptor = self.socket.FD
        self._waiter = loop.create_future()
        loop.add_reader(descriptor, self.wake)
        timer = loop.call_at(deadline, self.wake)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None
            if not self.socket.closed:
                loop.remove_reader(descriptor)


class _Sockets:
    """The context of one port and all its sockets."""

    def __init__(self, queue: int) -> None:
        self._queue = queue
        self._context = zmq.Context()
        self._channels: list[_Channel] = []
        self._watched: list[tuple[asyncio.AbstractEventLoop, zmq.Socket[bytes]]] = []

    def bind(self, kind: int, address: str, options: Mapping[int, int] | None = None) -> _Channel:
        """A listening socket; the address in use, or open to other machines without keys, is bad input."""
        check_private(address)
        channel = self._channel(kind, address, options)
        place = host_and_port(address)
        if place is None:
            _check_free(address.removeprefix("ipc://"))
        try:
            channel.socket.bind(address.replace("//localhost:", "//127.0.0.1:"))
        except zmq.ZMQError as error:
            raise _unbindable(address, error) from error
        return channel

    def pull(self, address: str) -> _Channel:
        """The reading end of the desk."""
        return self._connect(zmq.PULL, address)

    def push(self, address: str) -> _Channel:
        """A writing end of the post. IMMEDIATE: a frame is taken only when there is a board to take it."""
        return self._connect(zmq.PUSH, address, {**_LINGER, zmq.IMMEDIATE: 1})

    def subscribe(self, address: str, topic: bytes) -> _Channel:
        """A reading end of the feed. After a lost connection it subscribes again when it is next read."""
        channel = self._connect(zmq.SUB, address)
        channel.socket.setsockopt(zmq.SUBSCRIBE, topic)
        return channel

    def watch(self, channel: _Channel, notice: Callable[[zmq.Event, int], None]) -> Callable[[], None]:
        """Call `notice` with each connection event and its value; the function given back does so for any waiting."""
        name = f"inproc://watch-{len(self._watched)}"
        channel.socket.monitor(name, _WATCHED)
        ear = self._context.socket(zmq.PAIR)
        # Without a mark: libzmq's own thread would otherwise wait for us to read.
        ear.setsockopt(zmq.RCVHWM, 0)
        ear.connect(name)

        def look() -> None:
            while _events(ear) & zmq.POLLIN:
                event = parse_monitor_message(ear.recv_multipart(zmq.NOBLOCK))
                notice(zmq.Event(event["event"]), event["value"])

        self._attend(ear, look)
        return look

    def close(self) -> None:
        """Close all and wait, at most for the linger time, until the context's threads are gone."""
        for loop, socket in self._watched:
            loop.remove_reader(socket.FD)
            socket.close(0)
        self._watched.clear()
        for channel in self._channels:
            channel.close()
        self._channels.clear()
        self._context.term()

    def _attend(self, socket: zmq.Socket[bytes], look: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(socket.FD, look)
        self._watched.append((loop, socket))
        look()

    def _connect(self, kind: int, address: str, options: Mapping[int, int] | None = None) -> _Channel:
        try:
            check_private(address)
            channel = self._channel(kind, address, options)
            channel.socket.connect(address)
        except BaseException:
            self.close()
            raise
        return channel

    def _channel(self, kind: int, address: str, options: Mapping[int, int] | None) -> _Channel:
        socket = self._context.socket(kind)
        channel = _Channel(socket)
        self._channels.append(channel)
        place = host_and_port(address)
        settings: dict[int, int] = {**_OPTIONS, zmq.SNDHWM: self._queue, zmq.RCVHWM: self._queue, **(options or {})}
        settings[zmq.IPV6] = int(place is not None and ":" in place[0])
        for option, value in settings.items():
            socket.setsockopt(option, value)
        return channel


class ZmqBoardPort(BoardPort):
    """The board's port. `addresses` are the real ones; `accept_failures` counts connections lost for want of files."""

    def __init__(self, sockets: _Sockets, addresses: BoardAddresses, patience: float) -> None:
        self._sockets = sockets
        self._patience = patience
        self._post = sockets.bind(zmq.PULL, addresses.post)
        # VERBOSER: every node's coming and going counts, not only the first and last of a topic.
        self._feed = sockets.bind(zmq.XPUB, addresses.feed, {**_LINGER, zmq.XPUB_VERBOSER: 1})
        self._desk = sockets.bind(zmq.PUSH, addresses.desk, _LINGER)
        self.accept_failures = 0
        self._subscribers = 0
        self._analysts: set[int] = set()
        sockets.watch(self._post, self._notice_failure)
        sockets.watch(self._feed, self._notice_failure)
        self._look_at_desk = sockets.watch(self._desk, self._notice_analyst)
        post, feed, desk = (_endpoint(channel) for channel in (self._post, self._feed, self._desk))
        self.addresses = BoardAddresses(post=post, feed=feed, desk=desk)

    @property
    def subscribers(self) -> int:
        self._feed.check_open()
        while events := self._feed.drain():
            self._subscribers += events.count(b"\1" + BROADCAST) - events.count(b"\0" + BROADCAST)
        return self._subscribers

    async def receive(self, timeout: float) -> list[Received]:
        if not await self._post.readable(timeout):
            return []
        return [Received(frame, None) for frame in self._post.drain()]

    def publish(self, topic: bytes, frame: bytes) -> None:
        check_topic(topic)
        check_frame(frame)
        self._feed.offer(topic + frame)

    async def deliver(self, frame: bytes) -> bool:
        check_frame(frame)
        if self._desk.offer(frame):
            return True
        self._look_at_desk()
        return bool(self._analysts) and await self._desk.send(frame, self._patience)

    def close(self) -> None:
        self._sockets.close()

    def _notice_failure(self, event: zmq.Event, descriptor: int) -> None:
        if event == zmq.Event.ACCEPT_FAILED:
            self.accept_failures += 1

    def _notice_analyst(self, event: zmq.Event, descriptor: int) -> None:
        self._notice_failure(event, descriptor)
        if event == zmq.Event.ACCEPTED:
            self._analysts.add(descriptor)
        elif event == zmq.Event.DISCONNECTED:
            self._analysts.discard(descriptor)


class _ZmqListener(ObserverPort):
    topic_bytes = 1

    def __init__(self, sockets: _Sockets, source: _Channel) -> None:
        self._sockets = sockets
        self._source = source

    async def receive(self, timeout: float) -> list[bytes]:
        if not await self._source.readable(timeout):
            return []
        return [frame[self.topic_bytes :] for frame in self._source.drain()]

    def close(self) -> None:
        self._sockets.close()


class _ZmqSender(_ZmqListener, NodePort):
    def __init__(self, sockets: _Sockets, source: _Channel, post: _Channel, patience: float) -> None:
        super().__init__(sockets, source)
        self._post = post
        self._patience = patience

    async def send(self, frame: bytes) -> None:
        check_frame(frame)
        if not await self._post.send(frame, self._patience):
            where = _endpoint(self._post)
            raise SendTimeout(f"the board at {where} took no frame within {self._patience:g} s; see that it runs")


class _ZmqAnalyst(_ZmqSender, AnalystPort):
    topic_bytes = 0


def _endpoint(channel: _Channel) -> str:
    return channel.socket.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\0")


def _events(socket: zmq.Socket[bytes]) -> int:
    return int(socket.getsockopt(zmq.EVENTS))


def _check_free(path: str) -> None:
    """libzmq would take the path of a living listener away from it."""
    with plain_socket.socket(plain_socket.AF_UNIX) as probe, suppress(FileNotFoundError, ConnectionRefusedError):
        probe.connect(path)
        raise BadInput(f"{path} is in use; choose another path")


def _unbindable(address: str, error: zmq.ZMQError) -> BadInput:
    place = host_and_port(address)
    if place is not None and error.errno == errno.EADDRINUSE:
        return BadInput(f"port {place[1]} on {place[0]} is in use; choose another, or 0 for any free one")
    return BadInput(f"cannot listen at {address}: {error.strerror}; choose an address of this machine")
