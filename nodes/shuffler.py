"""The shuffler as a process: a board to the user nodes, one node to the board, and nothing on disk.

It sees which node sent which replies until it has mixed them; users trust it with that and with nothing else, for it
learns no more than the replies. Whoever restarts it gives it its old ports, and users send the same bytes again.
"""

import asyncio
import logging
import os
import time
from pathlib import Path

import click

from emulator.addresses import BoardAddresses, descriptors_for, pace_for, raise_file_limit
from emulator.board import Terms
from emulator.codec import decode, encode, envelope, open_envelope
from emulator.errors import LocalProtocolError, RemoteProtocolError
from emulator.messages import BROADCASTS, Message, Ready, Refusal, Reminder, Replies, Result
from emulator.security import Security
from emulator.shuffler import SHUFFLER_NAME, Said, Shuffler, ShufflerRole, Up
from emulator.sockets import connect_node
from emulator.transport import BoardPort, NodePort, Received
from nodes.common import (
    GOOD,
    LONGEST_SILENCE,
    UNFINISHED,
    BoardLink,
    board_security,
    link_options,
    read_addresses,
    run_to_exit,
    topic_of,
    write_addresses,
)
from nodes.reopen import bind

SILENCE_SECONDS = 0.5
PATIENCE_SECONDS = 1.0
FAREWELL_SECONDS = 2.0
log = logging.getLogger("shuffler")


class ShufflerNode:
    """A role between two ports: `inner` serves the user nodes, `outer` reaches the board."""

    def __init__(self, role: ShufflerRole, inner: BoardPort, outer: NodePort) -> None:
        self.role = role
        self.inner = inner
        self.outer = outer
        self._posted = -PATIENCE_SECONDS

    async def serve(self) -> None:
        """Until the run is over; then say so until everybody has gone."""
        both = [asyncio.ensure_future(each) for each in (self._hear_nodes(), self._hear_board())]
        try:
            # The first error of either ends both.
            await asyncio.gather(*both)
        finally:
            for each in both:
                each.cancel()
        await self._farewell()

    async def _hear_nodes(self) -> None:
        while not self.role.over:
            for received in await self.inner.receive(timeout=self.role.terms.patience / 2):
                await self._take(received)
            await self.put(self.role.tick(time.monotonic()))

    async def _take(self, received: Received) -> None:
        """A node's word; whatever is wrong with it is dropped, and never fatal."""
        try:
            message = decode(received.frame)
            if not isinstance(message, Ready | Replies | Refusal):
                raise RemoteProtocolError(f"shuffler: a {message.kind}, which no user node says")
            if received.sender is not None and received.sender != message.node:
                raise RemoteProtocolError(f"shuffler: {received.sender} spoke in the name of {message.node}")
            await self.put(self.role.hear(message, time.monotonic()))
        except RemoteProtocolError as error:
            log.warning("dropped a frame: %s", error)

    async def _hear_board(self) -> None:
        heard = time.monotonic()
        while not self.role.over:
            batch = await self.outer.receive(timeout=SILENCE_SECONDS)
            waiting = self.role.state is Shuffler.GATHERING
            if batch or waiting:
                heard = time.monotonic()
            elif time.monotonic() - heard > LONGEST_SILENCE:
                raise LocalProtocolError(f"shuffler: the board has been silent for {LONGEST_SILENCE:g} s")
            else:
                await self.outer.send(encode(self.role.ready))
            for sealed in batch:
                await self._follow(sealed)

    async def _follow(self, sealed: bytes) -> None:
        try:
            message = decode(open_envelope(sealed)[2])
            if not isinstance(message, BROADCASTS):
                raise RemoteProtocolError(f"shuffler: a {message.kind} on the feed of broadcasts")
            if isinstance(message, Reminder) and time.monotonic() - self._posted < PATIENCE_SECONDS:
                # It was written before the board can have taken in what was just sent.
                return
            await self.put(self.role.hear(message, time.monotonic()))
        except RemoteProtocolError as error:
            log.warning("dropped a broadcast: %s", error)

    async def put(self, said: Said) -> None:
        """Send up and down what the role says. Its log names kinds and rounds, never a node."""
        for each in said:
            if isinstance(each, Up):
                log.info("posts %s", each.message.kind)
                await self.outer.send(encode(each.message))
                self._posted = time.monotonic()
            else:
                self._publish(each.message)

    def _publish(self, message: Message) -> None:
        self.inner.publish(topic_of(message), envelope(0, SHUFFLER_NAME, encode(message)))

    async def _farewell(self) -> None:
        until = time.monotonic() + FAREWELL_SECONDS
        while self.role.ending is not None and self.inner.subscribers and time.monotonic() < until:
            self._publish(self.role.ending)
            await self.inner.receive(timeout=0.05)


async def serve_shuffler(
    terms: Terms, wanted: BoardAddresses, written: Path | None, link: BoardLink, security: Security | None = None
) -> int:
    """Bind for the nodes, connect to the board, serve to the end."""
    raise_file_limit(descriptors_for(terms.nodes))
    again = written is not None and written.exists()
    there = read_addresses(written) if written is not None and again else wanted
    inner = await bind(there, security, again=again, pace=pace_for(terms.nodes))
    try:
        outer = link.under(connect_node(link.board(), link.security(), notices=True), SHUFFLER_NAME)
        try:
            if written is not None:
                write_addresses(written, inner.addresses)
            role = ShufflerRole(terms, pid=os.getpid())
            await ShufflerNode(role, inner, outer).serve()
        finally:
            outer.close()
    finally:
        inner.close()
    return GOOD if isinstance(role.ending, Result) else UNFINISHED


@click.command(name="shuffler")
@link_options
@click.option("--run", required=True, help="Name of the run.")
@click.option("--users", type=int, required=True, help="Users that take part.")
@click.option("--nodes", type=int, required=True, help="User nodes to wait for.")
@click.option("--own-post", default="tcp://127.0.0.1:0", show_default=True, help="Where user nodes send their replies.")
@click.option("--own-feed", default="tcp://127.0.0.1:0", show_default=True, help="Where they hear broadcasts.")
@click.option(
    "--own-addresses",
    type=click.Path(path_type=Path),
    help="Write our endpoints to this file; if it exists, come back to them.",
)
@click.option("--deadline", default=540.0, show_default=True, help="Seconds a round may last; less than the board's.")
@click.option("--quorum", default=1.0, show_default=True, help="Share of users without whom nothing begins.")
@click.option("--join-deadline", default=50.0, show_default=True, help="Seconds to wait for all nodes.")
@click.option("--allowed", type=click.Path(path_type=Path), help="Public keys of the user nodes, by name.")
def main(
    link: BoardLink,
    run: str,
    users: int,
    nodes: int,
    own_post: str,
    own_feed: str,
    own_addresses: Path | None,
    deadline: float,
    quorum: float,
    join_deadline: float,
    allowed: Path | None,
) -> None:
    """Run the shuffler: gather a round's replies, forget who sent them, post them mixed."""

    async def work() -> int:
        terms = Terms(run=run, users=users, nodes=nodes, deadline=deadline, quorum=quorum, join_deadline=join_deadline)
        wanted = BoardAddresses(post=own_post, feed=own_feed, desk="tcp://127.0.0.1:0")
        return await serve_shuffler(terms, wanted, own_addresses, link, board_security(link.keys, allowed))

    run_to_exit(work())


if __name__ == "__main__":
    main()
