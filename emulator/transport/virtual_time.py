"""Virtual time: an event loop that waits for nothing, and processes that live, freeze and die inside of it.

When no coroutine can go on, the clock jumps to the next timer. Nothing else moves it, so a run of minutes takes
milliseconds, and the same coroutines see the same times whenever they run.

A process takes steps: a frame it sends, a call to its disk. Between two steps nothing leaves it, so to kill it at each
of its steps is to kill it at every moment that makes a difference. A killed process raises `Killed` wherever it is;
nothing it does on its way out has an effect, because its ports and its disk ask `step` first.
"""

import asyncio
import heapq
from collections.abc import Callable
from typing import Any

from parley.emulator.errors import LocalProtocolError
from parley.emulator.record.records import EPOCH_SECONDS
from parley.emulator.transport.ports import Clock

# The clock of a machine that has been up for a while: nodes take zero for long ago.
START_SECONDS = 1000.0
MOST_TURNS = 1_000_000
FIRST_PROCESS = 1001


class Stalled(LocalProtocolError):
    """Nothing can happen any more although somebody waits, or too much happens at one moment."""


class Killed(BaseException):
    """The process is gone: nothing that would have come after takes place."""


class _Jump:
    """In place of the operating system's `select`: instead of waiting, the time is moved."""

    def __init__(self, loop: "VirtualLoop") -> None:
        self._loop = loop
        self._turns = 0

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Stalled("everybody waits, and nothing will ever happen")
        self._turns += 1
        if timeout > 0:
            self._turns = 0
            self._loop.jump(timeout)
        elif self._turns > MOST_TURNS:
            raise Stalled(f"{MOST_TURNS} turns of the event loop, and the time stands still")
        return []

    def close(self) -> None:
        """There is nothing to give back."""


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop without sockets, threads or waiting. Its time is a number."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _Jump(self)
        self._virtual = START_SECONDS
        self.strays: list[BaseException] = []
        """What ended tasks that nobody waited for."""
        self.set_exception_handler(lambda _, context: self._stray(context))

    def time(self) -> float:
        return self._virtual

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        return self._virtual - START_SECONDS

    def jump(self, seconds: float) -> None:
        self._virtual += seconds

    def _process_events(self, events: list[Any]) -> None:
        """No sockets, no events."""

    def _write_to_self(self) -> None:
        """No threads: nobody has to wake this one up."""

    def _stray(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None and not isinstance(error, Killed):
            self.strays.append(error)


class VirtualClock(Clock):
    """The loop's time, and the number of one virtual process."""

    def __init__(self, loop: VirtualLoop, number: int) -> None:
        self._loop, self._number = loop, number

    def now(self) -> float:
        return self._loop.time()

    def time_ns(self) -> int:
        return EPOCH_SECONDS * 10**9 + round(self._loop.elapsed * 1e9)

    def process_id(self) -> int:
        return self._number


class Process:
    """One life of a node in a virtual run. Steps are counted over all its lives."""

    def __init__(self, name: str, loop: VirtualLoop, number: int, steps: int = 0) -> None:
        self.name, self.steps = name, steps
        self.clock = VirtualClock(loop, number)
        self.dead = False
        self.task: asyncio.Task[int] | None = None
        self._loop = loop
        self._strikes: list[tuple[int, int, Callable[[], None]]] = []
        self._awake = asyncio.Event()
        self._awake.set()

    def strike_at(self, step: int, strike: Callable[[], None]) -> None:
        """Let something happen instead of a step that is still to come; a killed process does not take it."""
        if step > self.steps:
            heapq.heappush(self._strikes, (step, len(self._strikes), strike))

    def step(self) -> None:
        """What follows has an effect outside of this process. `Killed` if it does not come to that."""
        if not self.dead:
            self.steps += 1
            while self._strikes and self._strikes[0][0] <= self.steps:
                heapq.heappop(self._strikes)[2]()
        if self.dead:
            raise Killed

    def kill(self) -> None:
        """End it where it is."""
        if not self.dead:
            self.dead = True
            self._awake.set()
            if self.task is not None and self.task is not asyncio.current_task(self._loop):
                self.task.cancel()

    def stop(self) -> None:
        """Freeze it, as SIGSTOP does: it takes nothing in and lets nothing out, and its clock goes on."""
        self._awake.clear()

    def wake(self) -> None:
        self._awake.set()

    async def awake(self) -> None:
        """Wait while it is frozen."""
        if not self._awake.is_set():
            await self._awake.wait()
        if self.dead:
            raise Killed
