"""A board that writes down every frame it is sent and, if it is told to, lies: for benchmarks/treachery.py.

    python -m benchmarks.treacherous_board ORDERS.json

It has the board's signing key and, where it plots with the analyst, the analyst's as well. What it does not have are
the keys of user nodes.
"""

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from parley.emulator.errors import RemoteProtocolError
from parley.emulator.record.conversation import fits
from parley.emulator.record.transcript import TranscriptReader, TranscriptWriter
from parley.emulator.roles.board import ANALYST_NAME, BOARD_NAME, Board, BoardRole, Terms
from parley.emulator.roles.seats import Chunk
from parley.emulator.transport.addresses import BoardAddresses
from parley.emulator.transport.ports import Received, topic_for
from parley.emulator.wire.codec import decode, encode, envelope
from parley.emulator.wire.messages import Announce, Close, Event, Message, Refusal, Replies, Result
from parley.emulator.wire.security import read_signer, read_trust
from parley.emulator.wire.signatures import Signer
from parley.nodes.board import BoardNode
from parley.nodes.common import ANY_PORT, GOOD, UNFINISHED, run_to_exit, write_addresses
from parley.nodes.state.receipts import Receipts
from parley.nodes.state.reopen import bind
from parley.protocols.registry import build

HONEST, DEAF, EQUIVOCATE, DROP, DECLARE, REWRITE = "honest", "deaf", "equivocate", "drop", "declare missing", "rewrite"


@dataclass(frozen=True, kw_only=True)
class BoardOrders:
    """What the board is told: its terms, its files, and which lie it tells to whom in which round."""

    run: str
    users: int
    nodes: int
    deadline: float
    quorum: float
    nonce: str
    transcript: str
    addresses: str
    tap: str
    signing: str
    trust: str
    analyst: str
    lie: str = HONEST
    victim: str = ""
    round: int = 0

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> "BoardOrders":
        return cls(**json.loads(path.read_text()))


class Tap:
    """Frames in the order they came, each behind its length; written at once, so that others can follow."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb", buffering=0)

    def take(self, frame: bytes) -> None:
        self._file.write(len(frame).to_bytes(4, "little") + frame)


def tapped(path: Path) -> Iterator[bytes]:
    """The frames of a tap so far; what is not written to its end is left for the next look."""
    content = path.read_bytes() if path.exists() else b""
    place = 0
    while place + 4 <= len(content):
        size = int.from_bytes(content[place : place + 4], "little")
        if place + 4 + size > len(content):
            return
        yield content[place + 4 : place + 4 + size]
        place += 4 + size


class TreacherousBoard(BoardNode):
    """The real board, except for one lie."""

    orders: BoardOrders
    tap: Tap
    plotter: Signer
    told = False

    async def take_all(self, received: Sequence[Received]) -> None:
        # It looks at each frame, so it takes none together with others.
        for each in received:
            await self.take(each)

    async def take(self, received: Received) -> None:
        self.tap.take(received.frame)
        try:
            message = decode(received.frame)
        except RemoteProtocolError:
            message = None
        if not await self._deals_with(message, received.frame):
            await super().take(received)

    async def _answer_late(self, received: Received) -> None:
        self.tap.take(received.frame)
        await super()._answer_late(received)

    async def _deals_with(self, message: Message | None, frame: bytes) -> bool:
        """Whether the liar has seen to this frame itself; the honest board takes all others."""
        orders = self.orders
        if isinstance(message, Refusal):
            return orders.lie in (DEAF, EQUIVOCATE)
        if not isinstance(message, Replies) or (message.node, message.round) != (orders.victim, orders.round):
            return False
        if self.role.state is not Board.OPEN or self.role.round != message.round:
            # It repeats itself because it was reminded.
            return orders.lie in (DROP, DECLARE, EQUIVOCATE)
        if orders.lie in (DROP, DECLARE):
            await self._leave_out(message)
        elif orders.lie == EQUIVOCATE and self.role.seats[message.node].is_new(Chunk.read(message)):
            # An honest board drops the answer to another question.
            said: list[tuple[str, Message]] = [(message.node, message)]
            await self.put(self.role.settle(said, time.monotonic()), {id(message): frame})
        return orders.lie in (DROP, DECLARE, EQUIVOCATE)

    async def _leave_out(self, replies: Replies) -> None:
        seat = self.role.seats[replies.node]
        if self.orders.lie == DROP:
            # As if its answer were on record; it will not be there in the next round.
            seat.owes, seat.left = set(), True
        else:
            seat.refused = True
        self.role._unfinished.discard(replies.node)
        await self.put(self.role.settle([], time.monotonic()))

    async def put(self, said: list[tuple[str, Message]], frames: dict[int, bytes] | None = None) -> None:
        for _, message in said:
            if isinstance(message, Announce) and message.round == self.orders.round and self.orders.lie == EQUIVOCATE:
                self._whisper(message)
        await super().put(said, frames)

    def _whisper(self, announce: Announce) -> None:
        """Ask the victim something else before it hears what is on record."""
        other = replace(announce, broadcast=self._other(announce))
        frame = encode(other, self.plotter, self.role.nonce)
        self.tap.take(frame)
        self.port.publish(topic_for(self.orders.victim), envelope(0, ANALYST_NAME, frame))

    def _other(self, announce: Announce) -> Mapping[str, Any]:
        """Another broadcast that an honest node admits."""
        setup = self.role.setup
        assert setup is not None
        protocol = build(setup.protocol, setup.parameters)
        for change in (lambda array: array[::-1].copy(), np.negative, np.zeros_like):
            changed = {name: change(array) for name, array in announce.broadcast.items()}
            differs = any((changed[name] != array).any() for name, array in announce.broadcast.items())
            if differs and not fits(protocol, replace(announce, broadcast=changed)):
                return changed
        raise SystemExit("there is no other broadcast to ask with")

    def _with_head(self, message: Message) -> Message:
        rewrites = self.orders.lie == REWRITE and not self.told
        if rewrites and isinstance(message, Close) and message.round == self.orders.round:
            self.told = True
            self._rewrite()
        return super()._with_head(message)

    def _rewrite(self) -> None:
        """The same record without the victim's reply of an earlier round, and earlier closes signed anew."""
        assert self.writer is not None
        path, run = self.writer.path, self.role.terms.run
        records = list(TranscriptReader(path))
        self.writer.abandon()
        path.rename(path.with_suffix(".before"))
        self.writer, self._receipts = TranscriptWriter.create(path, run), Receipts(run)
        self._tree, self._reader = self.writer.tree, TranscriptReader(path)
        gone = Event(event="note", node=self.orders.victim, round=0, detail="nothing happened here")
        for record in records:
            sender, message, frame = record.sender, record.message, record.frame
            if isinstance(message, Replies) and (message.node, message.round) == (self.orders.victim, 1):
                sender, message = BOARD_NAME, gone
                frame = encode(message, self.signer, self.role.nonce)
            elif isinstance(message, Close):
                message = replace(message, size=len(self._tree), root=self._tree.root())
                frame = encode(message, self.signer, self.role.nonce)
            sequence = self.writer.append(sender, frame, record.time_ns)
            self._receipts.note(sequence, record.time_ns, message, frame)


async def serve(orders: BoardOrders) -> int:
    """Bind, say where, serve to the end."""
    terms = Terms(
        run=orders.run, users=orders.users, nodes=orders.nodes, deadline=orders.deadline, quorum=orders.quorum
    )
    anywhere = BoardAddresses(inbox=ANY_PORT, feed=ANY_PORT, delivery=ANY_PORT)
    port = await bind(anywhere, None, again=False, peers=orders.nodes)
    try:
        listed = read_trust(Path(orders.trust)) if orders.trust else None
        role = BoardRole(terms, lambda: bytes.fromhex(orders.nonce), listed)
        path = Path(orders.transcript)
        writer = TranscriptWriter.create(path, orders.run)
        board = TreacherousBoard(role, port, writer, path, signer=read_signer(Path(orders.signing)))
        board.orders, board.tap = orders, Tap(Path(orders.tap))
        board.plotter = read_signer(Path(orders.analyst))
        write_addresses(Path(orders.addresses), port.addresses)
        await board.serve()
    finally:
        port.close()
    return GOOD if isinstance(role.ending, Result) else UNFINISHED


if __name__ == "__main__":
    run_to_exit(serve(BoardOrders.load(Path(sys.argv[1]))))
