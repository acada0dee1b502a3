"""Supervises the processes of a run: starts again what died, and injects the faults that the conditions plan."""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

from parley.emulator.roles.board import BOARD_NAME
from parley.launch.cluster.event_reporter import EventReporter
from parley.launch.cluster.fault_driver import FaultDriver, Strike
from parley.launch.cluster.worker_processes import WorkerProcesses
from parley.launch.processes.command_lines import CommandLines
from parley.launch.processes.processes import Exit, Processes
from parley.launch.results.follow import Follower

RESTART_SECONDS = 0.1


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
        self._make_reporter, self._open = make_reporter, ExitStack()
        self._reporter: EventReporter | None = None

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def begin(self) -> None:
        """The board is up: time counts from here. Everybody starts but those who are to be late."""
        self.began, late = time.monotonic(), self.late
        command_lines = self.command_lines
        wanted = (command_lines.analyst(), *command_lines.sub_analysts(), *command_lines.users())
        self.processes.spawn(command_line for command_line in wanted if command_line.name not in late)

    def tend(self) -> None:
        follower = self.follower
        running, recorded = self.processes.running, follower.reports
        self.step(time.monotonic(), round_number=follower.standing.round, running=running, recorded=recorded)

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
        if self._reporter is None:
            self._reporter = self._open.enter_context(self._make_reporter())
        self._reporter.report(event, detail, round_number)
