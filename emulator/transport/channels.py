"""Ports over channels between processes. What a channel is made of is not known here (see sockets.py)."""

from collections.abc import Callable, Mapping
from typing import Protocol

from parley.emulator.transport.addresses import BoardAddresses
from parley.emulator.transport.memory import (
    BROADCAST,
    MOST_FRAMES,
    AnalystPort,
    BoardPort,
    NodePort,
    ObserverPort,
    Received,
    SendTimeout,
    check_frame,
    check_topic,
    without_topic,
)


class Channel(Protocol):
    """One end of the inbox, the feed or the delivery."""

    @property
    def endpoint(self) -> str:
        """Its address, with the real port."""

    def check_open(self) -> None:
        """LocalProtocolError on a closed channel."""

    async def readable(self, timeout: float) -> bool:
        """Wait until there is something to read, letting others run in any case."""

    def drain(self) -> list[bytes]:
        """What is there, up to a batch."""

    def drain_signed(self) -> list[Received]:
        """What is there, up to a batch, with the authenticated senders."""

    def offer(self, frame: bytes) -> bool:
        """Send unless that would have to wait."""

    async def send(self, frame: bytes, timeout: float) -> bool:
        """Send, waiting at the high-water mark; False when it did not go within `timeout` seconds."""


class ZmqBoardPort(BoardPort):
    """The board's port; `addresses` are the real ones."""

    def __init__(
        self,
        *,
        inbox: Channel,
        feed: Channel,
        delivery: Channel,
        signed: bool,
        refused: Callable[[], Mapping[str, int]],
        analysts: Callable[[], int],
        patience: float,
        close: Callable[[], None],
    ) -> None:
        self._inbox, self._feed, self._delivery = inbox, feed, delivery
        self._signed = signed
        self._refused = refused
        self._analysts = analysts
        self._patience = patience
        self._close = close
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
        return self._refused()

    async def receive(self, timeout: float) -> list[Received]:
        readable = await self._inbox.readable(timeout)
        # Subscriptions pile up unless they are read, whether anything is posted or not.
        self._count_subscriptions()
        if not readable:
            return []
        if self._signed:
            return self._inbox.drain_signed()
        return [Received(frame, None) for frame in self._inbox.drain()]

    def publish(self, topic: bytes, frame: bytes) -> None:
        check_topic(topic)
        check_frame(frame)
        self._feed.offer(topic + frame)

    async def deliver(self, frame: bytes) -> bool:
        check_frame(frame)
        if self._delivery.offer(frame):
            self._stalled = False
            return True
        if self._stalled or not self._analysts():
            return False
        self._stalled = not await self._delivery.send(frame, self._patience)
        return not self._stalled

    def close(self) -> None:
        self._close()

    def _count_subscriptions(self) -> None:
        """Read all comings (1 and the topic) and goings (0 and the topic)."""
        events = [b""] * MOST_FRAMES
        while len(events) == MOST_FRAMES:
            events = self._feed.drain()
            self._subscribers += events.count(b"\1" + BROADCAST) - events.count(b"\0" + BROADCAST)


class ZmqObserverPort(ObserverPort):
    """The feed, each frame without its topic."""

    has_topics = True

    def __init__(self, source: Channel, close: Callable[[], None]) -> None:
        self._source = source
        self._close = close

    async def receive(self, timeout: float) -> list[bytes]:
        if not await self._source.readable(timeout):
            return []
        frames = self._source.drain()
        return [without_topic(frame) for frame in frames] if self.has_topics else frames

    def close(self) -> None:
        self._close()


class ZmqNodePort(ZmqObserverPort, NodePort):
    """The feed in, the inbox out."""

    def __init__(self, source: Channel, inbox: Channel, patience: float, close: Callable[[], None]) -> None:
        super().__init__(source, close)
        self._inbox = inbox
        self._patience = patience

    async def send(self, frame: bytes) -> None:
        check_frame(frame)
        if not self._inbox.offer(frame) and not await self._inbox.send(frame, self._patience):
            raise SendTimeout(
                f"the board at {self._inbox.endpoint} took no frame within {self._patience:g} s; "
                "check that it runs and, if keys are in use, that it lists our key and we have its key"
            )


class ZmqAnalystPort(ZmqNodePort, AnalystPort):
    """The delivery in, the inbox out; the delivery has no topics."""

    has_topics = False
