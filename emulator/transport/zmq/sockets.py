"""The context of one port and its sockets: their options and keys, bound or connected."""

import asyncio
import time
from collections.abc import Callable, Mapping

import zmq
from zmq.utils import z85

from parley.emulator.errors import BadInput
from parley.emulator.transport.addresses import cannot_bind, check_free, check_known, check_private, host_and_port
from parley.emulator.transport.unread import MOST_FROM_LISTENER, Connected, Swelling, pause
from parley.emulator.transport.zmq.channel import NO_END, BlockingChannel, Channel
from parley.emulator.transport.zmq.watching import Watch
from parley.emulator.wire.codec import LARGEST_FRAME
from parley.emulator.wire.security import KeyPair, Security

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
# Nothing but greetings, subscriptions and heartbeats comes in where we only speak. Bytes are limited there (see
# `doors.py` and `look`) and messages are not: at its mark libzmq stops reading, and a connection that breaks while it
# does so and is due a heartbeat ends the process (an assertion in stream_engine_base.cpp).
# What waits in the kernel libzmq reads even from a connection that was cut, so little may wait there.
# A closing speaker gives what is already queued a second to leave.
SPEAKER: dict[int, int] = {zmq.LINGER: 1000, zmq.MAXMSGSIZE: 4096, zmq.RCVHWM: 0, zmq.RCVBUF: MOST_FROM_LISTENER}


def make_keys() -> KeyPair:
    """A fresh pair from the operating system's randomness."""
    public, secret = zmq.curve_keypair()
    return KeyPair(public=public.decode("ascii"), secret=secret.decode("ascii"))


class Sockets:
    """The context of one port and all its sockets."""

    def __init__(self, queue: int, security: Security | None, kind: type[Channel] = Channel, pace: float = 1.0) -> None:
        self._options: dict[int, int] = {**_OPTIONS, zmq.SNDHWM: queue, zmq.RCVHWM: queue}
        self._options.update({each: int(pace * _OPTIONS[each]) for each in _PACED})
        self._kind = kind
        self._security = security
        self._context = zmq.Context()
        self.watch = Watch(self._context)
        self._channels: list[Channel] = []
        self._swelling = Swelling()
        self._connected = Connected()
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Look at what the peers hold back, again and again for as long as the loop runs."""
        if self._timer is None:
            self.watch.start()
            self._look_again(asyncio.get_running_loop())

    def look_if_due(self) -> None:
        """The same for one who has no loop."""
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + self._look()

    def _look_again(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(self._look(), self._look_again, loop)

    def _look(self) -> float:
        """Seconds until the next look is due."""
        self.watch.hear_reports()
        for channel in self._channels:
            channel.look()
        readers = [channel for channel in self._channels if channel.reads]
        most = max(readers, key=lambda channel: channel.unread.largest, default=None)
        if most is not None:
            size, descriptor = most.unread.largest
            if self._swelling.check(size, sum(channel.ahead for channel in readers)):
                most.end([descriptor], NO_END)
        return pause(sum(len(channel.connections()) for channel in self._channels))

    def bind(
        self, kind: int, address: str, domain: str, options: Mapping[int, int] | None = None, *, counted: bool = False
    ) -> Channel:
        """A listening socket; an address in use, or open to other machines without keys, is bad input.

        `counted`: those turned away are counted.
        """
        channel = self._channel(kind, address, options)
        if self._security is not None:
            _be_server(channel.socket, self._security, domain)
        check_free(address)
        # Before anybody can come: whom nobody saw coming nobody would watch.
        if kind == zmq.XPUB and host_and_port(address) is not None:
            channel.door = self.watch.door_for(channel)
        if counted:
            self.watch.count_refusals(channel)
        else:
            self.watch.watch(channel)
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

        self.watch.attend(gate, answer)

    def push(self, address: str) -> Channel:
        """A writing end of the inbox. IMMEDIATE: a frame is taken only when there is a board to take it."""
        return self.connect(zmq.PUSH, address, {**SPEAKER, zmq.IMMEDIATE: 1})

    def subscribe(self, address: str, *topics: bytes) -> Channel:
        """A reading end of the feed. After a lost connection it subscribes again when it is next read."""
        channel = self.connect(zmq.SUB, address)
        for topic in topics:
            channel.socket.setsockopt(zmq.SUBSCRIBE, topic)
        return channel

    def close(self) -> None:
        """Close all and wait, at most for the linger time, until the context's threads are gone."""
        if self._timer is not None:
            self._timer.cancel()
        self.watch.close()
        for channel in self._channels:
            channel.close()
        self._channels.clear()
        self._context.term()

    def connect(self, kind: int, address: str, options: Mapping[int, int] | None = None) -> Channel:
        """One end of a channel that somebody else listens at."""
        try:
            check_known(address)
            channel = self._channel(kind, address, options)
            if self._security is not None:
                _be_client(channel.socket, self._security)
            channel.connects = True
            place = host_and_port(address)
            if place is None or not isinstance(channel, BlockingChannel):
                self.watch.watch(channel)
            else:
                # In a process with one node all its connections are found by their port; a monitor would take
                # memory of each of thousands of processes.
                channel.connections = self._connected.to(int(place[1]))
            channel.socket.connect(address)
        except BadInput:
            self.close()
            raise
        return channel

    def _channel(self, kind: int, address: str, options: Mapping[int, int] | None) -> Channel:
        if self._security is None:
            check_private(address)
        socket = self._context.socket(kind)
        keep_watch = self.look_if_due if issubclass(self._kind, BlockingChannel) else self.start
        channel = self._kind(socket, keep_watch, self.watch.refused)
        channel.channels = self._channels
        self._channels.append(channel)
        place = host_and_port(address)
        settings = {**self._options, **(options or {})}
        settings[zmq.IPV6] = int(place is not None and ":" in place[0])
        for option, value in settings.items():
            socket.setsockopt(option, value)
        return channel


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
