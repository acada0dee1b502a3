"""Supervises the processes of a run: starts again what died, and injects the faults that the conditions plan."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress

from parley.emulator.roles.board import BOARD_NAME, LAUNCHER_NAME
from parley.emulator.transport.addresses import BoardAddresses
from parley.emulator.transport.ports import NodePort, SendTimeout
from parley.emulator.transport.zmq.ports import connect_reporter
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import Event
from parley.emulator.wire.security import Security
from parley.launch.cluster.fault_driver import FaultDriver, Strike
from parley.launch.cluster.worker_processes import WorkerProcesses
from parley.launch.processes.command_lines import CommandLines
from parley.launch.processes.processes import Exit, Processes
from parley.launch.results.follow import Follower

RESTART_SECONDS = 0.1
# How long an event waits for a board that is down.
PATIENCE_SECONDS = 1.0


class EventReporter:
    """The launcher's voice: sends events to the board from a thread, so that a board that is down holds up nobody.

    What a board has not written down when it dies is lost: whoever needs an event on record looks there and reports it
    again.
    """

    def __init__(self, board: BoardAddresses, security: Security | None = None) -> None:
        async def connect() -> NodePort:
            return connect_reporter(board, security, patience=PATIENCE_SECONDS)

        self._waiting: dict[str, Future[None]] = {}
        self._thread, self._loop = ThreadPoolExecutor(1, "event-reporter"), asyncio.new_event_loop()
        self._port = self._thread.submit(self._loop.run_until_complete, connect()).result()

    def report(self, event: str, detail: str, round_number: int) -> None:
        """Send an event, unless the same one still waits for the board."""
        if detail not in self._waiting or self._waiting[detail].done():
            frame = encode(Event(event=event, node=LAUNCHER_NAME, round=round_number, detail=detail))
            self._waiting[detail] = self._thread.submit(self._send, frame)

    def _send(self, frame: bytes) -> None:
        with suppress(SendTimeout):
            self._loop.run_until_complete(self._port.send(frame))

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)
        self._port.close()
        self._loop.close()


class Supervisor(FaultDriver, AbstractContextManager["Supervisor"]):
    """A node that a signal ended is started again, a few times; one that ended by itself had its reasons."""

    def __init__(
        self,
        command_lines: CommandLines,
        processes: Processes | WorkerProcesses,
        follower: Follower,
        strikes: list[Strike],
        restarts: int,
        make_reporter: Callable[[], EventReporter],
    ) -> None:
        super().__init__(
            strikes=strikes,
            report=self._report,
            send_signal=lambda name, number: processes.send_signal([name], number),
            start=lambda name: processes.spawn([command_lines.again(name)]),
        )
        self.command_lines, self.processes, self.follower = command_lines, processes, follower
        self._restarts, self._started = restarts, Counter[str]()
        self._make_reporter = make_reporter
        self._reporter: EventReporter | None = None

    def __exit__(self, *_: object) -> None:
        if self._reporter is not None:
            self._reporter.close()

    def begin(self) -> None:
        """The board is up: time counts from here. Everybody starts but those who are to be late."""
        self.began, late = time.monotonic(), self.late
        command_lines = self.command_lines
        wanted = (command_lines.analyst(), *command_lines.sub_analysts(), *command_lines.users())
        self.processes.spawn(command_line for command_line in wanted if command_line.name not in late)

    def takes_back(self, exit: Exit) -> bool:
        """Whether a node that ended is going to be started again."""
        now, name = time.monotonic(), exit.name
        if self.comes_back(name, exit.status, now):
            return True
        # A board may have died between the last word and the end of its record; for the others that was the end.
        over = self.follower.ended and name not in (BOARD_NAME, *self.command_lines.between_boards)
        if exit.status >= 0 or over or name in self.doomed or self._started[name] >= self._restarts:
            return False
        self._started[name] += 1
        detail = f"{name} {exit.cause} and is started again, time {self._started[name]} of {self._restarts}"
        self.reports["restart", detail] = None
        self.start_later(name, now + RESTART_SECONDS)
        return True

    def _report(self, event: str, detail: str, round_number: int) -> None:
        self._reporter = self._reporter or self._make_reporter()
        self._reporter.report(event, detail, round_number)
