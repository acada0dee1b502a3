"""The sub-analyst of a shard as a process: it follows its own board's record, and the head board's feed."""

import asyncio
import logging
from contextlib import closing
from pathlib import Path

import click

from parley.emulator.errors import LocalProtocolError, RemoteProtocolError
from parley.emulator.roles.board import ANALYST_NAME, BOARD_NAME
from parley.emulator.roles.shards.sub_analyst import SubAnalystRole
from parley.emulator.transport.ports import NodePort, topic_for
from parley.emulator.transport.zmq.ports import connect_analyst, connect_node
from parley.emulator.wire.codec import decode, open_envelope
from parley.emulator.wire.messages import Reminder, Result
from parley.emulator.wire.security import read_signer, read_trust
from parley.emulator.wire.shapes import Alike
from parley.nodes.analyst import SILENCE_SECONDS, RecordFollower
from parley.nodes.between import together
from parley.nodes.common import (
    GOOD,
    LONGEST_SILENCE,
    UNFINISHED,
    BoardLink,
    link_options,
    path_option,
    run_to_exit,
)
from parley.protocols.registry import build

log = logging.getLogger("sub-analyst")


class SubAnalystNode(RecordFollower):
    """A role and two ports: `port` to its own board, `head` to the head board."""

    def __init__(self, role: SubAnalystRole, port: NodePort, head: NodePort) -> None:
        super().__init__(port)
        self.role, self.head = role, head
        self._said: list[bytes] = []
        self._spoke = 0.0
        self._reported = 0.0
        self._answered: list[bytes] = []

    async def serve(self) -> None:
        """Until its own board's record says that the run is over."""
        await together(self._follow_record(), self._follow_head())

    async def _follow_record(self) -> None:
        await self._ask_again()
        while self.role.ending is None:
            batch = await self.port.receive(timeout=SILENCE_SECONDS)
            for sealed in batch:
                self._take(sealed)
            if not batch or (self._early and self.port.clock.now() - self._asked > SILENCE_SECONDS / 4):
                await self._ask_again()
            await self._speak()
        # The last thing its board learns: its record was heard to the end.
        await self._ask_again()
        await self._report()

    def _hear(self, frame: bytes) -> None:
        self.expected += 1
        self.role.hear(self._shapes.decode(frame), frame)

    def _hear_alike(self, replies: Alike) -> None:
        self.role.hear_all(replies)

    async def _follow_head(self) -> None:
        heard = due = self.head.clock.now()
        while self.role.ending is None:
            batch = await self.head.receive(timeout=SILENCE_SECONDS / 2)
            now = self.head.clock.now()
            heard = now if batch else heard
            for sealed in batch:
                self._told(sealed)
            if self.role.shard and now >= due:
                # Still there: the head board answers with what may have been missed.
                await self.head.send(self.role.shard)
                due = now + SILENCE_SECONDS
            due = now + SILENCE_SECONDS if batch else due
            if self.role.shard and now - heard > LONGEST_SILENCE:
                raise LocalProtocolError(f"{self.role.node}: the head board has been silent for {LONGEST_SILENCE:g} s")
            await self._speak()

    def _told(self, sealed: bytes) -> None:
        try:
            frame = open_envelope(sealed)[2]
            message = decode(frame)
            if isinstance(message, Reminder) and self.role.node in message.missing:
                self._answered = []
            self.role.told(message, frame)
        except RemoteProtocolError as error:
            log.warning("dropped a broadcast: %s", error)

    async def _speak(self) -> None:
        """To both sides what they should hear next: once, and again when nothing has come of it for a while."""
        now, down = self.port.clock.now(), self.role.down
        if down and (down != self._said or now - self._spoke > SILENCE_SECONDS):
            self._said, self._spoke = down, now
            for frame in down:
                await self.port.send(frame)
        await self._report()

    async def _report(self) -> None:
        now, up = self.head.clock.now(), self.role.up
        if up and (up != self._answered or now - self._reported > 2 * SILENCE_SECONDS):
            self._answered, self._reported = up, now
            for frame in up:
                await self.head.send(frame)


@click.command(name="sub-analyst")
@click.option("--run", required=True, help="Name of the run.")
@click.option("--name", required=True, help="Name of the shard.")
@link_options
@path_option("--head-addresses", required=True, help="File with the head board's endpoints.")
@path_option("--head-key", help="File with the head board's public key.")
@path_option("--signing-key", help="Sign what the sub-analyst says (see `parley keys`).")
@path_option("--trust", help="Whose signatures count: those of the head analyst and the head board.")
def main(
    run: str,
    name: str,
    link: BoardLink,
    head_addresses: Path,
    head_key: Path | None,
    signing_key: Path | None,
    trust: Path | None,
) -> None:
    """Run the sub-analyst of a shard: pass on what the head analyst says, and send it the shard's sums."""

    async def work() -> int:
        keys = None if trust is None else read_trust(trust)
        head_link = BoardLink(addresses=head_addresses, conditions=link.conditions, keys=link.keys, board_key=head_key)
        with (
            closing(link.under(connect_analyst(link.board(), link.security()), name)) as port,
            closing(head_link.under(_connect(head_link, name), name)) as head,
        ):
            role = SubAnalystRole(
                node=name,
                run=run,
                pid=port.clock.process_id(),
                build=build,
                signer=None if signing_key is None else read_signer(signing_key),
                keys=None if keys is None else {each: keys[each] for each in (ANALYST_NAME, BOARD_NAME)},
            )
            await SubAnalystNode(role, port, head).serve()
            # What was sent last must leave before the sockets are closed.
            await asyncio.sleep(0)
        return GOOD if isinstance(role.ending, Result) else UNFINISHED

    run_to_exit(work())


def _connect(link: BoardLink, name: str) -> NodePort:
    return connect_node(link.board(), link.security(), own=topic_for(name))


if __name__ == "__main__":
    main()
