"""A shuffler that posts its batch in several frames and dies once, when the second of them has left.

`python -m tests.nodes.fragile_shuffler BYTES MARK ...` takes the options of `parley node shuffler`. BYTES is the size
of a frame; the file MARK says that it died.
"""

import os
import signal
import sys
import time
from pathlib import Path

import parley.emulator.roles.shuffler
import parley.nodes.between
import parley.nodes.shuffler
from parley.emulator.transport.ports import NodePort
from parley.emulator.wire.codec import decode
from parley.emulator.wire.messages import Replies

# Long enough for libzmq's thread to pass on what it was given before the process ends.
FLUSH_SECONDS = 0.3


class FragilePort(NodePort):
    """The port to the board; with the second frame of a batch on its way the process is killed."""

    def __init__(self, port: NodePort, mark: Path) -> None:
        self._port, self._mark = port, mark

    async def receive(self, timeout: float) -> list[bytes]:
        return await self._port.receive(timeout)

    async def send(self, frame: bytes) -> None:
        await self._port.send(frame)
        message = decode(frame)
        if isinstance(message, Replies) and message.chunk == 1 and not self._mark.exists():
            self._mark.touch()
            time.sleep(FLUSH_SECONDS)
            os.kill(os.getpid(), signal.SIGKILL)

    def close(self) -> None:
        self._port.close()


def main(size: int, mark: Path, options: list[str]) -> None:
    connect = parley.nodes.between.connect_node
    parley.emulator.roles.shuffler.FRAME_BYTES = size
    parley.nodes.between.connect_node = lambda *given, **named: FragilePort(connect(*given, **named), mark)  # type: ignore[assignment]
    parley.nodes.shuffler.main(options)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
