"""The analyst as a process: its state is a function of the record, so it can be killed and started again."""

import logging
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import click

from parley.emulator.errors import BadInput, LocalProtocolError, RemoteProtocolError
from parley.emulator.protocol import Protocol
from parley.emulator.roles.analyst import Analyst, AnalystRole
from parley.emulator.roles.board import ANALYST_NAME
from parley.emulator.roles.consent import domain_of
from parley.emulator.transport.ports import NodePort
from parley.emulator.transport.zmq.ports import connect_analyst
from parley.emulator.wire.codec import decode, encode, open_envelope, pack, said_by, unpack
from parley.emulator.wire.messages import Announce, Result, Resume, Setup
from parley.emulator.wire.sealing import load_secret
from parley.emulator.wire.security import read_signer
from parley.emulator.wire.signatures import Signer
from parley.nodes.common import GOOD, LONGEST_SILENCE, UNFINISHED, BoardLink, link_options, path_option, run_to_exit
from parley.protocols.registry import build
from parley.protocols.shuffle.sealed import unsealed

SILENCE_SECONDS = 0.5
FAREWELL_SILENCE = 30.0
MOST_EARLY = 1000
MOST_GAPS = 50
log = logging.getLogger("analyst")


class AnalystNode:
    """Follows the record by number, asks again for what it missed, repeats what it has not heard back."""

    def __init__(self, role: AnalystRole, port: NodePort, signer: Signer | None = None) -> None:
        self.role = role
        self.signer = signer
        self.port = port
        self.expected = 0
        self._early: dict[int, bytes] = {}
        self._sent = 0
        self._asked = 0.0
        self._spoke = 0.0

    async def serve(self) -> None:
        """Until the role is done and its last word is on record."""
        await self._ask_again()
        heard = self.port.clock.now()
        while self.role.pending or self.role.state not in (Analyst.DONE, Analyst.ENDED):
            batch = await self.port.receive(timeout=SILENCE_SECONDS)
            if batch:
                heard = self.port.clock.now()
            elif self.role.state is Analyst.DONE and self.port.clock.now() - heard > FAREWELL_SILENCE:
                log.warning("the board left before the result came back; see its record")
                return
            elif self.port.clock.now() - heard > LONGEST_SILENCE:
                raise LocalProtocolError(f"analyst: the board has been silent for {LONGEST_SILENCE:g} s")
            for sealed in batch:
                self._take(sealed)
            if self.port.clock.now() - self._spoke > SILENCE_SECONDS:
                self._sent = 0
            if not batch or (self._early and self.port.clock.now() - self._asked > SILENCE_SECONDS / 4):
                await self._ask_again()
            await self._say()
        # The last thing the board learns: its record was heard to the end.
        await self._ask_again()

    def _take(self, sealed: bytes) -> None:
        """Hear the record in order; what comes early waits, as far as there is room, for what is missing."""
        try:
            sequence, _, frame = open_envelope(sealed)
        except RemoteProtocolError as error:
            log.warning("dropped a delivery: %s", error)
            return
        if sequence > self.expected and len(self._early) < MOST_EARLY:
            self._early[sequence] = frame
        while sequence == self.expected:
            self._hear(frame)
            sequence, frame = self.expected, self._early.pop(self.expected, b"")
            if not frame:
                return

    def _hear(self, frame: bytes) -> None:
        message = decode(frame)
        self.expected += 1
        own = isinstance(message, Setup | Announce | Result)
        if own and self.signer is not None and not said_by(self.signer.public, frame, message, self.role.nonce):
            raise RemoteProtocolError(f"the record holds a {message.kind} that this analyst did not sign")
        before = len(self.role.pending)
        self.role.hear(message)
        # A word that came back is no longer pending: what was sent of the rest stays sent.
        self._sent = max(0, self._sent - max(0, before - len(self.role.pending)))

    async def _say(self) -> None:
        for message in self.role.pending[self._sent :]:
            log.info("says %s", message.kind)
            await self.port.send(encode(message, self.signer, self.role.nonce))
            self._spoke = self.port.clock.now()
        self._sent = len(self.role.pending)

    async def _ask_again(self) -> None:
        """Ask for the gaps below what came early, or without any for whatever comes next."""
        self._asked = self.port.clock.now()
        start, gaps = self.expected, list[Resume]()
        for early in sorted(self._early):
            if early > start:
                gaps.append(Resume(sequence=start, count=early - start))
            start = early + 1
        for each in gaps[:MOST_GAPS] or [Resume(sequence=self.expected, count=0)]:
            await self.port.send(encode(each))


class Plan(NamedTuple):
    """What the analyst is to ask: a protocol, and what its inputs mean."""

    protocol: Protocol
    domain: Mapping[str, Any]


def write_plan(path: Path, protocol: Protocol, domain: Mapping[str, Any] | None = None) -> None:
    """Write down what the analyst is to ask."""
    meant = domain_of(protocol.inputs) if domain is None else domain
    path.write_bytes(pack({"protocol": protocol.name, "parameters": protocol.parameters(), "domain": meant}))


def read_plan(path: Path) -> Plan:
    """What to ask, from the file the launcher wrote."""
    try:
        plan = unpack(path.read_bytes())
    except (OSError, RemoteProtocolError) as error:
        raise BadInput(f"the plan {path} cannot be read: {error}") from error
    if not isinstance(plan, dict) or set(plan) != {"protocol", "parameters", "domain"}:
        raise BadInput(f"the plan {path} does not name a protocol, its parameters and its domain")
    return Plan(build(plan["protocol"], plan["parameters"]), plan["domain"])


@click.command(name="analyst")
@click.option("--run", required=True, help="Name of the run.")
@link_options
@path_option("--plan", required=True, help="The question (`parley plan --save`).")
@path_option("--opening-key", help="The key that opens sealed replies.")
@path_option("--signing-key", help="Sign what the analyst says (see `parley keys`).")
def main(run: str, link: BoardLink, plan: Path, opening_key: Path | None, signing_key: Path | None) -> None:
    """Run the analyst: ask in rounds, sum the replies, compute the estimate."""

    async def work() -> int:
        asked = read_plan(plan)
        if opening_key is not None:
            asked = asked._replace(protocol=unsealed(asked.protocol, load_secret(opening_key)))
        signer = None if signing_key is None else read_signer(signing_key)
        role = AnalystRole(asked.protocol, run, asked.domain)
        with closing(link.under(connect_analyst(link.board(), link.security()), ANALYST_NAME)) as port:
            await AnalystNode(role, port, signer).serve()
        return GOOD if role.state is Analyst.DONE else UNFINISHED

    run_to_exit(work())


if __name__ == "__main__":
    main()
