"""A live page about a run, on loopback: `python -m parley.launch.report.watch FD PARENT` serves it.

It is a process of its own that only ever reads the transcript, with little of the processor's time, so it cannot hold
up the run. It is told what to follow on its standard input; what comes after that line, when the run is over, names
the report it shows last. When its standard input closes, or its parent dies, it ends.
"""

import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from parley.emulator.errors import BadInput, TranscriptError
from parley.emulator.record.shards import read_run
from parley.emulator.record.transcript import TranscriptReader
from parley.launch.processes.system import die_with_parent
from parley.launch.report.model import live_model
from parley.launch.report.page import read_model, render, safe_json
from parley.launch.report.story import Story

# Messages the table of a live page holds, so that what is sent again and again stays small.
LATEST = 100
LOOK_SECONDS = 0.3
LOOK_SHARE = 10
NICENESS = 10
# How long the page waits for browsers: for a page to ask for its events, and for the last model to be taken.
ARRIVAL_SECONDS = 2.0
LINGER_SECONDS = 5.0
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}


class Tail:
    """The story of a record that is still being written."""

    def __init__(self, run: str, transcript: Path) -> None:
        self.run = run
        self.transcript = transcript
        self.story = Story()
        self._reader: TranscriptReader | None = None

    def look(self) -> dict[str, Any] | None:
        """The model after all that is new; None if nothing is."""
        before = self.story.summary.next
        # No file yet, or a header that is being written, or damage, which the report will speak of.
        with suppress(BadInput, TranscriptError):
            self._reader = self._reader or read_run(self.transcript)
            for record in self._reader.since(self.story.summary.next):
                self.story.take(record)
        return None if self.story.summary.next == before else self.model()

    def model(self) -> dict[str, Any]:
        return live_model(self.run, self.story, LATEST, {} if self._reader is None else self._reader.header)


class Feed:
    """The newest model, and who waits for the next. `over` when there will be no other."""

    def __init__(self, model: dict[str, Any]) -> None:
        self.model = model
        self.over = False
        self.listeners = 0
        self.served = -ARRIVAL_SECONDS
        self._number = 0
        self._changed = asyncio.Condition()

    async def publish(self, model: dict[str, Any], *, over: bool = False) -> None:
        async with self._changed:
            self.model, self.over = model, over
            self._number += 1
            self._changed.notify_all()

    async def events(self) -> AsyncIterator[str]:
        """Server-sent events: the newest model at once, then each newer one; whoever is slow misses some."""
        self.listeners += 1
        seen = -1
        try:
            while True:
                async with self._changed:
                    while self._number <= seen:
                        await self._changed.wait()
                    seen, model, over = self._number, self.model, self.over
                yield f"event: {'end' if over else 'model'}\ndata: {safe_json(model)}\n\n"
                if over:
                    return
        finally:
            self.listeners -= 1

    async def page(self, _: Request) -> Response:
        self.served = time.monotonic()
        return HTMLResponse(render(self.model), headers=HEADERS)

    async def stream(self, _: Request) -> Response:
        return StreamingResponse(self.events(), media_type="text/event-stream", headers=HEADERS)

    @property
    def awaited(self) -> bool:
        """Does a browser still need us?"""
        return self.listeners > 0 or time.monotonic() - self.served < ARRIVAL_SECONDS


def application(feed: Feed, token: str) -> Starlette:
    """Two addresses behind a secret word: other users of this machine cannot guess it, nor can pages of other sites."""
    routes = [Route(f"/{token}/", feed.page), Route(f"/{token}/events", feed.stream)]
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"], www_redirect=False)
    return Starlette(routes=routes, middleware=[hosts])


async def follow(feed: Feed, tail: Tail, last: "asyncio.Future[bytes]") -> None:
    """Look at the record now and then until the last word has come, then show that."""
    while not last.done():
        began = time.monotonic()
        model = await asyncio.to_thread(tail.look)
        if model is not None:
            await feed.publish(model)
        pause = max(LOOK_SECONDS, LOOK_SHARE * (time.monotonic() - began))
        await asyncio.wait([last], timeout=pause)
    tail.look()
    report = last.result().decode()
    model = await asyncio.to_thread(read_model, Path(report)) if report else {**tail.model(), "outcome": "truncated"}
    await feed.publish(model, over=True)
    deadline = time.monotonic() + LINGER_SECONDS
    while feed.awaited and time.monotonic() < deadline:
        await asyncio.sleep(0.05)


async def serve(listening: socket.socket) -> None:
    """Serve until the run is over and every open page has heard so."""
    order = json.loads(await asyncio.to_thread(sys.stdin.buffer.readline))
    tail = Tail(order["run"], Path(order["transcript"]))
    feed = Feed(tail.model())
    config = uvicorn.Config(
        application(feed, order["token"]),
        lifespan="off",
        ws="none",
        log_level="error",
        access_log=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    last = asyncio.ensure_future(asyncio.to_thread(sys.stdin.buffer.read))
    await follow(feed, tail, last)
    server.should_exit = True
    await serving


def main() -> None:
    die_with_parent(int(sys.argv[2]))
    os.nice(NICENESS)
    with socket.socket(fileno=int(sys.argv[1])) as listening:
        asyncio.run(serve(listening))


if __name__ == "__main__":
    main()
