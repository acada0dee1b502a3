"""The analyst as a process: its state is a function of the record, so it can be killed and started again."""

import json
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import click

from parley.emulator.errors import BadInput, LocalProtocolError, RemoteProtocolError
from parley.emulator.protocol import Protocol
from parley.emulator.record.question import FIELD, Question
from parley.emulator.roles.analyst import Analyst, AnalystRole
from parley.emulator.roles.board import ANALYST_NAME
from parley.emulator.roles.consent import domain_of
from parley.emulator.transport.ports import NodePort
from parley.emulator.transport.zmq.ports import connect_analyst
from parley.emulator.wire.batches import Batch, open_delivery
from parley.emulator.wire.codec import encode, pack, said_by, unpack
from parley.emulator.wire.messages import Announce, Result, Resume, Setup
from parley.emulator.wire.sealing import load_secret
from parley.emulator.wire.security import read_signer
from parley.emulator.wire.shapes import Alike, Shapes
from parley.emulator.wire.signatures import Signer
from parley.nodes.common import GOOD, LONGEST_SILENCE, UNFINISHED, BoardLink, link_options, path_option, run_to_exit
from parley.protocols.registry import build
from parley.protocols.shuffle.sealed import unsealed

SILENCE_SECONDS = 0.5
FAREWELL_SILENCE = 30.0
MOST_EARLY = 1000
MOST_GAPS = 50
log = logging.getLogger("analyst")


class RecordFollower(ABC):
    """Follows a board's record by number, and asks again for what it missed."""

    def __init__(self, port: NodePort) -> None:
        self.port = port
        self.expected = 0
        self._early: dict[int, bytes | Batch] = {}
        self._shapes = Shapes()
        self._asked = 0.0

    @abstractmethod
    def _hear(self, frame: bytes) -> None:
        """The next frame of the record."""

    @abstractmethod
    def _hear_alike(self, replies: Alike) -> None:
        """The next frames of the record, which are replies of one shape."""

    def _take(self, sealed: bytes) -> None:
        """Hear the record in order; what comes early waits, as far as there is room, for what is missing."""
        try:
            opened = open_delivery(sealed)
        except RemoteProtocolError as error:
            log.warning("dropped a delivery: %s", error)
            return
        sequence, found = (opened.sequence, opened) if isinstance(opened, Batch) else (opened[0], opened[2])
        if isinstance(found, Batch) and sequence < self.expected < sequence + len(found):
            # Some of it came before, one by one.
            sequence, found = self.expected, found.since(self.expected)
        if sequence > self.expected and len(self._early) < MOST_EARLY:
            self._early[sequence] = found
        while sequence == self.expected:
            if isinstance(found, Batch):
                self._hear_all(found)
            else:
                self._hear(found)
            # What came early and has been heard since, within a batch or one by one, is not to be waited for.
            self._early = {early: each for early, each in self._early.items() if early >= self.expected}
            sequence, found = self.expected, self._early.pop(self.expected, b"")
            if not found:
                return

    def _hear_all(self, batch: Batch) -> None:
        """Replies of one shape in columns; whatever else a batch may hold one by one."""
        groups = self._shapes.sort(batch.frames)
        if len(groups) == 1 and len(groups[0]) == len(batch):
            self._hear_alike(groups[0])
            self.expected += len(batch)
            return
        for frame in batch.frames:
            self._hear(frame)

    async def _ask_again(self) -> None:
        """Ask for the gaps below what came early, or without any for whatever comes next."""
        self._asked = self.port.clock.now()
        start, gaps = self.expected, list[Resume]()
        for early in sorted(self._early):
            if early > start:
                gaps.append(Resume(sequence=start, count=early - start))
            found = self._early[early]
            start = max(start, early + (len(found) if isinstance(found, Batch) else 1))
        for each in gaps[:MOST_GAPS] or [Resume(sequence=self.expected, count=0)]:
            await self.port.send(encode(each))


class AnalystNode(RecordFollower):
    """Follows the record, and repeats what it has not heard back."""

    def __init__(self, role: AnalystRole, port: NodePort, signer: Signer | None = None) -> None:
        super().__init__(port)
        self.role = role
        self.signer = signer
        self.result: Result | None = None
        """The last word, once it is on record."""
        self._sent = 0
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

    def _hear_alike(self, replies: Alike) -> None:
        self.role.hear_all(replies)

    def _hear(self, frame: bytes) -> None:
        message = self._shapes.decode(frame)
        self.expected += 1
        own = isinstance(message, Setup | Announce | Result)
        if own and self.signer is not None and not said_by(self.signer.public, frame, message, self.role.nonce):
            raise RemoteProtocolError(f"the record holds a {message.kind} that this analyst did not sign")
        before = len(self.role.pending)
        self.role.hear(message)
        if isinstance(message, Result):
            self.result = message
        # A word that came back is no longer pending: what was sent of the rest stays sent.
        self._sent = max(0, self._sent - max(0, before - len(self.role.pending)))

    async def _say(self) -> None:
        for message in self.role.pending[self._sent :]:
            log.info("says %s", message.kind)
            await self.port.send(encode(message, self.signer, self.role.nonce))
            self._spoke = self.port.clock.now()
        self._sent = len(self.role.pending)


class Plan(NamedTuple):
    """What the analyst is to ask: a protocol, and what its inputs mean."""

    protocol: Protocol
    domain: Mapping[str, Any]


def write_plan(
    path: Path, protocol: Protocol, domain: Mapping[str, Any] | None = None, question: Question | None = None
) -> None:
    """Write down what the analyst is to ask, and what the board is to write at the head of the record."""
    meant = domain_of(protocol.inputs) if domain is None else domain
    asked = {"protocol": protocol.name, "parameters": protocol.parameters(), "domain": meant}
    path.write_bytes(pack(asked if question is None else {**asked, FIELD: question}))


def read_plan(path: Path) -> Plan:
    """What to ask, from the file the launcher wrote."""
    try:
        plan = unpack(path.read_bytes())
    except OSError as error:
        raise BadInput(f"the plan {path} cannot be read: {error.strerror}") from error
    except RemoteProtocolError as error:
        raise BadInput(f"{path} is not a plan; write one with `parley plan ... --write FILE`") from error
    if not isinstance(plan, dict) or set(plan) - {FIELD} != {"protocol", "parameters", "domain"}:
        raise BadInput(f"the plan {path} does not name a protocol, its parameters and its domain")
    if [type(plan[name]) for name in ("protocol", "parameters", "domain")] != [str, dict, dict]:
        raise BadInput(f"the plan {path} holds no protocol, parameters or domain that can be read")
    return Plan(build(plan["protocol"], plan["parameters"]), plan["domain"])


def told(result: Result, protocol: Protocol, as_json: bool = False) -> str:
    """The result for a person or a program, its interval cut to what is possible."""
    least, most = getattr(getattr(protocol, "workload", None), "bounds", (-math.inf, math.inf))
    low, high = (min(max(end, least), most) for end in (result.low, result.high))
    if as_json:
        found = {"estimate": result.estimate, "interval95": [low, high], "predicted_rmse": result.predicted_rmse}
        return json.dumps(found, indent=2)
    return f"estimate  {result.estimate:.6g}   95% interval [{low:.6g}, {high:.6g}]"


@click.command(name="analyst")
@click.option("--run", required=True, help="Name of the run.")
@link_options
@path_option("--plan", required=True, help="The question (`parley plan --write`).")
@path_option("--opening-key", help="The key that opens sealed replies.")
@path_option("--signing-key", help="Sign what the analyst says (see `parley keys`).")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one record of JSON.")
def main(
    run: str, link: BoardLink, plan: Path, opening_key: Path | None, signing_key: Path | None, as_json: bool
) -> None:
    """Run the analyst: ask in rounds, sum the replies, compute the estimate and print it."""

    async def work() -> int:
        asked = read_plan(plan)
        if opening_key is not None:
            asked = asked._replace(protocol=unsealed(asked.protocol, load_secret(opening_key)))
        signer = None if signing_key is None else read_signer(signing_key)
        role = AnalystRole(asked.protocol, run, asked.domain)
        with closing(link.under(connect_analyst(link.board(), link.security()), ANALYST_NAME)) as port:
            node = AnalystNode(role, port, signer)
            await node.serve()
        if node.result is not None:
            click.echo(told(node.result, asked.protocol, as_json))
        return GOOD if role.state is Analyst.DONE else UNFINISHED

    run_to_exit(work())


if __name__ == "__main__":
    main()
