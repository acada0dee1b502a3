"""What a board says: on record first, then to everybody, and again to those who may have missed it."""

import itertools
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from parley.emulator.errors import LocalProtocolError
from parley.emulator.record.merkle import Tree
from parley.emulator.record.transcript import TranscriptReader, TranscriptWriter
from parley.emulator.roles.board import BOARD_NAME, BoardRole
from parley.emulator.roles.seats import Chunk
from parley.emulator.transport.ports import BROADCAST, NOTICE, REPLY, BoardPort, topic_for
from parley.emulator.wire import messages as wire
from parley.emulator.wire.codec import encode, envelope, seal
from parley.emulator.wire.shapes import Alike, Shapes
from parley.emulator.wire.signatures import Signer
from parley.nodes.state.allowance import Allowance
from parley.nodes.state.receipts import Receipts

log = logging.getLogger("board")


class Announcer:
    """A role, a port and a transcript. It outlives nothing: whoever restarts it gives it the same transcript.

    Without a writer the record is closed already, and all that is left is to tell those who did not hear its end.
    """

    def __init__(
        self, role: BoardRole, port: BoardPort, writer: TranscriptWriter | None, record: Path, signer: Signer | None
    ) -> None:
        self.role, self.port, self.writer, self.signer = role, port, writer, signer
        self.recorded: Callable[[wire.Message], None] | None = None
        """Told of every message on record; for whoever runs the board in its own process."""
        self._reader = TranscriptReader(record)
        self._tree = Tree() if writer is None else writer.tree
        self._receipts = Receipts(role.terms.run)
        self._allowance = Allowance()
        self._shapes = Shapes()
        self._recent: dict[str, bytes] = {}
        self._ties: dict[int, bytes] = {}
        self._seatings: dict[str, bytes] = {}
        self._length = 0
        self._repeated = 0.0

    def restore(self, now: float) -> None:
        """Bring the role to where the record ends. Deadlines go on from when the record says they began."""
        today = self.port.clock.time_ns() / 1e9
        for record in self._reader:
            self.role.record(record.message, now - max(0.0, today - record.time))
            self._remember(record.sequence, record.time_ns, record.sender, record.frame, record.message)
            if self.writer is None:
                self._tree.append(record.leaf)

    async def put(self, said: list[tuple[str, wire.Message]], frames: dict[int, bytes] | None = None) -> None:
        """Write down, then deliver. A received frame is recorded as it came: each message has one encoding."""
        for sender, each in said:
            message = self._with_head(each)
            frame = (frames or {}).get(id(message)) or encode(message, self.signer, self.role.nonce)
            await self._write(sender, frame, message)
            if isinstance(message, wire.BROADCASTS):
                log.info("%s %s", message.kind, getattr(message, "round", ""))
            if (shown := self.role.shows(message)) is not None:
                for node in self.role.seats:
                    self._show(node, shown)

    async def _put_all(self, alike: Alike, chunks: Sequence[Chunk]) -> None:
        """As `put`, for replies of one shape that the role has heard: one record, and one delivery."""
        if len(alike) == 1:
            frame = alike.frames[0].tobytes()
            await self._write(chunks[0].node, frame, self._shapes.decode(frame))
            return
        batch = self._writing().append_batch(alike.shape.node, alike.frames, self.port.clock.time_ns())
        shown = ((chunk.node, chunk.number) for chunk in chunks)
        self._receipts.note_chunks(alike.shape.round, shown, batch.sequence, batch.time_ns)
        self._length = batch.sequence + len(batch)
        if self.recorded is not None:
            for frame in batch.frames:
                self.recorded(self._shapes.decode(frame))
        sealed = seal(batch.payload)
        self.port.publish(REPLY, sealed)
        await self.port.deliver(sealed)

    async def _write(self, sender: str, frame: bytes, message: wire.Message) -> None:
        now = self.port.clock.time_ns()
        sequence = self._writing().append(sender, frame, now)
        self._remember(sequence, now, sender, frame, message)
        sealed = envelope(sequence, sender, frame)
        if isinstance(message, wire.Reminder) and "announce" in self._recent:
            self.port.publish(BROADCAST, self._recent["announce"])
        self.port.publish(topic_of(message), sealed)
        await self.port.deliver(sealed)

    def _writing(self) -> TranscriptWriter:
        if self.writer is None:
            raise LocalProtocolError("board: the record is closed; nothing more can be said")
        return self.writer

    def _with_head(self, message: wire.Message) -> wire.Message:
        """A close says under its signature what is on record so far."""
        if not isinstance(message, wire.Close) or self.signer is None:
            return message
        return replace(message, size=len(self._tree), root=self._tree.root())

    def _show(self, node: str, number: int) -> None:
        """Show a node its frames of a closed round on record; for round 0, which key holds its seat."""
        frame = b""
        if number == 0 and self.signer is not None and (seating := self.role.seating(node)) is not None:
            # Signed once: nodes say ready again and again.
            frame = self._seatings[node] = self._seatings.get(node) or encode(seating, self.signer)
        elif node in self.role.seats and (receipt := self._receipts.make(node, number, self._tree)) is not None:
            frame = encode(receipt)
            if number in self._ties:
                # A node of a shard wants both, and may have missed the first.
                self.port.publish(topic_for(node), self._ties[number])
        if frame:
            self.port.publish(topic_for(node), envelope(0, BOARD_NAME, frame))

    def _remember(self, sequence: int, time_ns: int, sender: str, frame: bytes, message: wire.Message) -> None:
        """What may have to be said again or shown to its sender, and what somebody has used of the record."""
        self._receipts.note(sequence, time_ns, message, frame)
        self._length = sequence + 1
        if self.recorded is not None:
            self.recorded(message)
        if isinstance(message, wire.BROADCASTS):
            self._recent[message.kind] = envelope(sequence, sender, frame)
            if isinstance(message, wire.Tie):
                self._ties[message.round] = self._recent[message.kind]
        elif isinstance(message, wire.Event):
            self._allowance.charge(message, len(frame))

    def _remind_of_setup(self) -> None:
        """A node that says ready may be new in an old seat, or have missed the setup: publish it once more."""
        now = self.port.clock.now()
        if now - self._repeated > self.role.terms.first_wait / 2:
            self._repeated = now
            for kind in ("setup", "announce", "result", "abort"):
                if kind in self._recent:
                    self.port.publish(BROADCAST, self._recent[kind])

    async def _redeliver(self, wanted: wire.Resume) -> None:
        if wanted.sequence >= self._length:
            return
        for record in itertools.islice(self._reader.since(wanted.sequence), wanted.count or None):
            if not await self.port.deliver(envelope(record.sequence, record.sender, record.frame)):
                return


def topic_of(message: wire.Message) -> bytes:
    if isinstance(message, wire.NOTICES):
        return NOTICE
    return BROADCAST if isinstance(message, wire.BROADCASTS) else REPLY
