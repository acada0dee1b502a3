"""The board as a process: every frame is decoded, judged by the role, written down, and only then delivered."""

import asyncio
import itertools
import json
import logging
import signal
import time
from collections import Counter
from pathlib import Path

import click

from emulator.addresses import BoardAddresses, descriptors_for, raise_file_limit
from emulator.board import ANALYST_NAME, BOARD_NAME, Board, BoardRole, Terms
from emulator.codec import decode, encode, envelope
from emulator.errors import RemoteProtocolError
from emulator.messages import BROADCASTS, Abort, Event, Message, Ready, Refusal, Reminder, Replies, Result, Resume
from emulator.sockets import open_board
from emulator.transcript import TranscriptReader, TranscriptWriter
from emulator.transport import BROADCAST, REPLY, BoardPort, Received
from nodes.common import GOOD, UNFINISHED, run_to_exit

FAREWELL_SECONDS = 2.0
SUBSCRIBE_SECONDS = 1.0
MOST_EVENTS_A_KIND = 1000
log = logging.getLogger("board")


class BoardNode:
    """A role, a port and a transcript. It outlives nothing: whoever restarts it gives it the same transcript."""

    def __init__(self, role: BoardRole, port: BoardPort, writer: TranscriptWriter) -> None:
        self.role = role
        self.port = port
        self.writer = writer
        self._dropped: Counter[str] = Counter()
        self._recent: dict[str, bytes] = {}
        self._repeated = 0.0
        self._stopped = ""
        self._heard_out = False

    def stop(self, reason: str) -> None:
        """End the run at the next step: the record is closed as aborted, whole."""
        self._stopped = reason

    async def serve(self) -> None:
        """Until the run is over; then say so until everybody has gone."""
        while not self.role.over:
            if self._stopped:
                abort = Abort(run=self.role.terms.run, outcome="aborted", reason=self._stopped)
                await self.put(self.role.hear(BOARD_NAME, abort, time.monotonic()))
                break
            for received in await self.port.receive(timeout=self.role.terms.patience / 2):
                if not self.role.over:
                    await self.take(received)
            await self.put(self.role.tick(time.monotonic()))
        await self._farewell()

    async def take(self, received: Received) -> None:
        """Judge one frame; whatever is wrong with it is dropped with its cause, and never fatal."""
        sender = received.sender or "unknown"
        try:
            message = decode(received.frame)
            sender = self._sender(received, message)
            if isinstance(message, Resume):
                await self._redeliver(message)
                return
            if isinstance(message, Ready):
                await self._let_subscribe()
            said = self.role.hear(sender, message, time.monotonic())
        except RemoteProtocolError as error:
            await self._drop(sender, str(error))
            return
        if not said and isinstance(message, Ready):
            self._remind_of_setup()
        await self.put(said, {id(message): received.frame})

    async def put(self, said: list[tuple[str, Message]], frames: dict[int, bytes] | None = None) -> None:
        """Write down, then deliver. A received frame is recorded as it came: each message has one encoding."""
        for sender, message in said:
            frame = (frames or {}).get(id(message)) or encode(message)
            sequence = self.writer.append(sender, frame, time.time_ns())
            sealed = envelope(sequence, sender, frame)
            if isinstance(message, Reminder) and "announce" in self._recent:
                self.port.publish(BROADCAST, self._recent["announce"])
            self.port.publish(BROADCAST if isinstance(message, BROADCASTS) else REPLY, sealed)
            await self.port.deliver(sealed)
            if isinstance(message, BROADCASTS):
                self._recent[message.kind] = sealed
                log.info("%s %s", message.kind, getattr(message, "round", ""))

    def _sender(self, received: Received, message: Message) -> str:
        """Who speaks: with keys the authenticated name, which must be the one claimed; without, the claim."""
        claimed = message.node if isinstance(message, Ready | Replies | Refusal | Event) else ANALYST_NAME
        if received.sender is not None and received.sender != claimed:
            raise RemoteProtocolError(f"board: {received.sender} sent a {message.kind} in the name of {claimed}")
        return claimed

    async def _let_subscribe(self) -> None:
        """The last node to say ready may not hear yet: a subscription takes its own connection and its own time."""
        terms = self.role.terms
        if self.role.state is not Board.GATHERING or len(self.role.seats) < terms.nodes - 1:
            return
        until = time.monotonic() + SUBSCRIBE_SECONDS
        while self.port.subscribers < terms.nodes and time.monotonic() < until:
            await asyncio.sleep(0.01)

    def _remind_of_setup(self) -> None:
        """A node that says ready again has missed the setup (or is new in an old seat): publish it once more."""
        now = time.monotonic()
        if now - self._repeated > self.role.patience / 2:
            self._repeated = now
            for kind in ("setup", "announce", "result", "abort"):
                if kind in self._recent:
                    self.port.publish(BROADCAST, self._recent[kind])

    async def _redeliver(self, wanted: Resume) -> None:
        records = TranscriptReader(self.writer.path).since(wanted.sequence)
        for record in itertools.islice(records, wanted.count or None):
            if not await self.port.deliver(envelope(record.sequence, record.sender, record.frame)):
                return

    async def _drop(self, sender: str, cause: str) -> None:
        """A dropped frame is an event on record, until there are too many of its kind to be worth the space."""
        self._dropped[sender] += 1
        log.warning("dropped a frame of %s: %s", sender, cause)
        if self._dropped[sender] <= MOST_EVENTS_A_KIND and not self.role.over:
            event = Event(event="drop", node=sender[:64], round=self.role.round, detail=cause[:500])
            await self.put(self.role.hear(BOARD_NAME, event, time.monotonic()))

    async def _farewell(self) -> None:
        ending = self.role.ending
        outcome = (
            "completed" if isinstance(ending, Result) else ending.outcome if isinstance(ending, Abort) else "failed"
        )
        self.writer.close(outcome, ending.reason if isinstance(ending, Abort) else "")
        until = time.monotonic() + FAREWELL_SECONDS
        while time.monotonic() < until and (self.port.subscribers or not self._heard_out):
            for kind in ("result", "abort"):
                if kind in self._recent:
                    self.port.publish(BROADCAST, self._recent[kind])
            for received in await self.port.receive(timeout=0.05):
                await self._answer_late(received)

    async def _answer_late(self, received: Received) -> None:
        try:
            message = decode(received.frame)
        except RemoteProtocolError:
            return
        if isinstance(message, Resume):
            self._heard_out = message.sequence >= self.writer.sequence
            await self._redeliver(message)


def restore(role: BoardRole, transcript: Path, now: float) -> None:
    """Bring a role to where the record ends."""
    for record in TranscriptReader(transcript).since(0):
        role.record(record.message, now)


async def serve_board(terms: Terms, wanted: BoardAddresses, transcript: Path, addresses: Path | None) -> int:
    """Bind, say where, serve to the end."""
    raise_file_limit(descriptors_for(terms.nodes))
    port = open_board(wanted)
    try:
        role = BoardRole(terms)
        if transcript.exists():
            writer = TranscriptWriter.resume(transcript)
            restore(role, transcript, time.monotonic())
        else:
            writer = TranscriptWriter.create(transcript, terms.run)
        node = BoardNode(role, port, writer)
        if addresses is not None:
            _write_addresses(addresses, port.addresses)
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, node.stop, f"stopped by {number.name}")
        await node.serve()
    finally:
        port.close()
    return GOOD if isinstance(role.ending, Result) else UNFINISHED


def _write_addresses(path: Path, bound: BoardAddresses) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps({"post": bound.post, "feed": bound.feed, "desk": bound.desk}))
    fresh.replace(path)


@click.command(name="board")
@click.option("--run", required=True, help="Name of the run.")
@click.option("--users", type=int, required=True, help="Users that take part.")
@click.option("--nodes", type=int, required=True, help="User nodes to wait for.")
@click.option("--post", default="tcp://127.0.0.1:0", show_default=True, help="Where replies and broadcasts come in.")
@click.option("--feed", default="tcp://127.0.0.1:0", show_default=True, help="Where everything is published.")
@click.option("--desk", default="tcp://127.0.0.1:0", show_default=True, help="Where the analyst is served.")
@click.option(
    "--transcript", type=click.Path(path_type=Path), required=True, help="The record; continued if it exists."
)
@click.option("--addresses", type=click.Path(path_type=Path), help="Write the bound endpoints to this file.")
@click.option("--deadline", default=600.0, show_default=True, help="Seconds a round may last.")
@click.option("--quorum", default=1.0, show_default=True, help="Share of users a round needs at its deadline.")
@click.option("--join-deadline", default=60.0, show_default=True, help="Seconds to wait for all nodes.")
def main(
    run: str,
    users: int,
    nodes: int,
    post: str,
    feed: str,
    desk: str,
    transcript: Path,
    addresses: Path | None,
    deadline: float,
    quorum: float,
    join_deadline: float,
) -> None:
    """Run the board: number every message, write it down, deliver it."""

    async def work() -> int:
        terms = Terms(run=run, users=users, nodes=nodes, deadline=deadline, quorum=quorum, join_deadline=join_deadline)
        wanted = BoardAddresses(post=post, feed=feed, desk=desk)
        return await serve_board(terms, wanted, transcript, addresses)

    run_to_exit(work())


if __name__ == "__main__":
    main()
