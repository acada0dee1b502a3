"""A relay as a process, on a host with many user nodes: the board has one connection per host, not one per node.

It keeps nothing on disk. Whoever restarts it gives it its old ports; frames it had not passed on are asked for again
by the board.
"""

import logging

import click

from parley.emulator.errors import LocalProtocolError, RemoteProtocolError
from parley.emulator.roles.relay import Passed, RelayRole, merged
from parley.emulator.transport.addresses import pace_for
from parley.emulator.transport.ports import BROADCAST, PERSONAL, BoardPort, NodePort, topic_for
from parley.emulator.wire.messages import Result
from parley.nodes.between import UserSide, both_ports, together, user_side_options
from parley.nodes.common import GOOD, LONGEST_SILENCE, UNFINISHED, BoardLink, link_options, run_to_exit

WAIT_SECONDS = 0.5
# As long as the board answers those who leave, and how often they hear that the run is over.
FAREWELL_SECONDS = 2.0
FAREWELL_WAIT = 0.05
log = logging.getLogger("relay")


class RelayNode:
    """A role between two ports: `inner` serves the nodes of this host, `outer` reaches the board."""

    def __init__(self, role: RelayRole, inner: BoardPort, outer: NodePort, pace: float = 1.0) -> None:
        """`pace`: how many times longer than usual the board may be silent, waiting for many."""
        self.role = role
        self.longest_silence = pace * LONGEST_SILENCE
        self.inner = inner
        self.outer = outer
        self._until: float | None = None

    async def serve(self) -> None:
        """Until the run is over and everybody has gone, or has had time enough to ask for what is missing."""
        await together(self._pass_up(), self._pass_down())

    @property
    def _left(self) -> bool:
        """Nodes that have heard the result still ask the board whether their last reply is on record."""
        if not self.role.over:
            return False
        if self._until is None:
            self._until = self.outer.clock.now() + FAREWELL_SECONDS
        return not self.inner.subscribers or self.outer.clock.now() >= self._until

    @property
    def _wait(self) -> float:
        return FAREWELL_WAIT if self.role.over else WAIT_SECONDS

    async def _pass_up(self) -> None:
        while not self._left:
            frames: list[bytes] = []
            batch = await self.inner.receive(timeout=self._wait)
            heard = self.role.hear_replies([each.frame for each in batch], [each.sender for each in batch])
            for place, received in enumerate(batch):
                if place in heard:
                    frames.append(received.frame)
                    continue
                try:
                    passed = self.role.hear_node(received.frame, received.sender, self.outer.clock.now())
                except RemoteProtocolError as error:
                    log.warning("dropped a frame: %s", error)
                    continue
                frames += passed.up
                self._publish(passed)
            # All that came while the last batch was on its way goes up together.
            for each in merged(frames):
                await self.outer.send(each)

    async def _pass_down(self) -> None:
        heard = told = self.outer.clock.now()
        while not self._left:
            batch = await self.outer.receive(timeout=self._wait)
            if batch:
                heard = self.outer.clock.now()
            elif self.outer.clock.now() - heard > self.longest_silence and self.role.nodes:
                raise LocalProtocolError(f"{self.role.name}: the board has been silent for {self.longest_silence:g} s")
            for sealed in batch:
                try:
                    self._publish(self.role.hear_board(sealed, self.outer.clock.now()))
                except RemoteProtocolError as error:
                    log.warning("dropped a broadcast: %s", error)
            if self.role.over and self.outer.clock.now() - told >= FAREWELL_WAIT:
                self._publish(Passed(down=self.role.farewell))
                told = self.outer.clock.now()

    def _publish(self, passed: Passed) -> None:
        for each in passed.down:
            self.inner.publish(topic_for(passed.only) if passed.only else BROADCAST, each)


@click.command(name="relay")
@link_options
@click.option("--name", required=True, help="Name of this relay.")
@click.option("--nodes", type=int, required=True, help="The largest number of user nodes that will connect.")
@user_side_options
def main(link: BoardLink, side: UserSide, name: str, nodes: int) -> None:
    """Run a relay: pass the frames of this host's user nodes on to the board, and broadcasts to them."""

    async def work() -> int:
        role = RelayRole(name)
        async with both_ports(side, link, name, nodes, own=PERSONAL) as (inner, outer):
            await RelayNode(role, inner, outer, pace_for(nodes)).serve()
        return GOOD if isinstance(role.ending, Result) else UNFINISHED

    run_to_exit(work())


if __name__ == "__main__":
    main()
