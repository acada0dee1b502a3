"""A board and an analyst made of two raw sockets, and real user nodes as processes for them to attack."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np
import zmq

from parley.emulator.protocol import Inputs
from parley.emulator.transport.ports import BROADCAST, topic_for
from parley.emulator.wire.codec import decode, encode, envelope
from parley.emulator.wire.messages import Inquiry, Message, Ready, Receipt, Replies, Seating
from parley.emulator.wire.signatures import Signer
from tests.attacks.parties import ANALYST, BOARD, NODE, NONCE, Ledger, seating

ROOT = Path(__file__).parents[2]
# Bounds that only a broken test reaches; the machine may be busy.
PATIENCE = 40.0
Kind = TypeVar("Kind", bound=Message)


class Impostor:
    """Binds a feed and an inbox, says whatever it is told, and keeps every frame that comes.

    Who says ready gets a seat for its key, as at an honest board: the first key of a name holds it.
    """

    def __init__(self) -> None:
        self._context = zmq.Context()
        self._feed, self._inbox = self._context.socket(zmq.XPUB), self._context.socket(zmq.PULL)
        for each in (self._feed, self._inbox):
            each.setsockopt(zmq.LINGER, 0)
        self._feed.setsockopt(zmq.XPUB_VERBOSER, 1)
        self.feed = f"tcp://127.0.0.1:{self._feed.bind_to_random_port('tcp://127.0.0.1')}"
        self.inbox = f"tcp://127.0.0.1:{self._inbox.bind_to_random_port('tcp://127.0.0.1')}"
        self.heard: list[tuple[bytes, Message]] = []
        self.seats: dict[str, Seating] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._feed.close(0)
        self._inbox.close(0)
        self._context.term()

    @property
    def addresses(self) -> list[str]:
        """The options by which a node finds this board."""
        return ["--inbox", self.inbox, "--feed", self.feed, "--delivery", self.feed]

    def gather(self, *names: str) -> None:
        """Wait until these nodes are there and hear the feed: from then on nothing that is said is lost."""
        topics = {b"\1" + topic_for(name) for name in names}
        events = list[bytes]()

        def there() -> bool:
            while self._feed.poll(0):
                events.append(self._feed.recv())
            heard = events.count(b"\1" + BROADCAST) >= len(names) and topics <= set(events)
            return heard and all(self.of(Ready, name) for name in names)

        self.until(there)
        for name in names:
            self.seat(name)

    def publish(self, topic: bytes, sealed: bytes) -> None:
        self._feed.send(topic + sealed)

    def say(self, message: Message, signer: Signer | None = ANALYST, nonce: bytes = NONCE) -> None:
        self.publish(BROADCAST, envelope(0, "analyst", encode(message, signer, nonce)))

    def seat(self, node: str) -> None:
        """Tell a node whose its seat is."""
        self.publish(topic_for(node), envelope(0, "board", encode(self.seats[node], BOARD)))

    def show(self, receipt: Receipt) -> None:
        self.publish(topic_for(receipt.node), envelope(0, "board", encode(receipt)))

    def listen(self, seconds: float) -> None:
        """Take what comes within this time, at least one frame if there is one."""
        while self._inbox.poll(int(seconds * 1000)):
            frame = self._inbox.recv()
            message = decode(frame)
            self.heard.append((frame, message))
            if isinstance(message, Ready):
                self.seats.setdefault(message.node, seating(message.node, message.key))
            if isinstance(message, Ready | Inquiry) and message.node in self.seats:
                self.seat(message.node)
            seconds = 0.0

    def until(self, done: Callable[[], bool], again: Callable[[], None] = lambda: None) -> None:
        """Listen until something has happened; `again` is said at intervals, since a feed loses what comes early."""
        end = time.monotonic() + PATIENCE
        while not done():
            assert time.monotonic() < end, [message.kind for _, message in self.heard]
            again()
            self.listen(0.2)

    def of(self, kind: type[Kind], node: str = NODE) -> list[Kind]:
        """What a node has said of a kind."""
        return [each for _, each in self.heard if isinstance(each, kind) and getattr(each, "node", node) == node]

    def replies(self, number: int, node: str = NODE) -> dict[int, tuple[bytes, Replies]]:
        """A node's chunks of a round."""
        return {
            each.chunk: (frame, each)
            for frame, each in self.heard
            if isinstance(each, Replies) and each.node == node and each.round == number
        }

    def ask(self, kind: type[Message], *messages: Message, node: str = NODE) -> None:
        """Say something until the node has answered with a message of this kind once more."""
        before = len(self.of(kind, node))

        def again() -> None:
            for message in messages:
                self.say(message)

        self.until(lambda: len(self.of(kind, node)) > before, again)

    def hold(self, ledger: Ledger, number: int, node: str = NODE) -> None:
        """Put a node's replies of a round on record."""
        for frame, each in self.replies(number, node).values():
            ledger.hold(node, frame, each)


class Victim:
    """A user node as a process."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def words(self) -> str:
        """What it printed, without the times."""
        lines = (line.split(" ", 2) for line in self.log.splitlines())
        return "\n".join(each[-1] if each[0][:2] == "20" else " ".join(each) for each in lines)

    def wait(self) -> int:
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def victim(
    board: Impostor, state: Path, inputs: Inputs | int, *options: str, users: int = 1, **given: Any
) -> Iterator[Victim]:
    """A node with these inputs, which does not outlive the test."""
    column = np.full(users, inputs, dtype=np.int64) if isinstance(inputs, int) else inputs
    place = state.parent / f"{state.name}.{time.monotonic_ns()}"
    np.save(place.with_suffix(".npy"), column)
    command = [sys.executable, "-m", "parley.nodes.user", *board.addresses, "--state", str(state)]
    command += ["--inputs", str(place.with_suffix(".npy")), *options]
    with place.with_suffix(".log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, stderr=log, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}, **given
        )
    try:
        yield Victim(process, place.with_suffix(".log"))
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
