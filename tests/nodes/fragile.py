"""A user node that dies once, at a chosen point of its second round.

`python -m tests.nodes.fragile POINT MARK ...` takes the options of parley.nodes.user. The file MARK says that it died.
"""

import os
import signal
import sys
import time
from functools import partial
from pathlib import Path

import parley.nodes.user
from parley.emulator.roles.cohort import CohortRole
from parley.emulator.transport.ports import NodePort
from parley.emulator.wire.codec import decode
from parley.emulator.wire.messages import Message, Replies
from parley.nodes.state.disk import Disk
from parley.nodes.state.user_state import State
from tests.nodes.table import CHUNK

POINTS = ("before the state", "torn state", "after the state", "between chunks", "before the acknowledgement")
ROUND = 2
# What is written before the second round's answer: the setup, and the first round's.
EARLIER = 2
# Long enough for libzmq's thread to pass on what it was given before the process ends.
FLUSH_SECONDS = 0.2


class Death:
    """Waits for its point."""

    def __init__(self, point: str, mark: Path) -> None:
        self.point, self.mark = point, mark

    def at(self, point: str) -> None:
        if point == self.point and not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)


class FragileDisk(Disk):
    def __init__(self, death: Death) -> None:
        self._death, self._written = death, 0

    def write(self, descriptor: int, content: bytes, offset: int) -> int:
        self._written += 1
        if self._written == EARLIER + 1:
            self._death.at("before the state")
            if self._death.point == "torn state":
                super().write(descriptor, content[: len(content) // 2], offset)
                self._death.at("torn state")
        taken = super().write(descriptor, content, offset)
        if self._written == EARLIER + 1:
            self._death.at("after the state")
        return taken


class FragilePort(NodePort):
    def __init__(self, death: Death, port: NodePort) -> None:
        self._death, self._port = death, port

    async def receive(self, timeout: float) -> list[bytes]:
        return await self._port.receive(timeout)

    async def send(self, frame: bytes) -> None:
        await self._port.send(frame)
        message: Message = decode(frame)
        if isinstance(message, Replies) and message.round == ROUND and not self._death.mark.exists():
            time.sleep(FLUSH_SECONDS)
            self._death.at("between chunks")
            if message.chunk == message.chunks - 1:
                self._death.at("before the acknowledgement")

    def close(self) -> None:
        self._port.close()


def main(point: str, mark: Path, options: list[str]) -> None:
    death, connect = Death(point, mark), parley.nodes.user.connect_node
    parley.nodes.user.State = partial(State, disk=FragileDisk(death))  # type: ignore[misc,assignment]
    parley.nodes.user.connect_node = lambda *given, **options: FragilePort(death, connect(*given, **options))  # type: ignore[assignment]
    parley.nodes.user.CohortRole = partial(CohortRole, chunk=CHUNK)  # type: ignore[misc,assignment]
    parley.nodes.user.main(options)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
