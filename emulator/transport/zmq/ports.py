"""The ports of the board, the nodes and the analyst over ZeroMQ, and how they are opened."""

from collections import Counter
from collections.abc import Mapping
from functools import partial

import zmq

from parley.emulator.errors import BadInput
from parley.emulator.transport import ports
from parley.emulator.transport.addresses import BoardAddresses
from parley.emulator.transport.ports import PATIENCE, QUEUE
from parley.emulator.transport.zmq.channel import BlockingChannel, Channel
from parley.emulator.transport.zmq.sockets import SPEAKER, Sockets
from parley.emulator.wire.security import Security


class ZmqBoardPort(ports.BoardPort):
    """The board's port; `addresses` are the real ones."""

    def __init__(
        self, sockets: Sockets, *, inbox: Channel, feed: Channel, delivery: Channel, signed: bool, patience: float
    ) -> None:
        self._sockets = sockets
        self._inbox, self._feed, self._delivery = inbox, feed, delivery
        self._signed = signed
        self._patience = patience
        self._subscribers = 0
        self._stalled = False
        self.addresses = BoardAddresses(inbox=inbox.endpoint, feed=feed.endpoint, delivery=delivery.endpoint)

    @property
    def subscribers(self) -> int:
        self._feed.check_open()
        self._count_subscriptions()
        return self._subscribers

    @property
    def refused(self) -> Mapping[str, int]:
        return self._sockets.watch.refusals()

    async def receive(self, timeout: float) -> list[ports.Received]:
        readable = await self._inbox.readable(timeout)
        # Subscriptions pile up unless they are read, whether anything is posted or not.
        self._count_subscriptions()
        if not readable:
            return []
        if self._signed:
            return self._inbox.drain_signed()
        return [ports.Received(frame, None) for frame in self._inbox.drain()]

    def publish(self, topic: bytes, frame: bytes) -> None:
        ports.check_topic(topic)
        ports.check_frame(frame)
        self._feed.offer(topic + frame)

    async def deliver(self, frame: bytes) -> bool:
        ports.check_frame(frame)
        if self._delivery.offer(frame):
            self._stalled = False
            return True
        if self._stalled or not self._delivery.connections():
            return False
        self._stalled = not await self._delivery.send(frame, self._patience)
        return not self._stalled

    def close(self) -> None:
        self._sockets.close()

    def _count_subscriptions(self) -> None:
        """Read all comings (1 and the topic) and goings (0 and the topic)."""
        events = [b""] * ports.MOST_FRAMES
        while len(events) == ports.MOST_FRAMES:
            events = self._feed.drain()
            self._subscribers += events.count(b"\1" + ports.BROADCAST) - events.count(b"\0" + ports.BROADCAST)


class ZmqNodePort(ports.NodePort):
    """In comes the feed, each frame without its topic, or the delivery, which has no topics; out goes the inbox."""

    def __init__(self, sockets: Sockets, source: Channel, inbox: Channel, patience: float) -> None:
        self._sockets = sockets
        self._source, self._inbox = source, inbox
        self._patience = patience

    async def receive(self, timeout: float) -> list[bytes]:
        if not await self._source.readable(timeout):
            return []
        frames = self._source.drain()
        return [ports.without_topic(frame) for frame in frames] if self._source.has_topics else frames

    def close(self) -> None:
        self._sockets.close()

    async def send(self, frame: bytes) -> None:
        ports.check_frame(frame)
        if not self._inbox.offer(frame) and not await self._inbox.send(frame, self._patience):
            raise ports.SendTimeout(
                f"the board at {self._inbox.endpoint} took no frame within {self._patience:g} s; "
                "check that it runs and, if keys are in use, that it lists our key and we have its key"
            )


def open_board(
    addresses: BoardAddresses,
    security: Security | None = None,
    *,
    queue: int = QUEUE,
    patience: float = ports.DELIVERY_PATIENCE,
    pace: float = 1.0,
) -> ZmqBoardPort:
    """Bind the board's channels; its `addresses` then hold the real ports. Needs the running event loop.

    `pace`: how many times longer than usual peers may take to answer, being many.
    """
    if security is not None and not security.allowed:
        raise BadInput("the board has keys but no list of keys it admits; list at least the analyst's public key")
    sockets = Sockets(queue, security, pace=pace)
    try:
        if security is not None:
            sockets.keep_gate(partial(_admit, security.allowed, sockets.watch.refused))
        inbox = sockets.bind(zmq.PULL, addresses.inbox, "inbox", counted=True)
        # VERBOSER: every node's coming and going counts, not only the first and last of a topic.
        feed = sockets.bind(zmq.XPUB, addresses.feed, "feed", {**SPEAKER, zmq.XPUB_VERBOSER: 1}, counted=True)
        delivery = sockets.bind(zmq.PUSH, addresses.delivery, "delivery", SPEAKER)
        sockets.start()
    except BadInput:
        sockets.close()
        raise
    signed = security is not None
    return ZmqBoardPort(sockets, inbox=inbox, feed=feed, delivery=delivery, signed=signed, patience=patience)


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
) -> ports.NodePort:
    """A user node's port: broadcasts in, with `notices` those too that need no answer; frames to the inbox out.

    `own` is the topic of what is for this node alone, or the beginning of such topics.
    `blocking` is for a process that does nothing else: waiting takes place in the call, without an event loop.
    """
    sockets = Sockets(queue, security, BlockingChannel if blocking else Channel, pace)
    topics = (ports.BROADCAST, *([ports.NOTICE] if notices else []), *([own] if own else []))
    feed, inbox = sockets.subscribe(addresses.feed, *topics), sockets.push(addresses.inbox)
    return ZmqNodePort(sockets, feed, inbox, pace * patience)


def connect_analyst(
    addresses: BoardAddresses, security: Security | None = None, *, queue: int = QUEUE, patience: float = PATIENCE
) -> ports.NodePort:
    """The analyst's port: the delivery in, frames to the inbox out."""
    sockets = Sockets(queue, security)
    delivery, inbox = sockets.connect(zmq.PULL, addresses.delivery), sockets.push(addresses.inbox)
    return ZmqNodePort(sockets, delivery, inbox, patience)


def connect_reporter(
    addresses: BoardAddresses, security: Security | None = None, *, patience: float = PATIENCE
) -> ports.NodePort:
    """The port of one who only sends to the inbox: it hears nothing, and does not count as a subscriber."""
    sockets = Sockets(QUEUE, security)
    inbox = sockets.push(addresses.inbox)
    return ZmqNodePort(sockets, inbox, inbox, patience)


def _admit(allowed: Mapping[str, str], refused: Counter[str], domain: str, key: str) -> str | None:
    """Listed keys only; at the delivery only the analyst's, for whoever else pulled there would take its frames."""
    name = allowed.get(key)
    if name is None:
        refused["key not listed"] += 1
    elif domain == "delivery" and name != ports.ANALYST:
        refused["not the analyst"] += 1
        return None
    return name
