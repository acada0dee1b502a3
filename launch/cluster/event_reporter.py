"""The launcher's voice: what it does to processes goes on record, as an event of the node `launcher`."""

import asyncio
import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import Self

from parley.emulator.roles.board import LAUNCHER_NAME
from parley.emulator.transport.addresses import BoardAddresses
from parley.emulator.transport.ports import NodePort, SendTimeout
from parley.emulator.transport.zmq.ports import connect_reporter
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import Event
from parley.emulator.wire.security import Security

PATIENCE_SECONDS = 1.0


class EventReporter:
    """Sends events to the board from its own thread, because the board may be down and the launcher must go on.

    What a board has not written down when it dies is lost: whoever needs an event on record looks there and reports it
    again.
    """

    def __init__(self, board: BoardAddresses, security: Security | None = None) -> None:
        self._board, self._security = board, security
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="event-reporter", daemon=True)
        self._port: NodePort | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self._port = asyncio.run_coroutine_threadsafe(self._connect(), self._loop).result()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._disconnect(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def report(self, event: str, detail: str, round_number: int) -> "Future[None]":
        frame = encode(Event(event=event, node=LAUNCHER_NAME, round=round_number, detail=detail))
        return asyncio.run_coroutine_threadsafe(self._send(frame), self._loop)

    async def _connect(self) -> NodePort:
        return connect_reporter(self._board, self._security, patience=PATIENCE_SECONDS)

    async def _send(self, frame: bytes) -> None:
        assert self._port is not None
        with suppress(SendTimeout):
            await self._port.send(frame)

    async def _disconnect(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if self._port is not None:
            self._port.close()
