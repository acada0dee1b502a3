"""The board as a process: every frame is decoded, judged by the role, written down, and only then delivered."""

import asyncio
import logging
import secrets
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from parley.emulator.errors import RemoteProtocolError
from parley.emulator.record.question import FIELD, read_question
from parley.emulator.record.transcript import TranscriptWriter
from parley.emulator.roles.board import ANALYST_NAME, BOARD_NAME, Board, BoardRole, Terms
from parley.emulator.roles.shards.boards import HeadBoardRole, ShardBoardRole
from parley.emulator.transport.addresses import BoardAddresses
from parley.emulator.transport.ports import BROADCAST, BoardPort, Received
from parley.emulator.wire import messages as wire
from parley.emulator.wire.codec import decode
from parley.emulator.wire.security import Security, read_relays, read_signer, read_trust
from parley.emulator.wire.signatures import Signer
from parley.nodes import common
from parley.nodes.bulk import all_apart, judge, stretches
from parley.nodes.state.announcer import Announcer
from parley.nodes.state.reopen import bind, open_record

FAREWELL_SECONDS = 2.0
SHARDS_FAREWELL_SECONDS = 15.0
SUBSCRIBE_SECONDS = 1.0
MOST_WAITS = 10
# What a record of ours takes beside its text.
NOTE_BYTES = 200
# Who says one of these is named in it; everything else is the analyst's.
NAMED = wire.Ready | wire.Shard | wire.Replies | wire.Tally | wire.Tie | wire.Refusal | wire.Event | wire.Inquiry
log = logging.getLogger("board")


class BoardNode(Announcer):
    """Judges what comes in, and ends the run."""

    def __init__(
        self,
        role: BoardRole,
        port: BoardPort,
        writer: TranscriptWriter | None,
        record: Path,
        relays: Mapping[str, str] | None = None,
        signer: Signer | None = None,
    ) -> None:
        super().__init__(role, port, writer, record, signer)
        self.relays = dict(relays or {})
        self._refused: Counter[str] = Counter()
        self._stopped = ""
        self._heard_out = False
        self._waits = 0

    def stop(self, reason: str) -> None:
        """End the run at the next step: the record is closed as aborted, whole."""
        self._stopped = reason

    async def serve(self) -> None:
        """Until the run is over; then say so until everybody has gone."""
        # What the last message on record calls for may not have been written before a crash.
        await self.put(self.role.settle([], self.port.clock.now()))
        while not self.role.over:
            if self._stopped:
                abort = self.role.abort("aborted", self._stopped)
                await self.put(self.role.hear(BOARD_NAME, abort, self.port.clock.now()))
                break
            batch = await self.port.receive(timeout=self.role.terms.patience / 2)
            await self.take_all(all_apart(batch))
            await self._note_refusals()
            await self.put(self.role.tick(self.port.clock.now()))
        await self._farewell()

    async def take_all(self, received: Sequence[Received]) -> None:
        """Judge what came in one go: replies of one shape together, everything else one by one."""
        for each in stretches(received, self._shapes):
            if self.role.over:
                return
            if isinstance(each, Received):
                await self.take(each)
                continue
            judged = judge(self.role, each, received, self.relays, self.port.clock.now())
            for alike, chunks in judged.taken:
                await self._put_all(alike, chunks)
            for sender, cause in judged.dropped:
                await self._drop(sender, cause)
            for late in judged.before:
                await self.take(late)
            await self.put(self.role.settle([], self.port.clock.now()))
            for late in judged.after:
                if not self.role.over:
                    await self.take(late)

    async def take(self, received: Received) -> None:
        """Judge one frame; whatever is wrong with it is dropped with its cause, and never fatal."""
        sender, said, ready = received.sender or "unknown", list[tuple[str, wire.Message]](), ""
        try:
            message = self._shapes.decode(received.frame)
            sender = self._sender(received, message)
            ready = message.node if isinstance(message, wire.Ready | wire.Shard) else ""
            if isinstance(message, wire.Resume):
                await self._redeliver(message)
                return
            if isinstance(message, wire.Inquiry):
                self._show(message.node, message.round)
                return
            if ready and ready not in self.role.seats:
                await self._let_subscribe()
            if isinstance(message, wire.Event) and not await self._affords(sender, len(received.frame)):
                return
            said = self.role.hear(sender, message, self.port.clock.now())
            if any(isinstance(each, wire.Event) and each is not message for _, each in said):
                # It came back as another process.
                said = said if await self._affords(sender, NOTE_BYTES) else []
        except RemoteProtocolError as error:
            await self._drop(sender, str(error))
        else:
            await self.put(said, {id(message): received.frame})
        if ready:
            # Also for who was refused a seat that is taken: it is to hear whose it is.
            self._show(ready, 0)
        if ready and (said or self.role.lacks(ready)):
            self._remind_of_setup()

    def _sender(self, received: Received, message: wire.Message) -> str:
        """Who speaks: with keys the authenticated name, which must be the one claimed; without, the claim."""
        claimed = message.node if isinstance(message, NAMED) else ANALYST_NAME
        if received.sender is not None and received.sender not in (claimed, self.relays.get(claimed)):
            raise RemoteProtocolError(f"board: {received.sender} sent a {message.kind} in the name of {claimed:.80}")
        if claimed == BOARD_NAME:
            raise RemoteProtocolError(f"board: a {message.kind} in the name of the board itself")
        if not wire.NAME.fullmatch(claimed):
            raise RemoteProtocolError(f"board: a {message.kind} under the invalid name {claimed[:80]!r}")
        return claimed

    async def _let_subscribe(self) -> None:
        """The last node to say ready may not hear yet: a subscription takes its own connection and its own time."""
        terms = self.role.terms
        if self.role.state is not Board.GATHERING or len(self.role.seats) < terms.nodes - 1:
            return
        self._waits += 1
        if self._waits > MOST_WAITS:
            # Somebody says ready again and again whom nobody lets in: the others are not to wait for that.
            return
        until = self.port.clock.now() + SUBSCRIBE_SECONDS
        while self.port.subscribers < peers(terms.nodes, self.relays) and self.port.clock.now() < until:
            await asyncio.sleep(0.01)

    async def _drop(self, sender: str, cause: str) -> None:
        """A dropped frame is an event on record, until there are too many of its kind to be worth the space."""
        if await self._affords(sender, NOTE_BYTES + len(cause)):
            log.warning("dropped a frame of %s: %.500s", sender, cause)
            await self._note("drop", sender, cause)

    async def _note_refusals(self) -> None:
        """Who was kept out at the door has no name; how many and why is on record."""
        for cause, number in self.port.refused.items():
            if number > self._refused[cause] and await self._affords(BOARD_NAME, NOTE_BYTES + len(cause)):
                self._refused[cause] = number
                await self._note("refused", BOARD_NAME, f"{cause}: {number} connections so far")

    async def _affords(self, name: str, size: int) -> bool:
        """Whether a record of this size that the protocol does not need may be written because of this name."""
        if self._allowance.permits(name, size):
            return True
        if last := self._allowance.last_word(name, size):
            log.warning("%s", last)
            await self._note("drop", name, last)
        return False

    async def _note(self, event: str, node: str, detail: str) -> None:
        if not self.role.over:
            noted = wire.Event(event=event, node=node, round=self.role.round, detail=detail[:500])
            await self.put(self.role.hear(BOARD_NAME, noted, self.port.clock.now()))

    async def _farewell(self) -> None:
        ending = self.role.ending
        if self.writer is not None:
            outcome, reason = (ending.outcome, ending.reason) if isinstance(ending, wire.Abort) else ("completed", "")
            self.writer.close(outcome, reason, self.signer, self.role.nonce)
        # A shard must have heard the end, or its users never do.
        patience = SHARDS_FAREWELL_SECONDS if isinstance(self.role, HeadBoardRole) else FAREWELL_SECONDS
        until, due = self.port.clock.now() + patience, 0.0
        while self.port.clock.now() < until and (self.port.subscribers or not self._heard_out):
            for kind in ("result", "abort"):
                # A crowd that is leaving is not to be held up by hearing so again and again.
                if kind in self._recent and self.port.clock.now() >= due:
                    self.port.publish(BROADCAST, self._recent[kind])
                    due = self.port.clock.now() + self.role.terms.first_wait / 4
            for each in all_apart(await self.port.receive(timeout=0.05)):
                await self._answer_late(each)

    async def _answer_late(self, received: Received) -> None:
        try:
            message = decode(received.frame)
        except RemoteProtocolError:
            return
        if isinstance(message, wire.Resume):
            self._heard_out = message.sequence >= self._length
            await self._redeliver(message)
        elif isinstance(message, wire.Inquiry):
            self._show(message.node, message.round)
        elif isinstance(message, wire.Ready | wire.Shard):
            # A node that came back after the end: without the setup it does not believe the result.
            self._show(message.node, 0)
            self._remind_of_setup()


def fresh_nonce() -> bytes:
    return secrets.token_bytes(wire.NONCE_BYTES)


def peers(nodes: int, relays: Mapping[str, str]) -> int:
    """How many connect to the board: every relay, and every user node that is behind none."""
    return nodes - len(relays) + len(set(relays.values()))


def _of_shard(security: Security, shard: str) -> Security:
    """Whom a shard's board lets in: the sub-analyst in the analyst's place."""
    listed = {key: name for key, name in security.allowed.items() if name != ANALYST_NAME}
    return replace(security, allowed={key: ANALYST_NAME if name == shard else name for key, name in listed.items()})


@click.command(name="board")
@click.option("--run", required=True, help="Name of the run.")
@click.option("--users", type=int, required=True, help="Number of users who take part.")
@click.option("--nodes", type=int, required=True, help="Number of user nodes to wait for.")
@common.endpoint_option("--inbox", "Where replies and broadcasts come in.", formerly="--post")
@common.endpoint_option("--feed", "Where everything is published.")
@common.endpoint_option("--delivery", "Where the analyst is served.", formerly="--desk")
@common.path_option("--transcript", required=True, help="The record; continued if it exists.")
@common.path_option("--plan", help="The question, for the header of the record (`parley plan --write`).")
@common.path_option("--addresses", help="Write the bound endpoints to this file.")
@click.option("--deadline", default=600.0, show_default=True, help="Seconds that a round may last.")
@click.option("--quorum", default=1.0, show_default=True, help="Share of users a round needs at its deadline.")
@click.option("--join-deadline", default=60.0, show_default=True, help="Seconds to wait for all nodes.")
@click.option(
    "--analyst-deadline", default=600.0, show_default=True, help="Seconds to wait for the analyst's next message."
)
@common.path_option("--keys", help="The board's key pair (see `parley keys`).")
@common.path_option("--allowed", help="Public keys to admit, by name.")
@common.path_option("--relays", help="Which relay may speak for which node.")
@common.path_option("--signing-key", help="Sign what the board says (see `parley keys`).")
@common.path_option("--trust", help="Seat only nodes whose signing keys are listed here.")
@click.option("--shard", help="Be the board of this shard of a run; its sub-analyst is called so.")
@click.option("--whole", is_flag=True, help="Be the head board of a run in shards: its nodes are shards.")
@click.option("--nonce", help="The nonce of the run, to repeat an experiment.  [default: random]")
def main(
    inbox: str,
    feed: str,
    delivery: str,
    transcript: Path,
    plan: Path | None,
    addresses: Path | None,
    keys: Path | None,
    allowed: Path | None,
    relays: Path | None,
    signing_key: Path | None,
    trust: Path | None,
    nonce: str | None,
    shard: str | None,
    whole: bool,
    **terms: Any,
) -> None:
    """Run the board: number every message, write it down, deliver it."""

    async def work() -> int:
        agreed, wanted = Terms(**terms), BoardAddresses(inbox=inbox, feed=feed, delivery=delivery)
        security, behind = common.board_security(keys, allowed), {} if relays is None else read_relays(relays)
        signer = None if signing_key is None else read_signer(signing_key)
        listed = None if trust is None else read_trust(trust)
        mistyped = f"--nonce {(nonce or '')[:80]!r} is not {wire.NONCE_BYTES} bytes in hexadecimal"
        given = None if nonce is None else common.read_hex(nonce, wire.NONCE_BYTES, mistyped)
        role = (HeadBoardRole if whole else BoardRole)(agreed, fresh_nonce if given is None else lambda: given, listed)
        if shard is not None:
            # The sub-analyst is this board's analyst, and says ties in its own name.
            role, behind = ShardBoardRole(agreed, shard, listed), {shard: ANALYST_NAME}
            security = None if security is None else _of_shard(security, shard)
        header = {} if plan is None else {FIELD: read_question(plan)}
        room = peers(agreed.nodes, behind)
        with closing(await bind(wanted, security, again=transcript.exists(), peers=room)) as port:
            node = BoardNode(role, port, open_record(transcript, agreed.run, **header), transcript, behind, signer)
            node.restore(port.clock.now())
            if addresses is not None:
                common.write_addresses(addresses, port.addresses)
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, node.stop, f"stopped by {number.name}")
            await node.serve()
        return common.GOOD if isinstance(role.ending, wire.Result) else common.UNFINISHED

    common.run_to_exit(work())


if __name__ == "__main__":
    main()
