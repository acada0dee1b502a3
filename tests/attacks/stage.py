"""A node under attack in this process: the real node and its real state on disk, a port that an adversary holds.

Time stands still except while the node waits, so that what it does depends on what it hears and on nothing else.
"""

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np

import parley.nodes.user
from parley.emulator.protocol import Inputs, Protocol
from parley.emulator.roles.cohort import CohortRole
from parley.emulator.roles.consent import Consent
from parley.emulator.transport.ports import Clock, NodePort
from parley.emulator.wire.codec import decode, encode, envelope
from parley.emulator.wire.messages import Announce, Message, Replies, Setup
from parley.emulator.wire.signatures import Signer
from parley.nodes.common import run_to_exit
from parley.nodes.state.user_state import State
from parley.nodes.state.wallet import StoredWallet
from tests.attacks.parties import (
    ANALYST,
    BOARD,
    HOSTED,
    NODE,
    NONCE,
    SHUFFLER,
    Ledger,
    announces_of,
    consent_for,
    make_state,
    pledge,
    result,
    seating,
    setup_of,
    spoken,
)

CHUNK = 5


class Curtain(BaseException):
    """The adversary has nothing more to say and the node still waits."""


class Stage:
    """What the adversary sees and can do. It holds the keys of analyst and board unless an attack says otherwise."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.protocol: Protocol = spoken(name)
        self.setup: Setup = setup_of(self.protocol)
        self.announces: tuple[Announce, ...] = announces_of(name)
        self.ledger = Ledger()
        self.sent: list[bytes] = []
        self.shuffled = self.protocol.claim.trusts == "shuffler"

    @property
    def last(self) -> int:
        """The number of the last round."""
        return len(self.announces)

    def said(self, message: Message, signer: Signer | None = ANALYST, nonce: bytes = NONCE) -> bytes:
        """A message on its way to the node."""
        return envelope(0, "anybody", encode(message, signer, nonce))

    def replies(self, number: int) -> list[tuple[bytes, Replies]]:
        """What the node has sent in a round."""
        found = ((frame, decode(frame)) for frame in self.sent)
        return [(frame, each) for frame, each in found if isinstance(each, Replies) and each.round == number]

    def seat(self, setup: Setup | None = None) -> Iterator[list[bytes]]:
        """Say the setup, and before it what the shuffler has to say."""
        setup = setup or self.setup
        if self.shuffled:
            yield [envelope(0, "shuffler", pledge(setup))]
        yield [self.said(setup)]

    def ask(self, number: int) -> Iterator[list[bytes]]:
        """One honest round: a question, a close, a receipt."""
        yield [self.said(self.announces[number - 1])]
        yield from self.account(number)

    def account(self, number: int) -> Iterator[list[bytes]]:
        """Write down what came, close the round, show it."""
        held = set[int]()
        for frame, replies in self.replies(number):
            if replies.chunk not in held:
                held.add(replies.chunk)
                self.ledger.hold(NODE, frame, replies)
        self.ledger.close(number, absent=() if held else (NODE,))
        if not self.shuffled:
            yield [self.said(self.ledger.receipt(NODE, number), None)]

    def rounds(self, first: int, last: int | None = None) -> Iterator[list[bytes]]:
        """Honest rounds from the first to the last."""
        for number in range(first, (self.last if last is None else last) + 1):
            yield from self.ask(number)

    def end(self) -> Iterator[list[bytes]]:
        """The honest end."""
        yield [self.said(result())]


Batches = Iterator[list[bytes]]
Script = Callable[[Stage], Batches]


class Told(Clock):
    """A clock in the adversary's hand."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now

    def now(self) -> float:
        return self._now()


class Held(NodePort):
    """A port in the adversary's hand."""

    def __init__(self, script: Iterator[list[bytes]], sent: list[bytes], clock: Callable[[], None]) -> None:
        self._script, self._sent, self._tick = script, sent, clock

    async def receive(self, timeout: float) -> list[bytes]:
        self._tick()
        try:
            return next(self._script)
        except StopIteration:
            raise Curtain from None

    async def send(self, frame: bytes) -> None:
        self._sent.append(frame)

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Visible:
    """Everything that can be seen of a node from outside, except what is in the columns of its replies."""

    sent: tuple[object, ...]
    code: int | None
    log: tuple[str, ...]
    errors: str
    files: tuple[tuple[str, int], ...]

    def count(self, kind: str) -> int:
        """How many frames of a kind it sent."""
        return sum(each[0] == kind for each in self.sent if isinstance(each, tuple))


def outside_of(frame: bytes) -> tuple[object, ...]:
    """A frame without the content of columns and signatures: of anything but replies, all of its bytes."""
    message = decode(frame)
    if not isinstance(message, Replies):
        return message.kind, frame
    columns = tuple((name, str(each.dtype), each.shape) for name, each in sorted(message.columns.items()))
    place = message.run, message.round, message.node, message.chunk, message.chunks, message.question
    return message.kind, len(frame), place, tuple(message.users.tolist()), columns


def seated(stage: Stage, script: Script) -> Batches:
    """What an adversary says to a node that was told, in good time, that its seat is its own."""
    yield [stage.said(seating(), SHUFFLER if stage.shuffled else BOARD)]
    yield from script(stage)


def play(
    script: Script,
    name: str,
    inputs: Inputs | int,
    folder: Path,
    *,
    consent: Consent | None = None,
    stage: Stage | None = None,
    wallet: Path | None = None,
) -> Visible:
    """One life of a node against a script; a folder with a state is used as it is, and so is a wallet."""
    stage = stage or Stage(name)
    if not folder.exists():
        make_state(folder, consent or consent_for(stage.protocol))
    column = np.full(HOSTED, inputs, dtype=np.int64) if isinstance(inputs, int) else inputs
    seconds = [1000.0]

    def tick() -> None:
        seconds[0] += 1.0

    port = Held(seated(stage, script), stage.sent, tick)
    first = len(stage.sent)
    lines: list[str] = []
    code, errors = _life(folder, column, port, lines, lambda: seconds[0], wallet)
    files = tuple(sorted((each.name, each.stat().st_size) for each in folder.iterdir()))
    return Visible(tuple(map(outside_of, stage.sent[first:])), code, tuple(lines), errors, files)


def _life(
    folder: Path,
    column: Inputs,
    port: NodePort,
    lines: list[str],
    clock: Callable[[], float],
    wallet: Path | None,
) -> tuple[int | None, str]:
    async def work() -> int:
        with State(folder, durable=False) as state, contextlib.ExitStack() as stack:
            purse = None if wallet is None else StoredWallet.open(wallet, users=len(column), durable=False)
            if purse is not None:
                stack.callback(purse.close)
            return await parley.nodes.user.serve_user(state, column, lambda node: port, wallet=purse)

    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    errors, code = io.StringIO(), None
    port.clock = Told(clock)
    logging.getLogger().addHandler(handler)
    try:
        with (
            mock.patch.object(parley.nodes.user, "CohortRole", partial(CohortRole, chunk=CHUNK)),
            contextlib.redirect_stderr(errors),
            warnings.catch_warnings(record=True) as warned,
        ):
            warnings.simplefilter("always")
            try:
                run_to_exit(work(), blocking=True)
            except SystemExit as left:
                code = int(left.code or 0)
            except Curtain:
                code = None
    finally:
        logging.getLogger().removeHandler(handler)
    return code, errors.getvalue() + "".join(str(each.message) for each in warned)
