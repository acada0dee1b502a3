"""One socket as a channel: waits until it is ready, moves frames, and hangs up on peers that send without end."""

import asyncio
import logging
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

import zmq

from parley.emulator.errors import LocalProtocolError
from parley.emulator.transport import unread
from parley.emulator.transport.ports import MOST_BYTES, MOST_FRAMES, Received
from parley.emulator.wire.codec import LARGEST_FRAME

if TYPE_CHECKING:
    from parley.emulator.transport.doors import Door

_READERS = (zmq.PULL, zmq.SUB)
_NOBLOCK, _SOURCE = int(zmq.NOBLOCK), int(zmq.SRCFD)
MANY_PARTS = "a message of several parts"
NO_END = "connection ended: it sent more than a frame may have and no end of it"
TOO_MUCH_UNREAD = "connection ended: it sent more than could be read"
ONLY_LISTENS = "connection ended: it sent where it may only listen"
# While somebody's message is taking too long, this much is read ahead to see whether any of it is whole.
_AHEAD_FRAMES, _AHEAD_BYTES = 10_000, 4 * LARGEST_FRAME
log = logging.getLogger("transport")


class Channel:
    """One socket: waits for its file descriptor, then moves frames without blocking.

    `keep_watch` is called by whoever waits or sends, so that somebody looks at what the peers hold back.
    """

    def __init__(self, socket: zmq.Socket[bytes], keep_watch: Callable[[], None], refused: Counter[str]) -> None:
        self.socket = socket
        self.connections: Callable[[], set[int]] = set
        # All of the port's, this one among them.
        self.channels: list[Channel] = []
        self.connects = False
        self.door: Door | None = None
        self._keep_watch = keep_watch
        self._refused = refused
        self.reads = socket.type in _READERS
        self.has_topics = socket.type == zmq.SUB
        self.unread = unread.Unread(most=unread.MOST_UNFINISHED if self.reads else unread.MOST_FROM_LISTENER)
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
        frames, size = list[zmq.Frame](), 0
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
        self.unread.look(self.connections())
        if not self.unread.beyond():
            return
        if not self.reads:
            self.end(self.unread.beyond(), ONLY_LISTENS)
        elif self._read_ahead():
            self.end(self.unread.beyond(), NO_END)
        else:
            self.end(self.unread.beyond(unread.MOST_UNREAD), TOO_MUCH_UNREAD)

    def end(self, descriptors: Iterable[int], cause: str) -> None:
        """Hang up on these connections, and count them."""
        for descriptor in descriptors:
            if self.unread.end(descriptor):
                self.count(cause)

    def count(self, cause: str) -> None:
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
        while not self.socket.closed and not (events_of(self.socket) & event or (event == zmq.POLLIN and self._ahead)):
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


class BlockingChannel(Channel):
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
            wait = left if len(raw) >= len(self.channels) else min(left, unread.LONGEST_PAUSE)
            if stirred:
                raw, wait = [], min(left, unread.pause(1))
            found = zmq.zmq_poll([(self.socket, event), *raw], math.ceil(wait * 1000))
            if (event == zmq.POLLIN and self._ahead) or events_of(self.socket) & event:
                return True
            if left <= 0 or (not found and wait == left):
                return False
            stirred = bool(found)

    def offer(self, frame: bytes) -> bool:
        self._keep_watch()
        return self._try(frame)


def events_of(socket: zmq.Socket[bytes]) -> int:
    """What libzmq says the socket is ready for."""
    return int(socket.getsockopt(zmq.EVENTS))
