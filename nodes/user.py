"""A user node as a process: hosts a cohort, answers each broadcast once, and writes down that it did before it does."""

import logging
import math
from collections.abc import Callable
from contextlib import closing, nullcontext
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from parley.emulator.errors import BadInput, LocalProtocolError, RemoteProtocolError
from parley.emulator.protocol import Inputs
from parley.emulator.roles.cohort import Cohort, CohortRole, Unheeded
from parley.emulator.roles.node_memory import Distrust, Evidence
from parley.emulator.transport.ports import NodePort, topic_for
from parley.emulator.transport.zmq.ports import connect_node
from parley.emulator.wire.codec import decode, is_whole, open_envelope
from parley.emulator.wire.messages import Announce, Message, Refusal, Reminder, Result, Setup
from parley.nodes.common import GOOD, LONGEST_SILENCE, UNFINISHED, BoardLink, link_options, path_option, run_to_exit
from parley.nodes.state.user_state import Identity, State, save_evidence
from parley.protocols.registry import build, inputs_of

if TYPE_CHECKING:
    from parley.emulator.record.witness import Witness
    from parley.nodes.state.wallet import StoredWallet

SILENCE_SECONDS = 0.5
LONGEST_PATIENCE = 8.0
# How often a node asks again for a receipt, and how long it waits for the last one when the run is over.
ASK_SECONDS = 0.25
LEAVE_SECONDS = 5.0
# A day: what libzmq is told in milliseconds must fit into its integers.
MOST_PATIENCE = 86_400.0
LONGEST_REASON = 500
log = logging.getLogger("user")


class UserNode:
    """A role, a port and a state on disk."""

    def __init__(self, role: CohortRole, port: NodePort, state: State, patience: float = SILENCE_SECONDS) -> None:
        self.role = role
        self.patience = patience
        self.port = port
        self.state = state
        self._spoke = 0.0
        self._refused: set[str] = set()
        self._authentic: dict[str, tuple[bytes, bytes]] = {}
        self._offered = b""
        self._excluded = False
        self._leaving: float | None = None

    @property
    def over(self) -> bool:
        return self.role.state is Cohort.DONE or self._excluded

    async def serve(self) -> None:
        """Say ready until heard, answer until the run is over; give up when the board has fallen silent."""
        await self._say_ready()
        heard, patience = self.port.clock.now(), self.patience
        due, asked = heard + patience, heard
        while not self.over:
            wait = due if self.role.inquiry() is None else min(due, asked + ASK_SECONDS)
            batch = await self.port.receive(timeout=max(0.0, wait - self.port.clock.now()))
            if batch:
                news, heard = await self._take(batch), self.port.clock.now()
                if news:
                    due, patience = heard + self.patience, self.patience
                elif self.role.state is Cohort.WAITING:
                    # A run goes on whose setup we have not heard.
                    due = min(due, heard + SILENCE_SECONDS)
            self._check_patience(heard)
            inquiry = self.role.inquiry()
            if inquiry is not None and self.port.clock.now() - asked >= ASK_SECONDS:
                await self.port.send(self.role.frame(inquiry))
                asked = self.port.clock.now()
            if self.port.clock.now() >= due and not self.over:
                # Thousands of nodes may wait for one slow round: ask less and less often whether it goes on.
                await self._say_ready()
                patience = min(2 * patience, max(LONGEST_PATIENCE, self.patience))
                due = self.port.clock.now() + patience

    def _check_patience(self, heard: float) -> None:
        """Give up on a board that is silent, or that has said the result and shows no receipt."""
        now, node, pace = self.port.clock.now(), self.role.node, pace_of(self.patience)
        if self.role.state is Cohort.LEAVING:
            self._leaving = now if self._leaving is None else self._leaving
            if now - self._leaving > pace * LEAVE_SECONDS:
                raise LocalProtocolError(f"node {node}: the board has not proved that the last reply is on record")
        elif now - heard > pace * LONGEST_SILENCE:
            raise LocalProtocolError(f"node {node}: the board has been silent for {pace * LONGEST_SILENCE:g} s")

    async def _take(self, batch: list[bytes]) -> bool:
        """Hear a batch; of reminders only the last, and only if it can know of what was sent before.

        Whether it brought anything new: what is merely repeated is for others.
        """
        before = self.role.state, self.role.round
        heard = [each for sealed in batch if (each := await self._open(sealed)) is not None]
        reminders = [message for message, _ in heard if isinstance(message, Reminder)]
        for message, frame in heard:
            early = self.port.clock.now() - self._spoke < SILENCE_SECONDS / 2
            if isinstance(message, Reminder) and (early or message is not reminders[-1]):
                continue
            # One after the other: the nonce that an announcement is signed for is known from the setup before it.
            if self._is_authentic(message, frame):
                await self._hear(message)
                if isinstance(message, Result) and self.role.state is Cohort.WAITING and self._offered:
                    # It refused the setup of the one run it waits for, and now that run is over.
                    self._excluded |= message.run == self.role.consent.run
        return before != (self.role.state, self.role.round)

    async def _open(self, sealed: bytes) -> tuple[Message, bytes] | None:
        """The message in an envelope, and its frame. What came whole and is not a message is refused."""
        try:
            frame = open_envelope(sealed)[2]
        except RemoteProtocolError as error:
            log.warning("dropped a broadcast: %s", in_one_line(error))
            return None
        try:
            return decode(frame), frame
        except RemoteProtocolError as error:
            reason = in_one_line(error)
            log.warning("refused: %s", reason)
            if is_whole(frame):
                await self._refuse(self.role.run, self.role.round + 1, f"a broadcast that is not a message: {reason}")
            return None

    def _is_authentic(self, message: Message, frame: bytes) -> bool:
        """Whether it was said by whom it must come from; what is merely repeated was found so before."""
        nonce = self.role.nonce or self._offered
        # For this nonce: what was signed for a setup that was refused is nothing under another.
        if self._authentic.get(message.kind) == (frame, nonce):
            return True
        if not self.role.consent.is_authentic(message, frame, nonce):
            log.warning("dropped a message (%s) that its author did not sign", message.kind)
            return False
        if isinstance(message, Setup):
            # Who refuses a setup is to hear that its run is over all the same.
            self._offered = nonce = message.nonce
        self._authentic[message.kind] = frame, nonce
        return True

    async def _hear(self, message: Message) -> None:
        try:
            for said in self.role.hear(message):
                if isinstance(said, Evidence):
                    self._keep(said)
                elif isinstance(said, Message):
                    await self.port.send(self.role.frame(said))
                    self._spoke = self.port.clock.now()
                else:
                    self.state.write(said)
        except Unheeded as error:
            # What it waits for may have been lost on its way; and whoever says old or unpledged things is owed no word.
            log.warning("waits: %s", error)
        except (RemoteProtocolError, BadInput) as error:
            reason = in_one_line(error)
            log.warning("refused: %s", reason)
            if isinstance(message, Setup | Announce):
                await self._refuse(message.run, message.round if isinstance(message, Announce) else 0, reason)
        except Distrust as error:
            self._keep(error.evidence)
            raise

    def _keep(self, evidence: Evidence) -> None:
        path = save_evidence(self.state.path.parent, evidence)
        log.warning("%s; kept in %s", evidence.reason, path.name)

    async def _refuse(self, run: str, number: int, reason: str) -> None:
        """Say so on record; the same complaint once. Who may have no seat has nothing to say in it."""
        if run and self.role.seat.is_known and (str(number) + reason) not in self._refused:
            self._refused.add(str(number) + reason)
            refusal = Refusal(run=run, round=number, node=self.role.node, reason=reason[:LONGEST_REASON])
            await self.port.send(self.role.frame(refusal))

    async def _say_ready(self) -> None:
        await self.port.send(self.role.frame(self.role.ready(self.port.clock.process_id())))


def in_one_line(error: Exception) -> str:
    """What is wrong, as one short line: a stranger's words may be in it, as many as a frame holds."""
    return " ".join(str(error)[:LONGEST_REASON].split())


def pace_of(patience: float) -> float:
    """How many times longer than usual a node waits for others if it is to be so patient."""
    return max(1.0, patience / LONGEST_PATIENCE)


async def serve_user(
    state: State,
    inputs: Inputs,
    connect: Callable[[str], NodePort],
    patience: float = SILENCE_SECONDS,
    wallet: "StoredWallet | None" = None,
) -> int:
    """Connect and take part to the end. `connect` is told the node's name."""
    identity = state.identity
    check_inputs(inputs, identity)
    if identity.consent.is_pattern and wallet is None:
        raise BadInput(f"users who agree to the runs {identity.consent.run!r} need a wallet; give --wallet FOLDER")
    if not identity.consent.is_pattern and state.memory.finished:
        log.info("the run %s of this state is over; there is nothing to say", identity.consent.run)
        return GOOD
    role = CohortRole(
        node=identity.node,
        first=identity.first,
        inputs=inputs,
        key=identity.coin_key,
        consent=identity.consent,
        build=build,
        memory=state.memory,
        signer=identity.signer,
        wallet=wallet,
        view=None if wallet is None else wallet.view,
        measure=inputs_of,
    )
    with closing(connect(identity.node)) as port:
        await UserNode(role, port, state, patience).serve()
    return GOOD if isinstance(role.ending, Result) else UNFINISHED


def check_inputs(inputs: Inputs, identity: Identity) -> None:
    """The inputs are of these users and of the domain they agreed to; asked before anybody is contacted."""
    if len(inputs) != identity.users:
        raise BadInput(f"there are {len(inputs)} inputs for the {identity.users} users of this state")
    if inputs.min() < 0 or inputs.max() >= identity.consent.inputs:
        raise BadInput(f"an input is outside 0..{identity.consent.inputs - 1}, the domain these users agreed to")


@lru_cache(maxsize=1)
def read_witness(path: Path) -> "Witness":
    """The witness of an emulation. A process that forks nodes reads it first, and they all share what it read."""
    from parley.emulator.record.witness import Witness

    return Witness.load(path)


def read_inputs(path: Path) -> Inputs:
    """Private inputs of a node that is started by hand: whole numbers in a .npy file."""
    try:
        inputs = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise BadInput(f"the inputs {path} cannot be read: {error}") from error
    if inputs.ndim != 1 or inputs.dtype.kind not in "iu" or len(inputs) == 0 or inputs.min() < 0:
        raise BadInput(f"{path} must hold whole numbers from 0 on, one per user")
    return np.asarray(inputs, dtype=np.int64)


@click.command(name="user")
@link_options
@path_option("--state", required=True, help="Folder of this node's state (`parley node init`).")
@path_option("--inputs", help="This node's own inputs (.npy of whole numbers).")
@path_option("--witness", help="In an emulation: the file with everybody's inputs.")
@path_option("--wallet", help="Wallet of these users (`parley wallet create`).")
@click.option(
    "--patience",
    type=click.FloatRange(min=0.05),
    default=SILENCE_SECONDS,
    show_default=True,
    help="Seconds of silence after which it says ready again; give more in a crowd.",
)
def main(
    link: BoardLink, state: Path, inputs: Path | None, witness: Path | None, wallet: Path | None, patience: float
) -> None:
    """Run a user node: defend its users, answer each round once.

    Its state says who it is, what its users agreed to and what it has answered. Make one with `parley node init`.
    """

    async def work() -> int:
        if not math.isfinite(patience) or patience > MOST_PATIENCE:
            raise BadInput(f"--patience {patience:g} is longer than a day; give at most {MOST_PATIENCE:g} seconds")
        if (inputs is None) == (witness is None):
            raise BadInput("a user node needs --inputs or, in an emulation, --witness; give one of them")
        # An emulation ends with its machine; a person's node must remember even if the power fails.
        with State(state, durable=witness is None) as opened:
            own = opened.identity
            if inputs is not None:
                mine = read_inputs(inputs)
            else:
                assert witness is not None
                mine = read_witness(witness).inputs[own.first : own.first + own.users].copy()
                read_witness.cache_clear()
            purse = None
            if wallet is not None:
                from parley.nodes.state.wallet import StoredWallet

                purse = StoredWallet.open(wallet, users=own.users, durable=witness is None)
            with nullcontext() if purse is None else closing(purse):
                return await serve_user(opened, mine, lambda node: _connect(link, own, patience), patience, purse)

    # Without conditions it has nothing to wait for but its port, and needs no event loop.
    run_to_exit(work(), blocking=link.conditions is None)


def _connect(link: BoardLink, identity: Identity, patience: float) -> NodePort:
    """The port of this node; users who trust a shuffler speak to its key and to no other."""
    consent, security = identity.consent, link.security()
    if consent.trusts == "shuffler" and (consent.shuffler_link or security is not None):
        name, key = ("nobody", "") if link.board_key is None else link.server(link.board_key)
        if name != "shuffler" or (consent.shuffler_link and key != consent.shuffler_link):
            raise BadInput("these users agreed to speak only to the shuffler; give --keys and its key as --board-key")
    own, blocking = topic_for(identity.node), link.conditions is None
    port = connect_node(link.board(), security, blocking=blocking, own=own, pace=pace_of(patience))
    return link.under(port, identity.node)


if __name__ == "__main__":
    main()
