"""The shuffler as a process: a board to the user nodes, one node to the board, and on disk nothing but mixed batches.

It sees which node sent which replies until it has mixed them; users trust it with that and with nothing else, for it
learns no more than the replies. Whoever restarts it gives it its old ports and its state: a batch that was kept goes
out again as it was, and for any other round users send the same bytes again.

Its log says what happens to the run. It never says who sent something, nor quotes what a node has sent.
"""

import logging
import os
from pathlib import Path
from typing import Any

import click

from parley.emulator.coins import KEY_BYTES
from parley.emulator.errors import LocalProtocolError, RemoteProtocolError
from parley.emulator.roles.board import Terms
from parley.emulator.roles.mixing import keyed_draws, system_draws
from parley.emulator.roles.shuffler import SHUFFLER_NAME, Down, Keep, Said, Shuffler, ShufflerRole, Up
from parley.emulator.transport.ports import BROADCAST, BoardPort, NodePort, Received, topic_for
from parley.emulator.wire import messages as wire
from parley.emulator.wire.codec import decode, envelope, open_envelope
from parley.emulator.wire.security import read_signer, read_trust
from parley.nodes import common
from parley.nodes.between import UserSide, both_ports, together, user_side_options
from parley.nodes.state.announcer import topic_of
from parley.nodes.state.batches import Batches

SILENCE_SECONDS = 0.5
PATIENCE_SECONDS = 1.0
FAREWELL_SECONDS = 2.0
log = logging.getLogger("shuffler")


class ShufflerNode:
    """A role between two ports and a disk: `inner` serves the user nodes, `outer` reaches the board."""

    def __init__(self, role: ShufflerRole, inner: BoardPort, outer: NodePort, batches: Batches) -> None:
        self.role = role
        self.batches = batches
        self.inner = inner
        self.outer = outer
        self._posted = -PATIENCE_SECONDS

    async def serve(self) -> None:
        """Until the run is over; then say so until everybody has gone."""
        await together(self._hear_nodes(), self._hear_board())
        await self._farewell()

    async def _hear_nodes(self) -> None:
        while not self.role.over:
            for received in await self.inner.receive(timeout=self.role.terms.patience / 2):
                await self._take(received)
            await self.put(self.role.tick(self.outer.clock.now()))

    async def _take(self, received: Received) -> None:
        """A node's word; whatever is wrong with it is dropped, and never fatal."""
        try:
            message = decode(received.frame)
        except RemoteProtocolError:
            # The reason could quote what was sent.
            log.warning("dropped a frame that is not a message")
            return
        if isinstance(message, wire.Event):
            # What an experiment did to a node's link: it names the node and goes nowhere.
            return
        try:
            if not isinstance(message, wire.Ready | wire.Replies | wire.Refusal | wire.Inquiry):
                raise RemoteProtocolError(f"shuffler: a {message.kind}, which no user node sends")
            if received.sender is not None and received.sender != message.node:
                raise RemoteProtocolError("shuffler: a node spoke in the name of another")
            said = self.role.hear(message, self.outer.clock.now())
        except RemoteProtocolError as error:
            log.warning("dropped a frame: %s", error)
            return
        await self.put(said)

    async def _hear_board(self) -> None:
        heard = self.outer.clock.now()
        while not self.role.over:
            batch = await self.outer.receive(timeout=SILENCE_SECONDS)
            # One that has served this run before has a seat at the board, and asks where the run stands.
            waiting = self.role.state is Shuffler.GATHERING and not self.role.memory.setup
            if batch or waiting:
                heard = self.outer.clock.now()
            elif self.outer.clock.now() - heard > common.LONGEST_SILENCE:
                raise LocalProtocolError(f"shuffler: the board has been silent for {common.LONGEST_SILENCE:g} s")
            else:
                await self.outer.send(self.role.frame(Up(self.role.ready)))
            for sealed in batch:
                await self._follow(sealed)

    async def _follow(self, sealed: bytes) -> None:
        try:
            frame = open_envelope(sealed)[2]
            message = decode(frame)
            if not isinstance(message, wire.BROADCASTS):
                raise RemoteProtocolError(f"shuffler: a {message.kind} on the feed of broadcasts")
            if isinstance(message, wire.Reminder) and self.outer.clock.now() - self._posted < PATIENCE_SECONDS:
                # It was written before the board can have taken in what was just sent.
                return
            said = self.role.hear(message, self.outer.clock.now(), frame)
        except RemoteProtocolError as error:
            log.warning("dropped a broadcast: %s", error)
            return
        await self.put(said)

    async def put(self, said: Said) -> None:
        """Keep what is to be kept, then send up and down. Nothing leaves once something could not be kept."""
        for each in said:
            if isinstance(each, Keep):
                self.batches.write(each)
        self.batches.check()
        for each in said:
            if isinstance(each, Up):
                log.info("posts %s", each.message.kind)
                await self.outer.send(self.role.frame(each))
                self._posted = self.outer.clock.now()
            elif isinstance(each, Down):
                self._publish(each)

    def _publish(self, said: Down) -> None:
        """To all nodes; what analyst and board have signed in the frame that they signed."""
        if isinstance(said.message, wire.Seating):
            topic = topic_for(said.message.node)
        else:
            topic = BROADCAST if isinstance(said.message, wire.Pledge) else topic_of(said.message)
        self.inner.publish(topic, envelope(0, SHUFFLER_NAME, self.role.frame(said)))

    async def _farewell(self) -> None:
        until = self.outer.clock.now() + FAREWELL_SECONDS
        while self.role.farewell is not None and self.inner.subscribers and self.outer.clock.now() < until:
            self._publish(self.role.farewell)
            # A node that came back after the end needs the setup to believe it.
            for received in await self.inner.receive(timeout=0.05):
                await self._take(received)


@click.command(name="shuffler")
@common.link_options
@click.option("--run", required=True, help="Name of the run.")
@click.option("--users", type=int, required=True, help="Number of users who take part.")
@click.option("--nodes", type=int, required=True, help="Number of user nodes to wait for.")
@user_side_options
@click.option("--deadline", default=540.0, show_default=True, help="Seconds a round may last; less than the board's.")
@click.option("--quorum", default=1.0, show_default=True, help="Share of users it waits for, and needs in a round.")
@click.option("--join-deadline", default=50.0, show_default=True, help="Seconds to wait for all nodes.")
@common.path_option("--state", required=True, help="Folder for this run's batches; empty at first.")
@common.path_option("--signing-key", help="Sign what the shuffler says (`parley keys`).")
@common.path_option("--trust", help="Seat only nodes whose signing keys are listed here.")
@click.option("--draw-seed", help="Fix the permutations, to repeat an experiment.  [default: random]")
def main(
    link: common.BoardLink,
    side: UserSide,
    state: Path,
    signing_key: Path | None,
    trust: Path | None,
    draw_seed: str | None,
    **terms: Any,
) -> None:
    """Run the shuffler: gather a round's replies, forget who sent them, post them mixed."""

    async def work() -> int:
        agreed = Terms(**terms)
        signer = None if signing_key is None else read_signer(signing_key)
        keys = None if trust is None else read_trust(trust)
        mistyped = f"--draw-seed is not {KEY_BYTES} bytes in hexadecimal; leave it out outside experiments"
        draws = system_draws if draw_seed is None else keyed_draws(common.read_hex(draw_seed, KEY_BYTES, mistyped))
        with Batches(state, agreed.run) as batches:
            role = ShufflerRole(agreed, pid=os.getpid(), draws=draws, memory=batches.memory, signer=signer, keys=keys)
            async with both_ports(side, link, SHUFFLER_NAME, agreed.nodes, notices=True) as (inner, outer):
                await ShufflerNode(role, inner, outer, batches).serve()
        return common.GOOD if isinstance(role.ending, wire.Result) else common.UNFINISHED

    common.run_to_exit(work())


if __name__ == "__main__":
    main()
