"""Who looks after the processes of a run: starts again what died, and strikes whom the conditions say."""

import time
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Self

from parley.emulator.roles.board import BOARD_NAME
from parley.launch.cluster.event_reporter import Herald
from parley.launch.cluster.fault_driver import Chaos, Strike
from parley.launch.processes.command_lines import Orders
from parley.launch.processes.processes import Exit, Processes
from parley.launch.results.follow import Follower

RESTART_SECONDS = 0.1


class Keeper:
    """A node that a signal ended is started again, a few times; one that ended by itself had its reasons."""

    def __init__(
        self,
        *,
        orders: Orders,
        processes: Processes,
        follower: Follower,
        strikes: list[Strike],
        restarts: int,
        herald: Callable[[], Herald],
    ) -> None:
        self.orders = orders
        self.processes = processes
        self.follower = follower
        self._make_herald = herald
        self._herald: Herald | None = None
        self._restarts = restarts
        self._started: Counter[str] = Counter()
        self.chaos = Chaos(
            strikes=strikes,
            post=self._post,
            send_signal=lambda name, number: processes.send_signal([name], number),
            start=lambda name: processes.spawn([orders.again(name)]),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._herald is not None:
            self._herald.__exit__(kind, error, trace)

    @property
    def busy(self) -> bool:
        """Somebody is away and will be back."""
        return self.chaos.busy

    @property
    def attentive(self) -> bool:
        """The record is to be read at once: something waits for being on it."""
        return bool(self.chaos.strikes or self.chaos.reports)

    def begin(self) -> None:
        """The board is up: time counts from here. Everybody starts but those who are to be late."""
        self.chaos.began = time.monotonic()
        late = self.chaos.late
        orders = (self.orders.analyst(), *self.orders.users())
        self.processes.spawn(order for order in orders if order.name not in late)

    def step(self) -> None:
        """Do what is due."""
        self.chaos.step(
            time.monotonic(),
            round_number=self.follower.standing.round,
            running=self.processes.running,
            recorded=self.follower.reports,
        )

    def bring_back(self) -> None:
        """Before the run has begun: start again who is to be, and nothing else."""
        self.chaos.act(time.monotonic())

    def takes_back(self, exit: Exit) -> bool:
        """Whether a node that ended is going to be started again."""
        now = time.monotonic()
        if self.chaos.comes_back(exit.name, exit.status, now):
            return True
        # A board may have died between the last word and the end of its record; for the others that was the end.
        over = self.follower.ended and exit.name != BOARD_NAME
        if exit.status >= 0 or over or self._started[exit.name] >= self._restarts or exit.name in self.chaos.doomed:
            return False
        self._started[exit.name] += 1
        detail = f"{exit.name} {exit.cause} and is started again, time {self._started[exit.name]} of {self._restarts}"
        self.chaos.reports["restart", detail] = None
        self.chaos.start_later(exit.name, now + RESTART_SECONDS)
        return True

    def _post(self, event: str, detail: str, round_number: int) -> None:
        if self._herald is None:
            self._herald = self._make_herald().__enter__()
        self._herald.post(event, detail, round_number)
