"""The faults of processes: pause, kill, late start. Each is on record before it happens.

A rule strikes every node its pattern names (board and analyst too) with its probability: `after` seconds after the
board was up or, with `rounds`, after each of these rounds was opened; with a finite `until`, at a moment between the
two. `seconds` is how long a pause lasts, how long a killed node stays away, how late a node comes.
"""

import fnmatch
import math
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from parley.emulator.errors import BadInput
from parley.emulator.transport.conditions import Conditions
from parley.launch.cluster.keyring import is_server

READY_MADE = Path(__file__).parent.parent / "conditions"
REPORT_AGAIN_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class Strike:
    """One fault on one node: due `at` seconds after the start or after a round was opened, lasting `seconds`."""

    number: int
    kind: str
    victim: str
    at: float
    round: int = 0
    seconds: float = 0.0
    restart: bool = True
    step: int = 0

    @property
    def detail(self) -> str:
        """What the record says; the number makes it one of its kind."""
        back = f", and back after {self.seconds:.3f} s" if self.restart else " for good"
        what = {
            "pause": f"stops for {self.seconds:.3f} s",
            "kill": f"is killed{back}",
            "power": f"loses power{back}",
            "late": f"starts {self.seconds:.3f} s late",
        }
        where = f" at step {self.step}" if self.step else ""
        return f"fault {self.number}: {self.victim} {what[self.kind]}{where}"


def ready_made() -> list[str]:
    """The names of the conditions that come with Parley."""
    return sorted(each.stem for each in READY_MADE.glob("*.toml"))


def find_conditions(named: str) -> Path:
    """A file, or the name of conditions that come with Parley."""
    ready = READY_MADE / f"{named}.toml"
    if ready.is_file() and Path(named).name == named:
        return ready
    if Path(named).is_file():
        return Path(named)
    raise BadInput(f"--conditions {named} is neither a file nor one of {', '.join(ready_made())}")


def plan_strikes(conditions: Conditions, names: Iterable[str]) -> list[Strike]:
    """Who is struck when: the same for the same seed and names."""
    nodes, strikes = list(names), list[Strike]()
    for index, fault in enumerate(conditions.processes):
        for node in nodes:
            generator = conditions.generator("process", str(index), node)
            if not fnmatch.fnmatchcase(node, fault.nodes) or generator.random() >= fault.probability:
                continue
            if fault.kind == "late" and is_server(node):
                # The others are started when these are there: nobody can be late before them.
                continue
            for number in fault.rounds or (0,):
                at = fault.after if math.isinf(fault.until) else float(generator.uniform(fault.after, fault.until))
                strikes.append(
                    Strike(
                        number=len(strikes) + 1,
                        kind=fault.kind,
                        victim=node,
                        at=0.0 if fault.kind == "late" else at,
                        round=number,
                        seconds=fault.draw_seconds(generator),
                        restart=fault.restart,
                        step=fault.step,
                    )
                )
    # A node starts once, however many rules make it late: when the last of them lets it.
    starts = {each.victim: each for each in sorted(strikes, key=lambda each: each.seconds) if each.kind == "late"}
    return [each for each in strikes if each.kind != "late" or each is starts[each.victim]]


@dataclass
class FaultDriver:
    """The strikes of one run; told the time and what is on record, it signals and starts processes.

    `report` sends an event to the board, `send_signal` a signal to a node, `start` starts a node (again). `reports` are
    events that wait for being on record, `doomed` the nodes that are not to come back.
    """

    strikes: list[Strike]
    report: Callable[[str, str, int], object]
    send_signal: Callable[[str, int], None]
    start: Callable[[str], None]
    began: float = 0.0
    struck: dict[str, Strike] = field(default_factory=dict)
    doomed: set[str] = field(default_factory=set)
    reports: dict[tuple[str, str], float | None] = field(default_factory=dict)
    _opened: dict[int, float] = field(default_factory=dict)
    _due: list[tuple[float, Callable[[], None]]] = field(default_factory=list)

    @property
    def late(self) -> set[str]:
        """Nodes that are not to be started with the others."""
        return {each.victim for each in self.strikes if each.kind == "late"}

    @property
    def busy(self) -> bool:
        """Somebody is still to be started or woken."""
        return bool(self._due) or any(each.kind == "late" for each in self.strikes)

    def step(self, now: float, *, round_number: int, running: set[str], recorded: set[str]) -> None:
        """Report what is due, carry out what is on record, start and wake whose time has come."""
        if round_number:
            self._opened.setdefault(round_number, now)
        for strike in list(self.strikes):
            if strike.detail in recorded:
                self.strikes.remove(strike)
                self._carry_out(strike, now, running)
                continue
            since = self._opened.get(strike.round) if strike.round else self.began
            reached = since is not None and now >= since + strike.at and strike.victim in running
            if reached or strike.kind == "late":
                self.reports.setdefault((strike.kind, strike.detail), None)
        for (kind, detail), sent in list(self.reports.items()):
            if detail in recorded:
                del self.reports[kind, detail]
            elif sent is None or now - sent > REPORT_AGAIN_SECONDS:
                self.reports[kind, detail] = now
                self.report(kind, detail, round_number)
        self.act(now)

    def act(self, now: float) -> None:
        """Start and wake whose time has come."""
        for _, action in [each for each in self._due if each[0] <= now]:
            action()
        self._due = [each for each in self._due if each[0] > now]

    def comes_back(self, name: str, status: int, now: float) -> bool:
        """Whether a node that has ended was killed here and is to be started again; arranges for that."""
        strike = self.struck.pop(name, None)
        if strike is None or not strike.restart or status != -signal.SIGKILL:
            return False
        self.start_later(name, now + strike.seconds)
        return True

    def start_later(self, name: str, when: float) -> None:
        self._due.append((when, lambda: self.start(name)))

    def _carry_out(self, strike: Strike, now: float, running: set[str]) -> None:
        if strike.kind == "late":
            self.start_later(strike.victim, self.began + strike.seconds)
        elif strike.victim not in running:
            return
        elif strike.kind in ("kill", "power"):
            self.struck[strike.victim] = strike
            if not strike.restart:
                self.doomed.add(strike.victim)
            self.send_signal(strike.victim, signal.SIGKILL)
        else:
            self.send_signal(strike.victim, signal.SIGSTOP)
            self._due.append((now + strike.seconds, lambda: self.send_signal(strike.victim, signal.SIGCONT)))
