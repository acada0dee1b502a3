"""Supervises the processes of a run: starts again what died, and injects the faults that the conditions plan."""

import time
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Self

from parley.emulator.roles.board import BOARD_NAME
from parley.launch.cluster.event_reporter import EventReporter
from parley.launch.cluster.fault_driver import FaultDriver, Strike
from parley.launch.processes.command_lines import CommandLines
from parley.launch.processes.processes import Exit, Processes
from parley.launch.results.follow import Follower

RESTART_SECONDS = 0.1


class Supervisor:
    """A node that a signal ended is started again, a few times; one that ended by itself had its reasons."""

    def __init__(
        self,
        *,
        command_lines: CommandLines,
        processes: Processes,
        follower: Follower,
        strikes: list[Strike],
        restarts: int,
        reporter: Callable[[], EventReporter],
    ) -> None:
        self.command_lines = command_lines
        self.processes = processes
        self.follower = follower
        self._make_reporter = reporter
        self._reporter: EventReporter | None = None
        self._restarts = restarts
        self._started: Counter[str] = Counter()
        self.fault_driver = FaultDriver(
            strikes=strikes,
            report=self._report,
            send_signal=lambda name, number: processes.send_signal([name], number),
            start=lambda name: processes.spawn([command_lines.again(name)]),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._reporter is not None:
            self._reporter.__exit__(kind, error, trace)

    @property
    def busy(self) -> bool:
        """Somebody is away and will be back."""
        return self.fault_driver.busy

    @property
    def attentive(self) -> bool:
        """The record is to be read at once: something waits for being on it."""
        return bool(self.fault_driver.strikes or self.fault_driver.reports)

    def begin(self) -> None:
        """The board is up: time counts from here. Everybody starts but those who are to be late."""
        self.fault_driver.began = time.monotonic()
        late = self.fault_driver.late
        wanted = (self.command_lines.analyst(), *self.command_lines.users())
        self.processes.spawn(command_line for command_line in wanted if command_line.name not in late)

    def step(self) -> None:
        """Do what is due."""
        self.fault_driver.step(
            time.monotonic(),
            round_number=self.follower.standing.round,
            running=self.processes.running,
            recorded=self.follower.reports,
        )

    def bring_back(self) -> None:
        """Before the run has begun: start again who is to be, and nothing else."""
        self.fault_driver.act(time.monotonic())

    def takes_back(self, exit: Exit) -> bool:
        """Whether a node that ended is going to be started again."""
        now = time.monotonic()
        if self.fault_driver.comes_back(exit.name, exit.status, now):
            return True
        # A board may have died between the last word and the end of its record; for the others that was the end.
        over = self.follower.ended and exit.name != BOARD_NAME
        doomed = exit.name in self.fault_driver.doomed
        if exit.status >= 0 or over or doomed or self._started[exit.name] >= self._restarts:
            return False
        self._started[exit.name] += 1
        detail = f"{exit.name} {exit.cause} and is started again, time {self._started[exit.name]} of {self._restarts}"
        self.fault_driver.reports["restart", detail] = None
        self.fault_driver.start_later(exit.name, now + RESTART_SECONDS)
        return True

    def _report(self, event: str, detail: str, round_number: int) -> None:
        if self._reporter is None:
            self._reporter = self._make_reporter().__enter__()
        self._reporter.report(event, detail, round_number)
