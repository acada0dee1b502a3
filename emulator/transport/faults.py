"""Faults on a link, injected above the socket: every one is reported to the board, so that a loss is an event.

In flight: a delayed frame is out of the sender's hands and on no record yet; if the process that carries it dies,
the frame is lost, as on a real network. Frames are delayed independently, so they overtake each other.
"""

import asyncio
import heapq
import itertools
from dataclasses import dataclass
from functools import lru_cache

from parley.emulator.errors import RemoteProtocolError
from parley.emulator.transport.conditions import Conditions, Fault
from parley.emulator.transport.ports import NodePort
from parley.emulator.wire.codec import decode, encode, open_envelope
from parley.emulator.wire.messages import Event

REORDER_SECONDS = 0.05


@dataclass(frozen=True)
class Fate:
    """What becomes of one frame: the copies that arrive, each with its delay."""

    copies: tuple[tuple[float, bytes], ...]
    causes: tuple[tuple[str, str], ...]


class Link:
    """The faults of one direction of one node's link, drawn in the order in which frames come."""

    def __init__(self, conditions: Conditions, node: str, direction: str) -> None:
        self._faults = conditions.links
        self._generator = conditions.generator(node, direction)
        self._node, self._direction = node, direction
        self._bursting = dict.fromkeys(range(len(self._faults)), 0)
        self._concerned = dict.fromkeys(range(len(self._faults)), 0)
        self._free_at = 0.0
        # Whether this node is one of the stragglers is decided once, not message by message.
        self._straggles = {
            index: self._generator.random() < fault.probability
            for index, fault in enumerate(self._faults)
            if fault.kind == "straggler"
        }

    def judge(self, frame: bytes, message: str, number: int, now: float) -> Fate:
        """Apply every rule that concerns this frame. Events are spared: a fault on a report would breed reports."""
        if message == Event.kind:
            return Fate(((0.0, frame),), ())
        delay, copies, causes = 0.0, [frame], list[tuple[str, str]]()
        for index, fault in enumerate(self._faults):
            concerned = fault.concerns(self._node, self._direction, message, number, now)
            if not concerned or not self._strikes(index, fault):
                continue
            if fault.kind in ("loss", "partition"):
                return Fate((), ((fault.kind, f"{self._direction} {message}"),))
            waited = self._delay(fault, len(frame), now)
            delay += waited
            if fault.kind == "duplicate":
                copies = copies * 2
            if fault.kind == "corrupt":
                spoiled = bytearray(frame)
                spoiled[int(self._generator.integers(len(frame)))] ^= int(self._generator.integers(1, 256))
                copies[0] = bytes(spoiled)
            causes.append((fault.kind, f"{self._direction} {message}" + (f" {waited:.3f} s" if waited else "")))
        return Fate(tuple((delay, copy) for copy in copies), tuple(causes))

    def _strikes(self, index: int, fault: Fault) -> bool:
        if fault.kind == "straggler":
            return self._straggles[index]
        if self._bursting[index]:
            self._bursting[index] -= 1
            return True
        self._concerned[index] += 1
        if fault.nth and self._concerned[index] not in fault.nth:
            return False
        struck = bool(self._generator.random() < fault.probability)
        if struck:
            self._bursting[index] = fault.burst - 1
        return struck

    def _delay(self, fault: Fault, size: int, now: float) -> float:
        if fault.kind == "hold":
            return max(0.0, fault.until - now)
        if fault.kind == "bandwidth":
            self._free_at = max(now, self._free_at) + size / fault.bytes_per_second
            return self._free_at - now
        if fault.kind == "reorder":
            return (fault.seconds or REORDER_SECONDS) * float(self._generator.random())
        return fault.draw_seconds(self._generator) if fault.kind in ("delay", "straggler") else 0.0


class FaultyPort(NodePort):
    """A node's or the analyst's port under conditions; reports go to the board by the bare port."""

    def __init__(self, port: NodePort, conditions: Conditions, node: str) -> None:
        self._port = port
        self._node = node
        self._up, self._down = Link(conditions, node, "up"), Link(conditions, node, "down")
        self.clock = port.clock
        self._began = self.clock.now()
        self._waiting: list[tuple[float, int, bytes]] = []
        self._order = itertools.count()
        self._sending: set[asyncio.Task[None]] = set()

    async def send(self, frame: bytes) -> None:
        """Hand a frame to the faulty link; it arrives late, twice, spoiled or not at all."""
        fate = await self._judge(self._up, frame, _label(frame))
        for delay, copy in fate.copies:
            if delay > 0:
                task = asyncio.create_task(self._later(delay, copy))
                self._sending.add(task)
                task.add_done_callback(self._sending.discard)
            else:
                await self._port.send(copy)

    async def receive(self, timeout: float) -> list[bytes]:
        """What has arrived by now, after its delays."""
        deadline = self.clock.now() + timeout
        while True:
            now = self.clock.now()
            arrived = []
            while self._waiting and self._waiting[0][0] <= now:
                arrived.append(heapq.heappop(self._waiting)[2])
            if arrived or now >= deadline:
                return arrived
            next_due = min(deadline, self._waiting[0][0] if self._waiting else deadline)
            for frame in await self._port.receive(max(0.0, next_due - now)):
                fate = await self._judge(self._down, frame, _label(frame, sealed=True))
                for delay, copy in fate.copies:
                    heapq.heappush(self._waiting, (self.clock.now() + delay, next(self._order), copy))

    def close(self) -> None:
        for task in self._sending:
            task.cancel()
        self._port.close()

    async def _later(self, delay: float, frame: bytes) -> None:
        await asyncio.sleep(delay)
        await self._port.send(frame)

    async def _judge(self, link: Link, frame: bytes, label: tuple[str, int]) -> Fate:
        fate = link.judge(frame, *label, self.clock.now() - self._began)
        for cause, detail in fate.causes:
            await self._port.send(encode(Event(event=cause, node=self._node, round=label[1], detail=detail)))
        return fate


@lru_cache(maxsize=16)
def _label(frame: bytes, *, sealed: bool = False) -> tuple[str, int]:
    """Kind and round of a frame, or of the frame in an envelope; one that is not a message has neither."""
    try:
        message = decode(open_envelope(frame)[2] if sealed else frame)
    except RemoteProtocolError:
        return "noise", 0
    return message.kind, int(getattr(message, "round", 0))
