"""One reading of a record, message by message: counts, rounds, diagram, faults and table for the page.

The same story is told while the run goes on and after it. All it keeps is bounded, except a pair of numbers a frame.
"""

from collections import Counter
from typing import Any

from parley.emulator.errors import ParleyError
from parley.emulator.protocol import Protocol
from parley.emulator.record.records import Record
from parley.emulator.wire.messages import Abort, Announce, Close, Event, Message, Ready, Replies, Result, Roster, Setup
from parley.launch.report.diagram import Diagram
from parley.launch.report.rounds import Course, open_round
from parley.launch.report.table import Table
from parley.launch.report.words import cut, value_brief
from parley.launch.results.summary import Summary, statistic_name
from parley.protocols.registry import build

MOST_FAULTS = 500
# No honest board seats so many; a counter a user must not be made for a number that somebody wrote.
MOST_SEATED = 2**27


class Story:
    """Hears records in order; `record` is what the page is drawn from."""

    def __init__(self) -> None:
        self.summary = Summary()
        self.diagram = Diagram()
        self.table = Table()
        self.courses: list[Course] = []
        self.setup: Setup | None = None
        self.protocol: Protocol | None = None
        self.ending: Result | Abort | None = None
        self.problem = ""
        self.began: float | None = None
        self.ended = 0.0
        self.users = 0
        self.nodes = 0
        self.records = 0
        self.next = 0
        self._faults: list[dict[str, Any]] = []
        self._events: Counter[str] = Counter()

    def take(self, record: Record) -> None:
        """Hear one record; TranscriptError if it holds no message."""
        message, size, time = record.message, len(record.frame), record.time
        self.began = time if self.began is None else self.began
        self.ended, self.records, self.next = time, self.records + 1, record.sequence + 1
        seconds = time - self.began
        self._hear(message, size, time, seconds)
        self._count(message, size, time)
        self.diagram.take(record.sequence, seconds, record.sender, message)
        self.table.take(record.sequence, seconds, record.sender, message, size)

    def _count(self, message: Message, size: int, time: float) -> None:
        if isinstance(message, Roster) and message.users > MOST_SEATED:
            self.problem = self.problem or f"a roster of {message.users:,} users, more than are counted one by one"
            return
        try:
            self.summary.take(message, size, time)
        except ParleyError as error:
            self.problem = self.problem or cut(str(error))

    def _hear(self, message: Message, size: int, time: float, seconds: float) -> None:
        if isinstance(message, Ready):
            self.nodes += 1
        elif isinstance(message, Roster):
            self.users = message.users
        elif isinstance(message, Setup) and self.setup is None:
            self._begin(message)
        elif isinstance(message, Announce):
            step = None
            if self.protocol is not None and 1 <= message.round <= len(self.protocol.rounds):
                step = self.protocol.rounds[message.round - 1]
            self.courses.append(open_round(message, step, self.users, size, time))
        elif isinstance(message, Replies) and self.courses:
            self.courses[-1].take(message, size, time)
        elif isinstance(message, Close) and self.courses:
            self.courses[-1].close(message, time)
        elif isinstance(message, Event):
            self._fault(message, seconds)
        elif isinstance(message, Result | Abort):
            self.ending = message

    def _begin(self, setup: Setup) -> None:
        self.setup = setup
        try:
            self.protocol = self.diagram.protocol = build(setup.protocol, setup.parameters)
        except ParleyError as error:
            self.problem = self.problem or cut(f"the protocol of the setup cannot be built: {error}")

    def _fault(self, event: Event, seconds: float) -> None:
        self._events[cut(event.event, 40)] += 1
        if len(self._faults) < MOST_FAULTS:
            self._faults.append(
                {
                    "seconds": round(seconds, 6),
                    "round": event.round,
                    "node": cut(event.node, 64),
                    "event": cut(event.event, 40),
                    "detail": cut(event.detail),
                }
            )

    def record(self, latest: int | None = None) -> dict[str, Any]:
        """Plain data for the page; with `latest`, the table holds only so many of the last messages."""
        began = self.began or 0.0
        return {
            "answer": self._answer(),
            "facts": self._facts(),
            "rounds": [course.record(began) for course in self.courses],
            "diagram": self.diagram.record(),
            "faults": {"rows": self._faults, "total": self._events.total(), "counts": dict(self._events)},
            "messages": self.table.record(latest),
            "problem": self.problem,
        }

    def _answer(self) -> dict[str, Any] | None:
        if not isinstance(self.ending, Result):
            return None
        workload, silent = getattr(self.protocol, "workload", None), self.ending.details.get("silent_for_wallets")
        return {
            "bounds": None if workload is None else list(workload.bounds),
            "estimate": self.ending.estimate,
            "low": self.ending.low,
            "high": self.ending.high,
            "predicted_rmse": self.ending.predicted_rmse,
            **({"silent": silent} if isinstance(silent, int) and silent else {}),
        }

    def _facts(self) -> dict[str, Any]:
        setup, summary, users = self.setup, self.summary, self.users
        return {
            "protocol": None if setup is None else setup.protocol,
            "statistic": None if setup is None else _statistic(setup),
            "interaction": None if self.protocol is None else self.protocol.claim.interaction,
            "trusts": None if self.protocol is None else self.protocol.claim.trusts,
            "epsilon": None if setup is None else setup.epsilon,
            "delta": None if setup is None else setup.delta,
            "parameters": {} if setup is None else _parameters(setup),
            "users": users or None,
            "replied": summary.replied if summary.setup is not None and not self.problem else None,
            "nodes": self.nodes,
            "declared": None if setup is None else setup.rounds,
            "observed": summary.observed,
            "bytes_up": summary.sent_up / users if users else None,
            "bytes_down": float(summary.sent_down),
            "seconds": self.ended - (self.began or self.ended),
            "began": self.began,
            "records": self.records,
        }


def _statistic(setup: Setup) -> str | None:
    name = statistic_name(setup)
    return None if name is None else cut(name, 64)


def _parameters(setup: Setup) -> dict[str, str]:
    return {cut(name, 40): cut(value_brief(value)) for name, value in list(setup.parameters.items())[:24]}
