"""A user node as a process: hosts a cohort, answers each broadcast once, and writes down that it did before it does."""

import logging
import math
import os
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import click
import numpy as np

from emulator.codec import decode, encode, open_envelope
from emulator.errors import BadInput, LocalProtocolError, RemoteProtocolError
from emulator.messages import Announce, Message, Ready, Refusal, Reminder, Setup
from emulator.protocol import Inputs, Trust
from emulator.roles import Cohort, CohortRole, Commit
from emulator.sockets import connect_node
from emulator.transport import NodePort
from emulator.witness import Witness
from nodes.common import GOOD, LONGEST_SILENCE, UNFINISHED, BoardLink, link_options, run_to_exit
from nodes.journal import Journal, keep_key
from nodes.memory import give_back
from protocols.registry import build

SILENCE_SECONDS = 0.5
LONGEST_PATIENCE = 8.0
# A day: what libzmq is told in milliseconds must fit into its integers.
MOST_PATIENCE = 86_400.0
log = logging.getLogger("user")


class UserNode:
    """A role, a port and a journal."""

    def __init__(self, role: CohortRole, port: NodePort, journal: Journal, patience: float = SILENCE_SECONDS) -> None:
        self.role = role
        self.patience = patience
        self.port = port
        self.journal = journal
        self._spoke = 0.0

    @property
    def longest_silence(self) -> float:
        return pace_of(self.patience) * LONGEST_SILENCE

    @property
    def over(self) -> bool:
        return self.role.state is Cohort.DONE

    async def serve(self) -> None:
        """Say ready until heard, answer until the run is over; give up when the board has fallen silent."""
        await self._say_ready()
        heard, patience = time.monotonic(), self.patience
        due = heard + patience
        while not self.over:
            batch = await self.port.receive(timeout=max(0.0, due - time.monotonic()))
            if batch:
                news, heard = await self._take(batch), time.monotonic()
                give_back()
                if news:
                    due, patience = heard + self.patience, self.patience
                elif self.role.state is Cohort.WAITING:
                    # A run goes on whose setup we have not heard.
                    due = min(due, heard + SILENCE_SECONDS)
            elif time.monotonic() - heard > self.longest_silence:
                raise LocalProtocolError(
                    f"node {self.role.node}: the board has been silent for {self.longest_silence:g} s"
                )
            if time.monotonic() >= due and not self.over:
                # Thousands of nodes may wait for one slow round: ask less and less often whether it goes on.
                await self._say_ready()
                patience = min(2 * patience, max(LONGEST_PATIENCE, self.patience))
                due = time.monotonic() + patience

    async def _take(self, batch: list[bytes]) -> bool:
        """Hear a batch; of reminders only the last, and only if it can know of what was sent before.

        Whether it brought anything new: what is merely repeated is for others.
        """
        before = self.role.state, len(self.role.commitments)
        messages = [message for message in map(self._open, batch) if message is not None]
        reminders = [each for each in messages if isinstance(each, Reminder)]
        for message in messages:
            if isinstance(message, Reminder) and (
                message is not reminders[-1] or time.monotonic() - self._spoke < SILENCE_SECONDS / 2
            ):
                continue
            await self._hear(message)
        return before != (self.role.state, len(self.role.commitments))

    def _open(self, sealed: bytes) -> Message | None:
        try:
            return decode(open_envelope(sealed)[2])
        except RemoteProtocolError as error:
            log.warning("dropped a broadcast: %s", error)
            return None

    async def _hear(self, message: Message) -> None:
        try:
            for said in self.role.hear(message):
                if isinstance(said, Commit):
                    self.journal.write(said)
                else:
                    await self.port.send(encode(said))
                    self._spoke = time.monotonic()
        except (RemoteProtocolError, BadInput) as error:
            log.warning("refused: %s", error)
            if isinstance(message, Setup | Announce):
                await self._refuse(message, str(error))

    async def _refuse(self, message: Setup | Announce, reason: str) -> None:
        number = message.round if isinstance(message, Announce) else 0
        refusal = Refusal(run=message.run, round=number, node=self.role.node, reason=reason[:500])
        await self.port.send(encode(refusal))

    async def _say_ready(self) -> None:
        role = self.role
        ready = Ready(node=role.node, first=role.first, users=len(role.inputs), pid=os.getpid())
        await self.port.send(encode(ready))


def pace_of(patience: float) -> float:
    """How many times longer than usual a node waits for others if it is to be so patient."""
    return max(1.0, patience / LONGEST_PATIENCE)


async def serve_user(
    *,
    node: str,
    first: int,
    inputs: Inputs,
    key: bytes,
    cap: float,
    journal: Path,
    connect: Callable[[], NodePort],
    trusts: Trust = "nobody",
    delta_cap: float = 0.0,
    durable: bool = True,
    patience: float = SILENCE_SECONDS,
) -> int:
    """Connect and take part to the end."""
    memory = Journal(journal, durable=durable)
    role = CohortRole(
        node=node,
        first=first,
        inputs=inputs,
        key=key,
        cap=cap,
        build=build,
        run=memory.run,
        commitments=memory.commitments,
        trusts=trusts,
        delta_cap=delta_cap,
    )
    port = connect()
    try:
        await UserNode(role, port, memory, patience).serve()
    finally:
        port.close()
        memory.close()
    return GOOD if role.state is Cohort.DONE else UNFINISHED


@lru_cache(maxsize=1)
def read_witness(path: Path) -> Witness:
    """The witness of an emulation. A process that forks nodes reads it first, and they all share what it read."""
    return Witness.load(path)


def read_inputs(path: Path) -> Inputs:
    """Private inputs of a node that is started by hand: whole numbers in a .npy file."""
    try:
        inputs = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise BadInput(f"the inputs {path} cannot be read: {error}") from error
    if inputs.ndim != 1 or inputs.dtype.kind not in "iu" or len(inputs) == 0 or inputs.min() < 0:
        raise BadInput(f"{path} should hold a list of whole numbers from 0 on, one a user")
    return np.asarray(inputs, dtype=np.int64)


@click.command(name="user")
@link_options
@click.option("--node", required=True, help="Name of this node.")
@click.option("--first", type=int, default=0, show_default=True, help="Number of this node's first user.")
@click.option("--users", type=int, help="How many users of the witness are this node's.")
@click.option("--witness", type=click.Path(path_type=Path), help="Inputs and coin key of an emulation.")
@click.option("--inputs", type=click.Path(path_type=Path), help="This node's own inputs (.npy of whole numbers).")
@click.option("--state", type=click.Path(path_type=Path), help="Folder for coin key and journal; one a run.")
@click.option("--journal", type=click.Path(path_type=Path), help="Journal of answered rounds [default: in --state].")
@click.option("--cap", type=float, required=True, help="The most epsilon these users give away.")
@click.option("--delta-cap", type=float, default=0.0, show_default=True, help="The most delta they accept.")
@click.option(
    "--trust",
    type=click.Choice(["nobody", "shuffler"]),
    default="nobody",
    show_default=True,
    help="Whom they trust: without a shuffler, the cap bounds what their own replies give away.",
)
@click.option(
    "--patience",
    type=click.FloatRange(min=0.05),
    default=SILENCE_SECONDS,
    show_default=True,
    help="Seconds of silence after which it says again that it is there; more in a crowd.",
)
def main(
    link: BoardLink,
    node: str,
    first: int,
    users: int | None,
    witness: Path | None,
    inputs: Path | None,
    state: Path | None,
    journal: Path | None,
    cap: float,
    delta_cap: float,
    trust: Trust,
    patience: float,
) -> None:
    """Run a user node: defend its users, answer each round once."""

    def connect() -> NodePort:
        port = connect_node(link.board(), link.security(), blocking=link.calm, pace=pace_of(patience))
        return link.under(port, node)

    async def work() -> int:
        for flag, value in (("--cap", cap), ("--delta-cap", delta_cap), ("--patience", patience)):
            if not (math.isfinite(value) and value >= 0):
                raise BadInput(f"{flag} {value} is no limit; give a finite number that is not negative")
        if patience > MOST_PATIENCE:
            raise BadInput(f"--patience {patience:g} is longer than a day; give at most {MOST_PATIENCE:g} seconds")
        if witness is not None and users is not None and journal is not None:
            secret = read_witness(witness)
            mine, key, diary = secret.inputs[first : first + users].copy(), secret.key, journal
            read_witness.cache_clear()
        elif inputs is not None and state is not None:
            mine, key, diary = read_inputs(inputs), keep_key(state), journal or state / "journal.jsonl"
        else:
            raise BadInput(
                "a user node needs --inputs and --state, or in an emulation --witness, --users and --journal"
            )
        return await serve_user(
            node=node,
            first=first,
            inputs=mine,
            key=key,
            cap=cap,
            journal=diary,
            connect=connect,
            trusts=trust,
            delta_cap=delta_cap,
            # An emulation ends with its machine; a person's node must remember even if the power fails.
            durable=witness is None,
            patience=patience,
        )

    run_to_exit(work(), blocking=link.calm)


if __name__ == "__main__":
    main()
