"""The analyst as a process: its state is a function of the record, so it can be killed and started again."""

import logging
import time
from pathlib import Path

import click

from emulator.addresses import BoardAddresses
from emulator.codec import decode, encode, open_envelope, unpack
from emulator.errors import BadInput, LocalProtocolError, RemoteProtocolError
from emulator.messages import Resume
from emulator.protocol import Protocol
from emulator.roles import Analyst, AnalystRole
from emulator.sockets import connect_analyst
from emulator.transport import AnalystPort
from nodes.common import GOOD, UNFINISHED, board_options, find_board, run_to_exit
from protocols.registry import build

SILENCE_SECONDS = 0.5
LONGEST_SILENCE = 60.0
log = logging.getLogger("analyst")


class AnalystNode:
    """Follows the record by number, asks again for what it missed, repeats what it has not heard back."""

    def __init__(self, role: AnalystRole, port: AnalystPort) -> None:
        self.role = role
        self.port = port
        self.expected = 0
        self._sent = 0

    async def serve(self) -> None:
        """Until the role is done and its last word is on record."""
        await self._ask_again()
        heard = time.monotonic()
        while self.role.pending or self.role.state not in (Analyst.DONE, Analyst.ENDED):
            batch = await self.port.receive(timeout=SILENCE_SECONDS)
            if batch:
                heard = time.monotonic()
            if time.monotonic() - heard > LONGEST_SILENCE:
                raise LocalProtocolError(f"analyst: the board has been silent for {LONGEST_SILENCE:g} s")
            complete = all([await self._take(sealed) for sealed in batch])
            if not batch or not complete:
                await self._ask_again()
            if not batch:
                self._sent = 0
            await self._say()

    async def _take(self, sealed: bytes) -> bool:
        """Hear the record in order; False where a number is missing."""
        sequence, _, frame = open_envelope(sealed)
        if sequence < self.expected:
            return True
        if sequence > self.expected:
            return False
        self.expected += 1
        before = len(self.role.pending)
        self.role.hear(decode(frame))
        # A word that came back is no longer pending: what was sent of the rest stays sent.
        self._sent = max(0, self._sent - max(0, before - len(self.role.pending)))
        return True

    async def _say(self) -> None:
        for message in self.role.pending[self._sent :]:
            log.info("says %s", message.kind)
            await self.port.send(encode(message))
        self._sent = len(self.role.pending)

    async def _ask_again(self) -> None:
        await self.port.send(encode(Resume(sequence=self.expected)))


def read_plan(path: Path) -> Protocol:
    """The protocol to speak, from the file the launcher wrote."""
    try:
        plan = unpack(path.read_bytes())
    except (OSError, RemoteProtocolError) as error:
        raise BadInput(f"the plan {path} cannot be read: {error}") from error
    if not isinstance(plan, dict) or set(plan) != {"protocol", "parameters"}:
        raise BadInput(f"the plan {path} does not name a protocol and its parameters")
    return build(plan["protocol"], plan["parameters"])


async def serve_analyst(protocol: Protocol, run: str, board: BoardAddresses) -> int:
    """Connect and ask until there is an answer."""
    port = connect_analyst(board)
    role = AnalystRole(protocol, run)
    try:
        await AnalystNode(role, port).serve()
    finally:
        port.close()
    return GOOD if role.state is Analyst.DONE else UNFINISHED


@click.command(name="analyst")
@click.option("--run", required=True, help="Name of the run.")
@board_options
@click.option("--plan", type=click.Path(path_type=Path), required=True, help="Protocol and parameters.")
def main(run: str, addresses: Path | None, post: str | None, feed: str | None, desk: str | None, plan: Path) -> None:
    """Run the analyst: ask in rounds, fold the replies, say the estimate."""

    async def work() -> int:
        return await serve_analyst(read_plan(plan), run, find_board(addresses, post, feed, desk))

    run_to_exit(work())


if __name__ == "__main__":
    main()
