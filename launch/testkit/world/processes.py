"""The processes of a small world: the nodes that really run, each with a port that keeps what it sends and a clock.

`BoardNode`, `AnalystNode` and `UserNode` serve as they do over sockets, and so do those of `between.py`: they open
their record or state on disk, bring themselves to where it ends, and wait at their port. Here waiting hands over to
whoever explores the world, who decides what arrives next: a frame, or nothing for as long as the process was ready to
wait.

A coroutine cannot be copied, but it is deterministic: what it does next follows from the disk it started with and from
what it heard since. So a state is kept as these two, and made again by hearing the same things again. Every step is
made once: states are known by their digest, and steps by the state and what was heard.
"""

import hashlib
import math
import os
import types
from collections.abc import Coroutine, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from parley.emulator.errors import ParleyError
from parley.emulator.record.records import EPOCH_SECONDS, MEMORY
from parley.emulator.roles.board import ANALYST_NAME, BOARD_NAME
from parley.emulator.roles.shuffler import SHUFFLER_NAME
from parley.emulator.transport.ports import BROADCAST, NOTICE, BoardPort, Clock, NodePort, Received, topic_for
from parley.emulator.transport.virtual_time import START_SECONDS
from parley.launch.testkit.world.digest import digest
from parley.launch.testkit.world.parties import RELAY_NAME, RUN, Parties
from parley.nodes.analyst import AnalystNode
from parley.nodes.board import BoardNode
from parley.nodes.state.reopen import open_record
from parley.nodes.state.user_state import FILE, State
from parley.nodes.user import UserNode

# Longer than the board ever waits before it reminds, and longer than any deadline.
REMINDER_SECONDS, DEADLINE_SECONDS = 4.1, 601.0
# While it says farewell the board waits this long: it then says the last word again, and to who asks the setup too.
FAREWELL_SECONDS = 0.13
# A reminder is evidence that so much time has passed; a node that has just spoken would not believe it.
REMINDED_SECONDS = 0.26
MOMENT = 0.001


class Hear(NamedTuple):
    """A frame arrives; `late`: it is one that is sent only after a while."""

    frame: bytes
    late: bool = False


class Records(NamedTuple):
    """The next records arrive, in their order."""

    sealed: tuple[bytes, ...]


class Wait(NamedTuple):
    """Nothing arrives: for as long as the process waits anyway or, with `deadline`, until it gives up."""

    deadline: bool = False


Heard = Hear | Records | Wait


class Sent(NamedTuple):
    """A frame that left, and how many bytes were on disk by then."""

    to: str
    frame: bytes
    size: int


class Cut(NamedTuple):
    """Where a crash may cut a step short: after so many frames had left, with so many bytes on disk."""

    sent: int
    size: int
    torn: bool


class OwnClock(Clock):
    """The clock of one process: its seconds move when somebody says so, and its number is that of its life."""

    def __init__(self, life: int) -> None:
        self.seconds, self._life = START_SECONDS, life

    def now(self) -> float:
        return self.seconds

    def time_ns(self) -> int:
        return EPOCH_SECONDS * 10**9

    def process_id(self) -> int:
        return self._life


@types.coroutine
def waiting(timeout: float) -> Generator[float, list[Any], list[Any]]:
    """Hand over until something arrives."""
    return (yield timeout)


class OnePort(NodePort):
    """The port of a user node, of the analyst, or of a relay to the board: everything goes to one server."""

    def __init__(self, process: "Process", server: str = BOARD_NAME) -> None:
        self._process, self._server, self.clock = process, server, process.clock

    async def receive(self, timeout: float) -> list[bytes]:
        return await waiting(timeout)

    async def send(self, frame: bytes) -> None:
        self._process.send(self._server, frame)

    def close(self) -> None:
        pass


class ServerPort(BoardPort):
    """The port of whoever serves the user nodes: each of them, or the relay it is behind.

    A shuffler wants to hear what calls for nothing on a node's side, too.
    """

    def __init__(self, process: "Process", names: Sequence[str], relays: Mapping[str, str]) -> None:
        self._process, self.clock = process, process.clock
        self._to_all = (BROADCAST, *([NOTICE] if SHUFFLER_NAME in names else []))
        self._own = {topic_for(name): relays.get(name, name) for name in names}
        self._names = sorted(set(self._own.values()))

    @property
    def subscribers(self) -> int:
        return len(self._names)

    async def receive(self, timeout: float) -> list[Received]:
        return await waiting(timeout)

    def publish(self, topic: bytes, frame: bytes) -> None:
        for name in self._names if topic in self._to_all else [self._own[topic]] if topic in self._own else []:
            self._process.send(name, frame)

    async def deliver(self, frame: bytes) -> bool:
        self._process.send(ANALYST_NAME, frame)
        return True

    def close(self) -> None:
        pass


class Process:
    """One life of a process: a node, its port, its disk and its clock. `ended` says how it left, if it did."""

    reminded = REMINDED_SECONDS

    def __init__(self, parties: Parties, name: str, folder: Path, disk: bytes, life: int) -> None:
        self.parties, self.name, self.folder, self.life = parties, name, folder, life
        self.clock = OwnClock(life)
        self.timeout, self.ended, self.heard = 0.0, "", b""
        self.sent: list[Sent] = []
        self.file = folder / FILE
        folder.mkdir()
        if disk:
            self.put(disk)
        self.began = self.size
        self._opened: list[Any] = []
        self._work: Coroutine[Any, Any, None] | None = None
        self.node: Any = None
        self._go_on(None)

    def open(self) -> Coroutine[Any, Any, None] | None:
        """What it does for the rest of this life; None if it has nothing to do."""
        raise NotImplementedError

    def hear(self, heard: Heard) -> None:
        """Let one thing arrive, and run until the process waits again."""
        self.sent, self.began = [], self.size
        if isinstance(heard, Wait):
            self.clock.seconds += self.patience(heard)
            self._go_on([])
        elif isinstance(heard, Records):
            self.heard = hashlib.sha256(self.heard + b"".join(heard.sealed)).digest()
            self._go_on(list(heard.sealed))
        else:
            self.clock.seconds += self.reminded if heard.late else 0.0
            self._go_on([self.arriving(heard.frame)])

    def arriving(self, frame: bytes) -> Any:
        return frame

    def patience(self, heard: Wait) -> float:
        return DEADLINE_SECONDS if heard.deadline else self.timeout + MOMENT

    @property
    def details(self) -> tuple[Any, ...]:
        """What its next step depends on besides the attributes that are compared."""
        return ()

    def digests(self) -> tuple[bytes, bytes]:
        """The exact and the canonical one, without the disk."""
        seen = (self.ended, self.details, None if self.ended else self.node)
        return digest(*seen, self.heard, canonical=False), digest(*seen, canonical=True)

    def put(self, disk: bytes) -> None:
        """What it finds on its disk."""
        self.file.touch(0o600)
        self.file.write_bytes(disk)

    @property
    def size(self) -> int:
        try:
            return os.stat(self.file).st_size
        except FileNotFoundError:
            return 0

    @property
    def disk(self) -> bytes:
        return self.file.read_bytes() if self.file.exists() else b""

    def send(self, to: str, frame: bytes) -> None:
        self.sent.append(Sent(to, frame, self.size))

    def cuts(self) -> list[Cut]:
        """Every way in which a crash may cut the last step short."""
        found, before = list[Cut](), self.began
        for count, size in enumerate([*(each.size for each in self.sent), self.size]):
            found.append(Cut(count, before, torn=False))
            if size > before:
                found += [Cut(count, (before + size) // 2, torn=True), Cut(count, size, torn=False)]
            before = size
        # The last is no cut: everything was done.
        return list(dict.fromkeys(found))[:-1]

    def close(self) -> None:
        for each in self._opened:
            each.close()
        if self._work is not None:
            self._work.close()
        # A process and its port hold each other; nobody is to look for such circles among a million states.
        self.node = self._work = None
        for left in self.folder.iterdir():
            left.unlink()
        self.folder.rmdir()

    def _go_on(self, batch: list[Any] | None) -> None:
        try:
            if self._work is None:
                self._work = self.open()
                if self._work is None:
                    self.ended = "left"
                    return
            self.timeout = self._work.send(batch)
        except StopIteration:
            self.ended = "left"
        except ParleyError as error:
            self.ended = f"stopped: {error}".replace(str(self.folder), "")


class BoardProcess(Process):
    """The board: its disk is the record."""

    node: BoardNode

    def open(self) -> Coroutine[Any, Any, None] | None:
        parties = self.parties
        keys = {name: parties.public[name] for name in parties.seated} if parties.signed else None
        role = parties.cast.board(parties.terms, lambda: parties.nonce, keys)
        writer = open_record(self.file, RUN, medium=MEMORY)
        if writer is not None:
            self._opened.append(_Abandoned(writer))
        signer = parties.signers.get(BOARD_NAME)
        relays = dict.fromkeys(parties.names, RELAY_NAME) if parties.relayed else {}
        port = ServerPort(self, parties.seated, relays)
        self.node = parties.cast.board_node(role, port, writer, self.file, relays, signer)
        self.node.restore(self.clock.now())
        return self.node.serve()

    def arriving(self, frame: bytes) -> Any:
        return Received(frame, None)

    def patience(self, heard: Wait) -> float:
        if heard.deadline:
            return DEADLINE_SECONDS
        return FAREWELL_SECONDS if self.node.role.over else REMINDER_SECONDS

    @property
    def details(self) -> tuple[Any, ...]:
        # Whether it may repeat the setup already, and whom of several it names first.
        may_repeat = self.clock.now() - self.node._repeated > self.parties.terms.first_wait / 2
        return may_repeat, self.node.role._named % math.lcm(*range(1, len(self.parties.seated) + 1))


class AnalystProcess(Process):
    """The analyst has no disk: it hears the record from its beginning."""

    node: AnalystNode

    def open(self) -> Coroutine[Any, Any, None] | None:
        role = self.parties.cast.analyst(self.parties.protocol, RUN)
        self.node = AnalystNode(role, OnePort(self), self.parties.signers.get(ANALYST_NAME))
        return self.node.serve()


class UserProcess(Process):
    """A user node: its disk is its state."""

    node: UserNode

    def open(self) -> Coroutine[Any, Any, None] | None:
        state = State(self.folder, durable=False)
        self._opened.append(state)
        identity, parties = state.identity, self.parties
        if state.memory.finished:
            return None
        role = parties.cast.cohort(
            node=identity.node,
            first=identity.first,
            inputs=parties.inputs[identity.first : identity.first + identity.users],
            key=identity.coin_key,
            consent=identity.consent,
            build=lambda name, parameters: parties.protocol,
            memory=state.memory,
            signer=identity.signer,
            chunk=parties.chunk,
        )
        self.node = UserNode(role, OnePort(self, parties.server), state)
        return self.node.serve()

    def digests(self) -> tuple[bytes, bytes]:
        exact, canonical = super().digests()
        # How it left is seen by nobody, and it may name what differs.
        return exact, canonical if not self.ended else digest(self.ended.split(":")[0], canonical=True)


class _Abandoned:
    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def close(self) -> None:
        self._writer.abandon()
