"""Ports of the board, the user nodes and the analyst, and the clock that comes with each of them.

A port moves opaque frames and knows no message. The inbox (everybody to the board) and the delivery (board to analyst)
wait at their high-water mark and lose nothing while both ends live. The feed (board to all) never waits: who comes
late or stalls misses publications, and repeating them is the roles' business.
"""

import hashlib
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

from parley.emulator.errors import LocalProtocolError
from parley.emulator.wire.codec import LARGEST_FRAME

BROADCAST = b"B"
NOTICE = b"N"
REPLY = b"R"
PERSONAL = b"P"
TOPICS = (BROADCAST, NOTICE, REPLY)
ANALYST = "analyst"
MOST_FRAMES = 1000
MOST_BYTES = 16 * 2**20
QUEUE = 1000
PATIENCE = 30.0
DELIVERY_PATIENCE = 3.0


class SendTimeout(LocalProtocolError):
    """The other side took nothing for as long as this side was ready to wait."""


class Received(NamedTuple):
    """A frame from the inbox, and the name its sender's key is listed under (None where keys are not in use)."""

    frame: bytes
    sender: str | None


class Clock:
    """What a process asks its operating system: the time and its own number. A virtual run answers by itself."""

    def now(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    def time_ns(self) -> int:
        """Nanoseconds since 1970, for the record."""
        return time.time_ns()

    def process_id(self) -> int:
        return os.getpid()


SYSTEM_CLOCK = Clock()


class BoardPort(ABC):
    """The board's three channels: it reads the inbox, publishes on the feed, sends replies to the delivery."""

    clock: Clock = SYSTEM_CLOCK

    @property
    @abstractmethod
    def subscribers(self) -> int:
        """Feed subscriptions to the broadcast topic at this moment."""

    @property
    def refused(self) -> Mapping[str, int]:
        """Connections turned away so far, by cause."""
        return {}

    @abstractmethod
    async def receive(self, timeout: float) -> list[Received]:
        """Wait for the inbox, then all there is up to MOST_FRAMES or MOST_BYTES; nothing after `timeout` seconds."""

    @abstractmethod
    def publish(self, topic: bytes, frame: bytes) -> None:
        """Put a frame on the feed. Never waits: a subscriber whose queue is full misses it."""

    @abstractmethod
    async def deliver(self, frame: bytes) -> bool:
        """Hand a frame to the analyst; False if there is none, or it did not take it within a bounded time.

        Once it did not, later frames are offered without waiting until it takes one: a stall costs its time once.
        """

    @abstractmethod
    def close(self) -> None:
        """Give everything back; a second time does nothing."""


class NodePort(ABC):
    """A user node hears the broadcasts of the feed, the analyst the delivery; both send to the inbox.

    Whoever subscribes to all topics of the feed hears everything: the broadcast model, literally.
    """

    clock: Clock = SYSTEM_CLOCK

    @abstractmethod
    async def receive(self, timeout: float) -> list[bytes]:
        """Wait for a frame, then all that is there up to MOST_FRAMES or MOST_BYTES; nothing after `timeout` seconds."""

    @abstractmethod
    async def send(self, frame: bytes) -> None:
        """Send to the board, waiting while the queue is full; SendTimeout after a bounded time."""

    @abstractmethod
    def close(self) -> None:
        """Give everything back; a second time does nothing."""


def check_frame(frame: bytes) -> None:
    """The receiver would cut the connection at a frame that is too large, so it is refused here."""
    if len(frame) > LARGEST_FRAME:
        raise LocalProtocolError(f"a frame of {len(frame)} bytes is larger than the {LARGEST_FRAME} a frame may have")


def check_topic(topic: bytes) -> None:
    """A topic is one of three letters in front of a published frame, or a node's own topic."""
    if topic not in TOPICS and not (topic.startswith(PERSONAL) and len(topic) == PERSONAL_BYTES):
        raise LocalProtocolError(f"no such topic: {topic!r}; use BROADCAST, NOTICE, REPLY or a node's own")


PERSONAL_BYTES = 9


def topic_for(node: str) -> bytes:
    """The topic that only this node subscribes to. All such topics are equally long, so none begins another."""
    return PERSONAL + hashlib.sha256(node.encode()).digest()[: PERSONAL_BYTES - 1]


def without_topic(published: bytes) -> bytes:
    """A published frame without its topic."""
    return published[PERSONAL_BYTES if published[:1] == PERSONAL else 1 :]
