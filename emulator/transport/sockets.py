"""Ports over ZeroMQ, between processes and hosts. The only file that imports zmq.

Each port owns a context, made when the port is opened (so after a fork) and gone when it is closed. Readiness is
awaited once, then frames are moved without blocking: an await a message would cost twenty times as much.
"""

import asyncio
import logging
import math
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial

import zmq
from zmq.utils import z85
from zmq.utils.monitor import parse_monitor_message

from parley.emulator.errors import BadInput, LocalProtocolError
from parley.emulator.transport.addresses import (
    BoardAddresses,
    cannot_bind,
    check_free,
    check_known,
    check_private,
    descriptors_for,
    host_and_port,
    raise_file_limit,
)
from parley.emulator.transport.channels import ZmqAnalystPort, ZmqBoardPort, ZmqNodePort, ZmqObserverPort
from parley.emulator.transport.doors import Door, Doorkeeper
from parley.emulator.transport.memory import (
    ANALYST,
    BROADCAST,
    DELIVERY_PATIENCE,
    MOST_BYTES,
    MOST_FRAMES,
    NOTICE,
    PATIENCE,
    QUEUE,
    AnalystPort,
    NodePort,
    ObserverPort,
    Received,
)
from parley.emulator.transport.unread import (
    LONGEST_PAUSE,
    MOST_FROM_LISTENER,
    MOST_UNFINISHED,
    MOST_UNREAD,
    Swelling,
    Unread,
    accepted_at,
    connected_to,
    pause,
)
from parley.emulator.wire.codec import LARGEST_FRAME
from parley.emulator.wire.security import KeyPair, Security, read_allowed, read_keys, write_allowed, write_keys

__all__ = [
    "BoardAddresses",
    "KeyPair",
    "Security",
    "ZmqBoardPort",
    "connect_analyst",
    "connect_node",
    "connect_observer",
    "connect_reporter",
    "descriptors_for",
    "make_keys",
    "open_board",
    "raise_file_limit",
    "read_allowed",
    "read_keys",
    "write_allowed",
    "write_keys",
]

_OPTIONS: dict[int, int] = {
    zmq.LINGER: 0,
    # The topic and what CURVE wraps around a frame come on top; libzmq cuts a connection that announces more.
    zmq.MAXMSGSIZE: LARGEST_FRAME + 64,
    zmq.BACKLOG: 4096,
    zmq.HANDSHAKE_IVL: 15_000,
    zmq.CONNECT_TIMEOUT: 2_000,
    zmq.RECONNECT_IVL: 50,
    zmq.RECONNECT_IVL_MAX: 500,
    # A peer that is gone without a word is noticed; one that is merely starved of processor time is kept. Each side
    # goes by its own clock: the TTL one could send along libzmq cuts to 16 bits of milliseconds.
    zmq.HEARTBEAT_IVL: 10_000,
    zmq.HEARTBEAT_TIMEOUT: 30_000,
    zmq.TCP_KEEPALIVE: 1,
    zmq.TCP_KEEPALIVE_IDLE: 30,
    zmq.TCP_KEEPALIVE_INTVL: 10,
    zmq.TCP_KEEPALIVE_CNT: 3,
}
# What is longer where many peers share a processor: waking thousands of them for heartbeats would keep them from work.
_PACED = (zmq.HANDSHAKE_IVL, zmq.CONNECT_TIMEOUT, zmq.HEARTBEAT_IVL, zmq.HEARTBEAT_TIMEOUT)
# A closing sender gives what is already queued this long to leave.
_LINGER: dict[int, int] = {zmq.LINGER: 1000}
# Nothing but greetings, subscriptions and heartbeats comes in where we only speak. Bytes are limited there (see
# `doors.py` and `look`) and messages are not: at its mark libzmq stops reading, and a connection that breaks while it
# does so and is due a heartbeat ends the process (an assertion in stream_engine_base.cpp).
# What waits in the kernel libzmq reads even from a connection that was cut, so little may wait there.
_SPEAKER: dict[int, int] = {**_LINGER, zmq.MAXMSGSIZE: 4096, zmq.RCVHWM: 0, zmq.RCVBUF: MOST_FROM_LISTENER}
_READERS = (zmq.PULL, zmq.SUB)
_NOBLOCK, _SOURCE = int(zmq.NOBLOCK), int(zmq.SRCFD)
MANY_PARTS = "a message of several parts"
NO_END = "connection ended: it sent more than a frame may have and no end of it"
TOO_MUCH_UNREAD = "connection ended: it sent more than could be read"
ONLY_LISTENS = "connection ended: it sent where it may only listen"
# While somebody's message is taking too long, this much is read ahead to see whether any of it is whole.
_AHEAD_FRAMES, _AHEAD_BYTES = 10_000, 4 * LARGEST_FRAME
_CAUSES = {
    zmq.Event.ACCEPT_FAILED: "no more open files",
    zmq.Event.HANDSHAKE_FAILED_NO_DETAIL: "handshake broken off",
    zmq.Event.HANDSHAKE_FAILED_PROTOCOL: "no keys or the wrong board's key",
    zmq.Event.DISCONNECTED: "connection broken off: its process ended, or it sent more than a frame may have",
}
_COMING = zmq.Event.ACCEPTED | zmq.Event.CONNECTED
_HANDSHAKES = (
    zmq.Event.HANDSHAKE_FAILED_NO_DETAIL,
    zmq.Event.HANDSHAKE_FAILED_PROTOCOL,
    # Counted by the gatekeeper, who knows why.
    zmq.Event.HANDSHAKE_FAILED_AUTH,
)
log = logging.getLogger("transport")


def make_keys() -> KeyPair:
    """A fresh pair from the operating system's randomness."""
    public, secret = zmq.curve_keypair()
    return KeyPair(public=public.decode("ascii"), secret=secret.decode("ascii"))


def open_board(
    addresses: BoardAddresses,
    security: Security | None = None,
    *,
    queue: int = QUEUE,
    patience: float = DELIVERY_PATIENCE,
    pace: float = 1.0,
) -> ZmqBoardPort:
    """Bind the board's channels; its `addresses` then hold the real ports. Needs the running event loop.

    `pace`: how many times longer than usual peers may take to answer, being many.
    """
    if security is not None and not security.allowed:
        raise BadInput("the board has keys but no list of keys it admits; list at least the analyst's public key")
    sockets = _Sockets(queue, security, pace=pace)
    try:
        if security is not None:
            sockets.keep_gate(partial(_admit, security.allowed, sockets.refused))
        inbox = sockets.bind(zmq.PULL, addresses.inbox, "inbox", counted=True)
        # VERBOSER: every node's coming and going counts, not only the first and last of a topic.
        feed = sockets.bind(zmq.XPUB, addresses.feed, "feed", {**_SPEAKER, zmq.XPUB_VERBOSER: 1}, counted=True)
        delivery = sockets.bind(zmq.PUSH, addresses.delivery, "delivery", _SPEAKER)
        sockets.start()
    except BadInput:
        sockets.close()
        raise
    return ZmqBoardPort(
        inbox=inbox,
        feed=feed,
        delivery=delivery,
        signed=security is not None,
        refused=sockets.refusals,
        analysts=lambda: len(delivery.connections()),
        patience=patience,
        close=sockets.close,
    )


def connect_node(
    addresses: BoardAddresses,
    security: Security | None = None,
    *,
    queue: int = QUEUE,
    patience: float = PATIENCE,
    blocking: bool = False,
    own: bytes = b"",
    notices: bool = False,
    pace: float = 1.0,
) -> NodePort:
    """A user node's port: broadcasts in, with `notices` those too that need no answer; frames to the inbox out.

    `own` is the topic of what is for this node alone, or the beginning of such topics.
    `blocking` is for a process that does nothing else: waiting takes place in the call, without an event loop.
    """
    sockets = _Sockets(queue, security, _BlockingChannel if blocking else _Channel, pace)
    topics = (BROADCAST, *([NOTICE] if notices else []), *([own] if own else []))
    feed, inbox = sockets.subscribe(addresses.feed, *topics), sockets.push(addresses.inbox)
    return ZmqNodePort(feed, inbox, pace * patience, sockets.close)


def connect_analyst(
    addresses: BoardAddresses, security: Security | None = None, *, queue: int = QUEUE, patience: float = PATIENCE
) -> AnalystPort:
    """The analyst's port: the delivery in, frames to the inbox out."""
    sockets = _Sockets(queue, security)
    delivery, inbox = sockets.pull(addresses.delivery), sockets.push(addresses.inbox)
    return ZmqAnalystPort(delivery, inbox, patience, sockets.close)


def connect_observer(
    addresses: BoardAddresses, security: Security | None = None, *, queue: int = QUEUE
) -> ObserverPort:
    """An observer's port: all that is published from now on."""
    sockets = _Sockets(queue, security)
    return ZmqObserverPort(sockets.subscribe(addresses.feed, b""), sockets.close)


def connect_reporter(
    addresses: BoardAddresses, security: Security | None = None, *, patience: float = PATIENCE
) -> NodePort:
    """The port of one who only sends to the inbox: it hears nothing, and does not count as a subscriber."""
    sockets = _Sockets(QUEUE, security)
    inbox = sockets.push(addresses.inbox)
    return ZmqNodePort(inbox, inbox, patience, sockets.close)


class _Channel:
    """One socket: waits for its file descriptor, then moves frames without blocking.

    `keep_watch` is called by whoever waits or sends, so that somebody looks at what the peers hold back.
    """

    def __init__(self, socket: zmq.Socket[bytes], keep_watch: Callable[[], None], refused: Counter[str]) -> None:
        self.socket = socket
        self.connections: Callable[[], set[int]] = set
        # All of the port's, this one among them.
        self.channels: list[_Channel] = []
        self.connects = False
        self.door: Door | None = None
        self._keep_watch = keep_watch
        self._refused = refused
        self.reads = socket.type in _READERS
        self.unread = Unread(most=MOST_UNFINISHED if self.reads else MOST_FROM_LISTENER)
        self._ahead: deque[zmq.Frame] = deque()
        self._inside = False
        self._turn = asyncio.Lock()
        self._waiter: asyncio.Future[None] | None = None

    @property
    def endpoint(self) -> str:
        """Its address, with the real port."""
        return self.socket.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\0")

    async def readable(self, timeout: float) -> bool:
        """Wait until there is something to read, letting others run in any case."""
        self.check_open()
        self._keep_watch()
        await asyncio.sleep(0)
        async with self._turn:
            return await self._ready(zmq.POLLIN, asyncio.get_running_loop().time() + timeout)

    def drain_signed(self) -> list[Received]:
        """As `drain`, with the name the gatekeeper gave the sender: libzmq keeps it with the frame, not its copy."""
        return [Received(frame.bytes, str(frame["User-Id"])) for frame in self._frames()]

    def drain(self) -> list[bytes]:
        """What is there, up to a batch. No await follows, so a cancelled reader has taken nothing."""
        if self.reads:
            return [frame.bytes for frame in self._frames()]
        frames: list[bytes] = []
        with suppress(zmq.Again):
            while len(frames) < MOST_FRAMES and not self.socket.closed:
                frames.append(self.socket.recv(zmq.NOBLOCK))
        return frames

    def _frames(self) -> list[zmq.Frame]:
        frames: list[zmq.Frame] = []
        size = 0
        ahead, receive = self._ahead, self._receive
        with suppress(zmq.Again):
            for _ in range(MOST_FRAMES):
                frame = ahead.popleft() if ahead else receive()
                if frame is not None:
                    frames.append(frame)
                    size += len(frame)
                    if size >= MOST_BYTES:
                        break
        return frames

    def _receive(self) -> zmq.Frame | None:
        """The next message; None for a part of one: ours have a single part, and what has more is none."""
        frame = self.socket.recv(_NOBLOCK, copy=False)
        try:  # noqa: SIM105 - this is done for every frame, and a context takes longer than all the rest
            self.unread.took(frame.get(_SOURCE), len(frame))
        except zmq.ZMQError:
            # A peer that speaks an old version of the protocol has no number here, and gets no credit.
            pass
        if not (frame.more or self._inside):
            return frame
        if not self._inside:
            self._refused[MANY_PARTS] += 1
        self._inside = frame.more
        return None

    def look(self) -> None:
        """Hang up on peers that send without end; never on one whose messages end, unless nobody can read them all."""
        if self.socket.closed or self.door is not None:
            return
        unread = self.unread
        unread.look(self.connections())
        if not unread.beyond():
            return
        if not self.reads:
            self.end(unread.beyond(), ONLY_LISTENS)
        elif self._read_ahead():
            self.end(unread.beyond(), NO_END)
        else:
            self.end(unread.beyond(MOST_UNREAD), TOO_MUCH_UNREAD)

    def end(self, descriptors: Iterable[int], cause: str) -> None:
        """Hang up on these connections, and count them."""
        for descriptor in descriptors:
            if self.unread.end(descriptor):
                self.count(cause)

    def count(self, cause: str) -> None:
        """Somebody was hung up on."""
        self._refused[cause] += 1
        log.warning("%s", cause)

    @property
    def ahead(self) -> int:
        """Bytes that were read ahead and wait for their reader."""
        return sum(map(len, self._ahead))

    def _read_ahead(self) -> bool:
        """Take what is whole out of the socket, and whether that was all. It is kept for the next reader."""
        size = self.ahead
        try:
            while len(self._ahead) < _AHEAD_FRAMES and size < _AHEAD_BYTES:
                frame = self._receive()
                if frame is not None:
                    self._ahead.append(frame)
                    size += len(frame)
        except zmq.Again:
            return True
        finally:
            self.wake()
        return False

    async def send(self, frame: bytes, timeout: float) -> bool:
        """Send, waiting at the high-water mark; False when it did not go within `timeout` seconds."""
        deadline = asyncio.get_running_loop().time() + timeout
        async with self._turn:
            while not self._try(frame):
                if not await self._ready(zmq.POLLOUT, deadline):
                    return False
        return True

    def offer(self, frame: bytes) -> bool:
        """Send unless others wait to, the high-water mark is reached or nobody is there."""
        self.check_open()
        if self._turn.locked():
            return False
        # Asked for EVENTS libzmq takes note of what was read; by itself it does so once a millisecond, and whoever
        # publishes faster than that would find a reader's queue full that is not.
        # `zmq_poll` asks for them too, and lets the doorkeeper run meanwhile: subscriptions without end are noted here.
        zmq.zmq_poll([(self.socket, zmq.POLLOUT)], 0)
        return self._try(frame)

    def _try(self, frame: bytes) -> bool:
        try:
            self.socket.send(frame, zmq.NOBLOCK)
        except zmq.Again:
            return False
        except zmq.ZMQError:
            self.check_open()
            raise
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
        while not self.socket.closed and not (_events(self.socket) & event or (event == zmq.POLLIN and self._ahead)):
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


class _BlockingChannel(_Channel):
    """One socket of a process with nothing else to do: a thousand such processes need no event loops."""

    async def readable(self, timeout: float) -> bool:
        self.check_open()
        return self._wait(zmq.POLLIN, time.monotonic() + timeout)

    async def send(self, frame: bytes, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        while not self._try(frame):
            if not self._wait(zmq.POLLOUT, deadline):
                return False
        return True

    def _wait(self, event: int, deadline: float) -> bool:
        stirred = False
        while True:
            self._keep_watch()
            left = max(0.0, deadline - time.monotonic())
            # Bytes that come over any connection of the port wake us too, for they may be of a message without an end;
            # a silent peer costs nothing. A connection that is yet to be made wakes nobody, so it is looked for.
            raw = [(each, zmq.POLLIN) for channel in self.channels for each in channel.connections()]
            wait = left if len(raw) >= len(self.channels) else min(left, LONGEST_PAUSE)
            if stirred:
                raw, wait = [], min(left, pause(1))
            found = zmq.zmq_poll([(self.socket, event), *raw], math.ceil(wait * 1000))
            if (event == zmq.POLLIN and self._ahead) or _events(self.socket) & event:
                return True
            if left <= 0 or (not found and wait == left):
                return False
            stirred = bool(found)

    def offer(self, frame: bytes) -> bool:
        self._keep_watch()
        return self._try(frame)

    def wake(self) -> None:
        """Nobody waits while another runs."""

    def close(self) -> None:
        self.socket.close()


class _Sockets:
    """The context of one port and all its sockets."""

    def __init__(
        self, queue: int, security: Security | None, kind: type[_Channel] = _Channel, pace: float = 1.0
    ) -> None:
        self.refused: Counter[str] = Counter()
        self._queue = queue
        self._options: dict[int, int] = {**_OPTIONS, **{each: int(pace * _OPTIONS[each]) for each in _PACED}}
        self._kind = kind
        self._security = security
        self._context = zmq.Context()
        self._channels: list[_Channel] = []
        self._deaf: set[_Channel] = set()
        self._attended: list[tuple[asyncio.AbstractEventLoop, zmq.Socket[bytes]]] = []
        self._unattended: list[zmq.Socket[bytes]] = []
        self._keeper: Doorkeeper | None = None
        # What the doorkeeper saw, for the loop to deal with.
        self._reports: deque[Callable[[], None]] = deque()
        self._swelling = Swelling()
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Look at what the peers hold back, again and again for as long as the loop runs."""
        if self._timer is None:
            if self._keeper is not None:
                self._keeper.start()
            self._look_again(asyncio.get_running_loop())

    def look_if_due(self) -> None:
        """The same for one who has no loop."""
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + self._look()

    def _look_again(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(self._look(), self._look_again, loop)

    def _look(self) -> float:
        """Seconds until the next look is due."""
        self._hear_reports()
        for channel in self._channels:
            channel.look()
        readers = [channel for channel in self._channels if channel.reads]
        most = max(readers, key=lambda channel: channel.unread.largest, default=None)
        if most is not None:
            size, descriptor = most.unread.largest
            if self._swelling.check(size, sum(channel.ahead for channel in readers)):
                most.end([descriptor], NO_END)
        return pause(sum(len(channel.connections()) for channel in self._channels))

    def refusals(self) -> dict[str, int]:
        """How many connections and messages were refused so far, by cause."""
        self._hear_reports()
        return dict(self.refused)

    def _hear_reports(self) -> None:
        while self._reports:
            self._reports.popleft()()

    def bind(
        self,
        kind: int,
        address: str,
        domain: str,
        options: Mapping[int, int] | None = None,
        *,
        counted: bool = False,
    ) -> _Channel:
        """A listening socket; an address in use, or open to other machines without keys, is bad input.

        `counted`: those turned away are counted.
        """
        channel = self._channel(kind, address, options)
        if self._security is not None:
            _be_server(channel.socket, self._security, domain)
        check_free(address)
        # Before anybody can come: whom nobody saw coming nobody would watch.
        if kind == zmq.XPUB and host_and_port(address) is not None:
            channel.door = Door(lambda: self._reports.append(partial(channel.count, ONLY_LISTENS)))
        if counted:
            self._count_refusals(channel)
        else:
            self._watch(channel)
        try:
            channel.socket.bind(address.replace("//localhost:", "//127.0.0.1:"))
        except zmq.ZMQError as error:
            raise cannot_bind(address, error.errno or 0, error.strerror) from error
        place = host_and_port(channel.endpoint)
        if channel.door is not None and place is not None:
            channel.door.port = int(place[1])
        return channel

    def keep_gate(self, admit: Callable[[str, str], str | None]) -> None:
        """Answer libzmq (ZeroMQ RFC 27) who a public key is in the domain it knocks at; None keeps it out."""
        gate = self._context.socket(zmq.REP)
        gate.bind("inproc://zeromq.zap.01")

        def answer(question: list[bytes]) -> None:
            version, request, domain, _, _, mechanism, *credentials = question
            known = mechanism == b"CURVE" and len(credentials) == 1
            name = admit(domain.decode(), z85.encode(credentials[0]).decode()) if known else None
            verdict = [b"400", b"refused", b""] if name is None else [b"200", b"OK", name.encode()]
            gate.send_multipart([version, request, *verdict, b""])

        self._attend(gate, answer)

    def pull(self, address: str) -> _Channel:
        """The reading end of the delivery."""
        return self._connect(zmq.PULL, address)

    def push(self, address: str) -> _Channel:
        """A writing end of the inbox. IMMEDIATE: a frame is taken only when there is a board to take it."""
        return self._connect(zmq.PUSH, address, {**_SPEAKER, zmq.IMMEDIATE: 1})

    def subscribe(self, address: str, *topics: bytes) -> _Channel:
        """A reading end of the feed. After a lost connection it subscribes again when it is next read."""
        channel = self._connect(zmq.SUB, address)
        for topic in topics:
            channel.socket.setsockopt(zmq.SUBSCRIBE, topic)
        return channel

    def _count_refusals(self, channel: _Channel) -> None:
        """Count who was turned away. Without a free descriptor libzmq tries again without end: that we hear once.

        A peer that announces a frame beyond MAXMSGSIZE is cut off, and libzmq does not say that this was why.
        """
        failed, refused = 0, self.refused

        def notice(event: zmq.Event, value: int) -> None:
            nonlocal failed
            # After a handshake that failed libzmq reports the end of the connection too; that is not another one.
            if event == zmq.Event.DISCONNECTED and failed:
                failed -= 1
                return
            failed += event in _HANDSHAKES
            if event not in _CAUSES:
                return
            refused[_CAUSES[event]] += 1
            if event == zmq.Event.ACCEPT_FAILED and channel not in self._deaf:
                self._deaf.add(channel)
                log.error("connections cannot be accepted at %s: %s", channel.endpoint, os.strerror(value))
                channel.socket.disable_monitor()
                place = host_and_port(channel.endpoint)
                # Who comes and goes is not reported from now on.
                if channel.door is not None and self._keeper is not None:
                    self._keeper.search(channel.door)
                elif place is not None:
                    channel.connections = partial(accepted_at, int(place[1]))

        self._watch(channel, sum(_CAUSES) | zmq.Event.HANDSHAKE_FAILED_AUTH, notice)

    def close(self) -> None:
        """Close all and wait, at most for the linger time, until the context's threads are gone."""
        if self._timer is not None:
            self._timer.cancel()
        if self._keeper is not None:
            # It reads some of the sockets below. Subscriptions are not noted any more once a socket is closed.
            self._keeper.stop()
            self._keeper = None
        for loop, socket in self._attended:
            loop.remove_reader(socket.FD)
            socket.close(0)
        for socket in self._unattended:
            socket.close(0)
        self._attended.clear()
        self._unattended.clear()
        for channel in self._channels:
            channel.close()
        self._channels.clear()
        self._context.term()

    def _watch(
        self, channel: _Channel, events: int = 0, notice: Callable[[zmq.Event, int], None] | None = None
    ) -> None:
        """Know a socket's connections, and call `notice` with each of these events and its value.

        That is done whenever somebody asks for the connections; where others connect to us, also when the loop is free.
        At a door the doorkeeper knows the connections, and the loop is told of the events.
        """
        name, all_events = f"inproc://watch-{self._channels.index(channel)}", events | _COMING | zmq.Event.DISCONNECTED
        channel.socket.monitor(name, all_events)
        ear = self._context.socket(zmq.PAIR)
        # Without a mark: libzmq's own thread would otherwise wait for us to read.
        ear.setsockopt(zmq.RCVHWM, 0)
        ear.connect(name)
        if (door := channel.door) is not None:
            self._keep_door(door, ear, events, notice)
            channel.connections = door.connections
            return
        present: set[int] = set()

        def tell(parts: list[bytes]) -> None:
            message = parse_monitor_message(parts)
            event = zmq.Event(message["event"])
            if event & _COMING:
                present.add(message["value"])
            elif event == zmq.Event.DISCONNECTED:
                present.discard(message["value"])
            if notice is not None and event & events:
                notice(event, message["value"])

        if channel.connects:
            self._unattended.append(ear)
            look: Callable[[], bool] = partial(_handle_all, ear, tell)
        else:
            look = self._attend(ear, tell)

        def connections() -> set[int]:
            while look():
                pass
            return present

        channel.connections = connections

    def _keep_door(
        self, door: Door, ear: zmq.Socket[bytes], events: int, notice: Callable[[zmq.Event, int], None] | None
    ) -> None:
        keeper = self._keeper = self._keeper or Doorkeeper()

        def tell(parts: list[bytes]) -> None:
            message = parse_monitor_message(parts)
            event = zmq.Event(message["event"])
            if event & _COMING:
                keeper.come(door, message["value"])
            elif event == zmq.Event.DISCONNECTED:
                keeper.go(door, message["value"])
            if notice is not None and event & events:
                self._reports.append(partial(notice, event, message["value"]))

        def hear() -> None:
            while _handle_all(ear, tell):
                pass

        self._unattended.append(ear)
        keeper.keep(door, ear.FD, hear)

    def _attend(self, socket: zmq.Socket[bytes], handle: Callable[[list[bytes]], None]) -> Callable[[], bool]:
        """Handle what comes to a socket of our own whenever the loop is free."""
        loop = asyncio.get_running_loop()

        def look() -> bool:
            more = _handle_all(socket, handle)
            if more:
                loop.call_soon(look)
            return more

        loop.add_reader(socket.FD, look)
        self._attended.append((loop, socket))
        look()
        return look

    def _connect(self, kind: int, address: str, options: Mapping[int, int] | None = None) -> _Channel:
        try:
            check_known(address)
            channel = self._channel(kind, address, options)
            if self._security is not None:
                _be_client(channel.socket, self._security)
            channel.connects = True
            place = host_and_port(address)
            if place is None or not isinstance(channel, _BlockingChannel):
                self._watch(channel)
            else:
                # In a process with one node all its connections are found by their port; a monitor would take
                # memory of each of thousands of processes.
                channel.connections = partial(connected_to, int(place[1]))
            channel.socket.connect(address)
        except BadInput:
            self.close()
            raise
        return channel

    def _channel(self, kind: int, address: str, options: Mapping[int, int] | None) -> _Channel:
        if self._security is None:
            check_private(address)
        socket = self._context.socket(kind)
        keep_watch = self.look_if_due if issubclass(self._kind, _BlockingChannel) else self.start
        channel = self._kind(socket, keep_watch, self.refused)
        channel.channels = self._channels
        self._channels.append(channel)
        place = host_and_port(address)
        marks: dict[int, int] = {zmq.SNDHWM: self._queue, zmq.RCVHWM: self._queue}
        settings = {**self._options, **marks, **(options or {})}
        settings[zmq.IPV6] = int(place is not None and ":" in place[0])
        for option, value in settings.items():
            socket.setsockopt(option, value)
        return channel


def _admit(allowed: Mapping[str, str], refused: Counter[str], domain: str, key: str) -> str | None:
    """Listed keys only; at the delivery only the analyst's, for whoever else pulled there would take its frames."""
    name = allowed.get(key)
    if name is None:
        refused["key not listed"] += 1
    elif domain == "delivery" and name != ANALYST:
        refused["not the analyst"] += 1
        return None
    return name


def _handle_all(socket: zmq.Socket[bytes], handle: Callable[[list[bytes]], None]) -> bool:
    """Handle what is there, up to a batch; whether there may be more."""
    for _ in range(MOST_FRAMES):
        if socket.closed or not _events(socket) & zmq.POLLIN:
            return False
        handle(socket.recv_multipart(zmq.NOBLOCK))
    return True


def _events(socket: zmq.Socket[bytes]) -> int:
    return int(socket.getsockopt(zmq.EVENTS))


def _be_server(socket: zmq.Socket[bytes], security: Security, domain: str) -> None:
    _check_pair(security.keys)
    socket.setsockopt(zmq.CURVE_SERVER, 1)
    socket.setsockopt(zmq.CURVE_SECRETKEY, security.keys.secret.encode())
    socket.setsockopt(zmq.ZAP_DOMAIN, domain.encode())
    # Without a gatekeeper libzmq would let in any key.
    socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)


def _be_client(socket: zmq.Socket[bytes], security: Security) -> None:
    _check_pair(security.keys)
    if security.server is None:
        raise BadInput("keys were given without the board's public key; give that too")
    socket.setsockopt(zmq.CURVE_PUBLICKEY, security.keys.public.encode())
    socket.setsockopt(zmq.CURVE_SECRETKEY, security.keys.secret.encode())
    socket.setsockopt(zmq.CURVE_SERVERKEY, security.server.encode())


def _check_pair(keys: KeyPair) -> None:
    if zmq.curve_public(keys.secret.encode()) != keys.public.encode():
        raise BadInput("a public key that does not belong to its secret key; make a new pair with `parley keys`")
