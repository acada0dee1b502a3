"""Who stands between nodes and board in a small world, and waits at two ports: a relay, or a shuffler."""

import math
import struct
import types
from collections.abc import Coroutine, Generator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from parley.emulator.errors import RemoteProtocolError
from parley.emulator.roles.mixing import Draw
from parley.emulator.roles.relay import QUIET_SECONDS, REPEAT_SECONDS
from parley.emulator.roles.shuffler import SHUFFLER_NAME
from parley.emulator.transport.ports import Received
from parley.emulator.wire.codec import open_envelope
from parley.launch.testkit.world.parties import RUN
from parley.launch.testkit.world.processes import MOMENT, REMINDER_SECONDS, OnePort, Process, ServerPort, Wait, waiting
from parley.nodes.relay import RelayNode
from parley.nodes.shuffler import PATIENCE_SECONDS, ShufflerNode
from parley.nodes.state.batches import DRAFT, LOCK, Batches

# Shorter than the silence of the board that a shuffler bears.
SHUFFLER_SECONDS = 100.0


@types.coroutine
def by_turns(up: Coroutine[Any, Any, None], down: Coroutine[Any, Any, None]) -> Generator[float, list[Any], None]:
    """Both coroutines of one who waits at two ports: the first hears nodes, the second hears the board."""
    timeouts = [up.send(None), down.send(None)]
    with suppress(StopIteration):
        while True:
            batch = yield min(timeouts)
            if not batch or isinstance(batch[0], Received):
                timeouts[0] = up.send(batch)
            if not batch or not isinstance(batch[0], Received):
                timeouts[1] = down.send(batch)


class Between(Process):
    """It hears nodes at one port and the board at the other."""

    def arriving(self, frame: bytes) -> Any:
        return frame if is_sealed(frame) else Received(frame, None)


class RelayProcess(Between):
    """A relay has no disk. It waits at two ports, for what its nodes say and for what the board says."""

    node: RelayNode

    def open(self) -> Coroutine[Any, Any, None] | None:
        self.node = RelayNode(
            self.parties.cast.relay(self.name), ServerPort(self, self.parties.names, {}), OnePort(self)
        )

        async def serve() -> None:
            await by_turns(self.node._pass_up(), self.node._pass_down())

        return serve()

    def patience(self, heard: Wait) -> float:
        # While it says farewell it wakes more often than it repeats: several times make one.
        return max(super().patience(heard), REPEAT_SECONDS + MOMENT)

    @property
    def details(self) -> tuple[Any, ...]:
        # Whether it may repeat what a node has missed, and whether its nodes have heard nothing for long.
        now, role = self.clock.now(), self.node.role
        return now - role._repeated >= REPEAT_SECONDS, now - role._spoke >= QUIET_SECONDS


class ShufflerProcess(Between):
    """A shuffler's disk is a few files that are there whole or not at all, here one after the other in one string.

    A string that ends in the middle of a file is what a crash in the middle of writing that file leaves: a draft.
    """

    node: ShufflerNode
    reminded = PATIENCE_SECONDS + MOMENT

    def open(self) -> Coroutine[Any, Any, None] | None:
        parties = self.parties
        batches = Batches(self.folder, RUN)
        self._opened.append(batches)
        terms = replace(parties.terms, nodes=parties.nodes, deadline=SHUFFLER_SECONDS, join_deadline=SHUFFLER_SECONDS)
        role = parties.cast.shuffler(
            terms,
            pid=self.life,
            draws=self.draws,
            memory=batches.memory,
            signer=parties.signers.get(SHUFFLER_NAME),
            keys=parties.keys,
        )
        self.node = ShufflerNode(role, ServerPort(self, parties.names, {}), OnePort(self), batches)

        async def serve() -> None:
            await by_turns(self.node._hear_nodes(), self.node._hear_board())
            await by_turns(self.node._farewell(), _deaf())

        return serve()

    def draws(self, number: int) -> Draw:
        """In every life another order than in the one before, as if drawn afresh."""
        step = 1 if self.life % 2 else -1
        return lambda size: np.arange(size // 8, dtype=np.uint64)[::step].tobytes()

    def patience(self, heard: Wait) -> float:
        if self.node.role.over:
            return self.timeout + MOMENT
        return SHUFFLER_SECONDS + MOMENT if heard.deadline else REMINDER_SECONDS

    @property
    def details(self) -> tuple[Any, ...]:
        # Whether it believes a reminder; and a life mixes in an order of its own.
        return self.clock.now() - self.node._posted >= PATIENCE_SECONDS, self.life % 2

    def put(self, disk: bytes) -> None:
        while disk:
            name, size = struct.unpack_from(">16sI", disk) if len(disk) >= HEAD else (b"", len(disk))
            content, disk = disk[HEAD : HEAD + size], disk[HEAD + size :]
            whole = len(content) == size
            (self.folder / (name.rstrip(b"\0").decode() if whole else DRAFT)).write_bytes(content)

    @property
    def disk(self) -> bytes:
        files = sorted(each for each in self.folder.iterdir() if each.name not in (LOCK, DRAFT))
        # The setup comes before any batch.
        files.sort(key=lambda each: each.name.startswith("batch"))
        contents = [(each.name.encode(), each.read_bytes()) for each in files]
        return b"".join(struct.pack(">16sI", name, len(content)) + content for name, content in contents)

    @property
    def size(self) -> int:
        return len(self.disk)


async def _deaf() -> None:
    """Nobody listens any more at the port to the board."""
    while True:
        await waiting(math.inf)


HEAD = struct.calcsize(">16sI")


def is_sealed(frame: bytes) -> bool:
    """Whether a frame comes from the board, in an envelope, and not from a node."""
    try:
        open_envelope(frame)
    except RemoteProtocolError:
        return False
    return True
